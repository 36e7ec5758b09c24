//! Identifiers. Outside they are opaque strings; inside they are small and cheap to compare.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

/// Crockford's base 32 in lower case: no `i`, `l`, `o`, `u`, so that an id can be read aloud.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// The value of each byte. A table, because every order parses ids.
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < ALPHABET.len() {
        digits[ALPHABET[digit] as usize] = digit as u8;
        digit += 1;
    }
    digits
};
const NO_DIGIT: u8 = u8::MAX;
/// 13 characters of 5 bits hold the 63 bits of an id.
const ENCODED_LENGTH: usize = 13;
const _: () = assert!(ENCODED_LENGTH * 5 >= 63);

/// Ids fit into the signed 64-bit integers of every SQL database.
const ID_BITS: u64 = u64::MAX >> 1;

pub const MAX_BUYER_BYTES: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid id")]
pub struct InvalidId;

fn encode(id: u64, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = [0u8; ENCODED_LENGTH];
    for (place, character) in text.iter_mut().rev().enumerate() {
        *character = ALPHABET[((id >> (5 * place)) & 31) as usize];
    }
    formatter.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
}

fn decode(text: &str) -> Result<u64, InvalidId> {
    if text.len() != ENCODED_LENGTH {
        return Err(InvalidId);
    }
    let mut id: u64 = 0;
    for character in text.bytes() {
        let digit = DIGITS[character as usize];
        if digit == NO_DIGIT {
            return Err(InvalidId);
        }
        id = id.checked_mul(32).ok_or(InvalidId)? | u64::from(digit);
    }
    if id > ID_BITS { Err(InvalidId) } else { Ok(id) }
}

macro_rules! opaque_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(u64);

        impl $name {
            /// Makes an id from any 64 random bits.
            pub const fn from_random(bits: u64) -> Self {
                Self(bits & ID_BITS)
            }

            pub const fn as_u64(self) -> u64 {
                self.0
            }

            /// The form SQL stores.
            pub const fn as_i64(self) -> i64 {
                self.0 as i64
            }

            pub const fn from_i64(stored: i64) -> Self {
                Self(stored as u64 & ID_BITS)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                encode(self.0, formatter)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{}({self})", stringify!($name))
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                decode(text).map(Self)
            }
        }
    };
}

opaque_id!(
    /// A sale.
    SaleId
);
opaque_id!(
    /// An item.
    ItemId
);
opaque_id!(
    /// A registered account.
    AccountId
);

/// An order is the `number`th accepted claim of its sale, so it is found without an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OrderId {
    pub sale: SaleId,
    pub number: u32,
}

impl fmt::Display for OrderId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.sale, self.number)
    }
}

impl FromStr for OrderId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let (sale, number) = text.split_once('-').ok_or(InvalidId)?;
        let canonical = !number.starts_with(['+', '0']) || number == "0";
        if !canonical {
            return Err(InvalidId);
        }
        Ok(Self { sale: sale.parse()?, number: number.parse().map_err(|_| InvalidId)? })
    }
}

/// A buyer: an account of ours (`account:…`) or the subject of a shop's own token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BuyerId(Arc<str>);

impl BuyerId {
    const ACCOUNT_PREFIX: &str = "account:";

    pub fn of_account(account: AccountId) -> Self {
        Self(format!("{}{account}", Self::ACCOUNT_PREFIX).into())
    }

    /// A buyer known to the shop under `subject`. A subject can't pass for an account of ours.
    pub fn of_subject(subject: &str) -> Result<Self, InvalidId> {
        let acceptable = !subject.is_empty()
            && subject.len() <= MAX_BUYER_BYTES
            && !subject.chars().any(char::is_control)
            && !subject.starts_with(Self::ACCOUNT_PREFIX);
        if acceptable { Ok(Self(subject.into())) } else { Err(InvalidId) }
    }

    /// Reads what `as_str` gave, for example from SQL.
    pub fn from_stored(text: &str) -> Self {
        Self(text.into())
    }

    /// The account behind this buyer, if it is one of ours.
    pub fn account(&self) -> Option<AccountId> {
        self.0.strip_prefix(Self::ACCOUNT_PREFIX)?.parse().ok()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BuyerId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_as_written() {
        for bits in [0, 1, 31, 32, u64::MAX, 0x1234_5678_9abc_def0] {
            let id = SaleId::from_random(bits);
            assert_eq!(id.to_string().parse(), Ok(id));
            assert_eq!(SaleId::from_i64(id.as_i64()), id);
            let order = OrderId { sale: id, number: bits as u32 };
            assert_eq!(order.to_string().parse(), Ok(order));
        }
    }

    #[test]
    fn text_that_is_not_an_id_is_refused() {
        for text in ["", "0", "zzzzzzzzzzzzz", "000000000000u", "00000000000000", "０００"] {
            assert_eq!(text.parse::<SaleId>(), Err(InvalidId), "{text}");
        }
        for text in ["0000000000001", "0000000000001-", "0000000000001-+1", "0000000000001-01", "x-1"] {
            assert_eq!(text.parse::<OrderId>(), Err(InvalidId), "{text}");
        }
    }

    #[test]
    fn a_subject_cannot_pass_for_an_account() {
        let account = AccountId::from_random(7);
        let buyer = BuyerId::of_account(account);
        assert_eq!(buyer.account(), Some(account));
        assert_eq!(BuyerId::of_subject(buyer.as_str()), Err(InvalidId));
        assert_eq!(BuyerId::of_subject("a\nb"), Err(InvalidId));
        assert_eq!(BuyerId::of_subject(&"x".repeat(MAX_BUYER_BYTES + 1)), Err(InvalidId));
    }
}
