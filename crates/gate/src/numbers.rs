//! The numbers of a waiting room: 0, 1, 2, … from one atomic counter, each given out once, even across a
//! crash. To ensure that, a number has to be durably reserved before it is given out. Knows nothing of
//! people, places or turns.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use parking_lot::Mutex;

use crate::demand::Demand;

/// The fewest numbers kept ready to be given out.
pub(crate) const MIN_HEADROOM: u64 = 8_192;
/// The most numbers reserved ahead. A faster rush has to wait for the next reservation.
const MAX_HEADROOM: u64 = 1 << 20;
const HEADROOM_SECONDS: f64 = 2.0;
/// The counter never comes near this bit. If it is set, no more numbers are given out.
const CLOSED: u64 = 1 << 63;

#[derive(Debug)]
pub(crate) struct Numbers {
    next: AtomicU64,
    /// Numbers below this one are durably reserved.
    reserved: AtomicU64,
    /// People sent away because no number was reserved. They are part of the demand.
    refused: AtomicU64,
    /// The demand, and the people who had asked when it was last measured.
    demand: Mutex<(Demand, u64)>,
}

impl Numbers {
    /// Starts at the reserved number: after a crash nobody knows which numbers below it were given out.
    pub(crate) fn starting_at(reserved: u64) -> Self {
        let reserved = reserved.min(CLOSED - 1);
        Self {
            next: AtomicU64::new(reserved),
            reserved: AtomicU64::new(reserved),
            refused: AtomicU64::new(0),
            demand: Mutex::new((Demand::default(), reserved)),
        }
    }

    pub(crate) fn take(&self) -> Option<u64> {
        let mut next = self.next.load(Relaxed);
        // The closing bit makes a closed counter larger than any reservation.
        while next < self.reserved.load(Acquire) {
            match self.next.compare_exchange_weak(next, next + 1, AcqRel, Relaxed) {
                Ok(number) => return Some(number),
                Err(moved) => next = moved,
            }
        }
        self.refused.fetch_add(1, Relaxed);
        None
    }

    /// Whether `take` would give a number now. A caller who gets `false` sends the person away, so they count
    /// as demand.
    pub(crate) fn has_any(&self) -> bool {
        let has_any = self.next.load(Relaxed) < self.reserved.load(Acquire);
        self.refused.fetch_add(u64::from(!has_any), Relaxed);
        has_any
    }

    /// How many numbers were given out. Numbers given out later are not below this.
    pub(crate) fn issued(&self) -> u64 {
        self.next.load(Acquire) & !CLOSED
    }

    /// Stops giving out numbers; returns how many were given out.
    pub(crate) fn close(&self) -> u64 {
        self.next.fetch_or(CLOSED, AcqRel) & !CLOSED
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.next.load(Relaxed) & CLOSED != 0
    }

    pub(crate) fn reserved_durably(&self, reserved: u64) {
        self.reserved.fetch_max(reserved.min(CLOSED - 1), Release);
    }

    /// Numbers below `issued` are given out by any node. This counter gives out none of them.
    pub(crate) fn given_out_elsewhere(&self, issued: u64) {
        self.reserved_durably(issued);
        self.next.fetch_max(issued.min(CLOSED - 1), AcqRel);
    }

    /// Measures the demand since the last call.
    pub(crate) fn measure(&self, millis: u64) {
        if millis == 0 {
            return;
        }
        let (demand, asked_before) = &mut *self.demand.lock();
        let asked = self.issued().saturating_add(self.refused.load(Relaxed));
        demand.measure(asked.saturating_sub(*asked_before), millis as f64 / 1_000.0);
        *asked_before = asked;
    }

    /// The number up to which numbers should be reserved by now. Keeps the present reservation for as long as
    /// it lasts.
    pub(crate) fn wanted(&self) -> u64 {
        let headroom = self.demand.lock().0.within(HEADROOM_SECONDS).clamp(MIN_HEADROOM, MAX_HEADROOM);
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
        assert_eq!(numbers.take(), None, "an old reservation changes nothing");
        assert_eq!(numbers.issued(), 7);
    }

    #[test]
    fn people_who_ask_at_once_get_different_numbers() {
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
    fn a_rush_raises_the_reservation_and_is_forgotten_again() {
        let numbers = Numbers::starting_at(0);
        assert_eq!(numbers.wanted(), 2 * MIN_HEADROOM);
        numbers.reserved_durably(numbers.wanted());
        // 1,000,000 people per second ask; most of them find no number left.
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
    fn people_sent_away_before_asking_for_a_number_count_as_demand() {
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
    fn a_closed_counter_reports_exactly_how_many_it_gave_out() {
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
