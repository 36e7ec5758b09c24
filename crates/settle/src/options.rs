//! The options that an operator sets. Every wait and every batch has a bound here.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct SettleOptions {
    /// The most decisions in one transaction.
    pub batch: usize,
    /// The fastest pace of this worker over all its streams, so that the database sees no more than this and
    /// the sale keeps the processor.
    pub max_decisions_per_second: u32,
    /// Whether settlement holds back while decisions come faster than that. It should if it shares a disk
    /// with the ledger.
    pub hold_back: bool,
    /// How long to wait when the feed has nothing new.
    pub poll_interval: Duration,
    /// About how often to look for new streams and for streams that other workers have left.
    pub discover_every: Duration,
    /// The most streams that this worker settles at the same time.
    pub max_streams: usize,
    /// How long a stream belongs to this worker after its last sign of life; then another worker may take it
    /// over.
    pub lease_seconds: u32,
    /// The name in this worker's leases; None: a random one. After a crash, a worker gets the leases of its
    /// name back at once, so only one worker at a time may have the name.
    pub owner: Option<String>,
    /// How often a decision that can't be applied is tried before it becomes a dead letter.
    pub max_tries: u32,
    /// The wait after the first failure. It doubles with each further one, …
    pub backoff_min: Duration,
    /// … up to this.
    pub backoff_max: Duration,
    /// How often to look for expired holds.
    pub expire_every: Duration,
    /// The most holds released by one command.
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
