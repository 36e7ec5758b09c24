//! What an operator can set. Every wait and every batch has a bound here.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct SettleOptions {
    /// Decisions in one transaction, at most.
    pub batch: usize,
    /// The pace of this worker over all its streams: the database sees no more than this, and the sale keeps the processor.
    pub max_decisions_per_second: u32,
    /// Whether settlement holds back while more is decided than that. It should if it shares a disk with the ledger.
    pub hold_back: bool,
    /// How long to wait when the feed has nothing new.
    pub poll_interval: Duration,
    /// About how often new streams, and streams that others have left, are looked for.
    pub discover_every: Duration,
    /// Streams that this worker settles at the same time, at most.
    pub max_streams: usize,
    /// A stream is this worker's for so long after its last sign of life; then another one may take it over.
    pub lease_seconds: u32,
    /// The name in this worker's leases; None: a random one. A name that only one worker at a time can have gets its leases
    /// back at once after a crash.
    pub owner: Option<String>,
    /// So often a decision that can't be applied is tried before it becomes a dead letter.
    pub max_tries: u32,
    /// The wait after the first failure; it doubles with each one after it …
    pub backoff_min: Duration,
    /// … up to this.
    pub backoff_max: Duration,
    /// How often holds that are over are looked for.
    pub expire_every: Duration,
    /// Holds released by one command, at most.
    pub expire_batch: u32,
}

impl Default for SettleOptions {
    fn default() -> Self {
        Self {
            batch: 500,
            max_decisions_per_second: 5_000,
            hold_back: true,
            poll_interval: Duration::from_millis(50),
            discover_every: Duration::from_millis(200),
            max_streams: 8,
            lease_seconds: 3,
            owner: None,
            max_tries: 5,
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(5),
            expire_every: Duration::from_millis(100),
            expire_batch: 1_000,
        }
    }
}
