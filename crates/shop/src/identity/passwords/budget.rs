//! Limits the use of the processors: unused time adds up to a burst, and overused time is waited for. The
//! time is passed in.

use std::time::{Duration, Instant};

/// This much processor time adds up while nothing is hashed, so that a few people who sign in at once don't
/// wait.
const BURST: Duration = Duration::from_secs(2);

pub(super) struct Budget {
    /// In processors: 0.5 is half of one.
    share: f64,
    /// Negative if overdrawn.
    seconds_left: f64,
    counted_at: Instant,
}

impl Budget {
    pub(super) fn new(cores: usize, percent: u32, now: Instant) -> Self {
        let share = cores as f64 * f64::from(percent) / 100.0;
        Self { share, seconds_left: BURST.as_secs_f64(), counted_at: now }
    }

    /// How long to rest before the next hash; None if there is something left.
    pub(super) fn rest(&mut self, now: Instant) -> Option<Duration> {
        let earned = now.saturating_duration_since(self.counted_at).as_secs_f64() * self.share;
        self.seconds_left = (self.seconds_left + earned).min(BURST.as_secs_f64());
        self.counted_at = now;
        (self.seconds_left < 0.0).then(|| Duration::from_secs_f64(-self.seconds_left / self.share))
    }

    pub(super) fn charge(&mut self, used: Duration) {
        self.seconds_left -= used.as_secs_f64();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_burst_hashing_gets_its_share_and_no_more() {
        let start = Instant::now();
        let hash = Duration::from_millis(25);
        for (cores, percent, expected) in [(2, 25, 0.5), (8, 25, 2.0), (1, 1, 0.01), (4, 100, 4.0)] {
            let mut budget = Budget::new(cores, percent, start);
            let mut now = start;
            let mut used = Duration::ZERO;
            while now < start + Duration::from_secs(1000) {
                match budget.rest(now) {
                    Some(rest) => now += rest + Duration::from_micros(1),
                    None => {
                        budget.charge(hash);
                        used += hash;
                    }
                }
            }
            let share = (used - BURST).as_secs_f64() / 1000.0;
            assert!((share - expected).abs() < 0.01 * expected + 0.001, "{cores} {percent}: {share}");
        }
    }

    #[test]
    fn unused_time_adds_up_to_a_burst() {
        let start = Instant::now();
        let mut budget = Budget::new(2, 25, start);
        budget.charge(BURST);
        let later = start + Duration::from_secs(3600);
        assert_eq!(budget.rest(later), None);
        budget.charge(BURST + Duration::from_millis(500));
        assert_eq!(budget.rest(later), Some(Duration::from_secs(1)));
    }
}
