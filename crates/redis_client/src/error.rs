//! What can go wrong on the way to Redis, and the conversion of its answers.

use redis::{FromRedisValue, Value};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// Nothing was run.
    #[error("Redis {server} can't be reached: {reason}")]
    Unreachable { server: String, reason: String },
    /// The commands may have been run, or may still be.
    #[error("Redis {server} gave no answer: {reason}")]
    Lost { server: String, reason: String },
    /// The commands were run, but could be lost with the master.
    #[error("only {confirmed} of {wanted} replicas confirmed in time")]
    Unconfirmed { confirmed: u32, wanted: u32 },
    #[error("Redis {server} refused: {reason}")]
    Refused { server: String, reason: String },
    #[error("{0}")]
    Misconfigured(String),
    /// A line for each setting that could lose what was promised.
    #[error("{0}")]
    Unsafe(String),
}

impl LinkError {
    /// Whether there was no answer, and a later call may get one.
    pub const fn is_silence(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Lost { .. })
    }

    pub(crate) fn unreachable(server: &str, reason: impl ToString) -> Self {
        Self::Unreachable { server: server.into(), reason: reason.to_string() }
    }

    pub(crate) fn refused(server: &str, reason: impl ToString) -> Self {
        Self::Refused { server: server.into(), reason: reason.to_string() }
    }
}

/// Converts the value, or returns the server's error.
pub fn answered<T: FromRedisValue>(server: &str, value: Option<Value>) -> Result<T, LinkError> {
    let value = value.ok_or_else(|| LinkError::refused(server, "no answer"))?;
    let value = value.extract_error().map_err(|error| LinkError::refused(server, error))?;
    redis::from_redis_value(value).map_err(|error| LinkError::refused(server, error))
}
