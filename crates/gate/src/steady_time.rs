//! A steady time that never goes back, made from the time passed in. If the clock is set back, the steady
//! time goes on from where it was. Otherwise everything that waits for a time would stand still until the old
//! time returned. It reads no clock, and has no meaning beyond the life of the process.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use penstock_domain::Timestamp;

/// If the time is behind by more than this, the clock was set back. If by less, threads have overtaken each
/// other.
const STEP_BACK_MILLIS: u64 = 1_000;

#[derive(Debug, Default)]
pub(crate) struct SteadyTime {
    latest_millis: AtomicU64,
    /// How far the steady time is ahead of the clock: the sum of all steps back.
    ahead_millis: AtomicU64,
}

impl SteadyTime {
    /// The steady time when the clock shows `now`.
    pub(crate) fn advance(&self, now: Timestamp) -> Timestamp {
        let ahead = self.ahead_millis.load(Relaxed);
        let steady = u64::try_from(now.as_millis()).unwrap_or(0).saturating_add(ahead);
        let latest = self.latest_millis.load(Relaxed);
        // Usually another thread was here in the same millisecond, and nothing has to be written.
        if latest < steady {
            let latest = self.latest_millis.fetch_max(steady, Relaxed);
            return timestamp(latest.max(steady));
        }
        if latest - steady > STEP_BACK_MILLIS {
            // Of several threads that see the step, one corrects for it. A thread that read the old clock
            // just before and the new difference just after makes the time leap once, as setting the clock
            // forward does.
            let further_ahead = ahead + (latest - steady);
            let _ = self.ahead_millis.compare_exchange(ahead, further_ahead, Relaxed, Relaxed);
        }
        timestamp(latest)
    }

    pub(crate) fn latest_millis(&self) -> u64 {
        self.latest_millis.load(Relaxed)
    }
}

fn timestamp(millis: u64) -> Timestamp {
    Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + millis)
    }

    #[test]
    fn steady_time_follows_a_clock_that_goes_forward() {
        let time = SteadyTime::default();
        for millis in [0, 1, 1, 500, 3_600_000] {
            assert_eq!(time.advance(at(millis)), at(millis));
        }
        assert_eq!(time.latest_millis(), at(3_600_000).as_millis() as u64);
    }

    #[test]
    fn setting_the_clock_back_does_not_stop_steady_time() {
        let time = SteadyTime::default();
        time.advance(at(10_000));
        assert_eq!(time.advance(at(-3_600_000)), at(10_000));
        assert_eq!(time.advance(at(-3_600_000 + 250)), at(10_250));
        assert_eq!(time.advance(at(-7_200_000)), at(10_250));
        assert_eq!(time.advance(at(-7_200_000 + 250)), at(10_500));
    }

    #[test]
    fn threads_that_overtake_each_other_do_not_move_steady_time() {
        let time = SteadyTime::default();
        time.advance(at(1_000));
        for _ in 0..1_000 {
            assert_eq!(time.advance(at(0)), at(1_000));
            assert_eq!(time.advance(at(1_000)), at(1_000));
        }
    }

    #[test]
    fn one_of_many_threads_corrects_for_a_clock_set_back() {
        for _ in 0..100 {
            let time = SteadyTime::default();
            time.advance(at(3_600_000));
            std::thread::scope(|scope| {
                (0..4).for_each(|_| drop(scope.spawn(|| time.advance(at(0)))));
            });
            assert_eq!(time.advance(at(1)), at(3_600_001));
        }
    }

    #[test]
    fn absurd_moments_overflow_nothing() {
        let time = SteadyTime::default();
        for millis in [i64::MAX, i64::MIN, i64::MAX, 0, i64::MAX] {
            time.advance(Timestamp::from_millis(millis));
        }
        assert_eq!(time.advance(at(0)), Timestamp::from_millis(i64::MAX));
    }
}
