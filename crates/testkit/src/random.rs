//! Repeatable random numbers: the same seed gives the same run.

/// SplitMix64: small, good enough for tests, and the same on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Another stream, which does not depend on how many numbers are taken from this one afterwards.
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }

    #[allow(clippy::should_implement_trait, reason = "an endless stream needs no Iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `bound - 1`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// The seed of this run: `PENSTOCK_TEST_SEED` if it is set, otherwise a new one. It is printed, so that the
/// output of a failed test says how to repeat it.
pub fn seed_of_the_day(test: &str) -> u64 {
    let given = std::env::var("PENSTOCK_TEST_SEED").ok();
    let seed = match given {
        Some(text) => text.parse().unwrap_or_else(|_| panic!("PENSTOCK_TEST_SEED is not a number: {text}")),
        // The random keys of a process differ from run to run.
        None => std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id()) >> 16,
    };
    eprintln!("{test}: seed {seed} (PENSTOCK_TEST_SEED={seed} repeats it)");
    seed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (mut first, mut second) = (Random::new(7), Random::new(7));
        let numbers: Vec<u64> = (0..100).map(|_| first.next()).collect();
        assert!(numbers.iter().all(|number| *number == second.next()));
        assert!(numbers.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
