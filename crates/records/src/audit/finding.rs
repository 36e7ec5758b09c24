//! Everything that an audit can find: a kind for programs, with its values, and a sentence for people.

use penstock_domain::{Timestamp, Waiter};
use serde::Serialize;
use utoipa::{ToSchema, openapi::Ref};

use super::report::UnitCounts;
use crate::Cause;

/// What differs. The sale and the order are named beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Finding {
    // The ledger contradicts itself.
    LedgerCounts {
        counts: UnitCounts,
    },
    LedgerOrders {
        held: i64,
        paid: i64,
        orders_held: i64,
        orders_paid: i64,
    },
    OrderMisplaced {
        number: u64,
    },
    SameKey,
    // A promise is broken.
    Oversold {
        units: i64,
        by: Source,
    },
    OverLimit {
        buyer: String,
        units: i64,
        limit: u32,
    },
    // Decisions are missing, or were put aside.
    SettledTooFar {
        settled: u64,
        ledger: u64,
    },
    DecisionsMissing {
        first: u64,
        last: u64,
    },
    DeadLetter {
        decision: u64,
        letter: u64,
        cause: Cause,
        reason: String,
    },
    LettersOfUnknownStream {
        letters: u64,
        stream: String,
    },
    // Only one side knows it.
    SaleNotInRecords,
    SaleNotInLedger,
    OrdersNotInLedger {
        orders: u64,
    },
    MovementsNotInLedger,
    OrderNotInLedger {
        by: Source,
    },
    OrderLost,
    StockRowMissing,
    // The units of a sale.
    RecordedOrders {
        held: i64,
        paid: i64,
        ledger_held: i64,
        ledger_paid: i64,
    },
    StockLog {
        log: UnitCounts,
        ledger: UnitCounts,
    },
    StockRow {
        row: UnitCounts,
        ledger: UnitCounts,
    },
    // The ledger has forgotten a sale that is over, and the records contradict themselves.
    PastStockRow {
        row: UnitCounts,
    },
    PastStockLog {
        log: UnitCounts,
        row: UnitCounts,
    },
    PastOrders {
        held: i64,
        paid: i64,
        row: UnitCounts,
    },
    // The sale.
    SaleStanding {
        ledger: Standing,
        row: Standing,
    },
    SaleTerms,
    // The order.
    OrderState {
        #[schema(schema_with = order_state)]
        ledger: &'static str,
        #[schema(schema_with = order_state)]
        records: &'static str,
    },
    OrderBuyer {
        ledger: String,
        records: String,
    },
    OrderQuantity {
        ledger: u32,
        records: u32,
    },
    OrderTime {
        of: OrderTime,
        ledger_millis: Option<i64>,
        records_millis: Option<i64>,
    },
    OrderRefund {
        ledger_due: bool,
        records_due: bool,
    },
    OrderKey,
    OrderUnreadable {
        error: String,
    },
    // Decisions on the order that are not settled yet.
    OrderHeldAlready {
        decision: u64,
    },
    OrderToChangeMissing {
        decision: u64,
    },
    OrderInWrongState {
        decision: u64,
        #[schema(schema_with = order_state)]
        needed: &'static str,
        #[schema(schema_with = order_state)]
        records: &'static str,
    },
    // The stock log.
    HeldTwice {
        times: i64,
    },
    OrderMovements {
        #[schema(schema_with = order_state)]
        state: &'static str,
        units: u32,
        held: i64,
        paid: i64,
    },
    UnknownMovement {
        movement: String,
    },
    NoOrderNumber {
        number: i64,
    },
    // The waitlist.
    WaiterDiffers {
        number: u32,
        ledger: WaiterFound,
        records: WaiterFound,
    },
    WaiterNotInRecords {
        buyer: String,
    },
    WaiterNotInLedger {
        buyer: String,
    },
}

/// Refers to the schema by the name under which the API's document lists the states.
fn order_state() -> Ref {
    Ref::from_schema_name("OrderState")
}

/// Whose word it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Ledger,
    Records,
    StockLog,
}

/// Whether a sale sells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    Selling,
    Paused,
    Closed,
}

/// A moment of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OrderTime {
    CreatedAt,
    PayBefore,
    PaidAt,
}

/// Somebody on a waitlist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
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

impl std::fmt::Display for WaiterFound {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { buyer, units, since_millis } = self;
        write!(formatter, "{buyer} for {units} units since {since_millis} ms")
    }
}

impl Finding {
    pub(super) fn order_time(of: OrderTime, ledger: Option<Timestamp>, records: Option<Timestamp>) -> Self {
        let [ledger_millis, records_millis] =
            [ledger, records].map(|moment| moment.map(|moment| moment.as_millis()));
        Self::OrderTime { of, ledger_millis, records_millis }
    }

    /// A sentence for a merchant. `sale` and `order` are what it is about; either may be empty.
    pub(super) fn sentence(&self, sale: &str, order: &str) -> String {
        match self {
            Self::LedgerCounts { counts } => {
                format!("The ledger's counts of sale {sale} do not add up: {counts}.")
            }
            Self::LedgerOrders { held, paid, orders_held, orders_paid } => format!(
                "The ledger counts {held} held and {paid} paid units of sale {sale}, but its orders add up to \
                 {orders_held} and {orders_paid}."
            ),
            Self::OrderMisplaced { number } => {
                format!("The ledger has order {order} in the place of number {number} of sale {sale}.")
            }
            Self::SameKey => {
                format!("Order {order} is the second one for the same idempotency key of its buyer.")
            }
            Self::Oversold { units, by } => {
                format!("Sale {sale} is oversold by {units} units, by the orders in the {}.", by.as_str())
            }
            Self::OverLimit { buyer, units, limit } => {
                format!("Buyer {buyer} has {units} units of sale {sale}, but the limit is {limit}.")
            }
            Self::SettledTooFar { settled, ledger } => {
                format!("The records have settled decision {settled}, but the ledger ends with {ledger}.")
            }
            Self::DecisionsMissing { first, last } => {
                format!("Decisions {first} to {last} are neither settled nor in the feed.")
            }
            Self::DeadLetter { decision, letter, reason, .. } => {
                format!("Decision {decision} is dead letter {letter} and not settled: {reason}.")
            }
            Self::LettersOfUnknownStream { letters, stream } => {
                format!("{letters} decisions of {stream}, which the ledger does not have, are dead letters.")
            }
            Self::SaleNotInRecords => {
                format!("The ledger sells sale {sale}, which the records do not have.")
            }
            Self::SaleNotInLedger => {
                format!("Sale {sale} is published in the records, but the ledger does not know it.")
            }
            Self::OrdersNotInLedger { orders } => {
                format!("The records have {orders} orders of sale {sale}, which the ledger does not know.")
            }
            Self::MovementsNotInLedger => {
                format!("The stock log moves units of sale {sale}, which the ledger does not know.")
            }
            Self::OrderNotInLedger { by: Source::StockLog } => {
                format!("The stock log moves units of order {order}, which the ledger does not know.")
            }
            Self::OrderNotInLedger { by } => {
                format!("The {} have order {order}, which the ledger does not know.", by.as_str())
            }
            Self::OrderLost => {
                format!("Order {order} is lost: the ledger accepted it, but it is not in the records.")
            }
            Self::StockRowMissing => format!("Sale {sale} has no stock row in the records."),
            Self::RecordedOrders { held, paid, ledger_held, ledger_paid } => format!(
                "The orders of sale {sale} in the records add up to {held} held and {paid} paid units, the ledger \
                 has {ledger_held} and {ledger_paid}."
            ),
            Self::StockLog { log, ledger } => {
                format!("The stock log of sale {sale} adds up to {log}; the ledger has {ledger}.")
            }
            Self::StockRow { row, ledger } => {
                format!("The stock row of sale {sale} says {row}; the ledger has {ledger}.")
            }
            Self::PastStockRow { row } => {
                format!("The stock row of sale {sale}, which is over, does not add up: {row}.")
            }
            Self::PastStockLog { log, row } => {
                format!("The stock log of sale {sale}, which is over, adds up to {log}; its row says {row}.")
            }
            Self::PastOrders { held, paid, row } => format!(
                "The orders of sale {sale}, which is over, add up to {held} held and {paid} paid units; its row \
                 says {row}."
            ),
            Self::SaleStanding { ledger, row } => {
                let (ledger, row) = (ledger.as_str(), row.as_str());
                format!("Sale {sale} is {ledger} in the ledger, but {row} in its stock row.")
            }
            Self::SaleTerms => {
                format!("The terms of sale {sale} in its stock row are not those of the ledger.")
            }
            Self::OrderState { ledger, records } => of_order("state", order, ledger, records),
            Self::OrderBuyer { ledger, records } => of_order("buyer", order, ledger, records),
            Self::OrderQuantity { ledger, records } => of_order("quantity", order, ledger, records),
            Self::OrderTime { of, ledger_millis, records_millis } => {
                let moment = |millis: &Option<i64>| match millis {
                    Some(millis) => format!("{millis} ms"),
                    None => "never".to_owned(),
                };
                of_order(of.as_str(), order, moment(ledger_millis), moment(records_millis))
            }
            Self::OrderRefund { ledger_due, records_due } => {
                let due = |due: bool| if due { "due" } else { "not due" };
                of_order("refund", order, due(*ledger_due), due(*records_due))
            }
            Self::OrderKey => {
                format!("The idempotency key of order {order} in the records is not the one in the ledger.")
            }
            Self::OrderUnreadable { error } => format!("An order can't be read: {error}."),
            Self::OrderHeldAlready { decision } => {
                format!("Decision {decision} holds order {order}, which the records have already.")
            }
            Self::OrderToChangeMissing { decision } => {
                format!("Decision {decision} changes order {order}, which the records do not have.")
            }
            Self::OrderInWrongState { decision, needed, records } => {
                format!(
                    "Decision {decision} needs order {order} to be {needed}, but it is {records} in the records."
                )
            }
            Self::HeldTwice { times } => format!("Order {order} is held {times} times in the stock log."),
            Self::OrderMovements { state, units, held, paid } => format!(
                "Order {order} is {state} with {units} units in the ledger, but the stock log has {held} held and \
                 {paid} paid units of it."
            ),
            Self::UnknownMovement { movement } if order.is_empty() => {
                format!("The stock log has movements {movement:?}.")
            }
            Self::UnknownMovement { movement } => {
                format!("The stock log has a movement {movement:?} of order {order}.")
            }
            Self::NoOrderNumber { number } => format!("The stock log names an order number {number}."),
            Self::WaiterDiffers { number, ledger, records } => format!(
                "Number {number} on the waitlist of sale {sale} is {ledger} in the ledger, but {records} in the \
                 records."
            ),
            Self::WaiterNotInRecords { buyer } => {
                format!("Buyer {buyer} waits for sale {sale} in the ledger, but not in the records.")
            }
            Self::WaiterNotInLedger { buyer } => {
                format!("Buyer {buyer} waits for sale {sale} in the records, but not in the ledger.")
            }
        }
    }
}

fn of_order(
    what: &str,
    order: &str,
    ledger: impl std::fmt::Display,
    records: impl std::fmt::Display,
) -> String {
    format!("The {what} of order {order} is {ledger} in the ledger, but {records} in the records.")
}

impl Source {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ledger => "ledger",
            Self::Records => "records",
            Self::StockLog => "stock log",
        }
    }
}

impl Standing {
    pub(super) fn of(paused: bool, closed: bool) -> Self {
        match (paused, closed) {
            (_, true) => Self::Closed,
            (true, false) => Self::Paused,
            (false, false) => Self::Selling,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Selling => "selling",
            Self::Paused => "paused",
            Self::Closed => "closed",
        }
    }
}

impl OrderTime {
    fn as_str(self) -> &'static str {
        match self {
            Self::CreatedAt => "creation",
            Self::PayBefore => "payment deadline",
            Self::PaidAt => "payment",
        }
    }
}
