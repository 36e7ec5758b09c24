//! Brings the feed into the records, and expires holds. It decides nothing: it carries what the ledger decided,
//! in order, exactly once, at a pace the database can take.

mod backoff;
mod expiry;
mod options;
mod pace;
mod settling;
mod stats;

use std::sync::Arc;

pub use options::SettleOptions;
use penstock_ledger::{Clock, Ledger};
use penstock_records::Records;
pub use stats::{SettleFigures, SettleStats};
use tokio::sync::watch;

/// The service: make it, keep its `stats`, `run` it.
#[derive(Clone)]
pub struct Settlement {
    ledger: Ledger,
    records: Records,
    clock: Clock,
    options: Arc<SettleOptions>,
    stats: SettleStats,
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
        let stats = SettleStats::new(ledger.feed().clone(), clock.clone());
        Self { ledger, records, clock, options: Arc::new(options), stats }
    }

    /// How far settlement is; a cheap handle.
    pub fn stats(&self) -> SettleStats {
        self.stats.clone()
    }

    /// Settles and expires until `stop` becomes true or its sender is gone. A transaction under way is finished.
    pub async fn run(&self, stop: watch::Receiver<bool>) {
        tokio::join!(self.settle_until(stop.clone()), self.expire_until(stop.clone()), self.tidy_until(stop));
    }
}

/// Waits for `duration`; true: it is time to stop.
async fn pause(stop: &mut watch::Receiver<bool>, duration: std::time::Duration) -> bool {
    // An inner error means that nobody is left who could say stop.
    tokio::time::timeout(duration, stop.wait_for(|stop| *stop)).await.is_ok()
}
