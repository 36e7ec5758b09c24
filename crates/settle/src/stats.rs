//! How far settlement is, for metrics and readiness.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
};

use penstock_domain::Timestamp;
use penstock_ledger::{Clock, Feed, embedded::STREAM};

/// "Everything that was read is settled" in `Counters::oldest_unsettled_at`.
const NOTHING_WAITS: i64 = i64::MAX;

/// A handle to the running figures.
#[derive(Clone)]
pub struct SettleStats {
    counters: Arc<Counters>,
    feed: Arc<dyn Feed>,
    clock: Clock,
}

struct Counters {
    position: AtomicU64,
    oldest_unsettled_at: AtomicI64,
    settled: AtomicU64,
    batches: AtomicU64,
    retries: AtomicU64,
    dead_letters: AtomicU64,
    expired: AtomicU64,
    trouble: Mutex<Option<String>>,
}

/// The figures at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct SettleFigures {
    /// The last settled decision.
    pub position: u64,
    pub lag_decisions: u64,
    /// The age of the oldest decision that is known to wait.
    pub lag_seconds: f64,
    /// Since the start: decisions settled, transactions, failed tries, new dead letters, holds expired.
    pub settled: u64,
    pub batches: u64,
    pub retries: u64,
    pub dead_letters: u64,
    pub expired: u64,
    /// Why nothing is settled at the moment, if so.
    pub trouble: Option<String>,
}

impl fmt::Debug for SettleStats {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SettleStats").field("figures", &self.read()).finish()
    }
}

impl SettleStats {
    pub(crate) fn new(feed: Arc<dyn Feed>, clock: Clock) -> Self {
        let counters = Arc::new(Counters {
            position: AtomicU64::new(0),
            oldest_unsettled_at: AtomicI64::new(NOTHING_WAITS),
            settled: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            dead_letters: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            trouble: Mutex::new(None),
        });
        Self { counters, feed, clock }
    }

    pub fn read(&self) -> SettleFigures {
        let counters = &*self.counters;
        let position = counters.position.load(Relaxed);
        let oldest = counters.oldest_unsettled_at.load(Relaxed);
        let lag_millis = if oldest == NOTHING_WAITS {
            0
        } else {
            (self.clock)().millis_since(Timestamp::from_millis(oldest))
        };
        SettleFigures {
            position,
            lag_decisions: self.feed.head(STREAM).saturating_sub(position),
            lag_seconds: lag_millis.max(0) as f64 / 1000.0,
            settled: counters.settled.load(Relaxed),
            batches: counters.batches.load(Relaxed),
            retries: counters.retries.load(Relaxed),
            dead_letters: counters.dead_letters.load(Relaxed),
            expired: counters.expired.load(Relaxed),
            trouble: counters.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// The cursor was read from the records.
    pub(crate) fn began_at(&self, position: u64) {
        self.counters.position.store(position, Relaxed);
    }

    /// The oldest decision that waits, if any does.
    pub(crate) fn waiting(&self, oldest: Option<Timestamp>) {
        let oldest = oldest.map_or(NOTHING_WAITS, Timestamp::as_millis);
        self.counters.oldest_unsettled_at.store(oldest, Relaxed);
    }

    pub(crate) fn settled(&self, position: u64, decisions: u64, dead_letters: u64) {
        self.counters.position.store(position, Relaxed);
        self.counters.settled.fetch_add(decisions, Relaxed);
        self.counters.batches.fetch_add(1, Relaxed);
        self.counters.dead_letters.fetch_add(dead_letters, Relaxed);
        self.set_trouble(None);
    }

    pub(crate) fn failed(&self, trouble: String) {
        self.counters.retries.fetch_add(1, Relaxed);
        self.set_trouble(Some(trouble));
    }

    pub(crate) fn expired(&self, holds: u32) {
        self.counters.expired.fetch_add(u64::from(holds), Relaxed);
    }

    fn set_trouble(&self, trouble: Option<String>) {
        *self.counters.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }
}
