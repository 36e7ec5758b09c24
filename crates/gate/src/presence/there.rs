//! The people who are there at one moment, the message in which a node tells others of them, and what all
//! nodes have told. It does not know when anybody was heard of.

use serde::{Deserialize, Serialize};

use super::people::People;

/// The people who are there at one moment. By default, no node has told anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct There {
    pub(super) shift: u32,
    pub(super) words: Vec<u64>,
    /// By place rather than by number.
    pub(super) is_placed: bool,
    /// Presence is known for the places below this one.
    pub(super) known_to: u64,
}

/// The message in which a node tells others who is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    shift: u32,
    is_placed: bool,
    known_to: u64,
    pub(super) people: People,
}

impl Told {
    /// By place rather than by number.
    pub fn is_placed(&self) -> bool {
        self.is_placed
    }
}

impl There {
    /// None: there is nothing to tell yet.
    pub(crate) fn told(mut self) -> Option<Told> {
        if self.known_to == 0 && self.is_placed {
            return None;
        }
        let people = loop {
            match People::of(&self.words) {
                Some(people) => break people,
                None => self.fold(),
            }
        };
        Some(Told { shift: self.shift, is_placed: self.is_placed, known_to: self.known_to, people })
    }

    /// Combines what all nodes have told: a person is there if any node has heard of them. A node that has
    /// not heard of the draw yet tells numbers, which say nothing about places. Then nobody is called until
    /// that node tells places, or falls silent and counts as gone.
    pub fn of_all(told: &[Told], is_drawn: bool) -> Self {
        if told.is_empty() {
            return Self::default();
        }
        let mut there = Self { is_placed: is_drawn, known_to: u64::MAX, ..Self::default() };
        for told in told {
            if told.is_placed == is_drawn {
                there.known_to = there.known_to.min(told.known_to);
                there.add(Self::heard_from(told));
            } else {
                there.known_to = 0;
            }
        }
        there
    }

    fn heard_from(told: &Told) -> Self {
        let (shift, words) = (told.shift.min(63), told.people.words());
        Self { shift, words, is_placed: told.is_placed, known_to: told.known_to }
    }

    pub(super) fn add(&mut self, mut other: Self) {
        while self.shift < other.shift {
            self.fold();
        }
        while other.shift < self.shift {
            other.fold();
        }
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, more) in self.words.iter_mut().zip(other.words) {
            *word |= more;
        }
    }

    /// Makes each bit stand for twice as many neighbours.
    pub(super) fn fold(&mut self) {
        let halved =
            |word: u64| (0..32).fold(0, |half, bit| half | u64::from(word >> (2 * bit) & 3 != 0) << bit);
        let pair = |pair: &[u64]| {
            halved(pair.first().copied().unwrap_or(0)) | halved(pair.get(1).copied().unwrap_or(0)) << 32
        };
        self.words = self.words.chunks(2).map(pair).collect();
        self.shift += 1;
    }

    pub(crate) fn known_to(&self) -> u64 {
        self.known_to
    }

    pub(super) fn has(&self, place: u64) -> bool {
        self.next(place) == Some(place)
    }

    /// The next place, from here on, where somebody is there.
    pub(crate) fn next(&self, from: u64) -> Option<u64> {
        let bit = from >> self.shift;
        let mut place = (bit / 64) as usize;
        let mut word = self.words.get(place)? & (u64::MAX << (bit % 64));
        while word == 0 {
            place += 1;
            word = *self.words.get(place)?;
        }
        let next = (place as u64 * 64 + u64::from(word.trailing_zeros())) << self.shift;
        Some(next.max(from))
    }

    /// The runs in `from..to` where nobody is there.
    pub(crate) fn gaps(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let (mut gaps, mut from) = (Vec::new(), from);
        while from < to {
            let next = self.next(from).map_or(to, |next| next.min(to));
            if from < next {
                gaps.push((from, next));
            }
            from = next + 1;
        }
        gaps
    }

    /// The number of people in `from..to` who are there.
    pub(crate) fn count(&self, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        let (first, last) = (from >> self.shift, (to - 1) >> self.shift);
        let (first_word, last_word) = ((first / 64) as usize, (last / 64) as usize);
        let known = self.words.len().min(last_word + 1);
        let bits: u64 = (first_word..known)
            .map(|place| {
                let below = if place == first_word { u64::MAX << (first % 64) } else { u64::MAX };
                let above = if place == last_word { u64::MAX >> (63 - last % 64) } else { u64::MAX };
                u64::from((self.words[place] & below & above).count_ones())
            })
            .sum();
        (bits << self.shift).min(to - from)
    }
}
