//! The operator's settings for Redis, and what can go wrong on the way to it.

use std::time::Duration;

use penstock_domain::MAX_WAITERS;

use crate::Unavailable;

/// The most time one call may take, unless set otherwise.
const TIMEOUT: Duration = Duration::from_millis(700);
/// The part of it that one offer to a waiter takes on a server that shares its core with others.
const OFFER_MICROSECONDS: u128 = 30;
/// One call makes the offers to all waiters of a sale. It has to end in time for its caller, and does more
/// than that.
const _: () = assert!(2 * OFFER_MICROSECONDS * MAX_WAITERS as u128 <= TIMEOUT.as_micros());

/// Where the servers are. An address is `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisMode {
    Single {
        address: String,
    },
    /// The addresses are those of the sentinels, which know the master.
    Sentinel {
        addresses: Vec<String>,
        master: String,
    },
    /// The addresses are those of some nodes, which know the others.
    Cluster {
        addresses: Vec<String>,
    },
}

#[derive(Clone, PartialEq, Eq)]
pub struct RedisOptions {
    pub mode: RedisMode,
    pub username: Option<String>,
    pub password: Option<String>,
    /// The sentinels' own password.
    pub sentinel_password: Option<String>,
    /// The number of replicas that have to confirm a batch's writes before it is answered.
    pub wait_replicas: u32,
    /// How long replicas have to confirm; less than `timeout`.
    pub wait_milliseconds: u64,
    /// The most time one call may take, including everything it needs to reach the server.
    pub timeout: Duration,
    /// Only warn of a server whose settings may lose what was promised, instead of refusing it.
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

/// Leaves out the passwords: they must not get into a log.
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
    /// One server, with defaults for everything else.
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
            let reason = "wait_milliseconds has to be less than the timeout of a call: otherwise the call \
                          ends before the answer";
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
    pub(super) const fn is_silence(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Lost { .. })
    }
}

impl From<LinkError> for Unavailable {
    fn from(error: LinkError) -> Self {
        Self::new(error)
    }
}
