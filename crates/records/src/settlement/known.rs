//! What the records hold about the sales and orders in a batch, and what the batch makes of it. It is
//! filled before the batch is planned, and knows no SQL.

use std::collections::{HashMap, HashSet};

use penstock_domain::{BuyerId, KeyDigest, Money, OrderId, OrderState, SaleId, Timestamp};

use super::{stock::Stock, waitlist::BatchWaitlist};

#[derive(Debug)]
pub(super) struct KnownSale {
    pub(super) price: Money,
    pub(super) hold_seconds: u32,
}

/// The columns that are written for an order.
#[derive(Debug)]
pub(super) struct PlannedOrder {
    pub(super) id: OrderId,
    pub(super) buyer: BuyerId,
    pub(super) quantity: u32,
    pub(super) unit_price: Money,
    pub(super) state: OrderState,
    pub(super) paid_at: Option<Timestamp>,
    pub(super) refund_due: bool,
    pub(super) origin: Origin,
}

#[derive(Debug)]
pub(super) enum Origin {
    /// It is new in this batch.
    Batch { created_at: Timestamp, pay_before: Timestamp, key: KeyDigest },
    /// It is in the records, in this state.
    Records { state: OrderState, changed: bool },
}

/// An error says why a row can't be read: only decisions that depend on it are poison.
#[derive(Debug, Default)]
pub(super) struct KnownRows {
    pub(super) sales: HashMap<SaleId, Result<KnownSale, String>>,
    pub(super) stocks: HashMap<SaleId, Stock>,
    pub(super) orders: HashMap<OrderId, Result<PlannedOrder, String>>,
    pub(super) waitlist: BatchWaitlist,
    /// Unresolved dead letters of each sale that has any: the numbers of their orders. A letter that
    /// concerns no order has no number.
    pub(super) letters: HashMap<SaleId, HashSet<u32>>,
}

impl KnownRows {
    pub(super) fn order(&self, order: OrderId) -> Option<&PlannedOrder> {
        self.orders.get(&order)?.as_ref().ok()
    }

    pub(super) fn has_letter(&self, order: OrderId) -> bool {
        self.letters.get(&order.sale).is_some_and(|numbers| numbers.contains(&order.number))
    }
}
