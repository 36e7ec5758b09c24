//! Claims, and the orders they become.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::{BuyerId, OrderId, SaleId, Timestamp};

pub const MAX_KEY_BYTES: usize = 128;

/// One buyer's request for units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub sale: SaleId,
    pub buyer: BuyerId,
    pub quantity: u32,
    pub key: KeyDigest,
}

/// An idempotency key, reduced to 128 bits. A key counts per sale and buyer, so a buyer who finds two keys
/// with one digest harms only themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyDigest([u64; 2]);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an idempotency key is 1 to {MAX_KEY_BYTES} visible ASCII characters")]
pub struct InvalidKey;

/// The lower half of the keys that belong to offers. A client's key never has it.
const OFFER: u64 = u64::MAX;

impl KeyDigest {
    pub fn of(key: &[u8]) -> Result<Self, InvalidKey> {
        let acceptable = (1..=MAX_KEY_BYTES).contains(&key.len()) && key.iter().all(u8::is_ascii_graphic);
        if !acceptable {
            return Err(InvalidKey);
        }
        Ok(Self::of_digest(xxh3_128(key)))
    }

    /// Moves a digest out of the range of offers, so that no client can pick an offer's key.
    const fn of_digest(digest: u128) -> Self {
        let lower = digest as u64;
        Self([(digest >> 64) as u64, if lower == OFFER { OFFER - 1 } else { lower }])
    }

    /// The key of the order offered to the waiter with this number.
    pub const fn of_offer(number: u32) -> Self {
        Self([number as u64, OFFER])
    }

    /// The number of the waiter to whom the order with this key was offered; None if a buyer claimed it.
    pub const fn offered_to(self) -> Option<u32> {
        if self.0[1] == OFFER { Some(self.0[0] as u32) } else { None }
    }

    /// 64 well mixed bits, for filters and tables.
    pub const fn bits(self) -> u64 {
        self.0[0]
    }

    pub const fn words(self) -> [u64; 2] {
        self.0
    }

    pub const fn from_words(words: [u64; 2]) -> Self {
        Self(words)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OrderState {
    Held,
    Paid,
    Expired,
    Cancelled,
}

impl OrderState {
    pub const ALL: [Self; 4] = [Self::Held, Self::Paid, Self::Expired, Self::Cancelled];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Paid => "paid",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }
}

impl std::str::FromStr for OrderState {
    type Err = crate::InvalidId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or(crate::InvalidId)
    }
}

/// An accepted claim and the order's state since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub id: OrderId,
    pub buyer: BuyerId,
    pub quantity: u32,
    pub state: OrderState,
    pub created_at: Timestamp,
    pub pay_before: Timestamp,
    pub paid_at: Option<Timestamp>,
    /// The payment came too late and no unit was left: the money has to go back.
    pub refund_due: bool,
}

/// The answer to a claim that got its units, now or earlier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub order: Order,
    /// The claim was accepted before, and this is its first answer again. No further unit was given for it.
    pub is_repeated: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_has_a_key_of_its_own() {
        for number in [0, 7, u32::MAX] {
            assert_eq!(KeyDigest::of_offer(number).offered_to(), Some(number));
        }
        assert_ne!(KeyDigest::of_offer(0), KeyDigest::of_offer(1));
        assert_eq!(KeyDigest::of(b"0").unwrap().offered_to(), None);
        // A client's key whose digest ends like an offer's gets another digest.
        assert_eq!(KeyDigest::of_digest(u128::from(OFFER)).offered_to(), None);
        assert_eq!(KeyDigest::of_digest(7 << 64 | 9).words(), [7, 9]);
    }
}
