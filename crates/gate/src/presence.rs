//! Knows who is there. People who wait ask for their place or listen to a stream, and each time a bit is set.
//! Two generations of bits tell who was heard of lately. It does not list people: it takes one bit per place,
//! and in a huge room one bit for several neighbours. It knows no turns and no sale.

mod early;
mod people;
mod there;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::RwLock;
use penstock_domain::Timestamp;

use self::early::Early;
pub use self::there::{There, Told};
use crate::draw::Draw;

/// A person not heard of for two generations has left. One generation is longer than any client waits before
/// it asks again.
pub const GENERATION_MILLIS: i64 = 15_000;
/// After a restart nobody has been heard of. For this long nobody counts as gone, so that people who return a
/// little later don't lose their place to faster ones. A page returns within 4.5 seconds, unless it was sent
/// away before.
const SETTLING_MILLIS: i64 = 6_000;
/// With more places than this, neighbours share a bit: 2 MiB per generation.
const MAX_BITS: u64 = 1 << 24;
const MIN_WORDS: usize = 64;
#[derive(Debug)]
pub(crate) struct Presence(RwLock<Generations>);

#[derive(Debug)]
struct Generations {
    lately: Bits,
    before: Bits,
    began_at: Option<Timestamp>,
    /// People known by number, until the draw gives everybody their place.
    early: Option<Early>,
    is_placed: bool,
    /// Nobody has been heard of because the process is new, not because nobody is there.
    is_settling: bool,
}

impl Presence {
    /// `is_settling`: people were there before this process started.
    pub(crate) fn new(is_settling: bool) -> Self {
        Self(RwLock::new(Generations {
            lately: Bits::default(),
            before: Bits::default(),
            began_at: None,
            early: None,
            is_placed: false,
            is_settling,
        }))
    }

    /// From now on, nobody counts as gone for a moment.
    pub(crate) fn settle(&self) {
        self.change(|generations| {
            generations.is_settling = true;
            generations.began_at = None;
        });
    }

    /// Notes the person by number until `drawn`, and by place after that, because the place is known by then.
    pub(crate) fn heard(&self, number: u64, place: impl Fn() -> u64) {
        let is_set = |generations: &Generations| {
            let index = if generations.is_placed { place() } else { number };
            (index, generations.lately.set(index))
        };
        if !is_set(&self.0.read()).1 {
            self.change(|generations| {
                let (index, is_set) = is_set(generations);
                if !is_set {
                    generations.lately.make_room(index);
                    generations.lately.set(index);
                }
            });
        }
    }

    /// From now on, people are known by their places.
    pub(crate) fn drawn(&self) {
        self.change(|generations| {
            let mut numbers = std::mem::take(&mut generations.lately).snapshot();
            numbers.add(std::mem::take(&mut generations.before).snapshot());
            generations.early = Early::of(numbers);
            generations.is_placed = true;
        });
    }

    /// Call this about every 100 milliseconds. True: a generation has ended, and everybody on a stream has to
    /// be noted again.
    pub(crate) fn listen(&self, draw: Option<&Draw>, now: Timestamp) -> bool {
        self.change(|generations| {
            if let Some(draw) = draw {
                generations.place_early(draw);
            }
            let began_at = *generations.began_at.get_or_insert(now);
            let millis = now.millis_since(began_at);
            generations.is_settling &= (0..SETTLING_MILLIS).contains(&millis);
            if (0..GENERATION_MILLIS).contains(&millis) {
                return false;
            }
            generations.began_at = Some(now);
            generations.before = std::mem::take(&mut generations.lately);
            true
        })
    }

    pub(crate) fn there(&self) -> There {
        let generations = self.0.read();
        let mut there = generations.lately.snapshot();
        there.add(generations.before.snapshot());
        there.is_placed = generations.is_placed;
        there.known_to = match &generations.early {
            _ if generations.is_settling => 0,
            Some(early) => early.known_to(),
            None => u64::MAX,
        };
        there
    }

    fn change<T>(&self, change: impl FnOnce(&mut Generations) -> T) -> T {
        change(&mut self.0.write())
    }
}

impl Generations {
    fn place_early(&mut self, draw: &Draw) {
        let Some(early) = &mut self.early else { return };
        let (places, is_done) = early.next_places(draw);
        for place in places {
            self.lately.make_room(place);
            self.lately.set(place);
        }
        if is_done {
            self.early = None;
        }
    }
}

/// One bit for each `1 << shift` neighbours.
#[derive(Debug, Default)]
struct Bits {
    shift: u32,
    words: Vec<AtomicU64>,
}

impl Bits {
    fn word(&self, index: u64) -> (usize, u64) {
        let bit = index >> self.shift;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    /// False: there is no room for this index yet.
    fn set(&self, index: u64) -> bool {
        let (word, mask) = self.word(index);
        let Some(word) = self.words.get(word) else { return false };
        // Most people are heard of more than once. Reading first spares the caches of other threads.
        if word.load(Relaxed) & mask == 0 {
            word.fetch_or(mask, Relaxed);
        }
        true
    }

    fn make_room(&mut self, index: u64) {
        if index >> self.shift >= MAX_BITS {
            let mut there = self.snapshot();
            while index >> there.shift >= MAX_BITS {
                there.fold();
            }
            self.shift = there.shift;
            self.words = there.words.into_iter().map(AtomicU64::new).collect();
        }
        let needed = self.word(index).0 + 1;
        if self.words.len() < needed {
            let words = needed.next_power_of_two().max(MIN_WORDS);
            self.words.resize_with(words, AtomicU64::default);
        }
    }

    fn snapshot(&self) -> There {
        let words = self.words.iter().map(|word| word.load(Relaxed)).collect();
        There { shift: self.shift, words, is_placed: false, known_to: u64::MAX }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::btree_set, prelude::*};

    use super::{people::People, *};

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + millis)
    }

    fn placed() -> Presence {
        let presence = Presence::new(false);
        presence.drawn();
        presence.listen(Some(&Draw::new(&[7; 32], penstock_domain::SaleId::from_random(1), 0)), at(0));
        presence
    }

    fn all(there: &There) -> Vec<u64> {
        let (mut places, mut from) = (Vec::new(), 0);
        while let Some(place) = there.next(from) {
            places.push(place);
            from = place + 1;
        }
        places
    }

    proptest! {
        #[test]
        fn what_was_heard_is_there_and_counted_on_every_node(
            one in btree_set(0..5_000_u64, 0..60),
            other in btree_set(0..5_000_u64, 0..60),
            (from, to) in (0..5_000_u64, 0..5_000_u64),
        ) {
            let nodes = [placed(), placed()];
            one.iter().for_each(|place| nodes[0].heard(*place, || *place));
            other.iter().for_each(|place| nodes[1].heard(*place, || *place));
            let told = nodes.map(|node| node.there().told().unwrap());
            let there = There::of_all(&told, true);
            let both: Vec<u64> = one.union(&other).copied().collect();
            prop_assert_eq!(all(&there), both.clone());
            let between = both.iter().filter(|place| (from..to).contains(*place)).count() as u64;
            prop_assert_eq!(there.count(from, to), between);
        }
    }

    #[test]
    fn a_person_not_heard_of_for_two_generations_has_left() {
        let presence = placed();
        presence.heard(3, || 3);
        assert!(!presence.listen(None, at(GENERATION_MILLIS - 1)));
        assert!(presence.listen(None, at(GENERATION_MILLIS)));
        presence.heard(70, || 70);
        assert_eq!(all(&presence.there()), [3, 70]);
        presence.listen(None, at(2 * GENERATION_MILLIS));
        assert_eq!(all(&presence.there()), [70]);
        presence.listen(None, at(3 * GENERATION_MILLIS));
        assert!(all(&presence.there()).is_empty());
    }

    #[test]
    fn any_number_of_places_takes_the_same_memory_and_loses_nobody() {
        let presence = placed();
        let places = [0, 5, MAX_BITS - 1, MAX_BITS, 40 * MAX_BITS + 17, 1 << 40];
        places.iter().for_each(|place| presence.heard(*place, || *place));
        let there = presence.there();
        assert!(there.words.len() as u64 * 64 <= 2 * MAX_BITS);
        for place in places {
            assert_eq!(there.next(place), Some(place));
            assert!(there.count(place, place + 1) == 1);
        }
        let told = there.told().unwrap();
        assert!(told.people.words().len() as u64 * 64 <= MAX_BITS);
        assert!(
            places
                .iter()
                .all(|place| There::of_all(std::slice::from_ref(&told), true).next(*place) == Some(*place))
        );
    }

    /// What a node tells about these places: its size in bytes, and the result on another node.
    fn told_of(places: impl Iterator<Item = u64>) -> (usize, There) {
        let presence = placed();
        places.for_each(|place| presence.heard(place, || place));
        let told = presence.there().told().unwrap();
        let bytes = match &told.people {
            People::Bits(bytes) | People::Gaps(bytes) => bytes.len(),
        };
        (bytes, There::of_all(&[told], true))
    }

    /// A request that read the place just before the draw knows only the number.
    #[test]
    fn a_person_heard_of_at_the_moment_of_the_draw_is_filed_under_their_place() {
        let presence = Presence::new(false);
        presence.heard(3, || 70);
        assert_eq!(all(&presence.there()), [3]);
        presence.drawn();
        presence.heard(3, || 70);
        assert_eq!(all(&presence.there()), [70]);
    }

    #[test]
    fn few_people_in_a_large_room_are_told_individually_in_few_bytes() {
        for people in [1_000, 10_000, 60_000] {
            // Scattered places.
            let places = (0..people).map(|person| person * 618_970_019 % MAX_BITS);
            let exact: std::collections::BTreeSet<u64> = places.clone().collect();
            let (bytes, there) = told_of(places);
            assert_eq!(there.count(0, MAX_BITS), exact.len() as u64);
            assert!(all(&there).into_iter().eq(exact));
            assert!(bytes as u64 <= 3 * people, "{bytes} bytes for {people} people");
        }
        // A full room of two million: the message does not grow, and two neighbours share a bit.
        let (bytes, there) = told_of(0..1 << 21);
        assert_eq!((bytes, there.shift, there.count(0, 1 << 21)), (128 << 10, 1, 1 << 21));
        let (bytes, there) = told_of(std::iter::empty());
        assert_eq!((bytes, all(&there)), (0, Vec::new()));
    }

    #[test]
    fn people_who_waited_for_the_draw_are_moved_to_their_places_in_order() {
        const PEOPLE: u64 = 5_000;
        let draw = Draw::new(&[7; 32], penstock_domain::SaleId::from_random(1), PEOPLE);
        let presence = Presence::new(false);
        let is_there = |number: &u64| !number.is_multiple_of(3);
        (0..PEOPLE).filter(is_there).for_each(|number| presence.heard(number, || number));
        assert_eq!(presence.there().count(0, PEOPLE), PEOPLE - PEOPLE.div_ceil(3));
        presence.drawn();
        assert_eq!(presence.there().known_to(), 0);
        presence.listen(Some(&draw), at(0));
        let first = presence.there().known_to();
        assert!((1..PEOPLE).contains(&first), "{first}");
        (1..=2).for_each(|step| assert!(!presence.listen(Some(&draw), at(step * 100))));
        let there = presence.there();
        assert_eq!(there.known_to(), u64::MAX);
        let expected: Vec<u64> = (0..PEOPLE).filter(|place| is_there(&draw.number_at(*place))).collect();
        assert_eq!(all(&there), expected);
    }

    #[test]
    fn after_a_restart_nobody_counts_as_gone_for_a_moment() {
        let presence = Presence::new(true);
        presence.listen(None, at(0));
        presence.heard(9, || 9);
        assert_eq!(presence.there().known_to(), 0);
        presence.listen(None, at(SETTLING_MILLIS));
        assert_eq!(presence.there().known_to(), u64::MAX);
    }
}
