//! Which clients that do not read go first when unread answers take too much memory. It knows a stall only by
//! its number.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::transport::pulse::Pulse;

/// A client that has taken nothing for less may just be about to. We notice that a client reads only when the
/// system has room for the next 64 KiB, so one on a slow network seems to pause.
pub(super) const MIN_STALLED: Duration = Duration::from_secs(5);
/// A client that has taken nothing for this long has stopped reading, even if it read before.
const READS_NO_MORE: Duration = Duration::from_secs(30);
/// Sweeps closer together than this count as one, so that few are remembered.
const MIN_BETWEEN: Duration = Duration::from_millis(500);

/// The number of stalls at each recent sweep, at the last sweep that is `MIN_STALLED` ago, and at the last
/// that is `READS_NO_MORE` ago.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    at_sweeps: VecDeque<(Instant, u64)>,
    old: u64,
    very_old: u64,
}

impl Stalls {
    /// Notes the number of stalls up to now.
    pub(super) fn note(&mut self, stalls: u64, now: Instant) {
        let age = |then: Instant| now.saturating_duration_since(then);
        if self.at_sweeps.back().is_none_or(|(then, _)| age(*then) >= MIN_BETWEEN) {
            self.at_sweeps.push_back((now, stalls));
        }
        if let Some((_, stalls)) = self.at_sweeps.iter().rfind(|(then, _)| age(*then) >= MIN_STALLED) {
            self.old = *stalls;
        }
        while let Some((_, stalls)) = self.at_sweeps.pop_front_if(|(then, _)| age(*then) >= READS_NO_MORE) {
            self.very_old = stalls;
        }
    }

    /// The smallest goes first. The order: clients that have read nothing for some time; then those that
    /// stopped reading only now, the latest first, so that a client that keeps coming back does not push out
    /// a slow one that was there before; last the proven readers that have read something lately.
    pub(super) fn order_of_leaving(&self, pulse: &Pulse) -> (u8, u64) {
        let stall = pulse.last_stall();
        match (pulse.reads_for_sure(), stall <= self.old) {
            (false, true) => (0, stall),
            (true, _) if stall <= self.very_old => (0, stall),
            (false, false) => (1, u64::MAX - stall),
            (true, _) => (2, stall),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stalled(numbers: &[u64]) -> Pulse {
        let pulse = Pulse::default();
        numbers.iter().for_each(|number| pulse.stall(*number));
        pulse
    }

    #[test]
    fn clients_that_read_lately_stay_longest_and_those_that_read_once_do_not() {
        let began = Instant::now();
        let mut stalls = Stalls::default();
        let (read_once, reads, reads_nothing) = (stalled(&[1, 2]), stalled(&[3, 40]), stalled(&[30]));
        let newcomer = stalled(&[50]);
        for seconds in 0..=40 {
            let number = if seconds < 20 { 10 } else { 30 + seconds / 2 };
            stalls.note(number, began + Duration::from_secs(seconds));
        }
        let mut leaving = [&newcomer, &reads, &reads_nothing, &read_once];
        leaving.sort_unstable_by_key(|pulse| stalls.order_of_leaving(pulse));
        let numbers = leaving.map(Pulse::last_stall);
        assert_eq!(numbers, [2, 30, 50, 40]);
    }

    #[test]
    fn memory_for_sweeps_is_bounded_however_many_there_are() {
        let began = Instant::now();
        let mut stalls = Stalls::default();
        for sweep in 0..100_000 {
            stalls.note(sweep, began + Duration::from_millis(sweep));
            assert!(stalls.at_sweeps.len() <= 61);
        }
        assert!(stalls.old > stalls.very_old && stalls.very_old > 0);
    }
}
