//! Deletes the settled entries of the streams, each stream once a second at most.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use penstock_domain::SaleId;
use tokio::time::sleep;

use crate::redis::store::Store;

/// The shortest time between two trims of a stream.
const TRIM_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct Trimming {
    store: Store,
    streams: Mutex<HashMap<SaleId, Trimmed>>,
}

/// How far a stream may be trimmed, how far it was, whether a trim is due, and when the last one was.
#[derive(Clone, Copy, Debug, Default)]
struct Trimmed {
    settled: u64,
    trimmed: u64,
    is_waiting: bool,
    at: Option<Instant>,
}

impl Trimming {
    pub(super) fn new(store: Store) -> Arc<Self> {
        Arc::new(Self { store, streams: Mutex::default() })
    }

    /// Everything up to `position` is settled: it is deleted in the background.
    pub(super) fn settled(self: &Arc<Self>, sale: SaleId, position: u64) {
        let mut streams = self.streams.lock();
        let stream = streams.entry(sale).or_default();
        stream.settled = stream.settled.max(position);
        if stream.is_waiting || stream.settled <= stream.trimmed {
            return;
        }
        stream.is_waiting = true;
        let wait = stream.at.map_or(Duration::ZERO, |last| TRIM_INTERVAL.saturating_sub(last.elapsed()));
        let trimming = self.clone();
        self.store.link.runtime().spawn(async move {
            sleep(wait).await;
            trimming.trim(sale).await;
        });
    }

    /// Forgets the streams that are not among these.
    pub(super) fn keep(&self, sales: &[SaleId]) {
        let mut streams = self.streams.lock();
        if streams.len() > sales.len() {
            let known: HashSet<&SaleId> = sales.iter().collect();
            streams.retain(|sale, _| known.contains(sale));
        }
    }

    /// Deletes the entries before the one that contains the last settled decision. That one stays, because
    /// the next reader's cursor is compared with it.
    async fn trim(&self, sale: SaleId) {
        let settled = match self.streams.lock().get_mut(&sale) {
            Some(stream) => {
                (stream.is_waiting, stream.at) = (false, Some(Instant::now()));
                stream.settled
            }
            None => return,
        };
        let (key, mut command) = (self.store.keys.feed(sale), redis::cmd("XTRIM"));
        command.arg(&key).arg("MINID").arg(format!("{settled}-0"));
        match self.store.link.call::<u64>(&key, command).await {
            Ok(_) => {
                if let Some(stream) = self.streams.lock().get_mut(&sale) {
                    stream.trimmed = stream.trimmed.max(settled);
                }
            }
            // The next settlement trims it.
            Err(error) => tracing::debug!(%sale, %error, "a settled stream was not trimmed"),
        }
    }
}
