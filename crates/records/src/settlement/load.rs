//! Reads what a batch of decisions refers to, with as few statements as possible. Lists have a few fixed
//! lengths, so that every statement is prepared once and reused.

use penstock_domain::{BuyerId, Decision, Event, OrderId, SaleId};
use sqlx::{
    Any, AssertSqlSafe,
    any::{AnyArguments, AnyRow},
    query::Query,
};

use super::{
    plan::{self, Known, KnownSale, Origin, PlannedOrder, order_of},
    stock::{Counts, Stock},
    waitlist::Waitlist,
};
use crate::{
    RecordsError,
    columns::{flag, integer, money, optional_integer, optional_moment, small, text},
    orders::read_state,
    session::Session,
};

/// The possible lengths of a list in `IN (…)`, far below the bind limits of SQLite (32,766) and MySQL
/// (65,535). Together with the other statements of settlement, they fit into a connection's cache of a
/// hundred.
const LIST_LENGTHS: [usize; 15] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 384, 512, 640, 768, 896, 1024];
pub(super) const MAX_LISTED: usize = LIST_LENGTHS[LIST_LENGTHS.len() - 1];

/// Whether decisions that depend on a dead letter become dead letters themselves, or are tried anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Letters {
    Join,
    Ignore,
}

/// Reads what `decisions` refer to: their sales, the orders they change, the units their buyers own, the
/// people who wait, and the dead letters of those sales.
pub(super) async fn load(
    connection: &mut Session,
    decisions: &[Decision],
    letters: Letters,
) -> Result<Known, RecordsError> {
    let mut known = Known::default();
    let mut sales: Vec<SaleId> = decisions.iter().map(|decision| decision.event.sale()).collect();
    sales.sort_unstable();
    sales.dedup();
    for sales in sales.chunks(MAX_LISTED) {
        load_sales(connection, sales, &mut known).await?;
    }
    let sorted = |order: fn(&Event) -> Option<OrderId>| {
        let mut orders: Vec<OrderId> =
            decisions.iter().filter_map(|decision| order(&decision.event)).collect();
        orders.sort_unstable();
        orders.dedup();
        orders
    };
    for of_sale in sorted(plan::changed_order).chunk_by(|left, right| left.sale == right.sale) {
        for orders in of_sale.chunks(MAX_LISTED) {
            load_orders(connection, orders, &mut known).await?;
        }
    }
    for receivers in receivers(decisions, &known).chunks(MAX_LISTED) {
        load_owned(connection, receivers, &mut known).await?;
    }
    known.add_waitlist(Waitlist::load(connection, decisions).await?);
    if letters == Letters::Join {
        let orders = sorted(order_of);
        sales.retain(|sale| known.may_have_letters(*sale));
        for sale in sales {
            let begin = orders.partition_point(|order| order.sale < sale);
            let end = orders.partition_point(|order| order.sale <= sale);
            load_letters(connection, &orders[begin..end], sale, &mut known).await?;
        }
    }
    Ok(known)
}

/// The buyers to whom `decisions` give units, and the sales.
fn receivers(decisions: &[Decision], known: &Known) -> Vec<(SaleId, BuyerId)> {
    let receiver = |decision: &Decision| match &decision.event {
        Event::Held { order, buyer, .. } => Some((order.sale, buyer.clone())),
        Event::Paid { order, after_expiry: true, .. } => Some((order.sale, known.buyer(*order)?.clone())),
        _ => None,
    };
    let mut receivers: Vec<(SaleId, BuyerId)> = decisions.iter().filter_map(receiver).collect();
    receivers.sort_unstable();
    receivers.dedup();
    receivers
}

async fn load_sales(
    connection: &mut Session,
    sales: &[SaleId],
    known: &mut Known,
) -> Result<(), RecordsError> {
    let query = AssertSqlSafe(format!(
        "SELECT s.id, s.price_minor, s.currency, s.hold_seconds, k.limit_per_buyer AS stock_limit, k.total, \
         k.remaining, k.held, k.paid, k.paused, k.closed, \
         EXISTS (SELECT 1 FROM dead_letters d WHERE d.resolved_at IS NULL AND d.sale_id = s.id) AS has_letters \
         FROM sales s LEFT JOIN sale_stock k ON k.sale_id = s.id WHERE s.id IN ({})",
        marks(sales.len())
    ));
    let query = bind_list(sqlx::query(query), sales, |query, sale| query.bind(sale.as_i64()));
    for row in query.fetch_all(&mut *connection).await? {
        let sale = SaleId::from_i64(integer(&row, "id")?);
        let terms = money(&row, "price_minor", "currency")
            .and_then(|price| Ok(KnownSale { price, hold_seconds: small(&row, "hold_seconds")? }));
        known.add_sale(sale, terms.map_err(|error| error.to_string()));
        if !flag(&row, "has_letters")? {
            known.add_clean(sale);
        }
        if optional_integer(&row, "stock_limit")?.is_some() {
            let counts = Counts {
                total: integer(&row, "total")?,
                remaining: integer(&row, "remaining")?,
                held: integer(&row, "held")?,
                paid: integer(&row, "paid")?,
            };
            let limit = small(&row, "stock_limit")?;
            let (paused, closed) = (flag(&row, "paused")?, flag(&row, "closed")?);
            known.add_stock(sale, Stock::stored(counts, limit, paused, closed));
        }
    }
    Ok(())
}

/// Finds the unresolved dead letters of `orders`, which belong to one sale.
async fn load_letters(
    connection: &mut Session,
    orders: &[OrderId],
    sale: SaleId,
    known: &mut Known,
) -> Result<(), RecordsError> {
    let any =
        sqlx::query("SELECT sale_id FROM dead_letters WHERE resolved_at IS NULL AND sale_id = ? LIMIT 1")
            .bind(sale.as_i64())
            .fetch_optional(&mut *connection)
            .await?;
    if any.is_none() {
        return Ok(());
    }
    known.add_letter(sale, None);
    for orders in orders.chunks(MAX_LISTED) {
        let query = AssertSqlSafe(format!(
            "SELECT DISTINCT order_number FROM dead_letters \
             WHERE resolved_at IS NULL AND sale_id = ? AND order_number IN ({})",
            marks(orders.len())
        ));
        let query = bind_list(sqlx::query(query).bind(sale.as_i64()), orders, bind_number);
        for row in query.fetch_all(&mut *connection).await? {
            known.add_letter(sale, Some(small(&row, "order_number")?));
        }
    }
    Ok(())
}

async fn load_orders(
    connection: &mut Session,
    orders: &[OrderId],
    known: &mut Known,
) -> Result<(), RecordsError> {
    let Some(first) = orders.first() else { return Ok(()) };
    // Only the columns that a change needs: every column costs time.
    let query = AssertSqlSafe(format!(
        "SELECT order_number, buyer, quantity, state, paid_at, refund_due, unit_price_minor, currency \
         FROM orders WHERE sale_id = ? AND order_number IN ({})",
        marks(orders.len())
    ));
    let query = bind_list(sqlx::query(query).bind(first.sale.as_i64()), orders, bind_number);
    for row in query.fetch_all(&mut *connection).await? {
        let id = OrderId { sale: first.sale, number: small(&row, "order_number")? };
        match read_changing(&row, id) {
            Ok(order) => known.add_order(order),
            Err(error) => known.add_damaged_order(id, error.to_string()),
        }
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
    connection: &mut Session,
    receivers: &[(SaleId, BuyerId)],
    known: &mut Known,
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
    for row in query.fetch_all(&mut *connection).await? {
        let sale = SaleId::from_i64(integer(&row, "sale_id")?);
        known.add_owned(sale, BuyerId::from_stored(&text(&row, "buyer")?), integer(&row, "units")?);
    }
    Ok(())
}

pub(super) type Select<'q> = Query<'q, Any, AnyArguments>;

fn bind_number<'q>(query: Select<'q>, order: &OrderId) -> Select<'q> {
    query.bind(i64::from(order.number))
}

fn list_length(values: usize) -> usize {
    LIST_LENGTHS.into_iter().find(|length| *length >= values).unwrap_or(values)
}

pub(super) fn marks(values: usize) -> String {
    vec!["?"; list_length(values)].join(",")
}

/// Binds a list to the placeholders of `marks`; the last value fills the rest.
pub(super) fn bind_list<'q, T>(
    query: Select<'q>,
    values: &[T],
    bind: impl Fn(Select<'q>, &T) -> Select<'q>,
) -> Select<'q> {
    let rest = list_length(values.len()) - values.len();
    let filling = std::iter::repeat_n(values.last(), rest).flatten();
    values.iter().chain(filling).fold(query, bind)
}
