//! The people who are there, in as few bytes as possible, for other nodes. It knows places, but not when
//! somebody was heard of.

use serde::{Deserialize, Serialize};

use super::MAX_BITS;

/// The most bytes of either form.
const MAX_BYTES: usize = 128 << 10;

/// The shorter form is used, which takes two or three bytes per person in a large room where few are left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum People {
    /// One bit per place.
    Bits(Vec<u8>),
    /// The number of places between people who are there, seven bits per byte, lowest first. The highest bit
    /// says that another byte follows.
    Gaps(Vec<u8>),
}

impl People {
    /// None: neither form is short enough.
    pub(super) fn of(words: &[u64]) -> Option<Self> {
        let used = words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        let (mut gaps, mut next) = (Vec::new(), 0);
        for bit in set_bits(&words[..used]) {
            let mut gap = bit - next;
            while gap >= 0x80 {
                gaps.push(gap as u8 | 0x80);
                gap >>= 7;
            }
            gaps.push(gap as u8);
            next = bit + 1;
            if gaps.len() >= MAX_BYTES.min(8 * used) {
                let bits = (8 * used <= MAX_BYTES).then(|| bytes_of(&words[..used]));
                return bits.map(Self::Bits);
            }
        }
        Some(Self::Gaps(gaps))
    }

    pub(super) fn words(&self) -> Vec<u64> {
        match self {
            Self::Bits(bytes) => bytes.chunks(8).take(MAX_BYTES / 8).map(word_of).collect(),
            Self::Gaps(bytes) => words_of_gaps(bytes),
        }
    }
}

fn set_bits(words: &[u64]) -> impl Iterator<Item = u64> {
    words.iter().enumerate().flat_map(|(place, word)| {
        let mut left = *word;
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| place as u64 * 64 + u64::from(left.trailing_zeros()));
            left &= left.wrapping_sub(1);
            bit
        })
    })
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn word_of(bytes: &[u8]) -> u64 {
    bytes.iter().enumerate().fold(0, |word, (place, byte)| word | u64::from(*byte) << (8 * place))
}

/// Ignores anything beyond the last bit a node can have: a node never sends that.
fn words_of_gaps(bytes: &[u8]) -> Vec<u64> {
    let mut words = Vec::new();
    let (mut bit, mut gap, mut shift) = (0, 0, 0);
    for byte in bytes {
        gap |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 != 0 && shift < 28 {
            shift += 7;
            continue;
        }
        bit += gap;
        if bit >= MAX_BITS {
            break;
        }
        let word = (bit / 64) as usize;
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        words[word] |= 1 << (bit % 64);
        (bit, gap, shift) = (bit + 1, 0, 0);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_message_takes_no_more_memory_than_a_good_one() {
        for byte in 0..=255 {
            for people in [People::Gaps(vec![byte; 200_000]), People::Bits(vec![byte; 200_000])] {
                assert!(people.words().len() as u64 * 64 <= MAX_BITS);
            }
        }
    }
}
