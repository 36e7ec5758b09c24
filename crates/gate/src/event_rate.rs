//! Measures the rate of an event per second, over about the last second. There is no timer: the measure
//! fades when it is read. It does not know what it counts.

use parking_lot::{Mutex, MutexGuard};
use penstock_domain::Timestamp;

/// After this long, a counted event has about a third of its weight.
const MEMORY_MILLIS: f64 = 1_000.0;
/// If the time is behind by more than this, the clock was set back. If by less, threads have overtaken each
/// other.
const STEP_BACK_MILLIS: i64 = 1_000;

#[derive(Debug)]
pub(crate) struct EventRate(Mutex<Level>);

#[derive(Debug)]
struct Level {
    /// Each event adds 1, which then fades. With a memory of one second this is the rate per second.
    events: f64,
    at: Timestamp,
}

impl EventRate {
    pub(crate) fn new() -> Self {
        // Earlier than any time passed in.
        Self(Mutex::new(Level { events: 0.0, at: Timestamp::from_millis(i64::MIN) }))
    }

    /// Counts one event and returns the rate per second.
    pub(crate) fn count(&self, now: Timestamp) -> f64 {
        let mut level = self.faded(now);
        level.events += 1.0;
        level.events
    }

    pub(crate) fn per_second(&self, now: Timestamp) -> f64 {
        self.faded(now).events
    }

    fn faded(&self, now: Timestamp) -> MutexGuard<'_, Level> {
        let mut level = self.0.lock();
        let passed_millis = now.millis_since(level.at);
        if passed_millis > 0 {
            level.events *= (-(passed_millis as f64) / MEMORY_MILLIS).exp();
            level.at = now;
        } else if passed_millis < -STEP_BACK_MILLIS {
            // Waiting for the old time to return would stop the fading for that long.
            level.at = now;
        }
        level
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn count_steadily(rate: &EventRate, per_millisecond: u32, from: Timestamp, millis: i64) -> Timestamp {
        for millisecond in 0..millis {
            for _ in 0..per_millisecond {
                rate.count(from.plus_millis(millisecond));
            }
        }
        from.plus_millis(millis)
    }

    #[test]
    fn a_steady_stream_is_measured_within_a_few_percent() {
        let rate = EventRate::new();
        let now = count_steadily(&rate, 5, START, 5_000);
        let measured = rate.per_second(now);
        assert!((4_850.0..5_150.0).contains(&measured), "{measured}");
    }

    #[test]
    fn past_demand_fades_within_seconds() {
        let rate = EventRate::new();
        let now = count_steadily(&rate, 5, START, 5_000);
        let measured = rate.per_second(now.plus_seconds(10));
        assert!(measured < 1.0, "{measured}");
    }

    #[test]
    fn threads_that_overtake_each_other_do_not_fade_the_measure() {
        let rate = EventRate::new();
        for _ in 0..1_000 {
            rate.count(START);
            rate.count(START.plus_millis(-3));
        }
        let measured = rate.per_second(START);
        assert!(measured > 1_999.0, "{measured}");
    }

    #[test]
    fn the_measure_goes_on_fading_after_the_clock_stepped_back() {
        let rate = EventRate::new();
        let now = count_steadily(&rate, 1, START, 2_000).plus_millis(-3_600_000);
        rate.count(now);
        let measured = rate.per_second(now.plus_seconds(10));
        assert!(measured < 1.0, "{measured}");
    }
}
