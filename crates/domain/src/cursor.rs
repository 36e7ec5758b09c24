//! A reader's place in a stream of decisions, and the fingerprint of the history it has read.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::InvalidId;

/// The fingerprint of a stream's history at one position. Two histories that differ before a position have
/// different marks there. A stream whose history can't be lost needs no marks and leaves them zero.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mark(pub [u8; 16]);

impl fmt::Display for Mark {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Mark({self})")
    }
}

impl FromStr for Mark {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        // A parsed number may start with a sign; a mark may not.
        if text.len() != 32 || text.starts_with('+') {
            return Err(InvalidId);
        }
        u128::from_str_radix(text, 16).map(|bits| Self(bits.to_be_bytes())).map_err(|_| InvalidId)
    }
}

/// How far a reader has read a stream. Position 0 is before the first decision; the mark is zero there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    pub position: u64,
    pub mark: Mark,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_reads_back_as_written() {
        for mark in [Mark::default(), Mark([0xff; 16]), Mark(*b"0123456789abcdef")] {
            assert_eq!(mark.to_string().parse(), Ok(mark));
        }
    }

    #[test]
    fn text_that_is_not_a_mark_is_refused() {
        let signed = format!("+{}", "0".repeat(31));
        for text in ["", "00", &"g".repeat(32), &"0".repeat(33), &signed] {
            assert_eq!(text.parse::<Mark>(), Err(InvalidId), "{text}");
        }
    }
}
