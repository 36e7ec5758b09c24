//! The operator's settings for Redis.

use std::time::Duration;

use crate::error::LinkError;

/// The most time one call may take, unless set otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_millis(700);

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
            timeout: DEFAULT_TIMEOUT,
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

    pub(crate) fn check(&self) -> Result<(), LinkError> {
        let wrong = |reason: &str| Err(LinkError::Misconfigured(reason.into()));
        if let RedisMode::Sentinel { addresses, .. } | RedisMode::Cluster { addresses } = &self.mode
            && addresses.is_empty()
        {
            return wrong("no address of a Redis server is given");
        }
        if self.wait_replicas > 0 && Duration::from_millis(self.wait_milliseconds) >= self.timeout {
            return wrong(
                "wait_milliseconds has to be less than the timeout of a call: otherwise the call ends before \
                 the answer",
            );
        }
        Ok(())
    }
}
