//! Reads what a batch of decisions refers to, with as few statements as possible.

use penstock_domain::{BuyerId, Decision, Event, OrderId, SaleId};
use sqlx::{AssertSqlSafe, any::AnyRow};

use super::{
    known::{KnownRows, KnownSale, Origin, PlannedOrder},
    stock::Stock,
    waitlist::BatchWaitlist,
};
use crate::{
    RecordsError, UnitCounts,
    columns::{flag, integer, money, optional_integer, optional_moment, sale_id, small, text},
    connection::{DatabaseConnection, Statement},
    dead_letters::count_letters,
    orders::read_state,
    statements::{MAX_LISTED, bind_list, marks},
};

/// What becomes of decisions that depend on a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dependents {
    /// They become dead letters, too.
    Join,
    /// They are tried all the same.
    Try,
}

/// Reads what `decisions` refer to: their sales, the orders they change, the units their buyers own, the
/// people who wait, and the dead letters of those sales.
pub(super) async fn load(
    connection: &mut DatabaseConnection,
    decisions: &[Decision],
    dependents: Dependents,
) -> Result<KnownRows, RecordsError> {
    let mut known = KnownRows::default();
    let mut sales: Vec<SaleId> = decisions.iter().map(|decision| decision.event.sale()).collect();
    sales.sort_unstable();
    sales.dedup();
    let mut with_letters = Vec::new();
    for sales in sales.chunks(MAX_LISTED) {
        with_letters.extend(load_sales(connection, sales, &mut known).await?);
    }
    let changed = orders(decisions, |event| !matches!(event, Event::Held { .. }));
    for of_sale in changed.chunk_by(|left, right| left.sale == right.sale) {
        for orders in of_sale.chunks(MAX_LISTED) {
            load_orders(connection, orders, &mut known).await?;
        }
    }
    for receivers in receivers(decisions, &known).chunks(MAX_LISTED) {
        load_owned(connection, receivers, &mut known).await?;
    }
    known.waitlist = BatchWaitlist::load(connection, decisions).await?;
    if dependents == Dependents::Join && !with_letters.is_empty() {
        let orders = orders(decisions, |_| true);
        for sale in with_letters {
            let begin = orders.partition_point(|order| order.sale < sale);
            let end = orders.partition_point(|order| order.sale <= sale);
            load_letters(connection, &orders[begin..end], sale, &mut known).await?;
        }
    }
    Ok(known)
}

/// The orders of the events that match, sorted.
fn orders(decisions: &[Decision], is_meant: impl Fn(&Event) -> bool) -> Vec<OrderId> {
    let events = decisions.iter().map(|decision| &decision.event).filter(|event| is_meant(event));
    let mut orders: Vec<OrderId> = events.filter_map(Event::order).collect();
    orders.sort_unstable();
    orders.dedup();
    orders
}

/// The buyers to whom `decisions` give units, and the sales.
fn receivers(decisions: &[Decision], known: &KnownRows) -> Vec<(SaleId, BuyerId)> {
    let receiver = |decision: &Decision| match &decision.event {
        Event::Held { order, buyer, .. } => Some((order.sale, buyer.clone())),
        Event::Paid { order, after_expiry: true, .. } => {
            Some((order.sale, known.order(*order)?.buyer.clone()))
        }
        _ => None,
    };
    let mut receivers: Vec<(SaleId, BuyerId)> = decisions.iter().filter_map(receiver).collect();
    receivers.sort_unstable();
    receivers.dedup();
    receivers
}

/// Returns the sales that have unresolved dead letters. A sale that is not there may have some, too.
async fn load_sales(
    connection: &mut DatabaseConnection,
    sales: &[SaleId],
    known: &mut KnownRows,
) -> Result<Vec<SaleId>, RecordsError> {
    let query = AssertSqlSafe(format!(
        "SELECT s.id, s.price_minor, s.currency, s.hold_seconds, k.limit_per_buyer AS stock_limit, k.total, \
         k.remaining, k.held, k.paid, k.paused, k.closed, \
         EXISTS (SELECT 1 FROM dead_letters d WHERE d.resolved_at IS NULL AND d.sale_id = s.id) AS has_letters \
         FROM sales s LEFT JOIN sale_stock k ON k.sale_id = s.id WHERE s.id IN ({})",
        marks(sales.len())
    ));
    let query = bind_list(sqlx::query(query), sales, |query, sale| query.bind(sale.as_i64()));
    let mut with_letters = sales.to_vec();
    for row in connection.rows(query).await? {
        let sale = SaleId::from_i64(integer(&row, "id")?);
        let terms = money(&row, "price_minor", "currency")
            .and_then(|price| Ok(KnownSale { price, hold_seconds: small(&row, "hold_seconds")? }));
        known.sales.insert(sale, terms.map_err(|error| error.to_string()));
        if !flag(&row, "has_letters")? {
            with_letters.retain(|other| *other != sale);
        }
        if optional_integer(&row, "stock_limit")?.is_some() {
            let (counts, limit) = (UnitCounts::stored(&row)?, small(&row, "stock_limit")?);
            let (paused, closed) = (flag(&row, "paused")?, flag(&row, "closed")?);
            known.stocks.insert(sale, Stock::stored(counts, limit, paused, closed));
        }
    }
    Ok(with_letters)
}

/// Finds the unresolved dead letters of `orders`, which belong to one sale.
async fn load_letters(
    connection: &mut DatabaseConnection,
    orders: &[OrderId],
    sale: SaleId,
    known: &mut KnownRows,
) -> Result<(), RecordsError> {
    if count_letters(connection, Some(sale)).await? == 0 {
        return Ok(());
    }
    let numbers = known.letters.entry(sale).or_default();
    for orders in orders.chunks(MAX_LISTED) {
        let query = AssertSqlSafe(format!(
            "SELECT DISTINCT order_number FROM dead_letters \
             WHERE resolved_at IS NULL AND sale_id = ? AND order_number IN ({})",
            marks(orders.len())
        ));
        let query = bind_list(sqlx::query(query).bind(sale.as_i64()), orders, bind_number);
        for row in connection.rows(query).await? {
            numbers.insert(small(&row, "order_number")?);
        }
    }
    Ok(())
}

async fn load_orders(
    connection: &mut DatabaseConnection,
    orders: &[OrderId],
    known: &mut KnownRows,
) -> Result<(), RecordsError> {
    let Some(first) = orders.first() else { return Ok(()) };
    // Only the columns that a change needs: every column costs time.
    let query = AssertSqlSafe(format!(
        "SELECT order_number, buyer, quantity, state, paid_at, refund_due, unit_price_minor, currency \
         FROM orders WHERE sale_id = ? AND order_number IN ({})",
        marks(orders.len())
    ));
    let query = bind_list(sqlx::query(query).bind(first.sale.as_i64()), orders, bind_number);
    for row in connection.rows(query).await? {
        let id = OrderId { sale: first.sale, number: small(&row, "order_number")? };
        known.orders.insert(id, read_changing(&row, id).map_err(|error| error.to_string()));
    }
    Ok(())
}

fn read_changing(row: &AnyRow, id: OrderId) -> Result<PlannedOrder, RecordsError> {
    let state = read_state(row)?;
    Ok(PlannedOrder {
        id,
        buyer: BuyerId::from_stored(&text(row, "buyer")?),
        quantity: small(row, "quantity")?,
        unit_price: money(row, "unit_price_minor", "currency")?,
        state,
        paid_at: optional_moment(row, "paid_at")?,
        refund_due: flag(row, "refund_due")?,
        origin: Origin::Records { state, changed: false },
    })
}

/// Reads the held and paid units of buyers. For a single sale, rows are found by buyer and sale. Otherwise
/// they are found by buyer alone (the plus keeps the sales out of the search): every buyer in every sale
/// would be too many lookups.
async fn load_owned(
    connection: &mut DatabaseConnection,
    receivers: &[(SaleId, BuyerId)],
    known: &mut KnownRows,
) -> Result<(), RecordsError> {
    // They are sorted by sale.
    let mut sales: Vec<SaleId> = receivers.iter().map(|(sale, _)| *sale).collect();
    sales.dedup();
    let of_sales = match sales.len() {
        0 => return Ok(()),
        1 => "sale_id = ?".to_owned(),
        several => format!("+sale_id IN ({})", marks(several)),
    };
    let query = AssertSqlSafe(format!(
        "SELECT sale_id, buyer, CAST(SUM(quantity) AS SIGNED) AS units FROM {} \
         WHERE buyer IN ({}) AND {of_sales} AND state IN ('held', 'paid') GROUP BY buyer, sale_id",
        connection.dialect().orders_by_buyer(),
        marks(receivers.len())
    ));
    let query =
        bind_list(sqlx::query(query), receivers, |query, (_, buyer)| query.bind(buyer.as_str().to_owned()));
    let query = bind_list(query, &sales, |query, sale| query.bind(sale.as_i64()));
    for row in connection.rows(query).await? {
        if let Some(stock) = known.stocks.get_mut(&sale_id(&row)?) {
            stock.owned.insert(BuyerId::from_stored(&text(&row, "buyer")?), integer(&row, "units")?);
        }
    }
    Ok(())
}

fn bind_number<'q>(query: Statement<'q>, order: &OrderId) -> Statement<'q> {
    query.bind(i64::from(order.number))
}
