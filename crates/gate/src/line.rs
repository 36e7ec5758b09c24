//! The people who wait and are there, counted along the places in a few stretches. That is enough to tell
//! anybody how many people are before them, and small enough to send to other nodes. It knows no turns and no
//! time.

use serde::{Deserialize, Serialize};

const STRETCHES: u64 = 256;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The first place that may be waiting.
    from: u64,
    /// The number of places in each stretch.
    places: u64,
    /// The number of people in each stretch.
    people: Vec<u64>,
}

impl Line {
    /// Covers the places `from..to`. `people` counts the waiting people in a part of it.
    pub(crate) fn new(from: u64, to: u64, people: impl Fn(u64, u64) -> u64) -> Self {
        let places = to.saturating_sub(from).div_ceil(STRETCHES).max(1);
        let starts = (from..to).step_by(usize::try_from(places).unwrap_or(usize::MAX));
        let mut people: Vec<u64> =
            starts.map(|start| people(start, start.saturating_add(places).min(to))).collect();
        let used = people.iter().rposition(|people| *people > 0).map_or(0, |last| last + 1);
        people.truncate(used);
        Self { from, places, people }
    }

    pub(crate) fn total(&self) -> u64 {
        self.people.iter().sum()
    }

    /// 1 is the next person. Exact where everybody is there, and about right elsewhere.
    pub(crate) fn position(&self, place: u64) -> u64 {
        let ahead = place.saturating_sub(self.from);
        let places = self.places.max(1);
        let (stretch, within) = (usize::try_from(ahead / places).unwrap_or(usize::MAX), ahead % places);
        let before: u64 = self.people.iter().take(stretch).sum();
        let here = self.people.get(stretch).copied().unwrap_or(0);
        before + (u128::from(here) * u128::from(within) / u128::from(places)) as u64 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_counts_people_who_are_there() {
        for places in [1, 2, 255, 256, 257, 10_000] {
            let everybody = Line::new(7, 7 + places, |from, to| to - from);
            assert_eq!(everybody.total(), places);
            for place in [0, places / 3, places - 1] {
                assert_eq!(everybody.position(7 + place), place + 1, "{place} of {places}");
            }
        }
        let last_hundred = Line::new(0, 10_000, |from, to| to.saturating_sub(from.max(9_900)));
        assert_eq!(last_hundred.total(), 100);
        assert!(last_hundred.position(9_900) <= 20, "{}", last_hundred.position(9_900));
        assert_eq!(last_hundred.position(10_000), 101);
        assert_eq!(last_hundred.position(3), 1);
    }

    #[test]
    fn an_empty_line_has_nobody_in_it() {
        let line = Line::new(5, 5, |_, _| 1);
        assert_eq!((line.total(), line.position(9)), (0, 1));
        assert_eq!(Line::default().position(0), 1);
    }
}
