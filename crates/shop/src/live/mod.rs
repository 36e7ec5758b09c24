//! The live view: what is happening in the shop, counted once a second for the people who run a sale.

mod figures;
mod sample;
mod sums;

use std::sync::Arc;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

pub use self::{
    figures::{MAX_LISTED_SALES, NodeFigures, SaleFigures, SettlementFigures},
    sample::{Sample, SeenNode, run},
    sums::{LiveLatency, LiveTotals, NodePace, RefusalRates, SaleSums, latency},
};
use crate::{options::SettlementView, ports::NodePart};

/// Each watcher gets sums every second, so there can't be many.
const MAX_WATCHERS: usize = 32;

/// The samples, and the people who watch them.
#[derive(Debug)]
pub struct Live {
    samples: watch::Sender<Arc<Sample>>,
    /// Notified when somebody begins to watch.
    wanted: Notify,
    watchers: Arc<Semaphore>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            samples: watch::Sender::default(),
            wanted: Notify::new(),
            watchers: Arc::new(Semaphore::new(MAX_WATCHERS)),
        }
    }
}

impl Live {
    /// The samples from now on, for as long as the permit is held. None if too many watch.
    pub fn watch(&self) -> Option<(watch::Receiver<Arc<Sample>>, OwnedSemaphorePermit)> {
        let permit = Arc::clone(&self.watchers).try_acquire_owned().ok()?;
        let mut samples = self.samples.subscribe();
        samples.mark_unchanged();
        self.wanted.notify_one();
        Some((samples, permit))
    }

    fn is_watched(&self) -> bool {
        self.watchers.available_permits() < MAX_WATCHERS
    }
}

/// The figures of a settlement worker.
#[derive(Clone)]
pub struct WorkerFigures {
    /// The worker's name.
    pub name: String,
    pub settlement: Arc<dyn Fn() -> SettlementView + Send + Sync>,
    pub parts: Vec<Arc<dyn NodePart>>,
}

impl std::fmt::Debug for WorkerFigures {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("WorkerFigures").field("name", &self.name).finish_non_exhaustive()
    }
}
