//! The draw. People who came before the opening get their place by a keyed permutation, computed one number
//! at a time. So no list is kept, and anybody can compute it again from the published seed. `docs/draw.md`
//! fixes every byte of it. It knows nothing of tickets, people or time.

use std::fmt;

use penstock_domain::SaleId;
use sha2::{Digest as _, Sha256};

/// Starts the message that the key is made from. Another version of the draw would have another name.
pub const DRAW_ALGORITHM: &str = "penstock draw 1";

/// With ten rounds on six bits, the places of any two numbers differ from a uniform choice by less than one
/// part in a hundred million. On more bits they differ by less. See `docs/draw.md`.
const ROUNDS: u8 = 10;
const MIN_BITS: u32 = 6;

/// Published before the opening: it binds the seed without revealing it.
pub fn commitment(seed: &[u8; 32]) -> [u8; 32] {
    Sha256::digest(seed).into()
}

/// A permutation of `0..count`. Numbers from `count` on came after the opening and keep their place.
#[derive(Clone)]
pub struct Draw {
    /// The hash after the key; each round continues from here.
    keyed: Sha256,
    count: u64,
    left_bits: u32,
    right_bits: u32,
}

impl Draw {
    pub fn new(seed: &[u8; 32], sale: SaleId, count: u64) -> Self {
        let key = Sha256::new()
            .chain_update(DRAW_ALGORITHM)
            .chain_update(seed)
            .chain_update(sale.to_string())
            .chain_update(count.to_be_bytes())
            .finalize();
        let bits = (u64::BITS - count.saturating_sub(1).leading_zeros()).max(MIN_BITS);
        let left_bits = bits / 2;
        let keyed = Sha256::new_with_prefix(key);
        Self { keyed, count, left_bits, right_bits: bits - left_bits }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The place of a number. Both count from 0.
    pub fn place(&self, number: u64) -> u64 {
        self.walk(number, Self::shuffle)
    }

    /// The number that has this place.
    pub fn number_at(&self, place: u64) -> u64 {
        self.walk(place, Self::unshuffle)
    }

    /// The network permutes a power of two. A value outside the range goes through it again until it is
    /// inside. This ends, at the latest with the starting value.
    fn walk(&self, start: u64, step: impl Fn(&Self, u64) -> u64) -> u64 {
        if start >= self.count {
            return start;
        }
        let mut value = step(self, start);
        while value >= self.count {
            value = step(self, value);
        }
        value
    }

    fn shuffle(&self, value: u64) -> u64 {
        (0..ROUNDS).fold(value, |value, round| self.round(round, value))
    }

    /// A round is its own inverse.
    fn unshuffle(&self, value: u64) -> u64 {
        (0..ROUNDS).rev().fold(value, |value, round| self.round(round, value))
    }

    /// Even rounds change the left half using the right one, odd rounds the right half using the left one.
    fn round(&self, round: u8, value: u64) -> u64 {
        let left = value >> self.right_bits;
        let right = value & low_bits(self.right_bits);
        if round.is_multiple_of(2) {
            value ^ ((self.scramble(round, right) & low_bits(self.left_bits)) << self.right_bits)
        } else {
            value ^ (self.scramble(round, left) & low_bits(self.right_bits))
        }
    }

    fn scramble(&self, round: u8, half: u64) -> u64 {
        let digest = self.keyed.clone().chain_update([round]).chain_update(half.to_be_bytes()).finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        u64::from_be_bytes(first)
    }
}

/// Each half has between 3 and 32 bits.
const fn low_bits(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// Leaves out the key, which reveals the order.
impl fmt::Debug for Draw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Draw").field("count", &self.count).finish_non_exhaustive()
    }
}
