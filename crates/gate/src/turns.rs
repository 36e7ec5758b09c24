//! Whose turn it is. People called recently are kept in steps, with the number in each step who have not
//! taken a pass yet, and the buyers they still stand for. It knows only places: no numbers, no sale and no
//! clock.

use std::{collections::VecDeque, ops::Range};

use penstock_domain::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    calls::{CalledRun, Calls, MAX_RUNS},
    presence::{GENERATION_MILLIS, There},
    uptake::{BUYER, LATE, LEAST_FRESH, Uptake},
};

/// Calls closer together than this share a step, so that the number of steps is bounded.
const MIN_STEP_MILLIS: i64 = 100;
const STEPS_PER_TURN: i64 = 512;
/// How much longer than it lasts a turn is kept. Somebody may ask for a pass at the last moment, and their
/// place must not go to another person while their pass is being made.
const GRACE_MILLIS: i64 = 500;
/// How long after a call the room checks whether the person is away; a shorter turn is checked at its end. By
/// then, somebody last heard of just before the call counts as away. Everybody else has heard of their turn.
const AWAY_AFTER_MILLIS: i64 = 2 * GENERATION_MILLIS + 1_000;
/// Nodes that share a room tell each other the steps, so there are fewer of them. Some people get up to a
/// second more.
const SHARED_STEPS_PER_TURN: i64 = 64;
/// In a shared room, a node that heard of the turn late may make the pass, with a call to another server.
const SHARED_GRACE_MILLIS: i64 = 1_500;

/// The phase of a step's turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// Nobody has checked yet who is away.
    First,
    /// People who were away have moved to a step of their own. People who leave from now on do not count.
    Second,
    /// These people were away and may not know of their turn, so it lasts twice as long. They count only once
    /// they are back.
    Extra,
}

/// The turns as nodes tell them to each other: everything except which of them have become a pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnStep {
    pub began_at: Timestamp,
    pub until: Timestamp,
    pub kept_until: Timestamp,
    /// The places that were passed over to find the people called.
    pub from: u64,
    pub to: u64,
    /// Runs of places that were called.
    pub called: Vec<(u64, u64)>,
    pub pending: u64,
    pub is_judged: bool,
    pub part: Part,
}

#[derive(Debug)]
struct Step {
    id: u64,
    began_at: Timestamp,
    /// The end of the turn of everybody in the step.
    until: Timestamp,
    /// Pending people count until this time.
    kept_until: Timestamp,
    from: u64,
    to: u64,
    called: u64,
    /// People who may still take a pass.
    pending: u64,
    /// `uptake` has learnt how many of them come.
    is_judged: bool,
    part: Part,
    /// People who may still take a pass and are there, as of the last check.
    there: u64,
}

impl Step {
    /// A step with nobody in it.
    fn new(id: u64, began_at: Timestamp, until: Timestamp, kept_until: Timestamp) -> Self {
        let (from, to, called, pending, there) = (0, 0, 0, 0, 0);
        let (is_judged, part) = (false, Part::First);
        Self { id, began_at, until, kept_until, from, to, called, pending, is_judged, part, there }
    }
}

/// The state of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Until(Timestamp),
    /// The person was away a short time ago, when they would have been called.
    Missed,
    Over,
}

#[derive(Debug)]
pub(crate) struct Turns {
    steps: VecDeque<Step>,
    calls: Calls,
    uptake: Uptake,
    next_id: u64,
    turn_millis: i64,
    presumed_millis: i64,
    step_millis: i64,
    grace_millis: i64,
    /// Turns that became passes since the last `settle`.
    taken_lately: u64,
}

impl Turns {
    /// `uptake_seconds`: how soon people are presumed to take up their turn.
    pub(crate) fn lasting(turn_seconds: u32, uptake_seconds: u32) -> Self {
        Self::new(turn_seconds, uptake_seconds, STEPS_PER_TURN, GRACE_MILLIS)
    }

    /// For a room that several nodes share.
    pub(crate) fn shared(turn_seconds: u32, uptake_seconds: u32) -> Self {
        Self::new(turn_seconds, uptake_seconds, SHARED_STEPS_PER_TURN, SHARED_GRACE_MILLIS)
    }

    fn new(turn_seconds: u32, uptake_seconds: u32, steps_per_turn: i64, grace_millis: i64) -> Self {
        let turn_millis = i64::from(turn_seconds) * 1_000;
        Self {
            steps: VecDeque::new(),
            calls: Calls::default(),
            uptake: Uptake::default(),
            next_id: 0,
            turn_millis,
            presumed_millis: i64::from(uptake_seconds) * 1_000,
            step_millis: MIN_STEP_MILLIS.max(turn_millis / steps_per_turn),
            grace_millis,
            taken_lately: 0,
        }
    }

    /// Everything that another node has to know.
    pub(crate) fn told(&self) -> (Vec<TurnStep>, Uptake) {
        let mut called = self.calls.by_step();
        let told = |step: &Step| TurnStep {
            began_at: step.began_at,
            until: step.until,
            kept_until: step.kept_until,
            from: step.from,
            to: step.to,
            called: called.remove(&step.id).unwrap_or_default(),
            pending: step.pending,
            is_judged: step.is_judged,
            part: step.part,
        };
        (self.steps.iter().map(told).collect(), self.uptake.clone())
    }

    /// Replaces everything that was known.
    pub(crate) fn replace(&mut self, told: &[TurnStep], uptake: &Uptake) {
        self.steps.clear();
        self.calls = Calls::default();
        for step in told {
            let id = self.next_id();
            let called = self.add_runs(&step.called, id);
            self.steps.push_back(Step {
                from: step.from,
                to: step.to,
                called,
                pending: step.pending,
                is_judged: step.is_judged,
                part: step.part,
                there: if step.part == Part::Extra { 0 } else { step.pending },
                ..Step::new(id, step.began_at, step.until, step.kept_until)
            });
        }
        self.uptake = uptake.clone();
        self.taken_lately = 0;
    }

    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Returns the number of people in the runs.
    fn add_runs(&mut self, runs: &[(u64, u64)], step: u64) -> u64 {
        for (from, to) in runs {
            self.calls.add(*from, CalledRun { to: *to, step, is_taken: false });
        }
        runs.iter().map(|(from, to)| to.saturating_sub(*from)).sum()
    }

    /// The next number of live passes was read after all turns known to have become passes.
    pub(crate) fn passes_are_counted(&mut self) {
        self.taken_lately = 0;
    }

    /// Gives the runs `called` their turn. The places `past` were passed over to find them. A person from one
    /// of these who comes back soon has missed nothing.
    pub(crate) fn call(&mut self, called: &[(u64, u64)], past: Range<u64>, now: Timestamp) {
        let until = now.plus_millis(self.turn_millis);
        let kept_until = until.plus_millis(self.grace_millis);
        let is_open = |step: &Step| now.millis_since(step.began_at) < self.step_millis;
        let index = self.steps.iter().rposition(is_open).unwrap_or_else(|| {
            let id = self.next_id();
            let new = Step::new(id, now, until, kept_until);
            self.steps.push_back(Step { from: past.start, to: past.end, ..new });
            self.steps.len() - 1
        });
        let Some(id) = self.steps.get(index).map(|step| step.id) else { return };
        let people = self.add_runs(called, id);
        if let Some(step) = self.steps.get_mut(index) {
            (step.to, step.until, step.kept_until) = (past.end, until, kept_until);
            step.called += people;
            step.pending += people;
        }
    }

    /// Gives a new turn to people whose turn was not over when the process ended. `pending` of them had not
    /// taken it up.
    pub(crate) fn restore(&mut self, called: &[(u64, u64)], past: Range<u64>, pending: u64, now: Timestamp) {
        self.call(called, past, now);
        if let Some(step) = self.steps.back_mut() {
            step.pending = pending;
            // Later calls get a step of their own. This one is not judged, because nobody knows how many had
            // already come.
            step.began_at = now.plus_millis(-self.step_millis);
            step.is_judged = true;
        }
    }

    /// The number of further runs that fit.
    pub(crate) fn room_for_runs(&self) -> u64 {
        MAX_RUNS.saturating_sub(self.calls.runs()) as u64
    }

    /// Forgets the turns that are over, and learns from them. True: a turn has ended since `before`.
    pub(crate) fn settle(&mut self, there: &There, before: Timestamp, now: Timestamp) -> bool {
        self.uptake.forget_old(now);
        let (fresh_millis, turn_millis) = (self.uptake.fresh_millis(self.presumed_millis), self.turn_millis);
        for step in self.steps.iter_mut().filter(|step| !step.is_judged) {
            if age(step, turn_millis, now) >= fresh_millis.min(turn_millis) {
                step.is_judged = true;
                self.uptake.judge(step.called, step.called.saturating_sub(step.pending), now);
            }
        }
        self.prolong(there, now);
        self.count_there(there);
        let ended = self.steps.iter().any(|step| step.until > before && step.until <= now);
        let kept = self.steps.len();
        self.steps.retain(|step| now < step.kept_until);
        if self.steps.len() < kept {
            let steps = &self.steps;
            self.calls.forget(|id| steps.binary_search_by_key(&id, |step| step.id).is_err());
        }
        self.taken_lately = 0;
        ended
    }

    /// A person who looks once a minute is called because they have just looked, and would look again only
    /// when their turn ends. So the turn of people who are away lasts twice as long. They are judged at the
    /// same time as the others.
    fn prolong(&mut self, there: &There, now: Timestamp) {
        let turn_millis = self.turn_millis;
        let looked_at_age = AWAY_AFTER_MILLIS.min(turn_millis);
        for index in 0..self.steps.len() {
            let Some(step) = self.steps.get_mut(index) else { continue };
            let is_due = step.part == Part::First && age(step, turn_millis, now) >= looked_at_age;
            if !is_due || (there.known_to() < step.to && now < step.until) {
                continue;
            }
            step.part = Part::Second;
            step.there = step.pending;
            if there.known_to() < step.to || step.pending == 0 {
                continue;
            }
            let (old, pending, is_judged) = (step.id, step.pending, step.is_judged);
            let until = step.until.plus_millis(turn_millis);
            let (began_at, kept_until) = (step.began_at, until.plus_millis(self.grace_millis));
            let id = self.next_id();
            let away = self.calls.part(old, id, |from, to| there.gaps(from, to));
            if away == 0 {
                continue;
            }
            // After a restart nobody knows who had taken a pass, so there may be more people away than
            // pending.
            let moved = away.min(pending);
            if let Some(step) = self.steps.get_mut(index) {
                step.pending -= moved;
                step.called = step.called.saturating_sub(away);
            }
            let new = Step::new(id, began_at, until, kept_until);
            self.steps.push_back(Step { called: away, pending: moved, is_judged, part: Part::Extra, ..new });
        }
    }

    fn count_there(&mut self, there: &There) {
        let is_known = |step: &Step| there.known_to() >= step.to;
        let mut looked_at: Vec<&mut Step> =
            self.steps.iter_mut().filter(|step| step.part != Part::First && is_known(step)).collect();
        looked_at.iter_mut().for_each(|step| step.there = 0);
        if looked_at.is_empty() {
            return;
        }
        for (from, run) in self.calls.iter().filter(|(_, run)| !run.is_taken) {
            if let Ok(index) = looked_at.binary_search_by_key(&run.step, |step| step.id) {
                looked_at[index].there += there.count(from, run.to);
            }
        }
    }

    /// Moves all turns: later if nobody could use the time, earlier if the clock was set back.
    pub(crate) fn shift(&mut self, millis: i64) {
        for step in &mut self.steps {
            step.began_at = step.began_at.plus_millis(millis);
            step.until = step.until.plus_millis(millis);
            step.kept_until = step.kept_until.plus_millis(millis);
        }
    }

    /// The first place from which turns were not over at this time. None: all were over.
    pub(crate) fn first_open(&self, now: Timestamp) -> Option<u64> {
        let open = self.steps.iter().filter(|step| now < step.until && step.part != Part::Extra);
        open.map(|step| step.from).min()
    }

    /// The state of a place that was passed over or called.
    pub(crate) fn of(&self, place: u64, now: Timestamp) -> Turn {
        let until = self.calls.of(place).map(|run| self.step(run.step).map(|step| step.until));
        match until {
            Some(Some(until)) if now < until => Turn::Until(until),
            Some(_) => Turn::Over,
            None if self.first_open(now).is_some_and(|from| place >= from) => Turn::Missed,
            None => Turn::Over,
        }
    }

    fn step(&self, id: u64) -> Option<&Step> {
        self.steps.binary_search_by_key(&id, |step| step.id).ok().and_then(|index| self.steps.get(index))
    }

    /// One after the last neighbour that was called with this place. None: the place was not called.
    pub(crate) fn called_to(&self, place: u64) -> Option<u64> {
        self.calls.of(place).map(|run| run.to)
    }

    /// The runs of places that were called and are remembered.
    pub(crate) fn called(&self) -> impl Iterator<Item = (u64, u64)> {
        self.calls.iter().map(|(from, run)| (from, run.to))
    }

    /// The runs whose turn was not over at this time.
    pub(crate) fn open(&self, now: Timestamp) -> Vec<(u64, u64)> {
        self.calls.places(|id| self.step(id).is_some_and(|step| now < step.until))
    }

    /// Marks this turn as taken by a pass. False: it was already marked, or is over. Repeating it changes
    /// nothing.
    pub(crate) fn taken(&mut self, place: u64, now: Timestamp) -> bool {
        let Some(id) = self.calls.take(place) else { return false };
        let Ok(index) = self.steps.binary_search_by_key(&id, |step| step.id) else { return false };
        let turn_millis = self.turn_millis;
        if let Some(step) = self.steps.get_mut(index).filter(|step| step.pending > 0) {
            step.pending -= 1;
            self.taken_lately += 1;
            self.uptake.taken_after(age(step, turn_millis, now).max(0));
            if step.is_judged {
                self.uptake.came_late();
            }
        }
        true
    }

    /// Whether this turn has already become a pass. Unknown, and so false, once the turn is over and
    /// forgotten.
    pub(crate) fn is_taken(&self, place: u64) -> bool {
        self.calls.of(place).is_some_and(|run| run.is_taken)
    }

    /// People who may still take a pass.
    pub(crate) fn pending(&self) -> u64 {
        self.steps.iter().map(|step| step.pending).sum()
    }

    /// What a person who is called now counts for, in parts of `BUYER`, if the pass they may take counts for
    /// `pass`.
    pub(crate) fn fresh(&self, pass: u64) -> u64 {
        self.uptake.fresh().saturating_mul(pass).div_ceil(BUYER).max(LEAST_FRESH)
    }

    /// The buyers to count on, in parts of `BUYER`, besides the live passes. The live passes were counted
    /// since the last `settle`, but maybe before the latest turns became passes. So such a turn may count
    /// twice, rather than not at all.
    pub(crate) fn spoken_for(&self, pass: u64, now: Timestamp) -> u64 {
        let (fresh, fresh_millis) = (self.fresh(pass), self.uptake.fresh_millis(self.presumed_millis));
        let counted = |step: &Step| {
            let is_fresh = age(step, self.turn_millis, now) < fresh_millis;
            let people = if step.part == Part::First { step.pending } else { step.there.min(step.pending) };
            people.saturating_mul(if is_fresh && step.part != Part::Extra { fresh } else { LATE })
        };
        let pending = self.steps.iter().map(counted).fold(0, u64::saturating_add);
        pending.saturating_add(self.taken_lately.saturating_mul(BUYER))
    }
}

/// Milliseconds since the last person in the step was called. Pauses do not count.
fn age(step: &Step, turn_millis: i64, now: Timestamp) -> i64 {
    let turns = if step.part == Part::Extra { 2 } else { 1 };
    turns * turn_millis - step.until.millis_since(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presence::Presence;

    /// No node has told who is there.
    static NOBODY: std::sync::LazyLock<There> = std::sync::LazyLock::new(There::default);

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + millis)
    }

    /// Calls the places `from..to`; nobody is passed over.
    fn admit(turns: &mut Turns, from: u64, to: u64, now: Timestamp) {
        turns.call(&[(from, to)], from..to, now);
    }

    #[test]
    fn a_turn_lasts_as_long_as_it_should_and_then_makes_room() {
        let mut turns = Turns::lasting(60, 6);
        admit(&mut turns, 0, 3, at(0));
        admit(&mut turns, 3, 5, at(1_000));
        assert_eq!(turns.of(2, at(59_999)), Turn::Until(at(60_000)));
        assert_eq!(turns.of(2, at(60_000)), Turn::Over);
        assert_eq!(turns.of(3, at(60_000)), Turn::Until(at(61_000)));
        assert!(turns.settle(&NOBODY, at(59_900), at(60_000)));
        assert_eq!(turns.pending(), 5, "a pass may be in the making");
        assert!(!turns.settle(&NOBODY, at(60_000), at(60_000 + GRACE_MILLIS)));
        assert_eq!(turns.pending(), 2);
        assert_eq!(turns.of(2, at(0)), Turn::Over, "a forgotten turn is over");
    }

    #[test]
    fn a_person_passed_over_misses_nothing_until_the_turns_called_instead_are_over() {
        let mut turns = Turns::lasting(60, 6);
        turns.call(&[(4, 5), (9, 10)], 0..10, at(0));
        assert_eq!((turns.of(4, at(1)), turns.of(3, at(1))), (Turn::Until(at(60_000)), Turn::Missed));
        assert_eq!(turns.pending(), 2);
        turns.call(&[(3, 4), (10, 12)], 10..12, at(50_000));
        assert_eq!(turns.of(3, at(50_001)), Turn::Until(at(110_000)));
        assert_eq!((turns.of(2, at(59_999)), turns.of(2, at(60_000))), (Turn::Missed, Turn::Over));
        turns.settle(&NOBODY, at(60_000), at(61_000));
        assert_eq!(turns.of(3, at(61_000)), Turn::Until(at(110_000)));
        assert_eq!(turns.of(9, at(61_000)), Turn::Over);
    }

    #[test]
    fn a_turn_that_became_a_pass_is_no_longer_pending_and_counts_once() {
        let mut turns = Turns::lasting(60, 6);
        admit(&mut turns, 0, 100, at(0));
        for place in [70, 70, 3, 70, 3] {
            turns.taken(place, at(0));
            assert!(turns.is_taken(place));
        }
        turns.taken(100, at(0));
        assert!([2, 4, 69, 71, 99, 100].iter().all(|place| !turns.is_taken(*place)));
        assert_eq!((turns.pending(), turns.spoken_for(BUYER, at(0))), (98, 100 * BUYER));
        turns.settle(&NOBODY, at(0), at(100));
        assert_eq!((turns.pending(), turns.spoken_for(BUYER, at(100))), (98, 98 * BUYER));
        (0..100).for_each(|place| {
            turns.taken(place, at(100));
        });
        assert_eq!(turns.pending(), 0);
        assert_eq!(turns.of(5, at(100)), Turn::Until(at(60_000)), "it is still their turn");
    }

    #[test]
    fn a_turn_that_others_would_have_taken_up_by_now_hardly_counts() {
        let mut turns = Turns::lasting(60, 6);
        admit(&mut turns, 0, 160, at(0));
        (0..80).for_each(|place| {
            turns.taken(place, at(400));
        });
        turns.settle(&NOBODY, at(0), at(500));
        assert_eq!(turns.spoken_for(BUYER, at(2_900)), 80 * BUYER);
        assert_eq!(turns.spoken_for(BUYER, at(3_000)), 80 * LATE);
        turns.settle(&NOBODY, at(500), at(3_000));
        // Half of them came, so each of the next counts for about half a buyer.
        assert!((7..12).contains(&turns.fresh(BUYER)), "{}", turns.fresh(BUYER));
        assert_eq!(turns.of(150, at(3_000)), Turn::Until(at(60_000)), "nobody's turn is cut short");
    }

    #[test]
    fn people_who_are_away_are_judged_at_the_same_time_as_the_others() {
        let presence = Presence::new(false);
        presence.drawn();
        [0, 1].into_iter().for_each(|place| presence.heard(place, || place));
        let there = presence.there();
        let mut turns = Turns::lasting(60, 20);
        admit(&mut turns, 0, 4, at(0));
        turns.settle(&there, at(0), at(AWAY_AFTER_MILLIS - 1));
        assert_eq!(turns.spoken_for(BUYER, at(AWAY_AFTER_MILLIS - 1)), 4 * BUYER);
        turns.settle(&there, at(AWAY_AFTER_MILLIS - 1), at(AWAY_AFTER_MILLIS));
        assert_eq!(turns.spoken_for(BUYER, at(AWAY_AFTER_MILLIS)), 2 * BUYER, "two are away");
        assert_eq!(turns.fresh(BUYER), BUYER, "nobody is late yet");
        assert_eq!(turns.of(2, at(119_999)), Turn::Until(at(120_000)), "they have more time");
        // One person who is there, and one who was away.
        [0, 2].into_iter().for_each(|place| assert!(turns.taken(place, at(40_000))));
        turns.settle(&there, at(40_000), at(60_000));
        // As if four people had come before.
        assert!((12..14).contains(&turns.fresh(BUYER)), "two of four came");
    }

    #[test]
    fn nodes_tell_each_other_everything_they_need() {
        let mut turns = Turns::shared(60, 6);
        turns.call(&[(4, 5), (9, 12)], 0..12, at(0));
        turns.taken(10, at(500));
        turns.call(&[(2, 3)], 12..12, at(5_000));
        turns.settle(&NOBODY, at(5_000), at(30_000));
        let (told, uptake) = turns.told();
        let mut other = Turns::shared(60, 6);
        other.replace(&told, &uptake);
        assert_eq!(other.told(), (told, uptake));
        assert_eq!((other.pending(), other.fresh(BUYER)), (turns.pending(), turns.fresh(BUYER)));
        for place in 0..13 {
            assert_eq!(other.of(place, at(30_000)), turns.of(place, at(30_000)), "{place}");
        }
    }

    #[test]
    fn people_called_before_a_restart_have_a_new_turn_and_count_if_theirs_was_open() {
        let mut turns = Turns::lasting(60, 6);
        turns.restore(&[(5, 1_000_000)], 3..1_000_000, 1, at(0));
        admit(&mut turns, 1_000_000, 1_000_002, at(10));
        assert_eq!(turns.of(5, at(59_999)), Turn::Until(at(60_000)));
        assert_eq!((turns.of(4, at(0)), turns.of(2, at(0))), (Turn::Missed, Turn::Over));
        assert_eq!(turns.of(1_000_001, at(0)), Turn::Until(at(60_010)));
        assert_eq!(turns.pending(), 3);
        turns.taken(7, at(20));
        turns.taken(8, at(20));
        assert_eq!(turns.pending(), 2);
        turns.taken(1_000_001, at(20));
        assert_eq!(turns.pending(), 1);
    }

    #[test]
    fn the_number_of_steps_is_bounded_and_nobody_loses_time() {
        for turn_seconds in [1, 120, 3_600, 86_400] {
            let mut turns = Turns::lasting(turn_seconds, 6);
            let mut most = 0;
            let tick_millis = (i64::from(turn_seconds) * 1_000 / 5_000).max(10);
            for tick in 0..12_000_u64 {
                let now = at(tick as i64 * tick_millis);
                turns.settle(&NOBODY, now, now);
                admit(&mut turns, tick, tick + 1, now);
                let Turn::Until(until) = turns.of(tick, now) else { panic!("not called") };
                assert!(until >= now.plus_seconds(turn_seconds));
                most = most.max(turns.steps.len());
            }
            assert!(most <= STEPS_PER_TURN as usize + 6, "{most} steps for {turn_seconds} seconds");
            assert!(turns.calls.runs() <= most, "neighbours are one run");
        }
    }

    #[test]
    fn setting_the_clock_back_prolongs_no_turn() {
        let mut turns = Turns::lasting(60, 6);
        admit(&mut turns, 0, 1, at(3_600_000));
        turns.shift(-3_600_000);
        admit(&mut turns, 1, 2, at(1_000));
        assert_eq!(turns.of(0, at(0)), Turn::Until(at(60_000)));
        turns.settle(&NOBODY, at(0), at(60_000 + GRACE_MILLIS));
        assert_eq!(turns.pending(), 1);
    }
}
