//! Why a decision can't be settled: a cause for programs, and the reason in words.

use serde::{
    Deserialize, Serialize,
    de::{IntoDeserializer, value},
};
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub cause: Cause,
    pub reason: String,
}

/// Why a decision can't be settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// More units would be sold than there are.
    Oversold,
    /// A buyer would own more units than the sale allows.
    OverLimit,
    /// Units would be paid or released that are not held.
    NotHeld,
    /// An earlier decision on the same order could not be settled either.
    EarlierLetter,
    SaleMissing,
    StockMissing,
    /// The sale is published already.
    StockExists,
    OrderMissing,
    OrderExists,
    /// The order is not in the state that the decision needs.
    OrderState,
    /// The order has another quantity.
    OrderQuantity,
    /// The buyer does not wait at this place.
    WaiterMissing,
    /// The buyer waits already.
    WaiterExists,
    /// A row that the decision depends on can't be read.
    Damaged,
    /// The database refused a row, by a constraint or by one of the merchant's triggers.
    Database,
    /// The cause is only in the reason, such as in a letter of an older version.
    #[serde(other)]
    Unknown,
}

impl Refusal {
    pub fn new(cause: Cause, reason: impl Into<String>) -> Self {
        Self { cause, reason: reason.into() }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.reason)
    }
}

impl Cause {
    /// The ledger broke a promise, or somebody tampered with the stock row.
    pub fn is_violation(self) -> bool {
        matches!(self, Self::Oversold | Self::OverLimit | Self::NotHeld)
    }

    /// Reads the stored name.
    pub(crate) fn from_name(name: &str) -> Self {
        Self::deserialize(IntoDeserializer::<value::Error>::into_deserializer(name)).unwrap_or(Self::Unknown)
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_stored_by_its_name() {
        assert_eq!(Cause::EarlierLetter.to_string(), "earlier_letter");
        assert_eq!(Cause::from_name("earlier_letter"), Cause::EarlierLetter);
        assert_eq!(Cause::from_name("of a newer version"), Cause::Unknown);
    }
}
