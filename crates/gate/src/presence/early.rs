//! The people heard of before the draw are known by number. After it, this moves them to their places, a part
//! with each look. It knows no time.

use super::there::There;
use crate::draw::Draw;

/// One look asks the draw for at most this many numbers at the next places. If it goes through the numbers,
/// it asks for at least this many places. Each answer takes about a microsecond, on a thread that serves
/// requests.
const DRAWN_AT_ONCE: u64 = 2_048;
/// The most looks until all early numbers are moved, which take two seconds together. Meanwhile the node
/// tells the others nothing, and after five seconds it would count as gone.
const MAX_LOOKS: u64 = 20;
/// There are two ways to move people. The one that finds this many of them sooner is used.
const FOUND_SOON: u64 = 1_024;

#[derive(Debug)]
pub(super) struct Early {
    numbers: There,
    /// The places below this one have been looked at, or the numbers below it have been moved.
    done_to: u64,
    /// Presence is known for the places below this one.
    known_to: u64,
}

impl Early {
    /// None: there is nobody to move.
    pub(super) fn of(numbers: There) -> Option<Self> {
        (!numbers.words.is_empty()).then_some(Self { numbers, done_to: 0, known_to: 0 })
    }

    pub(super) fn known_to(&self) -> u64 {
        self.known_to
    }

    /// The places of the next people, and whether these were the last. Where many of the early people are
    /// there, it goes through the places: the first people can be called at once. Where most of them have
    /// left, it goes through the people, and nobody is called before all of them are known.
    pub(super) fn next_places(&mut self, draw: &Draw) -> (Vec<u64>, bool) {
        let people = self.numbers.count(0, draw.count());
        let is_by_number = people.saturating_mul(people) < draw.count().saturating_mul(FOUND_SOON);
        if is_by_number {
            self.next_by_number(draw, DRAWN_AT_ONCE.max(people.div_ceil(MAX_LOOKS)))
        } else {
            self.next_by_place(draw)
        }
    }

    fn next_by_place(&mut self, draw: &Draw) -> (Vec<u64>, bool) {
        let to = self.done_to.saturating_add(DRAWN_AT_ONCE).min(draw.count());
        let places = (self.done_to..to).filter(|place| self.numbers.has(draw.number_at(*place))).collect();
        (self.done_to, self.known_to) = (to, to);
        (places, to >= draw.count())
    }

    fn next_by_number(&mut self, draw: &Draw, at_once: u64) -> (Vec<u64>, bool) {
        let mut places = Vec::new();
        while let Some(number) = self.numbers.next(self.done_to).filter(|number| *number < draw.count()) {
            if places.len() as u64 == at_once {
                return (places, false);
            }
            places.push(draw.place(number));
            self.done_to = number + 1;
        }
        (places, true)
    }
}

#[cfg(test)]
mod tests {
    use penstock_domain::SaleId;

    use super::{super::Bits, *};

    /// The early people, and the draw.
    fn early(tickets: u64, people: impl Iterator<Item = u64>) -> (Early, Draw) {
        let mut bits = Bits::default();
        people.for_each(|number| {
            bits.make_room(number);
            bits.set(number);
        });
        (Early::of(bits.snapshot()).unwrap(), Draw::new(&[7; 32], SaleId::from_random(1), tickets))
    }

    /// All places, how many looks they took, and how far presence was known after the first.
    fn moved(mut early: Early, draw: &Draw) -> (Vec<u64>, u64, u64) {
        let (mut places, mut is_done) = early.next_places(draw);
        let (known_to, mut looks) = (early.known_to(), 1);
        while !is_done {
            let (more, is_last) = early.next_places(draw);
            places.extend(more);
            (looks, is_done) = (looks + 1, is_last);
        }
        places.sort_unstable();
        (places, looks, known_to)
    }

    #[test]
    fn where_many_are_there_the_first_places_are_known_at_once() {
        const PEOPLE: u64 = 5_000;
        let is_there = |number: &u64| !number.is_multiple_of(3);
        let (early, draw) = early(PEOPLE, (0..PEOPLE).filter(is_there));
        let expected: Vec<u64> = (0..PEOPLE).filter(|place| is_there(&draw.number_at(*place))).collect();
        assert_eq!(moved(early, &draw), (expected, 3, DRAWN_AT_ONCE));
    }

    #[test]
    fn where_most_have_left_the_others_are_known_soon_and_nobody_before() {
        const TICKETS: u64 = 16_000_000;
        for (people, most_looks) in [(5_000, 3), (60_000, MAX_LOOKS)] {
            let numbers = (0..people).map(|person| person * (TICKETS / people));
            let (early, draw) = early(TICKETS, numbers.clone());
            let mut expected: Vec<u64> = numbers.map(|number| draw.place(number)).collect();
            expected.sort_unstable();
            let (places, looks, known_to) = moved(early, &draw);
            assert!(places == expected, "{} places of {people}", places.len());
            assert!(looks <= most_looks, "{looks} looks for {people}");
            assert_eq!(known_to, 0, "somebody in front may still be moved");
        }
    }
}
