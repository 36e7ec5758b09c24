//! How fast to settle: each batch reserves the time that it takes at the fastest pace allowed. While
//! decisions come faster than that, settlement can't keep up anyway. Then it holds back and leaves the disk
//! and the processor to the buyers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use penstock_ledger::Rush;

/// The longest time without a batch, even in a rush: nobody knows how long a rush lasts.
const LONGEST_HOLD: Duration = Duration::from_secs(5);

/// The pace that all streams of a worker share.
#[derive(Clone, Debug)]
pub(crate) struct SharedPace {
    pace: Arc<Mutex<SettlingPace>>,
    hold_back: bool,
}

impl SharedPace {
    pub(crate) fn new(per_second: u32, hold_back: bool, now: Instant) -> Self {
        Self { pace: Arc::new(Mutex::new(SettlingPace::new(per_second, now))), hold_back }
    }

    pub(crate) fn holds_back(&self, head: u64, now: Instant) -> bool {
        self.hold_back && self.pace.lock().holds_back(head, now)
    }

    pub(crate) fn after(&self, decisions: usize, now: Instant) -> Duration {
        self.pace.lock().after(decisions, now)
    }
}

#[derive(Debug)]
struct SettlingPace {
    per_second: u32,
    rush: Rush,
    last_at: Instant,
    next_at: Instant,
}

impl SettlingPace {
    fn new(per_second: u32, now: Instant) -> Self {
        let per_second = per_second.max(1);
        Self { per_second, rush: Rush::beyond(per_second), last_at: now, next_at: now }
    }

    /// True: there is a rush now, with the ledger at `head`, and the next batch waits until it is over.
    fn holds_back(&mut self, head: u64, now: Instant) -> bool {
        self.rush.is_on(head, now) && now < self.last_at + LONGEST_HOLD
    }

    /// Notes `decisions` sent at `now` and returns how long to wait before the next ones. Unused time is not
    /// saved up: a pause is not followed by a peak.
    fn after(&mut self, decisions: usize, now: Instant) -> Duration {
        let share = Duration::from_secs_f64(decisions as f64 / f64::from(self.per_second));
        self.last_at = now;
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
        let mut pace = SettlingPace::new(5_000, begin);
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
        let mut pace = SettlingPace::new(5_000, begin);
        let later = begin + Duration::from_secs(60);
        assert_eq!(pace.after(500, later), Duration::from_millis(100));
    }

    #[test]
    fn in_a_rush_it_holds_back_but_goes_on() {
        let begin = Instant::now();
        let mut pace = SettlingPace::new(5_000, begin);
        let mut sent_at = Vec::new();
        // 4,000 decisions each tenth of a second, and none from the twelfth second on.
        for tenth in 0..140 {
            let now = begin + Duration::from_millis(100 * tenth);
            if !pace.holds_back(4_000 * tenth.min(120), now) {
                sent_at.push(tenth);
                pace.after(500, now);
            }
        }
        assert_eq!(sent_at[..4], [0, 50, 100, 121], "{sent_at:?}");
        assert_eq!(sent_at.len(), 3 + 19, "{sent_at:?}");
    }
}
