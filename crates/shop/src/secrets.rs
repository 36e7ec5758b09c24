//! The secrets for signing tokens: the current one and the previous one, whose tokens are still valid.

use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secrets {
    /// Signs. Anybody who has it can sign in as anybody.
    pub current: [u8; 32],
    /// Still verifies, so that a change of the secret invalidates no token in use.
    pub previous: Option<[u8; 32]>,
}

/// Leaves out the secrets.
impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Secrets")
            .field("has_previous", &self.previous.is_some())
            .finish_non_exhaustive()
    }
}
