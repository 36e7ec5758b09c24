//! The clock of a run: nanoseconds from the opening. Decisions are given their moments; only the event loop
//! reads the clock.

use std::time::{Duration, Instant};

const NANOSECONDS_PER_SECOND: f64 = 1e9;

/// A moment of the run; negative before the opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) i64);

impl Moment {
    pub(crate) const OPENING: Self = Self(0);

    pub(crate) fn from_seconds(seconds: f64) -> Self {
        Self((seconds * NANOSECONDS_PER_SECOND) as i64)
    }

    pub(crate) fn seconds(self) -> f64 {
        self.0 as f64 / NANOSECONDS_PER_SECOND
    }

    #[must_use]
    pub(crate) fn plus_seconds(self, seconds: f64) -> Self {
        Self(self.0.saturating_add(Self::from_seconds(seconds).0))
    }

    /// Zero if `earlier` is later.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// Reads moments off the machine's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrowdClock {
    opening: Instant,
}

impl CrowdClock {
    pub(crate) fn new(opening: Instant) -> Self {
        Self { opening }
    }

    pub(crate) fn now(self) -> Moment {
        let now = Instant::now();
        let nanoseconds = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        match now.checked_duration_since(self.opening) {
            Some(after) => Moment(nanoseconds(after)),
            None => Moment(-nanoseconds(self.opening.saturating_duration_since(now))),
        }
    }
}
