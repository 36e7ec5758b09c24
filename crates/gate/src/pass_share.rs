//! Learns from earlier passes how many become an order, by looking at those taken a while ago. It knows only
//! counts and times.

use std::collections::VecDeque;

use penstock_domain::Timestamp;

use crate::uptake::{BUYER, LATE};

/// The least that a pass counts for, however few are used, as long as it is not late. At this value there are
/// at most five for each unit left, as many as the head gate gives out by default. A late pass counts as
/// little as a late turn.
pub(crate) const LEAST_PASS: u64 = 3;
/// A pass is late after this part of its time.
const LATE_AFTER_PART: i64 = 8;
/// The time of a pass is divided into this many steps, and passes are counted per step.
const STEPS: i64 = 64;
/// At first every pass is expected to become an order, as if this many already had.
const PRESUMED_PASSES: u64 = 4;

/// Passes that are neither used nor expired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LivePasses {
    pub all: u64,
    /// The late ones among them, which are older than `late_after_millis`.
    pub late: u64,
}

impl From<u64> for LivePasses {
    fn from(all: u64) -> Self {
        Self { all, late: 0 }
    }
}

/// How long after it was given out a pass becomes late.
pub fn late_after_millis(pass_seconds: u32) -> i64 {
    i64::from(pass_seconds) * 1_000 / LATE_AFTER_PART
}

/// How much longer a late pass is good at most.
pub fn late_pass_millis(pass_seconds: u32) -> i64 {
    i64::from(pass_seconds) * 1_000 - late_after_millis(pass_seconds)
}

#[derive(Debug)]
pub(crate) struct PassShare {
    /// The start of each step, and the passes taken in it.
    taken: VecDeque<(Timestamp, u64)>,
    pass_seconds: u32,
}

impl PassShare {
    pub(crate) fn new(pass_seconds: u32) -> Self {
        Self { taken: VecDeque::new(), pass_seconds }
    }

    fn pass_millis(&self) -> i64 {
        i64::from(self.pass_seconds) * 1_000
    }

    fn step_millis(&self) -> i64 {
        (self.pass_millis() / STEPS).max(1)
    }

    /// A turn has become a pass.
    pub(crate) fn taken(&mut self, now: Timestamp) {
        let step_millis = self.step_millis();
        let is_now =
            |(since, _): &&mut (Timestamp, u64)| (0..step_millis).contains(&now.millis_since(*since));
        match self.taken.back_mut().filter(is_now) {
            Some((_, passes)) => *passes += 1,
            None => self.taken.push_back((now, 1)),
        }
        while self.taken.len() as i64 > STEPS + 2 {
            self.taken.pop_front();
        }
    }

    /// What a pass that is not late counts for, in parts of `BUYER`, while `late` others are late.
    pub(crate) fn fresh(&self, late: u64, now: Timestamp) -> u64 {
        // One step too many rather than one too few. At worst, more passes seem to have been used.
        let from = late_after_millis(self.pass_seconds) - self.step_millis();
        let to = self.pass_millis() + self.step_millis();
        let is_meant = |since: Timestamp| (from..to).contains(&now.millis_since(since));
        let taken: u64 =
            self.taken.iter().filter(|(since, _)| is_meant(*since)).map(|(_, passes)| passes).sum();
        // This node has not kept the room for long, so it does not know when some of them were taken.
        if taken < late {
            return BUYER;
        }
        let share = ((taken - late + PRESUMED_PASSES) * BUYER).div_ceil(taken + PRESUMED_PASSES);
        share.clamp(LEAST_PASS, BUYER)
    }

    /// What all live passes count for together.
    pub(crate) fn spoken_for(&self, live: LivePasses, now: Timestamp) -> u64 {
        let fresh = live.all.saturating_sub(live.late).saturating_mul(self.fresh(live.late, now));
        fresh.saturating_add(live.late.saturating_mul(LATE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + millis)
    }

    #[test]
    fn a_pass_counts_for_the_share_of_earlier_passes_that_were_used() {
        let mut share = PassShare::new(120);
        assert_eq!((late_after_millis(120), share.fresh(0, at(0))), (15_000, BUYER));
        (0..100).for_each(|pass| share.taken(at(pass * 10)));
        assert_eq!(share.fresh(0, at(14_000)), BUYER, "they may all still be used");
        assert_eq!(share.fresh(0, at(17_000)), BUYER, "all were used");
        assert_eq!(share.fresh(50, at(17_000)), 9);
        assert_eq!(share.fresh(100, at(17_000)), LEAST_PASS);
        assert_eq!(share.fresh(0, at(130_000)), BUYER, "that is long ago");
        assert_eq!(
            share.spoken_for(LivePasses { all: 110, late: 100 }, at(17_000)),
            10 * LEAST_PASS + 100 * LATE
        );
    }

    #[test]
    fn passes_that_were_taken_under_another_keeper_count_in_full_unless_they_are_late() {
        let share = PassShare::new(120);
        assert_eq!(share.spoken_for(LivePasses { all: 9, late: 4 }, at(0)), 5 * BUYER + 4 * LATE);
    }

    #[test]
    fn the_memory_has_a_bound() {
        let mut share = PassShare::new(1);
        (0..100_000).for_each(|pass| share.taken(at(pass * 100)));
        (0..100_000).for_each(|pass| share.taken(at(-pass * 100)));
        assert!(share.taken.len() as i64 <= STEPS + 2);
    }
}
