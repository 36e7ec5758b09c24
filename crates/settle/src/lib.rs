//! Brings the feed into the records, and expires holds. It decides nothing: it carries what the ledger
//! decided, in order, exactly once, at a pace that the database can take. Any number of workers share the
//! feed's streams.

mod backoff;
mod expiry;
mod options;
mod pace;
mod stats;
mod turn;
mod worker;

use std::sync::Arc;

use backoff::Backoff;

pub use options::SettleOptions;
use penstock_ledger::{Clock, Ledger};
use penstock_records::Records;
pub use stats::{SettleFigures, SettleStats};
use tokio::sync::watch;

/// The service: create it, keep its `stats`, and `run` it.
#[derive(Clone)]
pub struct Settlement {
    ledger: Ledger,
    records: Records,
    clock: Clock,
    options: Arc<SettleOptions>,
    stats: SettleStats,
    /// The worker's name in its leases.
    owner: String,
    /// Determines the order in which it takes streams.
    seed: u64,
}

impl std::fmt::Debug for Settlement {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Settlement").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Settlement {
    pub fn new(ledger: Ledger, records: Records, clock: Clock, mut options: SettleOptions) -> Self {
        options.batch = options.batch.max(1);
        options.expire_batch = options.expire_batch.max(1);
        options.max_streams = options.max_streams.max(1);
        options.lease_seconds = options.lease_seconds.max(1);
        let stats = SettleStats::new(ledger.feed().clone(), clock.clone());
        let seed = getrandom::u64().unwrap_or_else(|_| clock().as_millis() as u64);
        let owner = options.owner.clone().unwrap_or_else(|| format!("{seed:016x}"));
        Self { ledger, records, clock, options: Arc::new(options), stats, owner, seed }
    }

    /// How far settlement is; a cheap handle.
    pub fn stats(&self) -> SettleStats {
        self.stats.clone()
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(self.options.backoff_min, self.options.backoff_max)
    }

    /// Settles and expires until `stop` becomes true or its sender is gone. Finishes a transaction that is
    /// under way.
    pub async fn run(&self, stop: watch::Receiver<bool>) {
        tokio::join!(self.settle_until(stop.clone()), self.expire_until(stop.clone()), self.tidy_until(stop));
    }
}

/// Waits for `duration`. True: it is time to stop.
async fn pause(stop: &mut watch::Receiver<bool>, duration: std::time::Duration) -> bool {
    // An inner error means that the sender is gone, which also means to stop.
    tokio::time::timeout(duration, stop.wait_for(|stop| *stop)).await.is_ok()
}
