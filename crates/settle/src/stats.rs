//! How far settlement is, for metrics and readiness.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use penstock_domain::Timestamp;
use penstock_ledger::{Clock, Feed};

/// A handle to the running figures.
#[derive(Clone)]
pub struct SettleStats {
    counters: Arc<Counters>,
    feed: Arc<dyn Feed>,
    clock: Clock,
}

#[derive(Default)]
struct Counters {
    streams: Mutex<HashMap<Arc<str>, StreamFigures>>,
    settled: AtomicU64,
    batches: AtomicU64,
    retries: AtomicU64,
    dead_letters: AtomicU64,
    violations: AtomicU64,
    takeovers: AtomicU64,
    diverged: AtomicU64,
    expired: AtomicU64,
    /// Trouble of the worker as a whole; that of one stream is kept with the stream.
    trouble: Mutex<Option<String>>,
}

#[derive(Default)]
struct StreamFigures {
    position: u64,
    /// When the oldest decision that is known to be unsettled was made.
    oldest_unsettled_at: Option<Timestamp>,
    trouble: Option<String>,
}

/// The figures at one moment. How far settlement is covers all streams and all workers; the counts are those
/// of this worker since its start.
#[derive(Clone, Debug, PartialEq)]
pub struct SettleFigures {
    /// Decisions that are known to be settled: the last position of one stream, or the sum over several.
    pub position: u64,
    pub lag_decisions: u64,
    /// The age of the oldest decision that is known to be unsettled.
    pub lag_seconds: f64,
    /// Decisions settled, transactions, failed tries, new dead letters, expired holds.
    pub settled: u64,
    pub batches: u64,
    pub retries: u64,
    pub dead_letters: u64,
    pub expired: u64,
    /// Decisions that would have sold a unit that doesn't exist, or one too many to a buyer. There should
    /// never be any.
    pub violations: u64,
    /// Streams taken over from a worker whose lease had run out.
    pub takeovers: u64,
    /// How often a stream's history turned out to differ from the one that was settled.
    pub diverged: u64,
    /// Why something is not being settled at the moment, if so.
    pub trouble: Option<String>,
}

impl fmt::Debug for SettleStats {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SettleStats").field("figures", &self.read()).finish()
    }
}

impl SettleStats {
    pub(crate) fn new(feed: Arc<dyn Feed>, clock: Clock) -> Self {
        Self { counters: Arc::default(), feed, clock }
    }

    pub fn read(&self) -> SettleFigures {
        let counters = &*self.counters;
        let (mut position, mut lag_decisions, mut oldest) = (0, 0, None);
        let mut trouble = lock(&counters.trouble).clone();
        for (stream, figures) in &*lock(&counters.streams) {
            position += figures.position;
            lag_decisions += self.feed.head(stream).saturating_sub(figures.position);
            oldest = oldest.into_iter().chain(figures.oldest_unsettled_at).min();
            trouble = trouble.or_else(|| figures.trouble.clone());
        }
        let lag_millis = oldest.map_or(0, |oldest| (self.clock)().millis_since(oldest));
        SettleFigures {
            position,
            lag_decisions,
            lag_seconds: lag_millis.max(0) as f64 / 1000.0,
            settled: counters.settled.load(Relaxed),
            batches: counters.batches.load(Relaxed),
            retries: counters.retries.load(Relaxed),
            dead_letters: counters.dead_letters.load(Relaxed),
            expired: counters.expired.load(Relaxed),
            violations: counters.violations.load(Relaxed),
            takeovers: counters.takeovers.load(Relaxed),
            diverged: counters.diverged.load(Relaxed),
            trouble,
        }
    }

    /// Sets the list of all streams that exist.
    pub(crate) fn streams(&self, streams: &[Arc<str>]) {
        let mut known = lock(&self.counters.streams);
        if known.len() != streams.len() || streams.iter().any(|stream| !known.contains_key(stream)) {
            let mut before = std::mem::take(&mut *known);
            known.extend(
                streams.iter().map(|stream| (stream.clone(), before.remove(stream).unwrap_or_default())),
            );
        }
    }

    /// The records have said how far `stream` is settled.
    pub(crate) fn located(&self, stream: &Arc<str>, position: u64) {
        let head = self.feed.head(stream);
        self.of(stream, |figures| {
            figures.position = position;
            if position >= head {
                figures.oldest_unsettled_at = None;
            }
        });
    }

    /// The oldest unsettled decision of `stream`, if there is one.
    pub(crate) fn waiting(&self, stream: &Arc<str>, oldest: Option<Timestamp>) {
        self.of(stream, |figures| figures.oldest_unsettled_at = oldest);
    }

    pub(crate) fn settled(&self, stream: &Arc<str>, position: u64, decisions: u64, dead_letters: u64) {
        self.counters.settled.fetch_add(decisions, Relaxed);
        self.counters.batches.fetch_add(1, Relaxed);
        self.counters.dead_letters.fetch_add(dead_letters, Relaxed);
        self.of(stream, |figures| {
            figures.position = position;
            figures.trouble = None;
        });
    }

    pub(crate) fn failed(&self, stream: &Arc<str>, trouble: String) {
        self.counters.retries.fetch_add(1, Relaxed);
        self.of(stream, |figures| figures.trouble = Some(trouble));
    }

    /// Trouble with `stream` is over, or is now another worker's.
    pub(crate) fn well(&self, stream: &Arc<str>) {
        self.of(stream, |figures| figures.trouble = None);
    }

    /// Notes whether the worker can see at all what there is to settle.
    pub(crate) fn looked(&self, trouble: Option<String>) {
        *lock(&self.counters.trouble) = trouble;
    }

    pub(crate) fn violated(&self) {
        self.counters.violations.fetch_add(1, Relaxed);
    }

    pub(crate) fn took_over(&self) {
        self.counters.takeovers.fetch_add(1, Relaxed);
    }

    pub(crate) fn diverged(&self) {
        self.counters.diverged.fetch_add(1, Relaxed);
    }

    pub(crate) fn expired(&self, holds: u32) {
        self.counters.expired.fetch_add(u64::from(holds), Relaxed);
    }

    fn of(&self, stream: &Arc<str>, change: impl FnOnce(&mut StreamFigures)) {
        if let Some(figures) = lock(&self.counters.streams).get_mut(stream) {
            change(figures);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
