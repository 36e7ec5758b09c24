//! A set of accepted idempotency keys that readers query without a lock. It may say "maybe" for a key it
//! never saw, but never "no" for one it did.
//!
//! It is a chain of split-block Bloom filters. A full layer is followed by a larger one and nothing is ever
//! removed, so a reader needs no protection from the writer. A query touches one cache line per layer.

use std::sync::atomic::Ordering::Relaxed;

use penstock_domain::{KeyDigest, MAX_UNITS};

use crate::sync::{AtomicU64, OnceLock};

/// 16 bits per key, and one bit in each of eight words: about one wrong "maybe" in a thousand.
const BITS_PER_KEY: usize = 16;
const WORDS_PER_BLOCK: usize = 8;
const KEYS_PER_BLOCK: usize = WORDS_PER_BLOCK * 64 / BITS_PER_KEY;
/// Few, because there may be thousands of sales. Loom explores every interleaving, so its layer has one
/// block.
const FIRST_LAYER_KEYS: usize = if cfg!(loom) { KEYS_PER_BLOCK } else { 512 };
/// The size of each new layer, as a multiple of all layers before it together.
const GROWTH: usize = 3;
/// Beyond the capacity of the last layer, wrong "maybe" answers become more frequent.
const LAYERS: usize = 13;
const _: () =
    assert!(cfg!(loom) || FIRST_LAYER_KEYS * 4usize.pow(LAYERS as u32 - 1) > 10 * MAX_UNITS as usize);

/// Odd multipliers that spread 32 bits differently for each word of a block.
const SALTS: [u32; WORDS_PER_BLOCK] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];

#[derive(Debug)]
struct Layer {
    words: Box<[AtomicU64]>,
    capacity: usize,
}

impl Layer {
    fn of(keys: usize) -> Self {
        let blocks = keys.div_ceil(KEYS_PER_BLOCK).max(1);
        let words = (0..blocks * WORDS_PER_BLOCK).map(|_| AtomicU64::new(0)).collect();
        Self { words, capacity: blocks * KEYS_PER_BLOCK }
    }

    fn block(&self, bits: u64) -> &[AtomicU64] {
        let blocks = (self.words.len() / WORDS_PER_BLOCK) as u64;
        // The upper half of the digest chooses the block, the lower half the bits in it.
        let block = (((bits >> 32) * blocks) >> 32) as usize;
        &self.words[block * WORDS_PER_BLOCK..(block + 1) * WORDS_PER_BLOCK]
    }

    fn mask(bits: u64, salt: u32) -> u64 {
        1 << ((bits as u32).wrapping_mul(salt) >> 26)
    }

    fn insert(&self, bits: u64) {
        for (word, salt) in self.block(bits).iter().zip(SALTS) {
            word.fetch_or(Self::mask(bits, salt), Relaxed);
        }
    }

    fn may_contain(&self, bits: u64) -> bool {
        self.block(bits)
            .iter()
            .zip(SALTS)
            .all(|(word, salt)| word.load(Relaxed) & Self::mask(bits, salt) != 0)
    }
}

/// The writer's position. Only one writer at a time has it.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    layer: usize,
    keys_in_layer: usize,
    keys: usize,
}

#[derive(Debug, Default)]
pub(crate) struct AcceptedKeys {
    layers: [OnceLock<Layer>; LAYERS],
}

impl AcceptedKeys {
    pub(crate) fn may_contain(&self, key: KeyDigest) -> bool {
        self.layers.iter().map_while(OnceLock::get).any(|layer| layer.may_contain(key.bits()))
    }

    pub(crate) fn insert_all(&self, growth: &mut Growth, keys: &[KeyDigest]) {
        for (done, key) in keys.iter().enumerate() {
            // A recovery tells all keys again. A key that already gets a "maybe" is not inserted twice.
            if self.may_contain(*key) {
                continue;
            }
            let layer = self.layer_with_room(growth, keys.len() - done);
            layer.insert(key.bits());
            growth.keys_in_layer += 1;
            growth.keys += 1;
        }
    }

    fn layer_with_room(&self, growth: &mut Growth, coming: usize) -> &Layer {
        let make = |keys: usize| Layer::of(coming.max(keys * GROWTH).max(FIRST_LAYER_KEYS));
        let layer = self.layers[growth.layer].get_or_init(|| make(growth.keys));
        if growth.keys_in_layer < layer.capacity || growth.layer + 1 == LAYERS {
            return layer;
        }
        growth.layer += 1;
        growth.keys_in_layer = 0;
        self.layers[growth.layer].get_or_init(|| make(growth.keys))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> KeyDigest {
        KeyDigest::of(format!("key-{number}").as_bytes()).unwrap()
    }

    #[test]
    fn a_key_that_was_inserted_is_never_denied() {
        let keys = AcceptedKeys::default();
        let mut growth = Growth::default();
        for number in 0..200_000 {
            keys.insert_all(&mut growth, &[key(number)]);
        }
        assert!((0..200_000).all(|number| keys.may_contain(key(number))));
        assert!(growth.layer >= 2, "the set grew by layers");
    }

    #[test]
    fn a_key_that_was_not_inserted_is_denied_nearly_always() {
        for at_once in [true, false] {
            let keys = AcceptedKeys::default();
            let mut growth = Growth::default();
            let all: Vec<KeyDigest> = (0..100_000).map(key).collect();
            if at_once {
                keys.insert_all(&mut growth, &all);
            } else {
                all.chunks(17).for_each(|chunk| keys.insert_all(&mut growth, chunk));
            }
            let maybes = (100_000..200_000).filter(|number| keys.may_contain(key(*number))).count();
            assert!(maybes < 1_000, "{maybes} of 100,000 foreign keys were mistaken for accepted ones");
        }
    }

    #[test]
    fn an_empty_set_denies_everything() {
        assert!(!AcceptedKeys::default().may_contain(key(1)));
    }
}
