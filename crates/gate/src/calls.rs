//! Which places were called, in which step, and which of them have become a pass. It stores runs of
//! neighbouring places, so a crowd that is all there takes a few bytes. It knows no time.

use std::collections::BTreeMap;

/// At this many runs, nobody new is called. A turn that is taken splits a run, so there is at most one run
/// per person called; in the end the pieces join into one run again. If every second person in a crowd has
/// left, there is a run for every two people.
pub(crate) const MAX_RUNS: usize = 32_768;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CalledRun {
    pub(crate) to: u64,
    pub(crate) step: u64,
    pub(crate) is_taken: bool,
}

/// Keyed by the first place of each run. Runs don't overlap.
#[derive(Debug, Default)]
pub(crate) struct Calls(BTreeMap<u64, CalledRun>);

impl Calls {
    /// Adds places that were not called before. They join neighbouring runs of the same step that are taken,
    /// or not taken, like them.
    pub(crate) fn add(&mut self, from: u64, mut run: CalledRun) {
        if from >= run.to {
            return;
        }
        let is_alike = |other: &CalledRun| other.step == run.step && other.is_taken == run.is_taken;
        if let Some(after) = self.0.get(&run.to).copied().filter(is_alike) {
            self.0.remove(&run.to);
            run.to = after.to;
        }
        match self.0.range_mut(..from).next_back() {
            Some((_, before)) if before.to == from && is_alike(before) => before.to = run.to,
            _ => drop(self.0.insert(from, run)),
        }
    }

    /// The run that contains this place.
    pub(crate) fn of(&self, place: u64) -> Option<CalledRun> {
        self.entry(place).map(|(_, run)| run)
    }

    fn entry(&self, place: u64) -> Option<(u64, CalledRun)> {
        let (from, run) = self.0.range(..=place).next_back()?;
        (place < run.to).then_some((*from, *run))
    }

    /// Marks the place as taken. Returns its step the first time.
    pub(crate) fn take(&mut self, place: u64) -> Option<u64> {
        let (from, run) = self.entry(place).filter(|(_, run)| !run.is_taken)?;
        self.0.remove(&from);
        self.add(from, CalledRun { to: place, ..run });
        self.add(place, CalledRun { to: place + 1, is_taken: true, ..run });
        self.add(place + 1, run);
        Some(run.step)
    }

    /// Moves `parts` of each run of a step that is not taken into another step. Returns the number of places
    /// moved.
    pub(crate) fn part(&mut self, step: u64, into: u64, parts: impl Fn(u64, u64) -> Vec<(u64, u64)>) -> u64 {
        let runs: Vec<(u64, CalledRun)> =
            self.iter().filter(|(_, run)| run.step == step && !run.is_taken).collect();
        let mut moved = 0;
        for (from, run) in runs {
            self.0.remove(&from);
            let mut rest = from;
            for (start, end) in parts(from, run.to) {
                self.add(rest, CalledRun { to: start, ..run });
                self.add(start, CalledRun { to: end, step: into, ..run });
                moved += end - start;
                rest = end;
            }
            self.add(rest, run);
        }
        moved
    }

    pub(crate) fn forget(&mut self, is_over: impl Fn(u64) -> bool) {
        self.0.retain(|_, run| !is_over(run.step));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, CalledRun)> {
        self.0.iter().map(|(from, run)| (*from, *run))
    }

    /// The runs of the steps that match, joined whether or not they are taken.
    pub(crate) fn places(&self, is_meant: impl Fn(u64) -> bool) -> Vec<(u64, u64)> {
        joined(self.iter().filter(|(_, run)| is_meant(run.step)))
    }

    pub(crate) fn by_step(&self) -> BTreeMap<u64, Vec<(u64, u64)>> {
        let mut by_step: BTreeMap<u64, Vec<(u64, CalledRun)>> = BTreeMap::new();
        self.iter().for_each(|(from, run)| by_step.entry(run.step).or_default().push((from, run)));
        by_step.into_iter().map(|(step, runs)| (step, joined(runs.into_iter()))).collect()
    }

    pub(crate) fn runs(&self) -> usize {
        self.0.len()
    }
}

fn joined(runs: impl Iterator<Item = (u64, CalledRun)>) -> Vec<(u64, u64)> {
    let mut places: Vec<(u64, u64)> = Vec::new();
    for (from, run) in runs {
        match places.last_mut() {
            Some(last) if last.1 == from => last.1 = run.to,
            _ => places.push((from, run.to)),
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(runs: &[(u64, u64)]) -> Calls {
        let mut calls = Calls::default();
        runs.iter().for_each(|(from, to)| calls.add(*from, CalledRun { to: *to, step: 1, is_taken: false }));
        calls
    }

    #[test]
    fn neighbours_are_one_run_until_one_of_them_is_taken() {
        let mut calls = called(&[(0, 3), (3, 10), (20, 21)]);
        assert_eq!(calls.places(|_| true), [(0, 10), (20, 21)]);
        assert_eq!(calls.runs(), 2);
        assert_eq!([4, 4, 10, 20, 0].map(|place| calls.take(place)), [Some(1), None, None, Some(1), Some(1)]);
        assert_eq!(calls.places(|_| true), [(0, 10), (20, 21)]);
        assert!([0, 4, 20].iter().all(|place| calls.of(*place).unwrap().is_taken));
        assert!([1, 3, 5, 9].iter().all(|place| !calls.of(*place).unwrap().is_taken));
        assert!([10, 19, 21].iter().all(|place| calls.of(*place).is_none()));
    }

    #[test]
    fn a_crowd_taken_in_any_order_becomes_one_run_in_the_end() {
        let mut calls = called(&[(5, 105)]);
        for place in 0..100 {
            assert_eq!(calls.take(5 + place * 37 % 100), Some(1));
        }
        assert_eq!(calls.runs(), 1);
        calls.add(105, CalledRun { to: 106, step: 2, is_taken: false });
        calls.forget(|step| step == 1);
        assert_eq!(calls.places(|_| true), [(105, 106)]);
    }
}
