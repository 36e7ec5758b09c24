//! The numbers of a waiting room: 0, 1, 2, … by one atomic counter, each given out once, also across a crash. For
//! that a number has to be durably reserved before it is given out. Knows nothing of people, places or turns.

use std::sync::{
    Mutex, PoisonError,
    atomic::{
        AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

/// At least so many numbers are ready to be given out.
pub(crate) const MIN_HEADROOM: u64 = 8_192;
/// Beyond this a faster rush is told to wait for the next reservation.
const MAX_HEADROOM: u64 = 1 << 20;
const HEADROOM_SECONDS: f64 = 2.0;
/// How much of the demand of a moment ago still counts a second later.
const KEPT_AFTER_A_SECOND: f64 = 0.5;
/// The counter never comes near this bit. Set: no number is given out any more.
const CLOSED: u64 = 1 << 63;

#[derive(Debug)]
pub(crate) struct Numbers {
    next: AtomicU64,
    /// Numbers below are durably reserved.
    reserved: AtomicU64,
    /// Who was sent away because nothing was reserved: part of the demand.
    refused: AtomicU64,
    demand: Mutex<Demand>,
}

#[derive(Debug, Default)]
struct Demand {
    asked_before: u64,
    per_second: f64,
}

impl Numbers {
    /// Goes on at what was reserved: which of the numbers below were given out, nobody knows after a crash.
    pub(crate) fn starting_at(reserved: u64) -> Self {
        let reserved = reserved.min(CLOSED - 1);
        Self {
            next: AtomicU64::new(reserved),
            reserved: AtomicU64::new(reserved),
            refused: AtomicU64::new(0),
            demand: Mutex::new(Demand { asked_before: reserved, per_second: 0.0 }),
        }
    }

    pub(crate) fn take(&self) -> Option<u64> {
        let mut next = self.next.load(Relaxed);
        // The closing bit makes a closed counter larger than anything that can be reserved.
        while next < self.reserved.load(Acquire) {
            match self.next.compare_exchange_weak(next, next + 1, AcqRel, Relaxed) {
                Ok(number) => return Some(number),
                Err(moved) => next = moved,
            }
        }
        self.refused.fetch_add(1, Relaxed);
        None
    }

    /// Whether `take` would give a number now. Who hears that it would not is sent away, and so is part of the demand.
    pub(crate) fn has_any(&self) -> bool {
        let has_any = self.next.load(Relaxed) < self.reserved.load(Acquire);
        self.refused.fetch_add(u64::from(!has_any), Relaxed);
        has_any
    }

    /// How many numbers were given out. Whatever is given out later is not below.
    pub(crate) fn issued(&self) -> u64 {
        self.next.load(Acquire) & !CLOSED
    }

    /// From now on no number is given out; returns how many were.
    pub(crate) fn close(&self) -> u64 {
        self.next.fetch_or(CLOSED, AcqRel) & !CLOSED
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.next.load(Relaxed) & CLOSED != 0
    }

    pub(crate) fn reserved_durably(&self, reserved: u64) {
        self.reserved.fetch_max(reserved.min(CLOSED - 1), Release);
    }

    /// All numbers below are given out, by whoever: here none of them is.
    pub(crate) fn given_out_elsewhere(&self, issued: u64) {
        self.reserved_durably(issued);
        self.next.fetch_max(issued.min(CLOSED - 1), AcqRel);
    }

    /// Takes note of the demand since the last time.
    pub(crate) fn measure(&self, millis: u64) {
        if millis == 0 {
            return;
        }
        let seconds = millis as f64 / 1_000.0;
        let mut demand = self.demand.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = self.issued().saturating_add(self.refused.load(Relaxed));
        let lately = asked.saturating_sub(demand.asked_before) as f64 / seconds;
        demand.asked_before = asked;
        // A rush counts at once and is forgotten slowly.
        demand.per_second = lately.max(demand.per_second * KEPT_AFTER_A_SECOND.powf(seconds));
    }

    /// Up to where numbers should be reserved by now: what is reserved already, as long as that will last.
    pub(crate) fn wanted(&self) -> u64 {
        let per_second = self.demand.lock().unwrap_or_else(PoisonError::into_inner).per_second;
        let headroom = ((per_second * HEADROOM_SECONDS) as u64).clamp(MIN_HEADROOM, MAX_HEADROOM);
        let (issued, reserved) = (self.issued(), self.reserved.load(Acquire));
        if reserved.saturating_sub(issued) < headroom { issued + 2 * headroom } else { reserved }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, thread};

    use super::*;

    #[test]
    fn a_number_is_given_out_only_if_it_is_reserved() {
        let numbers = Numbers::starting_at(5);
        assert_eq!(numbers.take(), None);
        assert!(!numbers.has_any());
        numbers.reserved_durably(7);
        assert!(numbers.has_any());
        assert_eq!([numbers.take(), numbers.take(), numbers.take()], [Some(5), Some(6), None]);
        numbers.reserved_durably(6);
        assert!(!numbers.has_any());
        assert_eq!(numbers.take(), None, "an old reservation takes nothing back and gives nothing");
        assert_eq!(numbers.issued(), 7);
    }

    #[test]
    fn many_who_ask_at_once_get_different_numbers() {
        let numbers = Numbers::starting_at(0);
        numbers.reserved_durably(40_000);
        let taken: Vec<u64> = thread::scope(|scope| {
            let takers: Vec<_> =
                (0..8).map(|_| scope.spawn(|| (0..4_000).filter_map(|_| numbers.take()).collect())).collect();
            takers
                .into_iter()
                .flat_map(|taker: thread::ScopedJoinHandle<'_, Vec<u64>>| taker.join().unwrap())
                .collect()
        });
        assert_eq!(taken.iter().collect::<HashSet<_>>().len(), 32_000);
        assert_eq!(numbers.issued(), 32_000);
    }

    #[test]
    fn a_rush_is_provided_for_and_forgotten_again() {
        let numbers = Numbers::starting_at(0);
        assert_eq!(numbers.wanted(), 2 * MIN_HEADROOM);
        numbers.reserved_durably(numbers.wanted());
        // 1,000,000 a second ask; most of them find nothing left.
        let given_out = (0..100_000).filter_map(|_| numbers.take()).count() as u64;
        assert_eq!(given_out, 2 * MIN_HEADROOM);
        numbers.measure(100);
        let ahead = numbers.wanted() - numbers.issued();
        assert!(ahead >= 2_000_000, "only {ahead} numbers ahead");
        (0..1_000).for_each(|_| numbers.measure(100));
        numbers.reserved_durably(numbers.issued() + MIN_HEADROOM - 1);
        assert_eq!(numbers.wanted() - numbers.issued(), 2 * MIN_HEADROOM);
    }

    #[test]
    fn who_is_sent_away_before_asking_for_a_number_is_provided_for_too() {
        let numbers = Numbers::starting_at(0);
        assert!((0..100_000).all(|_| !numbers.has_any()));
        numbers.measure(100);
        assert!(numbers.wanted() >= 2_000_000, "only {}", numbers.wanted());
    }

    #[test]
    fn no_rush_reserves_without_bound() {
        let numbers = Numbers::starting_at(0);
        numbers.refused.store(1 << 60, Relaxed);
        numbers.measure(1);
        assert!(numbers.wanted() <= 2 * MAX_HEADROOM);
    }

    #[test]
    fn a_closed_counter_has_given_out_exactly_what_it_says() {
        let numbers = Numbers::starting_at(0);
        numbers.reserved_durably(1 << 40);
        let (given, said) = thread::scope(|scope| {
            let taker = scope.spawn(|| (0..).map_while(|_: u64| numbers.take()).count() as u64);
            while numbers.issued() < 1_000 {
                thread::yield_now();
            }
            let said = numbers.close();
            (taker.join().unwrap(), said)
        });
        assert_eq!(given, said);
        assert!(!numbers.has_any());
        assert_eq!(numbers.take(), None);
        assert_eq!(numbers.issued(), said);
    }
}
