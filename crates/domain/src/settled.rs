//! What the records know of a sale, in the form that a ledger needs after it may have lost the end of the
//! sale's history.

use crate::{Cursor, SaleSnapshot};

/// How far a stream is settled, and the epoch in which it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewEpoch {
    /// The last settled decision.
    pub cursor: Cursor,
    pub epoch: u64,
}

/// A sale with its own stream of decisions, as far as they are settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledSale {
    pub begun: NewEpoch,
    /// Its version is the cursor's position: every decision of the stream changed the sale. If the cursor is
    /// in the middle of an offer, units are available although people wait for them.
    pub sale: SaleSnapshot,
}
