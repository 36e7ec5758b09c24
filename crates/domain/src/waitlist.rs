//! The waitlist of a sale that is sold out: who waits for units that come back, and at which place.

use serde::{Deserialize, Serialize};

use crate::{BuyerId, MAX_UNITS, Timestamp};

/// So many can wait for the units of one sale. A large restock, or the end of a pause, makes an offer to each of them in one
/// step, so that this is a bound on such a step, too: the ledger has to end it within its patience, and decides nothing else
/// on that server meanwhile.
pub const MAX_WAITERS: u32 = 10_000;
const _: () = assert!(MAX_WAITERS <= MAX_UNITS);

/// Somebody on the list. A smaller number is served first; numbers have gaps where somebody has left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiter {
    pub number: u32,
    pub buyer: BuyerId,
    /// So many units he wants; he may be offered fewer.
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
