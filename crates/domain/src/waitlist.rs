//! The waitlist of a sale that is sold out: buyers who wait for units to come back, and their places.

use serde::{Deserialize, Serialize};

use crate::{BuyerId, MAX_UNITS, Timestamp};

/// The most buyers who can wait for one sale. A large restock or the end of a pause makes an offer to all of
/// them in one step. The ledger has to finish that step within its patience, and decides nothing else on that
/// server meanwhile.
pub const MAX_WAITERS: u32 = 10_000;
const _: () = assert!(MAX_WAITERS <= MAX_UNITS);

/// Somebody on the list. A smaller number is served first. There are gaps where somebody has left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiter {
    pub number: u32,
    pub buyer: BuyerId,
    /// The units they want; an offer may have fewer.
    pub quantity: u32,
    pub joined_at: Timestamp,
}

/// A buyer's place on the list, at the moment of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// 1 is served next.
    pub position: u32,
    pub quantity: u32,
    pub joined_at: Timestamp,
}
