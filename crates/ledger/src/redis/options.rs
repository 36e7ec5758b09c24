//! What an operator says about Redis, and what can go wrong on the way to it.

use std::time::Duration;

use penstock_domain::MAX_WAITERS;

use crate::Unavailable;

/// What one call may take, if nobody says otherwise.
const TIMEOUT: Duration = Duration::from_millis(700);
/// What an offer to somebody who waits takes of it, where the server has to share its core with others.
const OFFER_MICROSECONDS: u128 = 30;
/// One call makes the offers to all who wait for a sale. Who restocks has to hear of it, and there is more in a call.
const _: () = assert!(2 * OFFER_MICROSECONDS * MAX_WAITERS as u128 <= TIMEOUT.as_micros());

/// Where the servers are. An address is `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisMode {
    Single {
        address: String,
    },
    /// The addresses are the sentinels'; they know who the master is.
    Sentinel {
        addresses: Vec<String>,
        master: String,
    },
    /// Some of the cluster's nodes; they know the others.
    Cluster {
        addresses: Vec<String>,
    },
}

#[derive(Clone, PartialEq, Eq)]
pub struct RedisOptions {
    pub mode: RedisMode,
    pub username: Option<String>,
    pub password: Option<String>,
    /// Of the sentinels, which have a password of their own.
    pub sentinel_password: Option<String>,
    /// Replicas that have to confirm what a batch wrote before its answers leave.
    pub wait_replicas: u32,
    /// How long they have for it; less than `timeout`.
    pub wait_milliseconds: u64,
    /// Of one call, with all that is needed to reach the server.
    pub timeout: Duration,
    /// A server whose settings may lose what was promised is warned of and not refused.
    pub allow_unsafe: bool,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            mode: RedisMode::Single { address: "127.0.0.1:6379".into() },
            username: None,
            password: None,
            sentinel_password: None,
            wait_replicas: 0,
            wait_milliseconds: 300,
            timeout: TIMEOUT,
            allow_unsafe: false,
        }
    }
}

/// The passwords don't belong into a log.
impl std::fmt::Debug for RedisOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("RedisOptions")
            .field("mode", &self.mode)
            .field("username", &self.username)
            .field("wait_replicas", &self.wait_replicas)
            .field("wait_milliseconds", &self.wait_milliseconds)
            .field("timeout", &self.timeout)
            .field("allow_unsafe", &self.allow_unsafe)
            .finish_non_exhaustive()
    }
}

impl RedisOptions {
    /// One server, and everything else as it is by default.
    pub fn single(address: impl Into<String>) -> Self {
        Self { mode: RedisMode::Single { address: address.into() }, ..Self::default() }
    }

    pub(super) fn check(&self) -> Result<(), LinkError> {
        let wrong = |reason: &str| Err(LinkError::Misconfigured(reason.into()));
        let (RedisMode::Sentinel { addresses, .. } | RedisMode::Cluster { addresses }) = &self.mode else {
            return self.check_times();
        };
        if addresses.is_empty() {
            return wrong("no address of a Redis server is given");
        }
        self.check_times()
    }

    fn check_times(&self) -> Result<(), LinkError> {
        if self.wait_replicas > 0 && Duration::from_millis(self.wait_milliseconds) >= self.timeout {
            let reason = "wait_milliseconds has to be less than the timeout of a call: who waits longer never \
                          hears the answer";
            return Err(LinkError::Misconfigured(reason.into()));
        }
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// Nothing was run.
    #[error("Redis {server} can't be reached: {reason}")]
    Unreachable { server: String, reason: String },
    /// What was sent may have been run, or may still be.
    #[error("Redis {server} gave no answer: {reason}")]
    Lost { server: String, reason: String },
    /// It was run, but could be lost with the master.
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
    pub(super) const fn is_silence(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Lost { .. })
    }
}

impl From<LinkError> for Unavailable {
    fn from(error: LinkError) -> Self {
        Self::new(error)
    }
}
