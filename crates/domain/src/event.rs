//! The decisions of a ledger. The feed is these, in order, and `Book` is rebuilt from them.

use serde::{Deserialize, Serialize};

use crate::{BuyerId, KeyDigest, OrderId, SaleId, SaleTerms, Timestamp};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
// The journal stores a variant by its index: add new ones at the end.
pub enum Event {
    Published(SaleTerms),
    Restocked {
        sale: SaleId,
        units: u32,
    },
    Paused(SaleId),
    Resumed(SaleId),
    Closed(SaleId),
    Held {
        order: OrderId,
        buyer: BuyerId,
        quantity: u32,
        key: KeyDigest,
    },
    /// A held or an expired order was paid. An expired one took its units again.
    Paid {
        order: OrderId,
        quantity: u32,
        after_expiry: bool,
    },
    Released {
        order: OrderId,
        quantity: u32,
        reason: ReleaseReason,
    },
    RefundDue {
        order: OrderId,
    },
    /// A buyer joined the waitlist of a sale that is sold out.
    Joined {
        sale: SaleId,
        /// Larger than every number that is on the list or got an offer.
        number: u32,
        buyer: BuyerId,
        quantity: u32,
    },
    /// A buyer left the waitlist.
    Left {
        sale: SaleId,
        number: u32,
        buyer: BuyerId,
        reason: LeaveReason,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReleaseReason {
    Expired,
    Cancelled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeaveReason {
    /// The buyer asked to leave.
    Asked,
    /// The buyer got an offer: the next decision of the sale is their hold.
    Offered,
    /// It was the buyer's turn, but they have reached the limit.
    LimitReached,
}

impl Event {
    pub fn sale(&self) -> SaleId {
        match self {
            Self::Published(terms) => terms.sale,
            Self::Restocked { sale, .. }
            | Self::Paused(sale)
            | Self::Resumed(sale)
            | Self::Closed(sale)
            | Self::Joined { sale, .. }
            | Self::Left { sale, .. } => *sale,
            Self::Held { order, .. }
            | Self::Paid { order, .. }
            | Self::Released { order, .. }
            | Self::RefundDue { order } => order.sale,
        }
    }

    /// The idempotency key of a claim that was accepted. An offer from the waitlist has a key that no client
    /// can send.
    pub fn claimed_key(&self) -> Option<KeyDigest> {
        match self {
            Self::Held { key, .. } if key.offered_to().is_none() => Some(*key),
            _ => None,
        }
    }

    /// The order that the event makes or changes; None if it is about the sale or its waitlist.
    pub fn order(&self) -> Option<OrderId> {
        match self {
            Self::Held { order, .. }
            | Self::Paid { order, .. }
            | Self::Released { order, .. }
            | Self::RefundDue { order } => Some(*order),
            _ => None,
        }
    }
}

/// An event at its place in the feed. Positions start at 1 and have no gaps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    pub position: u64,
    pub at: Timestamp,
    pub event: Event,
}
