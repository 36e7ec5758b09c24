//! What an operator can set. Every wait and every batch has a bound here.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct SettleOptions {
    /// Decisions in one transaction, at most.
    pub batch: usize,
    /// The pace: the database sees no more than this, and the sale keeps the processor.
    pub max_decisions_per_second: u32,
    /// How long to wait when the feed has nothing new.
    pub poll_interval: Duration,
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
            poll_interval: Duration::from_millis(50),
            max_tries: 5,
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(5),
            expire_every: Duration::from_millis(100),
            expire_batch: 1_000,
        }
    }
}
