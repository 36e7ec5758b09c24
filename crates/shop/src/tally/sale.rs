//! Counts the outcomes of requests for one sale: claims, and reads of the sale. Every worker has its own
//! counters, as in `worker.rs`. They are created when a sale is first requested.

use std::{
    array,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use super::{
    outcome::{OUTCOMES, Outcome},
    worker::Tally,
};

/// The counters of one worker. A read ends in `ok` or `not_modified`, a claim in anything else. Aligned, so
/// that no two workers ever write to the same cache line.
#[derive(Debug)]
#[repr(align(64))]
pub struct SaleTally {
    outcomes: [AtomicU64; OUTCOMES],
}

impl Default for SaleTally {
    fn default() -> Self {
        Self { outcomes: array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl SaleTally {
    pub fn count(&self, outcome: Outcome) {
        self.outcomes[outcome.index()].fetch_add(1, Relaxed);
    }
}

/// The counters of all workers.
#[derive(Debug, Default)]
pub struct SaleTallies(OnceLock<Box<[Arc<SaleTally>]>>);

impl SaleTallies {
    /// The counters of the worker whose tally this is.
    pub fn of(&self, tally: &Tally) -> &Arc<SaleTally> {
        let tallies =
            self.0.get_or_init(|| (0..tally.workers.get()).map(|_| Arc::default()).collect::<Box<[_]>>());
        // A worker's number is below the number of workers. No remainder is used: a division would cost more
        // than everything else here.
        tallies.get(tally.worker).unwrap_or_else(|| &tallies[0])
    }

    /// Whether anybody has requested the sale.
    pub fn are_used(&self) -> bool {
        self.0.get().is_some()
    }

    /// The sums over all workers, by the outcome's number.
    pub fn sums(&self) -> [u64; OUTCOMES] {
        let tallies = self.0.get().map(Box::as_ref).unwrap_or_default();
        array::from_fn(|outcome| tallies.iter().map(|tally| tally.outcomes[outcome].load(Relaxed)).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;

    fn count(tallies: &SaleTallies, outcome: Outcome) -> u64 {
        tallies.sums()[outcome.index()]
    }

    #[test]
    fn the_counts_of_all_workers_add_up() {
        let tallies = SaleTallies::default();
        assert!(!tallies.are_used());
        for worker in 0..3 {
            let tally = Tally::of_worker(worker, 3);
            tallies.of(&tally).count(Outcome::Refused(Code::SoldOut));
            assert!(Arc::ptr_eq(tallies.of(&tally), tallies.of(&tally)));
        }
        assert!(tallies.are_used());
        assert_eq!(count(&tallies, Outcome::Refused(Code::SoldOut)), 3);
    }

    #[test]
    fn no_two_workers_share_a_line() {
        let tallies = SaleTallies::default();
        let address = |worker| std::ptr::from_ref(&**tallies.of(&Tally::of_worker(worker, 2))).addr();
        assert_eq!((address(0) % 64, address(1) % 64), (0, 0));
        assert!(address(0).abs_diff(address(1)) >= size_of::<SaleTally>());
    }
}
