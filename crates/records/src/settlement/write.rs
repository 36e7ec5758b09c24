//! Carries out a plan with as few statements as possible.

use std::collections::HashMap;

use penstock_domain::{SaleId, SaleTerms, Timestamp};
use sqlx::AssertSqlSafe;

use super::{
    plan::{BatchPlan, NewOrder, OutboxRow, StockRow},
    stock::Stock,
};
use crate::{
    RecordsError, UnitCounts,
    connection::{DatabaseConnection, Statement},
    statements::{ROWS_PER_STATEMENT, insert},
};

/// An update with a list of payment times writes fewer orders at a time.
const ROWS_PER_UPDATE: [usize; 4] = [64, 16, 4, 1];
pub(super) async fn write(
    connection: &mut DatabaseConnection,
    stream: &str,
    plan: &BatchPlan<'_>,
) -> Result<(), RecordsError> {
    for (sale, at) in &plan.published {
        publish(connection, *sale, *at).await?;
    }
    for (sale, stock) in plan.stocks() {
        match &stock.published {
            Some(terms) => insert_stock(connection, terms, stock).await?,
            None => update_stock(connection, sale, stock).await?,
        }
    }
    let orders: Vec<NewOrder<'_>> = plan.new_orders().collect();
    let insert_orders = "INSERT INTO orders (sale_id, order_number, buyer, quantity, unit_price_minor, currency, \
                         state, created_at, pay_before, paid_at, refund_due, key_high, key_low) VALUES ";
    insert(connection, insert_orders, 13, &orders, bind_order).await?;
    update_orders(connection, plan).await?;
    plan.known.waitlist.write(connection).await?;
    let insert_log =
        "INSERT INTO stock_log (stream, position, sale_id, order_number, kind, units, moved_at) VALUES ";
    insert(connection, insert_log, 7, &plan.stock, |insert, row| bind_stock(insert, stream, row)).await?;
    let insert_outbox = "INSERT INTO outbox (stream, position, kind, payload, created_at) VALUES ";
    insert(connection, insert_outbox, 5, &plan.outbox, |insert, row| bind_outbox(insert, stream, row)).await
}

async fn publish(
    connection: &mut DatabaseConnection,
    sale: SaleId,
    at: Timestamp,
) -> Result<(), RecordsError> {
    let update = sqlx::query("UPDATE sales SET published_at = ? WHERE id = ? AND published_at IS NULL")
        .bind(at.as_millis())
        .bind(sale.as_i64());
    connection.change(update).await?;
    Ok(())
}

async fn insert_stock(
    connection: &mut DatabaseConnection,
    terms: &SaleTerms,
    stock: &Stock,
) -> Result<(), RecordsError> {
    let UnitCounts { total, available, held, paid } = stock.counts;
    let insert = sqlx::query(
        "INSERT INTO sale_stock (sale_id, units, limit_per_buyer, opens_at, closes_at, hold_seconds, total, \
         remaining, held, paid, paused, closed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(terms.sale.as_i64())
    .bind(i64::from(terms.units))
    .bind(i64::from(terms.limit_per_buyer))
    .bind(terms.opens_at.map(Timestamp::as_millis))
    .bind(terms.closes_at.map(Timestamp::as_millis))
    .bind(i64::from(terms.hold_seconds))
    .bind(total)
    .bind(available)
    .bind(held)
    .bind(paid)
    .bind(i32::from(stock.paused))
    .bind(i32::from(stock.closed));
    connection.change(insert).await?;
    Ok(())
}

/// Takes the units only while there are enough, whatever was read before.
async fn update_stock(
    connection: &mut DatabaseConnection,
    sale: SaleId,
    stock: &Stock,
) -> Result<(), RecordsError> {
    let more = stock.difference();
    let taken = -more.available;
    let update = sqlx::query(
        "UPDATE sale_stock SET total = total + ?, remaining = remaining - ?, held = held + ?, paid = paid + ?, \
         paused = ?, closed = ? WHERE sale_id = ? AND remaining >= ? AND held >= ?",
    )
    .bind(more.total)
    .bind(taken)
    .bind(more.held)
    .bind(more.paid)
    .bind(i32::from(stock.paused))
    .bind(i32::from(stock.closed))
    .bind(sale.as_i64())
    .bind(if taken > 0 { taken } else { i64::MIN })
    .bind(if more.held < 0 { -more.held } else { i64::MIN });
    if connection.change(update).await? == 1 {
        return Ok(());
    }
    Err(RecordsError::Refused(format!("sale {sale} no longer has the units that it had a moment ago")))
}

fn bind_order<'q>(insert: Statement<'q>, order: &NewOrder) -> Statement<'q> {
    let NewOrder { order, created_at, pay_before, key } = order;
    let [key_high, key_low] = key.words();
    insert
        .bind(order.id.sale.as_i64())
        .bind(i64::from(order.id.number))
        .bind(order.buyer.as_str().to_owned())
        .bind(i64::from(order.quantity))
        .bind(order.unit_price.minor)
        .bind(order.unit_price.currency.as_str().to_owned())
        .bind(order.state.as_str())
        .bind(created_at.as_millis())
        .bind(pay_before.as_millis())
        .bind(order.paid_at.map(Timestamp::as_millis))
        .bind(i32::from(order.refund_due))
        .bind(key_high as i64)
        .bind(key_low as i64)
}

fn bind_stock<'q>(insert: Statement<'q>, stream: &str, row: &StockRow) -> Statement<'q> {
    insert
        .bind(stream.to_owned())
        .bind(row.position as i64)
        .bind(row.sale.as_i64())
        .bind(row.order_number.map(i64::from))
        .bind(row.kind)
        .bind(i64::from(row.units))
        .bind(row.at.as_millis())
}

fn bind_outbox<'q>(insert: Statement<'q>, stream: &str, row: &OutboxRow) -> Statement<'q> {
    insert
        .bind(stream.to_owned())
        .bind(row.position as i64)
        .bind(row.kind)
        .bind(row.payload.clone())
        .bind(row.at.as_millis())
}

/// What the orders in one update have in common: many holds expire together, many orders are paid in one
/// batch.
#[derive(PartialEq, Eq, Hash)]
struct OrderChange {
    sale: SaleId,
    from: &'static str,
    to: &'static str,
    refund_due: bool,
}

type ChangedOrder = (u32, Option<Timestamp>);

async fn update_orders(
    connection: &mut DatabaseConnection,
    plan: &BatchPlan<'_>,
) -> Result<(), RecordsError> {
    let mut changes: HashMap<OrderChange, Vec<ChangedOrder>> = HashMap::new();
    for (order, stored) in plan.changed_orders() {
        let change = OrderChange {
            sale: order.id.sale,
            from: stored.as_str(),
            to: order.state.as_str(),
            refund_due: order.refund_due,
        };
        changes.entry(change).or_default().push((order.id.number, order.paid_at));
    }
    for (change, mut orders) in changes {
        orders.sort_unstable();
        let at_once = orders.iter().all(|(_, paid_at)| Some(*paid_at) == orders.first().map(|first| first.1));
        let lengths = if at_once { ROWS_PER_STATEMENT.as_slice() } else { ROWS_PER_UPDATE.as_slice() };
        let mut rest = orders.as_slice();
        for rows_per_statement in lengths {
            while let Some((now, later)) = rest.split_at_checked(*rows_per_statement) {
                update_chunk(connection, &change, now, at_once).await?;
                rest = later;
            }
        }
    }
    Ok(())
}

/// Changes a few orders that are paid at different moments, or many at once that were never paid.
async fn update_chunk(
    connection: &mut DatabaseConnection,
    change: &OrderChange,
    orders: &[ChangedOrder],
    at_once: bool,
) -> Result<(), RecordsError> {
    let marks = vec!["?"; orders.len()].join(",");
    let paid_at = if at_once {
        "?".to_owned()
    } else {
        format!("CASE order_number {} END", vec!["WHEN ? THEN ?"; orders.len()].join(" "))
    };
    let statement = AssertSqlSafe(format!(
        "UPDATE orders SET state = ?, refund_due = ?, paid_at = {paid_at} \
         WHERE sale_id = ? AND state = ? AND order_number IN ({marks})"
    ));
    let mut update = sqlx::query(statement).bind(change.to).bind(i32::from(change.refund_due));
    if at_once {
        let paid_at = orders.first().and_then(|(_, paid_at)| *paid_at);
        update = update.bind(paid_at.map(Timestamp::as_millis));
    } else {
        for (number, paid_at) in orders {
            update = update.bind(i64::from(*number)).bind(paid_at.map(Timestamp::as_millis));
        }
    }
    update = update.bind(change.sale.as_i64()).bind(change.from);
    for (number, _) in orders {
        update = update.bind(i64::from(*number));
    }
    let updated = connection.change(update).await?;
    if updated == orders.len() as u64 {
        return Ok(());
    }
    Err(RecordsError::Refused(format!("only {updated} of {} orders could be changed", orders.len())))
}
