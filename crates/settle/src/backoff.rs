//! How long to wait after a failure: longer after each one, and never exactly the same, so that several
//! settlers don't come back in step.

use std::time::Duration;

use fastrand::Rng;
use penstock_domain::Timestamp;

#[derive(Debug)]
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(min: Duration, max: Duration) -> Self {
        Self { min, max: max.max(min), failures: 0 }
    }

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// The wait after one more failure. The full wait doubles with each failure; the actual one is a random
    /// part of it, at least half.
    pub(crate) fn next(&mut self, now: Timestamp) -> Duration {
        let doublings = self.failures.min(30);
        self.failures = self.failures.saturating_add(1);
        let whole = self.min.saturating_mul(1 << doublings).min(self.max);
        let mut random = Rng::with_seed(now.as_millis() as u64 ^ u64::from(self.failures));
        whole.mul_f64(0.5 + 0.5 * random.f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_its_bound_and_then_starts_over() {
        let (min, max) = (Duration::from_millis(100), Duration::from_secs(5));
        let mut backoff = Backoff::new(min, max);
        let now = Timestamp::from_millis(1_700_000_000_000);
        for failure in 0..100 {
            let whole = min.saturating_mul(1 << failure.min(20)).min(max);
            let wait = backoff.next(now);
            assert!(wait >= whole / 2 && wait <= whole, "failure {failure} waits {wait:?}");
        }
        backoff.reset();
        assert!(backoff.next(now) <= min);
    }

    #[test]
    fn two_settlers_wait_for_different_times() {
        let waits = |millis| {
            let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
            (0..5).map(|_| backoff.next(Timestamp::from_millis(millis))).collect::<Vec<_>>()
        };
        assert_ne!(waits(1_000), waits(1_001));
    }
}
