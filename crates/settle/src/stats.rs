//! How far settlement is, for metrics and readiness.

use std::{collections::HashMap, fmt, sync::Arc};

use parking_lot::Mutex;
use penstock_domain::Timestamp;
use penstock_ledger::{Clock, Feed};

/// A handle to the running figures.
#[derive(Clone)]
pub struct SettleStats {
    counted: Arc<Mutex<Counted>>,
    feed: Arc<dyn Feed>,
    clock: Clock,
}

#[derive(Default)]
struct Counted {
    streams: HashMap<Arc<str>, StreamFigures>,
    /// The counts of this worker, and trouble of the worker as a whole. All that depends on the streams is
    /// filled in when somebody reads the figures.
    figures: SettleFigures,
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
#[derive(Clone, Debug, Default, PartialEq)]
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
        Self { counted: Arc::default(), feed, clock }
    }

    pub fn read(&self) -> SettleFigures {
        let counted = self.counted.lock();
        let (mut figures, mut oldest) = (counted.figures.clone(), None);
        for (stream, of_stream) in &counted.streams {
            figures.position += of_stream.position;
            figures.lag_decisions += self.feed.head(stream).saturating_sub(of_stream.position);
            oldest = oldest.into_iter().chain(of_stream.oldest_unsettled_at).min();
            figures.trouble = figures.trouble.or_else(|| of_stream.trouble.clone());
        }
        let lag_millis = oldest.map_or(0, |oldest| (self.clock)().millis_since(oldest));
        figures.lag_seconds = lag_millis.max(0) as f64 / 1000.0;
        figures
    }

    /// Counts something that this worker did or found.
    pub(crate) fn count(&self, change: impl FnOnce(&mut SettleFigures)) {
        change(&mut self.counted.lock().figures);
    }

    /// Sets the list of all streams that exist.
    pub(crate) fn streams(&self, streams: &[Arc<str>]) {
        let known = &mut self.counted.lock().streams;
        if known.len() != streams.len() || streams.iter().any(|stream| !known.contains_key(stream)) {
            let mut before = std::mem::take(known);
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
        self.count(|figures| {
            figures.settled += decisions;
            figures.batches += 1;
            figures.dead_letters += dead_letters;
        });
        self.of(stream, |figures| {
            figures.position = position;
            figures.trouble = None;
        });
    }

    pub(crate) fn failed(&self, stream: &Arc<str>, trouble: String) {
        self.count(|figures| figures.retries += 1);
        self.of(stream, |figures| figures.trouble = Some(trouble));
    }

    /// Trouble with `stream` is over, or is now another worker's.
    pub(crate) fn well(&self, stream: &Arc<str>) {
        self.of(stream, |figures| figures.trouble = None);
    }

    /// Notes whether the worker can see at all what there is to settle.
    pub(crate) fn looked(&self, trouble: Option<String>) {
        self.count(|figures| figures.trouble = trouble);
    }

    fn of(&self, stream: &Arc<str>, change: impl FnOnce(&mut StreamFigures)) {
        if let Some(figures) = self.counted.lock().streams.get_mut(stream) {
            change(figures);
        }
    }
}
