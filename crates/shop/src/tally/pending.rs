//! Requests that have begun. Each is counted exactly once, whatever becomes of it.

use std::{sync::Arc, time::Instant};

use super::{
    outcome::{Group, Outcome},
    sale::SaleTally,
    worker::Tally,
};

/// A request that has begun. If it is dropped without an answer, it counts as `client_gone`.
#[derive(Debug)]
pub struct Pending {
    tally: Arc<Tally>,
    group: Group,
    began: Instant,
    answered: bool,
    /// Its sale's count, if it is a claim.
    claim: CountedClaim,
}

impl Pending {
    pub fn new(tally: &Arc<Tally>, group: Group) -> Self {
        Self::begin(tally, group, CountedClaim::default())
    }

    /// A claim. Its sale counts it, too.
    pub fn of_claim(tally: &Arc<Tally>, sale: Arc<SaleTally>) -> Self {
        Self::begin(tally, Group::Claim, CountedClaim::new(sale))
    }

    fn begin(tally: &Arc<Tally>, group: Group, claim: CountedClaim) -> Self {
        Self { tally: Arc::clone(tally), group, began: Instant::now(), answered: false, claim }
    }

    pub fn answered(mut self, outcome: Outcome) {
        self.answered = true;
        self.tally.count(outcome);
        std::mem::take(&mut self.claim).answered(outcome);
        self.tally.latencies[self.group as usize].add(self.began.elapsed());
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.answered {
            self.tally.count(Outcome::ClientGone);
        }
    }
}

/// A claim that has begun, if its sale is known. If it is dropped without an answer, the client is gone.
#[derive(Debug, Default)]
pub struct CountedClaim(Option<Arc<SaleTally>>);

impl CountedClaim {
    pub fn new(tally: Arc<SaleTally>) -> Self {
        Self(Some(tally))
    }

    pub fn answered(mut self, outcome: Outcome) {
        self.count(outcome);
    }

    fn count(&mut self, outcome: Outcome) {
        if let Some(tally) = self.0.take() {
            tally.count(outcome);
        }
    }
}

impl Drop for CountedClaim {
    fn drop(&mut self) {
        self.count(Outcome::ClientGone);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::{
        code::Code,
        tally::{OUTCOMES, SaleTallies},
    };

    #[test]
    fn every_outcome_has_its_own_counter() {
        let mut indices: Vec<usize> = Code::ALL.iter().map(|code| Outcome::Refused(*code).index()).collect();
        indices.extend(
            [Outcome::Ok, Outcome::Accepted, Outcome::Repeated, Outcome::NotModified, Outcome::ClientGone]
                .map(Outcome::index),
        );
        indices.sort_unstable();
        assert_eq!(indices, (0..OUTCOMES).collect::<Vec<_>>());
        assert_eq!(Outcome::name(Outcome::Refused(Code::SoldOut).index()), "sold_out");
    }

    #[test]
    fn a_dropped_request_is_counted() {
        let tally = Arc::new(Tally::of_worker(0, 1));
        drop(Pending::new(&tally, Group::Claim));
        Pending::new(&tally, Group::Other).answered(Outcome::Ok);
        let count = |outcome: Outcome| tally.outcomes[outcome.index()].load(Relaxed);
        assert_eq!((count(Outcome::ClientGone), count(Outcome::Ok)), (1, 1));
    }

    #[test]
    fn a_claim_counts_once_even_if_nobody_waits_for_its_answer() {
        let tallies = SaleTallies::default();
        let begin = || CountedClaim::new(Arc::clone(tallies.of(&Tally::of_worker(0, 1))));
        begin().answered(Outcome::Accepted);
        drop(begin());
        let sums = tallies.sums();
        assert_eq!((sums[Outcome::Accepted.index()], sums[Outcome::ClientGone.index()]), (1, 1));
        assert_eq!(sums.iter().sum::<u64>(), 2);
    }
}
