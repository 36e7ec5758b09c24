//! Everything that an audit can find: a kind for programs, with its values, and a sentence for people.

use penstock_domain::Waiter;
use serde::Serialize;
use utoipa::{ToSchema, openapi::Ref};

use crate::{Cause, UnitCounts};

/// What differs. In its sentence, `{sale}` and `{order}` stand for what it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Finding {
    // The ledger contradicts itself.
    #[error("The ledger's counts of sale {{sale}} do not add up: {counts}.")]
    LedgerCounts { counts: UnitCounts },
    #[error(
        "The ledger counts {held} held and {paid} paid units of sale {{sale}}, but its orders add up to \
         {orders_held} and {orders_paid}."
    )]
    LedgerOrders { held: i64, paid: i64, orders_held: i64, orders_paid: i64 },
    #[error("The ledger keeps order {{order}} under number {number} of sale {{sale}}.")]
    OrderMisplaced { number: u64 },
    #[error("Order {{order}} is the second one for the same idempotency key of its buyer.")]
    SameKey,
    // A promise is broken.
    #[error("Sale {{sale}} is oversold by {units} units, by the orders in the {by}.")]
    Oversold { units: i64, by: Source },
    #[error("Buyer {buyer} has {units} units of sale {{sale}}, but the limit is {limit}.")]
    OverLimit { buyer: String, units: i64, limit: u32 },
    // Decisions are missing, or were put aside.
    #[error("The records have settled decision {settled}, but the ledger ends with {ledger}.")]
    SettledTooFar { settled: u64, ledger: u64 },
    #[error("Decisions {first} to {last} are neither settled nor in the feed.")]
    DecisionsMissing { first: u64, last: u64 },
    #[error("Decision {decision} is dead letter {letter} and not settled: {reason}.")]
    DeadLetter { decision: u64, letter: u64, cause: Cause, reason: String },
    #[error("{letters} decisions of {stream}, which the ledger does not have, are dead letters.")]
    LettersOfUnknownStream { letters: u64, stream: String },
    // Only one side knows it.
    #[error("The ledger sells sale {{sale}}, which the records do not have.")]
    SaleNotInRecords,
    #[error("Sale {{sale}} is published in the records, but the ledger does not know it.")]
    SaleNotInLedger,
    #[error("The records have {orders} orders of sale {{sale}}, which the ledger does not know.")]
    OrdersNotInLedger { orders: u64 },
    #[error("The stock log moves units of sale {{sale}}, which the ledger does not know.")]
    MovementsNotInLedger,
    #[error("The {} order {{order}}, which the ledger does not know.", where_extra(*.by))]
    OrderNotInLedger { by: Source },
    #[error("Order {{order}} is lost: the ledger accepted it, but it is not in the records.")]
    OrderLost,
    #[error("Sale {{sale}} has no stock row in the records.")]
    StockRowMissing,
    // The units of a sale.
    #[error(
        "The orders of sale {{sale}} in the records add up to {held} held and {paid} paid units, but the \
         ledger has {ledger_held} and {ledger_paid}."
    )]
    RecordedOrders { held: i64, paid: i64, ledger_held: i64, ledger_paid: i64 },
    #[error("The stock log of sale {{sale}} adds up to {log}; the ledger has {ledger}.")]
    StockLog { log: UnitCounts, ledger: UnitCounts },
    #[error("The stock row of sale {{sale}} says {row}; the ledger has {ledger}.")]
    StockRow { row: UnitCounts, ledger: UnitCounts },
    // The ledger has forgotten a sale that is over, and the records contradict themselves.
    #[error("The stock row of sale {{sale}}, which is over, does not add up: {row}.")]
    PastStockRow { row: UnitCounts },
    #[error("The stock log of sale {{sale}}, which is over, adds up to {log}; its row says {row}.")]
    PastStockLog { log: UnitCounts, row: UnitCounts },
    #[error(
        "The orders of sale {{sale}}, which is over, add up to {held} held and {paid} paid units; its \
         row says {row}."
    )]
    PastOrders { held: i64, paid: i64, row: UnitCounts },
    // The sale.
    #[error("Sale {{sale}} is {ledger} in the ledger, but {row} in its stock row.")]
    SaleStanding { ledger: SaleStanding, row: SaleStanding },
    #[error("The terms of sale {{sale}} in its stock row are not those of the ledger.")]
    SaleTerms,
    // The order.
    #[error("The state of order {{order}} is {ledger} in the ledger, but {records} in the records.")]
    OrderState {
        #[schema(schema_with = order_state)]
        ledger: &'static str,
        #[schema(schema_with = order_state)]
        records: &'static str,
    },
    #[error("The buyer of order {{order}} is {ledger} in the ledger, but {records} in the records.")]
    OrderBuyer { ledger: String, records: String },
    #[error("The quantity of order {{order}} is {ledger} in the ledger, but {records} in the records.")]
    OrderQuantity { ledger: u32, records: u32 },
    #[error(
        "The {of} of order {{order}} is {} in the ledger, but {} in the records.",
        moment(*.ledger_millis),
        moment(*.records_millis)
    )]
    OrderTime { of: OrderTime, ledger_millis: Option<i64>, records_millis: Option<i64> },
    #[error(
        "The refund of order {{order}} is {} in the ledger, but {} in the records.",
        due(*.ledger_due),
        due(*.records_due)
    )]
    OrderRefund { ledger_due: bool, records_due: bool },
    #[error("The idempotency key of order {{order}} in the records is not the one in the ledger.")]
    OrderKey,
    #[error("An order can't be read: {error}.")]
    OrderUnreadable { error: String },
    // Decisions on the order that are not settled yet.
    #[error("Decision {decision} holds order {{order}}, which the records have already.")]
    OrderHeldAlready { decision: u64 },
    #[error("Decision {decision} changes order {{order}}, which the records do not have.")]
    OrderToChangeMissing { decision: u64 },
    #[error("Decision {decision} needs order {{order}} to be {needed}, but it is {records} in the records.")]
    OrderInWrongState {
        decision: u64,
        #[schema(schema_with = order_state)]
        needed: &'static str,
        #[schema(schema_with = order_state)]
        records: &'static str,
    },
    // The stock log.
    #[error("Order {{order}} is held {times} times in the stock log.")]
    HeldTwice { times: i64 },
    #[error(
        "Order {{order}} is {state} with {units} units in the ledger, but the stock log has {held} held \
         and {paid} paid units of it."
    )]
    OrderMovements {
        #[schema(schema_with = order_state)]
        state: &'static str,
        units: u32,
        held: i64,
        paid: i64,
    },
    #[error("The stock log has a movement of the unknown kind {movement:?} for order {{order}}.")]
    UnknownMovement { movement: String },
    #[error("The stock log has a movement of an order with the impossible number {number}.")]
    NoOrderNumber { number: i64 },
    // The waitlist.
    #[error(
        "Number {number} on the waitlist of sale {{sale}} is {ledger} in the ledger, but {records} in \
         the records."
    )]
    WaiterDiffers { number: u32, ledger: WaiterFound, records: WaiterFound },
    #[error("Buyer {buyer} waits for sale {{sale}} in the ledger, but not in the records.")]
    WaiterNotInRecords { buyer: String },
    #[error("Buyer {buyer} waits for sale {{sale}} in the records, but not in the ledger.")]
    WaiterNotInLedger { buyer: String },
}

/// Refers to the schema by the name under which the API's document lists the states.
fn order_state() -> Ref {
    Ref::from_schema_name("OrderState")
}

/// Whose word it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    #[error("ledger")]
    Ledger,
    #[error("records")]
    Records,
    #[error("stock log")]
    StockLog,
}

/// Whether a sale sells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[schema(as = Standing)]
pub enum SaleStanding {
    #[error("selling")]
    Selling,
    #[error("paused")]
    Paused,
    #[error("closed")]
    Closed,
}

/// A moment of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum OrderTime {
    #[error("creation")]
    CreatedAt,
    #[error("payment deadline")]
    PayBefore,
    #[error("payment")]
    PaidAt,
}

/// Somebody on a waitlist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema, thiserror::Error)]
#[error("{buyer} for {units} units since {since_millis} ms")]
pub struct WaiterFound {
    pub buyer: String,
    pub units: u32,
    pub since_millis: i64,
}

impl From<&Waiter> for WaiterFound {
    fn from(waiter: &Waiter) -> Self {
        let Waiter { buyer, quantity, joined_at, .. } = waiter;
        Self { buyer: buyer.to_string(), units: *quantity, since_millis: joined_at.as_millis() }
    }
}

impl Finding {
    /// A sentence for a merchant. `sale` and `order` are what it is about; either may be empty.
    pub(super) fn sentence(&self, sale: &str, order: &str) -> String {
        match self {
            Self::UnknownMovement { movement } if order.is_empty() => {
                format!("The stock log has movements of the unknown kind {movement:?}.")
            }
            _ => self.to_string().replace("{sale}", sale).replace("{order}", order),
        }
    }
}

fn where_extra(by: Source) -> &'static str {
    if by == Source::StockLog { "stock log moves units of" } else { "records have" }
}

fn moment(millis: Option<i64>) -> String {
    millis.map_or("never".to_owned(), |millis| format!("{millis} ms"))
}

fn due(is_due: bool) -> &'static str {
    if is_due { "due" } else { "not due" }
}

impl SaleStanding {
    pub(super) fn of(paused: bool, closed: bool) -> Self {
        match (paused, closed) {
            (_, true) => Self::Closed,
            (true, false) => Self::Paused,
            (false, false) => Self::Selling,
        }
    }
}

#[cfg(test)]
mod tests {
    use utoipa::PartialSchema as _;

    use super::*;

    #[test]
    fn the_document_of_the_api_keeps_its_name_for_the_standing_of_a_sale() {
        let schema = serde_json::to_string(&Finding::schema()).unwrap();
        assert!(schema.contains("#/components/schemas/Standing\""), "{schema}");
    }

    #[test]
    fn a_sentence_names_the_sale_and_the_order() {
        let finding = Finding::OrderNotInLedger { by: Source::StockLog };
        let sentence = "The stock log moves units of order 7-2, which the ledger does not know.";
        assert_eq!(finding.sentence("7", "7-2"), sentence);
        let finding =
            Finding::OrderTime { of: OrderTime::PaidAt, ledger_millis: Some(5), records_millis: None };
        let sentence = "The payment of order 7-2 is 5 ms in the ledger, but never in the records.";
        assert_eq!(finding.sentence("7", "7-2"), sentence);
    }
}
