//! Whose turn it is: the admissions of the last while, as steps of places, and how many of each step have not
//! taken a pass yet. Places only; it knows no numbers, no sale and no clock.

use std::{collections::VecDeque, ops::Range};

use penstock_domain::Timestamp;
use serde::{Deserialize, Serialize};

/// Admissions that are closer together become one step, so that the number of steps has a bound.
const MIN_STEP_MILLIS: i64 = 100;
const STEPS_PER_TURN: i64 = 512;
/// So much longer than the turn lasts its place is kept, for who asked for a pass at the last moment: his turn must
/// not be given to another while his pass is being made.
const GRACE_MILLIS: i64 = 500;
/// Where nodes tell each other of the turns, fewer steps keep that short. They give some people a second more.
const SHARED_STEPS_PER_TURN: i64 = 64;
/// And the pass may be made by a node that heard of the turn late, with a call to another server.
const SHARED_GRACE_MILLIS: i64 = 1_500;

/// Turns as nodes tell each other of them: everything but which of them have become a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnStep {
    pub began_at: Timestamp,
    pub until: Timestamp,
    pub kept_until: Timestamp,
    pub from: u64,
    pub to: u64,
    pub pending: u64,
}

#[derive(Debug)]
struct Step {
    began_at: Timestamp,
    /// The turn of everybody in the step ends here.
    until: Timestamp,
    /// Those who are pending are counted on until here.
    kept_until: Timestamp,
    from: u64,
    to: u64,
    /// People who may still take a pass and are counted on.
    pending: u64,
    /// A bit for each place that has become a pass.
    taken: Vec<u64>,
}

impl Step {
    /// True the first time.
    fn mark_taken(&mut self, place: u64) -> bool {
        let offset = place - self.from;
        let (word, mask) = ((offset / 64) as usize, 1 << (offset % 64));
        if self.taken.len() <= word {
            self.taken.resize(word + 1, 0);
        }
        let first = self.taken[word] & mask == 0;
        self.taken[word] |= mask;
        first
    }

    fn is_taken(&self, place: u64) -> bool {
        let offset = place - self.from;
        self.taken.get((offset / 64) as usize).is_some_and(|word| word & (1 << (offset % 64)) != 0)
    }
}

#[derive(Debug)]
pub(crate) struct Turns {
    steps: VecDeque<Step>,
    turn_millis: i64,
    step_millis: i64,
    grace_millis: i64,
    pending: u64,
    /// Turns that became passes since the last `settle`.
    taken_lately: u64,
}

impl Turns {
    pub(crate) fn lasting(turn_seconds: u32) -> Self {
        Self::new(turn_seconds, STEPS_PER_TURN, GRACE_MILLIS)
    }

    /// Of a room that several nodes share.
    pub(crate) fn shared(turn_seconds: u32) -> Self {
        Self::new(turn_seconds, SHARED_STEPS_PER_TURN, SHARED_GRACE_MILLIS)
    }

    fn new(turn_seconds: u32, steps_per_turn: i64, grace_millis: i64) -> Self {
        let turn_millis = i64::from(turn_seconds) * 1_000;
        let step_millis = MIN_STEP_MILLIS.max(turn_millis / steps_per_turn);
        let steps = VecDeque::new();
        Self { steps, turn_millis, step_millis, grace_millis, pending: 0, taken_lately: 0 }
    }

    /// All that another node has to know.
    pub(crate) fn told(&self) -> Vec<TurnStep> {
        let told = |step: &Step| TurnStep {
            began_at: step.began_at,
            until: step.until,
            kept_until: step.kept_until,
            from: step.from,
            to: step.to,
            pending: step.pending,
        };
        self.steps.iter().map(told).collect()
    }

    /// Takes the place of all that was known.
    pub(crate) fn replace(&mut self, told: &[TurnStep]) {
        let step = |told: &TurnStep| Step {
            began_at: told.began_at,
            until: told.until,
            kept_until: told.kept_until,
            from: told.from,
            to: told.to,
            pending: told.pending,
            taken: Vec::new(),
        };
        self.steps = told.iter().map(step).collect();
        self.pending = told.iter().map(|step| step.pending).sum();
        self.taken_lately = 0;
    }

    /// The number of live passes that comes next was taken after all turns that are known to have become passes.
    pub(crate) fn passes_are_counted(&mut self) {
        self.taken_lately = 0;
    }

    /// These places had their turn when the process ended. They get a new one. `open` people, who had a turn or a pass
    /// then, are counted on until the new turn is over and no pass from before is good any more.
    pub(crate) fn restore(&mut self, places: Range<u64>, open: u64, pass_seconds: u32, now: Timestamp) {
        self.admit(places.start, places.end, open, now);
        for step in &mut self.steps {
            step.kept_until = step.kept_until.max(now.plus_seconds(pass_seconds));
            // What follows is a step of its own.
            step.began_at = now.plus_millis(-self.step_millis);
        }
    }

    /// The places `from..to` have their turn; `counted` of them are expected to use it.
    pub(crate) fn admit(&mut self, from: u64, to: u64, counted: u64, now: Timestamp) {
        let until = now.plus_millis(self.turn_millis);
        let kept_until = until.plus_millis(self.grace_millis);
        self.pending += counted;
        match self.steps.back_mut() {
            Some(last) if now.millis_since(last.began_at) < self.step_millis => {
                last.to = to;
                last.until = until;
                last.kept_until = kept_until;
                last.pending += counted;
            }
            _ => {
                let (pending, taken) = (counted, Vec::new());
                self.steps.push_back(Step { began_at: now, until, kept_until, from, to, pending, taken });
            }
        }
    }

    /// Forgets the turns that are over. True: since `before`, somebody's turn has ended.
    pub(crate) fn settle(&mut self, before: Timestamp, now: Timestamp) -> bool {
        let ended = self.steps.iter().any(|step| step.until > before && step.until <= now);
        // Not only the first: what was restored may be kept longer than what came after.
        self.steps.retain(|step| now < step.kept_until);
        self.pending = self.steps.iter().map(|step| step.pending).sum();
        self.taken_lately = 0;
        ended
    }

    /// Moves all turns: later, because nobody could use the time, or earlier, because the clock was set back.
    pub(crate) fn shift(&mut self, millis: i64) {
        for step in &mut self.steps {
            step.began_at = step.began_at.plus_millis(millis);
            step.until = step.until.plus_millis(millis);
            step.kept_until = step.kept_until.plus_millis(millis);
        }
    }

    /// From this place on, turns were not over at this moment. None: all were.
    pub(crate) fn first_open(&self, now: Timestamp) -> Option<u64> {
        self.steps.iter().find(|step| now < step.until).map(|step| step.from)
    }

    /// When the turn of this place ends. None: it is over, or it has not begun.
    pub(crate) fn until(&self, place: u64, now: Timestamp) -> Option<Timestamp> {
        let step = self.steps.get(self.index(place)?)?;
        (now < step.until).then_some(step.until)
    }

    /// This turn has become a pass. `was_counted`: it was one of those who were expected to come. Saying it twice
    /// changes nothing.
    pub(crate) fn taken(&mut self, place: u64, was_counted: bool) {
        let Some(step) = self.index(place).and_then(|index| self.steps.get_mut(index)) else { return };
        if step.mark_taken(place) && was_counted && step.pending > 0 {
            step.pending -= 1;
            self.pending -= 1;
            self.taken_lately += 1;
        }
    }

    /// This turn has become a pass already. A turn that was forgotten because it is over is not known any more.
    pub(crate) fn is_taken(&self, place: u64) -> bool {
        self.index(place).and_then(|index| self.steps.get(index)).is_some_and(|step| step.is_taken(place))
    }

    fn index(&self, place: u64) -> Option<usize> {
        let index = self.steps.partition_point(|step| step.to <= place);
        self.steps.get(index).filter(|step| step.from <= place).map(|_| index)
    }

    /// People who may still take a pass.
    pub(crate) fn pending(&self) -> u64 {
        self.pending
    }

    /// What to count on beside a number of live passes that was taken since the last `settle`, but maybe before
    /// the latest turns became passes: one of them is rather counted twice than not at all.
    pub(crate) fn spoken_for(&self) -> u64 {
        self.pending + self.taken_lately
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + millis)
    }

    #[test]
    fn a_turn_lasts_as_long_as_it_should_and_then_makes_room() {
        let mut turns = Turns::lasting(60);
        turns.admit(0, 3, 3, at(0));
        turns.admit(3, 5, 2, at(1_000));
        assert_eq!(turns.until(2, at(59_999)), Some(at(60_000)));
        assert_eq!(turns.until(2, at(60_000)), None);
        assert_eq!(turns.until(3, at(60_000)), Some(at(61_000)));
        assert_eq!(turns.until(5, at(0)), None);
        assert!(turns.settle(at(59_900), at(60_000)));
        assert_eq!(turns.pending(), 5, "a pass may be in the making");
        assert!(!turns.settle(at(60_000), at(60_000 + GRACE_MILLIS)));
        assert_eq!(turns.pending(), 2);
        assert_eq!(turns.until(2, at(0)), None, "a turn that was forgotten is over");
    }

    #[test]
    fn a_turn_that_became_a_pass_is_no_longer_pending_and_counts_once() {
        let mut turns = Turns::lasting(60);
        turns.admit(0, 100, 100, at(0));
        for place in [70, 70, 3, 70, 3] {
            turns.taken(place, true);
            assert!(turns.is_taken(place));
        }
        turns.taken(100, true);
        assert!([2, 4, 69, 71, 99, 100].iter().all(|place| !turns.is_taken(*place)));
        assert_eq!((turns.pending(), turns.spoken_for()), (98, 100));
        turns.settle(at(0), at(100));
        assert_eq!((turns.pending(), turns.spoken_for()), (98, 98));
        (0..100).for_each(|place| turns.taken(place, true));
        assert_eq!(turns.pending(), 0);
        turns.settle(at(0), at(100_000));
        assert_eq!(turns.pending(), 0);
    }

    #[test]
    fn who_is_not_counted_on_makes_no_room_by_coming() {
        let mut turns = Turns::lasting(60);
        turns.admit(0, 10, 2, at(0));
        (0..10).for_each(|place| turns.taken(place, true));
        assert_eq!(turns.pending(), 0);
    }

    #[test]
    fn who_was_admitted_before_a_restart_has_a_new_turn_and_counts_as_far_as_it_was_open() {
        let mut turns = Turns::lasting(60);
        turns.restore(5..1_000_000, 1, 0, at(0));
        turns.admit(1_000_000, 1_000_002, 2, at(10));
        assert_eq!(turns.until(5, at(59_999)), Some(at(60_000)));
        assert_eq!(turns.until(4, at(0)), None, "this turn was over before");
        assert_eq!(turns.until(1_000_001, at(0)), Some(at(60_010)));
        assert_eq!(turns.pending(), 3);
        turns.taken(7, true);
        turns.taken(8, true);
        assert_eq!(turns.pending(), 2);
        turns.taken(1_000_001, true);
        assert_eq!(turns.pending(), 1);
    }

    #[test]
    fn who_was_restored_is_counted_on_as_long_as_an_old_pass_may_be_good_and_what_came_after_is_not() {
        let mut turns = Turns::lasting(60);
        turns.restore(5..10, 7, 300, at(0));
        turns.admit(10, 12, 2, at(10));
        assert_eq!(turns.first_open(at(0)), Some(5));
        assert_eq!((turns.until(5, at(60_000)), turns.first_open(at(60_000))), (None, Some(10)));
        turns.settle(at(60_000), at(61_000));
        assert_eq!((turns.pending(), turns.first_open(at(61_000))), (7, None));
        turns.admit(12, 13, 1, at(61_000));
        assert_eq!(turns.until(12, at(61_000)), Some(at(121_000)));
        turns.settle(at(61_000), at(299_999));
        assert_eq!(turns.pending(), 7);
        turns.settle(at(299_999), at(300_000));
        assert_eq!(turns.pending(), 0);
    }

    #[test]
    fn passes_of_those_whose_turn_was_over_are_counted_on_without_a_turn() {
        let mut turns = Turns::lasting(60);
        turns.restore(10..10, 3, 300, at(0));
        turns.admit(10, 12, 2, at(0));
        assert_eq!(turns.pending(), 5);
        assert_eq!((turns.until(9, at(0)), turns.until(10, at(0))), (None, Some(at(60_000))));
        turns.taken(10, true);
        assert_eq!(turns.pending(), 4);
    }

    #[test]
    fn the_number_of_steps_has_a_bound_and_nobody_loses_time_by_it() {
        for turn_seconds in [1, 120, 3_600, 86_400] {
            let mut turns = Turns::lasting(turn_seconds);
            let mut most = 0;
            let tick_millis = (i64::from(turn_seconds) * 1_000 / 5_000).max(10);
            for tick in 0..12_000_u64 {
                let now = at(tick as i64 * tick_millis);
                turns.settle(now, now);
                turns.admit(tick, tick + 1, 1, now);
                assert!(turns.until(tick, now) >= Some(now.plus_seconds(turn_seconds)));
                most = most.max(turns.steps.len());
            }
            assert!(most <= STEPS_PER_TURN as usize + 6, "{most} steps for {turn_seconds} seconds");
            assert_eq!(turns.pending(), turns.steps.iter().map(|step| step.pending).sum::<u64>());
        }
    }

    #[test]
    fn a_clock_that_is_set_back_prolongs_no_turn() {
        let mut turns = Turns::lasting(60);
        turns.admit(0, 1, 1, at(3_600_000));
        turns.shift(-3_600_000);
        turns.admit(1, 2, 1, at(1_000));
        assert_eq!(turns.until(0, at(0)), Some(at(60_000)));
        turns.settle(at(0), at(60_000 + GRACE_MILLIS));
        assert_eq!(turns.pending(), 1);
    }
}
