//! Opens the ledger on Redis: the engine under its batcher, and the feed.

use std::{io, sync::Arc};

use penstock_domain::Timestamp;
use penstock_redis_client::Link;

use super::{
    adopt::{Adoption, Settled},
    engine::RedisEngine,
    feed::RedisFeed,
    layout::Keys,
    store::Store,
};
use crate::{BatcherOptions, Clock, Ledger, Listener, batcher};

/// Larger batches cost Redis just as much for each command, and several smaller ones can be under way at
/// once.
const MAX_BATCH: usize = 1_024;

#[derive(Clone, Debug)]
pub struct LedgerOptions {
    pub batcher: BatcherOptions,
    /// Put before the names of all keys, for a Redis that is shared with others.
    pub prefix: String,
    /// How long after its close a sale's orders leave Redis, if they are settled. The records keep them.
    pub forget_after_seconds: u32,
}

impl Default for LedgerOptions {
    fn default() -> Self {
        Self { batcher: BatcherOptions::default(), prefix: String::new(), forget_after_seconds: 24 * 3600 }
    }
}

/// Starts the ledger. `settled` asks the records, when a server was replaced. `clock` is for tests, which set
/// their own time. None stands for Redis' clock, which all nodes share.
pub fn open(
    options: LedgerOptions,
    link: Link,
    clock: Option<Clock>,
    listener: Arc<dyn Listener>,
    settled: Arc<dyn Settled>,
) -> io::Result<Ledger> {
    let keys = Keys::new(&options.prefix).map_err(io::Error::other)?;
    let store = Store { link, keys, sales: Arc::default() };
    let feed = Arc::new(RedisFeed::new(store.clone()));
    let engine = RedisEngine {
        adoption: Adoption::new(store.clone(), settled.clone()),
        origin: store,
        settled,
        forget_after_seconds: options.forget_after_seconds,
        is_clock_given: clock.is_some(),
        listener: listener.clone(),
        running: None,
    };
    let batcher = BatcherOptions { max_batch: options.batcher.max_batch.min(MAX_BATCH), ..options.batcher };
    // The scripts use Redis' time, so nobody reads this clock.
    let clock = clock.unwrap_or_else(|| Arc::new(|| Timestamp::from_millis(0)));
    batcher::start(engine, feed, batcher, clock, listener)
}
