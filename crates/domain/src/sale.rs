//! A sale as the ledger knows it: its terms, its counts and the state that follows from both and the time.

use serde::{Deserialize, Serialize};

use crate::{SaleId, Timestamp};

/// The most units of a sale, restocks included.
pub const MAX_UNITS: u32 = 100_000_000;
/// The highest limit per buyer; the lowest is 1.
pub const MAX_LIMIT_PER_BUYER: u32 = 1_000_000;
/// The longest time to pay; the shortest is 1 second.
pub const MAX_HOLD_SECONDS: u32 = 30 * 24 * 3600;
/// The most orders one buyer can have of a sale, including ended ones, so that nobody can claim and cancel
/// forever.
pub const MAX_ORDERS_PER_BUYER: usize = 256;
const _: () = assert!(MAX_LIMIT_PER_BUYER <= MAX_UNITS);
const _: () = assert!(MAX_UNITS.checked_add(MAX_UNITS).is_some());

/// What a sale promises. It does not change after publishing, except by restocking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaleTerms {
    pub sale: SaleId,
    pub units: u32,
    pub limit_per_buyer: u32,
    /// None: open as soon as it is published.
    pub opens_at: Option<Timestamp>,
    /// None: open until it is closed by hand.
    pub closes_at: Option<Timestamp>,
    pub hold_seconds: u32,
}

impl SaleTerms {
    /// Whether the ledger can sell on these terms: `Book` relies on the bounds.
    pub fn are_within_bounds(&self) -> bool {
        self.units <= MAX_UNITS
            && (1..=MAX_LIMIT_PER_BUYER).contains(&self.limit_per_buyer)
            && (1..=MAX_HOLD_SECONDS).contains(&self.hold_seconds)
    }
}

/// The state of a sale in the words that merchants and buyers use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SaleState {
    Draft,
    Scheduled,
    Open,
    Paused,
    SoldOut,
    Closed,
}

impl SaleState {
    pub const ALL: [Self; 6] =
        [Self::Draft, Self::Scheduled, Self::Open, Self::Paused, Self::SoldOut, Self::Closed];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Scheduled => "scheduled",
            Self::Open => "open",
            Self::Paused => "paused",
            Self::SoldOut => "sold_out",
            Self::Closed => "closed",
        }
    }
}

/// The counts of a published sale. `total = available + held + paid` always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaleStatus {
    pub terms: SaleTerms,
    /// Published units, restocks included.
    pub total: u32,
    pub available: u32,
    pub held: u32,
    pub paid: u32,
    pub paused: bool,
    pub closed: bool,
    /// Grows with every change of the sale, so that a reader recognises an old status.
    pub version: u64,
}

impl SaleStatus {
    pub fn state(&self, now: Timestamp) -> SaleState {
        if self.closed || self.terms.closes_at.is_some_and(|closes_at| now >= closes_at) {
            SaleState::Closed
        } else if self.paused {
            SaleState::Paused
        } else if self.terms.opens_at.is_some_and(|opens_at| now < opens_at) {
            SaleState::Scheduled
        } else if self.available == 0 {
            SaleState::SoldOut
        } else {
            SaleState::Open
        }
    }
}
