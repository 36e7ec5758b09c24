//! The redeemed challenges, as far back as one could still be good. Memory is bounded, and whole generations
//! are forgotten at once. It knows fingerprints and times of issue, not what a challenge is.

use std::{
    array,
    sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed},
};

use hashbrown::HashTable;
use parking_lot::Mutex;
use penstock_domain::Timestamp;

/// With this number of shards, two threads rarely want the same one.
const SHARDS: usize = 64;
/// The shard is chosen by bits that the hash tables inside don't use to find a place: they use the lowest
/// bits and the seven highest.
const SHARD_SHIFT: u32 = 50;
/// Expired challenges are remembered for up to this part of a lifetime longer.
const GENERATIONS_PER_LIFETIME: i64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marked {
    /// It was unused, and is marked now.
    First,
    Again,
    /// The memory is full, so it was not marked.
    Full,
}

#[derive(Debug)]
pub(crate) struct Used {
    shards: [Mutex<Shard>; SHARDS],
    remembered: AtomicUsize,
    max_remembered: usize,
    lifetime_millis: i64,
    generation_millis: i64,
    /// The generation in which expired challenges were last removed.
    swept_in: AtomicI64,
}

#[derive(Debug)]
struct Shard {
    /// A handful, in no particular order.
    generations: Vec<Generation>,
    /// This generation and all before it were forgotten. A clock that steps back doesn't make them good
    /// again.
    forgotten: i64,
}

#[derive(Debug)]
struct Generation {
    number: i64,
    /// Eight bytes each; with the table around them it is 10 to 20. Fingerprints are parts of signatures,
    /// which nobody can choose, so they are their own hashes.
    fingerprints: HashTable<u64>,
}

impl Used {
    pub(crate) fn new(lifetime_seconds: u32, max_remembered: usize) -> Self {
        let lifetime_millis = i64::from(lifetime_seconds) * 1000;
        let shard = || Shard { generations: Vec::new(), forgotten: i64::MIN };
        Self {
            shards: array::from_fn(|_| Mutex::new(shard())),
            remembered: AtomicUsize::new(0),
            max_remembered,
            lifetime_millis,
            generation_millis: (lifetime_millis / GENERATIONS_PER_LIFETIME).max(1),
            swept_in: AtomicI64::new(i64::MIN),
        }
    }

    /// Of all calls with the same fingerprint, exactly one is the first. Fingerprints have to be evenly
    /// spread, like a part of a signature.
    pub(crate) fn mark(&self, fingerprint: u64, issued_at: Timestamp, now: Timestamp) -> Marked {
        self.forget_expired(now);
        let number = self.generation_of(issued_at);
        let mut shard = self.shards[(fingerprint >> SHARD_SHIFT) as usize % SHARDS].lock();
        if number <= shard.forgotten {
            return Marked::Again;
        }
        let fingerprints = shard.generation(number);
        if fingerprints.find(fingerprint, |known| *known == fingerprint).is_some() {
            return Marked::Again;
        }
        let more = |remembered| (remembered < self.max_remembered).then_some(remembered + 1);
        if self.remembered.fetch_update(Relaxed, Relaxed, more).is_err() {
            return Marked::Full;
        }
        fingerprints.insert_unique(fingerprint, fingerprint, |known| *known);
        Marked::First
    }

    /// Sweeps all shards once per generation.
    fn forget_expired(&self, now: Timestamp) {
        let generation = self.generation_of(now);
        if self.swept_in.load(Relaxed) == generation || self.swept_in.swap(generation, Relaxed) == generation
        {
            return;
        }
        // Challenges issued in an earlier generation than this have expired.
        let first_good = self.generation_of(now.plus_millis(-self.lifetime_millis));
        for shard in &self.shards {
            let forgotten = shard.lock().forget_before(first_good);
            self.remembered.fetch_sub(forgotten, Relaxed);
        }
    }

    fn generation_of(&self, moment: Timestamp) -> i64 {
        moment.as_millis().div_euclid(self.generation_millis)
    }
}

impl Shard {
    fn generation(&mut self, number: i64) -> &mut HashTable<u64> {
        let place = self.generations.iter().position(|generation| generation.number == number);
        let place = place.unwrap_or_else(|| {
            self.generations.push(Generation { number, fingerprints: HashTable::new() });
            self.generations.len() - 1
        });
        &mut self.generations[place].fingerprints
    }

    /// Returns how many fingerprints were forgotten.
    fn forget_before(&mut self, number: i64) -> usize {
        let mut forgotten = 0;
        for generation in self.generations.extract_if(.., |generation| generation.number < number) {
            forgotten += generation.fingerprints.len();
            self.forgotten = self.forgotten.max(generation.number);
        }
        forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME_SECONDS: u32 = 60;
    const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    /// Evenly spread, as signatures are.
    fn fingerprint(number: u64) -> u64 {
        number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn a_second_mark_is_noticed_until_the_challenge_has_expired() {
        let used = Used::new(LIFETIME_SECONDS, 10);
        assert_eq!(used.mark(fingerprint(1), START, START), Marked::First);
        for seconds in 0..LIFETIME_SECONDS {
            let now = START.plus_seconds(seconds);
            assert_eq!(used.mark(fingerprint(1), START, now), Marked::Again, "after {seconds} seconds");
        }
    }

    #[test]
    fn the_memory_is_bounded_and_expired_challenges_make_room() {
        let used = Used::new(LIFETIME_SECONDS, 1000);
        for number in 0..1000 {
            assert_eq!(used.mark(fingerprint(number), START, START), Marked::First);
        }
        assert_eq!(used.mark(fingerprint(1000), START, START), Marked::Full);
        assert_eq!(used.mark(fingerprint(0), START, START), Marked::Again);
        let later = START.plus_seconds(LIFETIME_SECONDS * 5 / 4 + 1);
        for number in 1000..2000 {
            assert_eq!(used.mark(fingerprint(number), later, later), Marked::First);
        }
        assert_eq!(used.mark(fingerprint(2000), later, later), Marked::Full);
    }

    #[test]
    fn a_steady_stream_never_fills_a_memory_that_holds_two_lifetimes_of_it() {
        let used = Used::new(LIFETIME_SECONDS, 2 * LIFETIME_SECONDS as usize);
        for second in 0..10 * LIFETIME_SECONDS {
            let now = START.plus_seconds(second);
            assert_eq!(used.mark(fingerprint(second.into()), now, now), Marked::First, "second {second}");
        }
    }

    #[test]
    fn a_good_challenge_can_be_used_until_its_last_moment() {
        let used = Used::new(LIFETIME_SECONDS, 100_000);
        for second in 0..LIFETIME_SECONDS {
            let now = START.plus_seconds(second);
            for number in 0..1_000 {
                let fingerprint = fingerprint(u64::from(second) * 1_000 + number);
                assert_eq!(used.mark(fingerprint, START, now), Marked::First, "second {second}");
            }
        }
        let last_moment = START.plus_seconds(LIFETIME_SECONDS).plus_millis(-1);
        assert_eq!(used.mark(fingerprint(100_000), START, last_moment), Marked::First);
        assert_eq!(used.mark(fingerprint(0), START, last_moment), Marked::Again);
    }

    #[test]
    fn a_forgotten_challenge_stays_used_if_the_clock_steps_back() {
        let used = Used::new(LIFETIME_SECONDS, 10);
        assert_eq!(used.mark(fingerprint(1), START, START), Marked::First);
        let later = START.plus_seconds(100 * LIFETIME_SECONDS);
        assert_eq!(used.mark(fingerprint(2), later, later), Marked::First);
        assert_eq!(used.mark(fingerprint(1), START, START), Marked::Again);
        // Challenges issued from then on can soon be used again.
        let soon = START.plus_seconds(LIFETIME_SECONDS);
        assert_eq!(used.mark(fingerprint(3), soon, soon), Marked::First);
    }

    #[test]
    fn an_entry_takes_at_most_twenty_bytes() {
        let used = Used::new(LIFETIME_SECONDS, 100_000);
        for number in 0..100_000 {
            used.mark(fingerprint(number), START, START);
        }
        let mut entries = 0;
        let mut slots = 0;
        for shard in &used.shards {
            for generation in &shard.lock().generations {
                entries += generation.fingerprints.len();
                // The table keeps an eighth of its slots free, and one byte beside each.
                slots += generation.fingerprints.capacity() * 8 / 7;
            }
        }
        assert_eq!(entries, 100_000);
        assert!(slots * (8 + 1) <= entries * 21, "{slots} places for {entries} entries");
    }
}
