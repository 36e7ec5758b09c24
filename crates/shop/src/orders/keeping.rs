//! Orders after they were placed: finding, listing, paying and cancelling them.

use std::{cmp::Reverse, collections::HashMap, convert::Infallible};

use penstock_domain::{BuyerId, CancelRefusal, Order, OrderId, OrderState, PaymentRefusal};
use penstock_ledger::LedgerError;
use penstock_records::{OrderRow, RecordsError};

use crate::shop::Shop;

/// For any page but the first, the ledger is asked for this many of a buyer's newest orders, because it can't
/// start at a cursor. Older orders were settled long ago.
const MAX_FROM_LEDGER: u32 = 1_000;

/// An order and, if it came from the records, its row there.
#[derive(Debug)]
pub struct FoundOrder {
    pub order: Order,
    pub settled: Option<OrderRow>,
}

impl From<Order> for FoundOrder {
    fn from(order: Order) -> Self {
        Self { order, settled: None }
    }
}

impl From<OrderRow> for FoundOrder {
    fn from(row: OrderRow) -> Self {
        Self { order: row.order.clone(), settled: Some(row) }
    }
}

/// Why nothing was found or done.
#[derive(Debug)]
pub enum OrderError<R = Infallible> {
    Ledger(LedgerError<R>),
    Records(RecordsError),
}

impl<R> From<LedgerError<R>> for OrderError<R> {
    fn from(error: LedgerError<R>) -> Self {
        Self::Ledger(error)
    }
}

impl<R> From<RecordsError> for OrderError<R> {
    fn from(error: RecordsError) -> Self {
        Self::Records(error)
    }
}

impl Shop {
    /// The order according to the ledger, or according to the records if the ledger does not know it.
    pub async fn order_of(&self, id: OrderId, buyer: &BuyerId) -> Result<Option<FoundOrder>, OrderError> {
        if let Some(order) = self.ledger.find_order(id, Some(buyer.clone())).await? {
            return Ok(Some(order.into()));
        }
        Ok(self.settled_order_of(id, buyer).await?)
    }

    async fn settled_order_of(
        &self,
        id: OrderId,
        buyer: &BuyerId,
    ) -> Result<Option<FoundOrder>, RecordsError> {
        let row = self.records.order(id).await?;
        Ok(row.filter(|row| row.order.buyer == *buyer).map(FoundOrder::from))
    }

    /// At least `limit` of the buyer's orders after this one, if there are as many, the newest first. None if
    /// `after` is no order of theirs.
    pub async fn orders_of(
        &self,
        buyer: &BuyerId,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<Option<Vec<FoundOrder>>, OrderError> {
        let place = |order: &Order| Reverse((order.created_at, order.id));
        let begin = match after {
            Some(after) => match self.order_of(after, buyer).await? {
                Some(found) => Some(place(&found.order)),
                None => return Ok(None),
            },
            None => None,
        };
        let mut orders = self.merged(buyer, after, limit).await?;
        orders.retain(|found| begin.is_none_or(|begin| place(&found.order) > begin));
        orders.sort_unstable_by_key(|found| place(&found.order));
        Ok(Some(orders))
    }

    /// Orders of the ledger and of the records. Where both have an order, the ledger is more recent.
    async fn merged(
        &self,
        buyer: &BuyerId,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<FoundOrder>, OrderError> {
        let from_ledger = if after.is_some() { MAX_FROM_LEDGER } else { limit };
        let fresh = self.ledger.orders_of(buyer.clone(), from_ledger).await?;
        let mut found: HashMap<OrderId, FoundOrder> = HashMap::new();
        match self.records.orders_of(buyer, after, limit).await {
            Ok(rows) => found.extend(rows.into_iter().map(|row| (row.order.id, row.into()))),
            // The ledger alone has everything recent, which is better than nothing.
            Err(error) => tracing::warn!(%error, "orders are listed without the records"),
        }
        found.extend(fresh.into_iter().map(|order| (order.id, order.into())));
        Ok(found.into_values().collect())
    }

    /// The order was paid.
    pub async fn pay_order(
        &self,
        id: OrderId,
        buyer: BuyerId,
    ) -> Result<FoundOrder, OrderError<PaymentRefusal>> {
        match self.ledger.confirm_payment(id, Some(buyer.clone())).await {
            Err(LedgerError::Refused(PaymentRefusal::UnknownOrder)) => {}
            decided => return Ok(decided?.into()),
        }
        let found = self.forgotten(id, &buyer, PaymentRefusal::UnknownOrder).await?;
        match found.order.state {
            OrderState::Paid => Ok(found),
            OrderState::Expired => {
                if let Some(row) = &found.settled {
                    self.records.owe_refund(row, self.now()).await?;
                }
                Err(LedgerError::Refused(PaymentRefusal::RefundDue).into())
            }
            OrderState::Cancelled => Err(LedgerError::Refused(PaymentRefusal::HoldExpired).into()),
            OrderState::Held => Err(not_settled()),
        }
    }

    pub async fn cancel_order(
        &self,
        id: OrderId,
        buyer: BuyerId,
    ) -> Result<FoundOrder, OrderError<CancelRefusal>> {
        match self.ledger.cancel(id, Some(buyer.clone())).await {
            Err(LedgerError::Refused(CancelRefusal::UnknownOrder)) => {}
            decided => return Ok(decided?.into()),
        }
        let found = self.forgotten(id, &buyer, CancelRefusal::UnknownOrder).await?;
        match found.order.state {
            OrderState::Cancelled => Ok(found),
            OrderState::Paid => Err(LedgerError::Refused(CancelRefusal::AlreadyPaid).into()),
            OrderState::Expired => Err(LedgerError::Refused(CancelRefusal::HoldExpired).into()),
            OrderState::Held => Err(not_settled()),
        }
    }

    /// An order that the ledger does not know: it forgets a sale that is closed and settled, and none of its
    /// orders is held by then.
    async fn forgotten<R>(
        &self,
        id: OrderId,
        buyer: &BuyerId,
        unknown: R,
    ) -> Result<FoundOrder, OrderError<R>> {
        let found = self.settled_order_of(id, buyer).await?;
        found.ok_or(OrderError::Ledger(LedgerError::Refused(unknown)))
    }
}

/// The records lag behind: they show an order as held that the ledger does not know any longer.
fn not_settled<R>() -> OrderError<R> {
    LedgerError::Unavailable("the order's end is not settled yet".to_owned()).into()
}
