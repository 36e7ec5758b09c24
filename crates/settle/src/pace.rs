//! A smooth stream: each batch reserves the time that it may take at the highest pace allowed.

use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct Pace {
    per_second: u32,
    next_at: Instant,
}

impl Pace {
    pub(crate) fn new(per_second: u32, now: Instant) -> Self {
        Self { per_second: per_second.max(1), next_at: now }
    }

    /// Takes note of `decisions` sent at `now` and says how long to wait before the next ones. Time that was
    /// not used is not saved up: a pause is not followed by a peak.
    pub(crate) fn after(&mut self, decisions: usize, now: Instant) -> Duration {
        let share = Duration::from_secs_f64(decisions as f64 / f64::from(self.per_second));
        self.next_at = self.next_at.max(now) + share;
        self.next_at.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_takes_no_more_than_the_pace_allows() {
        let begin = Instant::now();
        let mut pace = Pace::new(5_000, begin);
        let (mut now, mut sent) = (begin, 0);
        while now < begin + Duration::from_secs(1) {
            sent += 500;
            now += pace.after(500, now);
        }
        assert_eq!(sent, 5_000);
    }

    #[test]
    fn a_pause_is_not_followed_by_a_peak() {
        let begin = Instant::now();
        let mut pace = Pace::new(5_000, begin);
        let later = begin + Duration::from_secs(60);
        assert_eq!(pace.after(500, later), Duration::from_millis(100));
    }
}
