//! The pace of admission: how fast people may be let in, and how fast they were let in lately. It knows only
//! counts and times.

use std::collections::VecDeque;

use penstock_domain::Timestamp;

/// The most time whose missed admissions may be made up for.
const BURST_MILLIS: u64 = 250;
/// The time over which the pace is measured.
const WINDOW_MILLIS: i64 = 10_000;
/// The shortest time between two notes.
const NOTE_EVERY_MILLIS: i64 = 250;
/// The shortest time after which the pace is known.
const MIN_WINDOW_MILLIS: i64 = 1_000;
/// A longer gap between two looks counts as this, so a process that slept does not make up for it.
const MAX_GAP_MILLIS: u64 = 1_000;

/// One person, in the thousandths that a millisecond adds at one person per second. So rounding loses nobody.
const PERSON: u64 = 1_000;

/// Tokens for admissions: `per_second`, with a small burst, and always at least one at a time.
#[derive(Debug)]
pub(crate) struct Allowance {
    per_second: u64,
    burst: u64,
    saved: u64,
}

impl Allowance {
    pub(crate) fn new(per_second: u32) -> Self {
        let per_second = u64::from(per_second.max(1));
        let burst = (per_second * BURST_MILLIS).max(PERSON);
        Self { per_second, burst, saved: burst }
    }

    pub(crate) fn accrue(&mut self, millis: u64) {
        let accrued = self.per_second * millis.min(MAX_GAP_MILLIS);
        // The gain of one gap may be spent whole, so that slow ticks keep the pace. Fractions of a person
        // don't count.
        let most = self.burst.max(accrued) + (PERSON - 1);
        self.saved = (self.saved + accrued).min(most);
    }

    /// The number of people who may be admitted now.
    pub(crate) fn people(&self) -> u64 {
        self.saved / PERSON
    }

    pub(crate) fn spend(&mut self, people: u64) {
        self.saved = self.saved.saturating_sub(people.saturating_mul(PERSON));
    }
}

/// Measures admissions of the last ten seconds.
#[derive(Debug, Default)]
pub(crate) struct AdmissionPace {
    notes: VecDeque<(Timestamp, u64)>,
}

impl AdmissionPace {
    /// With nobody waiting, there is nothing to measure.
    pub(crate) fn forget(&mut self) {
        self.notes.clear();
    }

    /// `admitted` counts everybody admitted by `now`. Returns the recent rate per second, if it is known.
    pub(crate) fn note(&mut self, admitted: u64, now: Timestamp) -> Option<f64> {
        if self.notes.back().is_none_or(|(noted_at, _)| now.millis_since(*noted_at) >= NOTE_EVERY_MILLIS) {
            self.notes.push_back((now, admitted));
        }
        while self.notes.front().is_some_and(|(noted_at, _)| now.millis_since(*noted_at) > WINDOW_MILLIS) {
            self.notes.pop_front();
        }
        let (since, before) = self.notes.front()?;
        let (millis, people) = (now.millis_since(*since), admitted.saturating_sub(*before));
        (millis >= MIN_WINDOW_MILLIS && people > 0).then(|| people as f64 * 1_000.0 / millis as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + millis)
    }

    fn let_in(allowance: &mut Allowance, ticks: u32, tick_millis: u64) -> u64 {
        let mut people = 0;
        for _ in 0..ticks {
            allowance.accrue(tick_millis);
            let now = allowance.people();
            allowance.spend(now);
            people += now;
        }
        people
    }

    #[test]
    fn the_pace_is_kept_at_low_and_high_rates_and_at_slow_ticks() {
        for (per_second, tick_millis) in
            [(1, 100), (3, 100), (7, 500), (1_000, 100), (1_000, 900), (50_000, 100)]
        {
            let mut allowance = Allowance::new(per_second);
            let people = let_in(&mut allowance, 600, tick_millis);
            let due = 600 * tick_millis * u64::from(per_second) / 1_000;
            let burst = u64::from(per_second / 4).max(1) + 1;
            assert!((due..=due + burst).contains(&people), "{per_second} a second: {people} of {due}");
        }
    }

    #[test]
    fn a_long_pause_is_not_made_up_for() {
        let mut allowance = Allowance::new(100);
        (0..1_000).for_each(|_| allowance.accrue(100));
        assert_eq!(allowance.people(), 25);
        allowance.accrue(3_600_000);
        assert!(allowance.people() <= 100, "{allowance:?}");
    }

    #[test]
    fn the_pace_is_not_known_before_a_second_has_been_seen_nor_if_nobody_moves() {
        let mut measured = AdmissionPace::default();
        assert_eq!(measured.note(0, at(0)), None);
        assert_eq!(measured.note(50, at(900)), None);
        assert_eq!(measured.note(60, at(1_000)), Some(60.0));
        assert_eq!((2..12).map(|second| measured.note(60, at(second * 1_000))).last(), Some(None));
        measured.forget();
        assert_eq!(measured.note(90, at(12_000)), None);
    }

    #[test]
    fn the_pace_covers_the_last_ten_seconds_and_takes_little_memory() {
        let mut measured = AdmissionPace::default();
        let mut admitted = 0;
        let mut pace = None;
        for tick in 0..1_000 {
            admitted += if tick < 500 { 100 } else { 5 };
            pace = measured.note(admitted, at(tick * 100));
        }
        assert!((45.0..=55.0).contains(&pace.unwrap()), "{pace:?}");
        assert!(measured.notes.len() <= 42, "{}", measured.notes.len());
    }
}
