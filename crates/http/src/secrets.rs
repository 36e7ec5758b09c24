//! The secrets that tokens are signed with: the one in use, and the one before it, whose tokens are still good.

use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secrets {
    /// Signs. Whoever has it can sign in as anybody.
    pub current: [u8; 32],
    /// Still verifies, so that changing the secret breaks nothing that is in people's hands.
    pub previous: Option<[u8; 32]>,
}

/// Leaves out what is secret.
impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Secrets")
            .field("has_previous", &self.previous.is_some())
            .finish_non_exhaustive()
    }
}
