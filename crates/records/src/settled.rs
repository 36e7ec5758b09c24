//! A ledger that may have lost its latest decisions asks the records before it goes on: how far is a stream
//! settled, and what was the sale like then? The question first stops the stream's settler, so that the
//! answer stays true until the settler has looked again.

use penstock_domain::{
    BuyerId, Cursor, NewEpoch, SaleId, SaleSnapshot, SaleStatus, SaleTerms, SettledSale, SnapshotOrder,
    Waiter,
};
use sqlx::any::AnyRow;

use crate::{
    Records, RecordsError,
    columns::{flag, moment, natural, optional_moment, sale_id, small, text},
    connection::DatabaseConnection,
    dead_letters::count_letters,
    leases::read_cursor,
    orders::read_order,
};

/// Orders and people on the waitlist, read at a time.
const PAGE: usize = 5_000;

impl Records {
    /// Stops the settler of `stream`, and says how far it is settled. From now on only decisions of the new
    /// epoch can be settled. Its number is higher than any before, and at least `at_least`.
    pub async fn settled_cursor(&self, stream: &str, at_least: u64) -> Result<NewEpoch, RecordsError> {
        let mut transaction = self.begin().await?;
        let begun = begin_epoch(&mut transaction, stream, at_least).await?;
        transaction.commit().await?;
        Ok(begun)
    }

    /// How far `stream` is settled, if everything of `sale` up to there is in its tables. None: it has
    /// unresolved dead letters. The settler is not stopped.
    pub async fn complete_up_to(&self, stream: &str, sale: SaleId) -> Result<Option<Cursor>, RecordsError> {
        let mut connection = self.reader().await?;
        let cursor = read_cursor(&mut connection, stream).await?;
        // Counted after the cursor is read: a letter is written before the cursor passes it.
        let letters = count_letters(&mut connection, Some(sale)).await?;
        Ok((letters == 0).then_some(cursor))
    }

    /// Like `settled_cursor`, but also reads `sale`, all of whose decisions are in the stream. None: not even
    /// its publishing is settled. A sale with unresolved dead letters is refused, because the records know
    /// only a part of it.
    pub async fn settled_sale(
        &self,
        stream: &str,
        sale: SaleId,
        at_least: u64,
    ) -> Result<Option<SettledSale>, RecordsError> {
        let mut transaction = self.begin().await?;
        let begun = begin_epoch(&mut transaction, stream, at_least).await?;
        refuse_dead_letters(&mut transaction, sale).await?;
        let query = sqlx::query("SELECT * FROM sale_stock WHERE sale_id = ?").bind(sale.as_i64());
        let read = |row: &AnyRow| read_status(row, sale, begun.cursor.position);
        let settled = match transaction.one(query, read).await? {
            None => None,
            Some(status) => {
                let orders = read_orders(&mut transaction, sale).await?;
                check(&status, &orders)?;
                let waiters = read_waiters(&mut transaction, sale).await?;
                Some(SettledSale { begun, sale: SaleSnapshot { status, orders, waiters } })
            }
        };
        transaction.commit().await?;
        Ok(settled)
    }

    /// The published sales that are not over: those that are not closed, and those with holds that can still
    /// be paid or released.
    pub async fn open_sales(&self) -> Result<Vec<SaleId>, RecordsError> {
        let query = "SELECT sale_id FROM sale_stock WHERE closed = 0 OR held > 0 ORDER BY sale_id";
        self.reader().await?.all(sqlx::query(query), sale_id).await
    }
}

/// Ends every lease of the stream, and its epoch. It comes first in its transaction, so that it waits for a
/// batch under way.
async fn begin_epoch(
    connection: &mut DatabaseConnection,
    stream: &str,
    at_least: u64,
) -> Result<NewEpoch, RecordsError> {
    let least = i64::try_from(at_least).map_err(RecordsError::damaged)?;
    if !raise_epoch(connection, stream, least).await? {
        // Another caller may just have done it.
        let insert =
            sqlx::query("INSERT INTO settlement_cursors (stream, position) VALUES (?, 0)").bind(stream);
        connection.insert_new(insert).await?;
        raise_epoch(connection, stream, least).await?;
    }
    let query = sqlx::query("SELECT epoch FROM settlement_cursors WHERE stream = ?").bind(stream);
    let epoch = connection.one(query, |row| natural(row, "epoch")).await?;
    let epoch = epoch.ok_or_else(|| RecordsError::damaged("a stream that was just begun is not there"))?;
    Ok(NewEpoch { cursor: read_cursor(connection, stream).await?, epoch })
}

/// False: nothing of the stream has been settled yet.
async fn raise_epoch(
    connection: &mut DatabaseConnection,
    stream: &str,
    least: i64,
) -> Result<bool, RecordsError> {
    let raise = sqlx::query(
        "UPDATE settlement_cursors SET fence = fence + 1, lease_until = 0, \
         epoch = CASE WHEN epoch + 1 > ? THEN epoch + 1 ELSE ? END WHERE stream = ?",
    )
    .bind(least)
    .bind(least)
    .bind(stream);
    Ok(connection.change(raise).await? == 1)
}

async fn refuse_dead_letters(connection: &mut DatabaseConnection, sale: SaleId) -> Result<(), RecordsError> {
    match count_letters(connection, Some(sale)).await? {
        0 => Ok(()),
        letters => Err(RecordsError::Refused(format!(
            "{letters} decisions on sale {sale} are dead letters and have to be resolved first"
        ))),
    }
}

fn read_status(row: &AnyRow, sale: SaleId, version: u64) -> Result<SaleStatus, RecordsError> {
    let terms = SaleTerms {
        sale,
        units: small(row, "units")?,
        limit_per_buyer: small(row, "limit_per_buyer")?,
        opens_at: optional_moment(row, "opens_at")?,
        closes_at: optional_moment(row, "closes_at")?,
        hold_seconds: small(row, "hold_seconds")?,
    };
    Ok(SaleStatus {
        terms,
        total: small(row, "total")?,
        available: small(row, "remaining")?,
        held: small(row, "held")?,
        paid: small(row, "paid")?,
        paused: flag(row, "paused")?,
        closed: flag(row, "closed")?,
        version,
    })
}

async fn read_orders(
    connection: &mut DatabaseConnection,
    sale: SaleId,
) -> Result<Vec<SnapshotOrder>, RecordsError> {
    let mut orders: Vec<SnapshotOrder> = Vec::new();
    loop {
        let query = sqlx::query(
            "SELECT * FROM orders WHERE sale_id = ? AND order_number >= ? ORDER BY order_number LIMIT ?",
        )
        .bind(sale.as_i64())
        .bind(orders.len() as i64)
        .bind(PAGE as i64);
        let page = connection.all(query, read_order).await?;
        let is_last = page.len() < PAGE;
        for (order, key) in page {
            if order.id.number as usize != orders.len() {
                let missing = orders.len();
                return Err(RecordsError::damaged(format!("order {missing} of sale {sale} is missing")));
            }
            orders.push(SnapshotOrder { order, key });
        }
        if is_last {
            return Ok(orders);
        }
    }
}

/// The people on the sale's waitlist, in order.
pub(crate) async fn read_waiters(
    connection: &mut DatabaseConnection,
    sale: SaleId,
) -> Result<Vec<Waiter>, RecordsError> {
    let mut waiters: Vec<Waiter> = Vec::new();
    loop {
        let after = waiters.last().map_or(-1, |waiter| i64::from(waiter.number));
        let query = sqlx::query(
            "SELECT number, buyer, quantity, joined_at FROM waitlist WHERE sale_id = ? AND number > ? \
             ORDER BY number LIMIT ?",
        )
        .bind(sale.as_i64())
        .bind(after)
        .bind(PAGE as i64);
        let page = connection.all(query, read_waiter).await?;
        let is_last = page.len() < PAGE;
        waiters.extend(page);
        if is_last {
            return Ok(waiters);
        }
    }
}

pub(crate) fn read_waiter(row: &AnyRow) -> Result<Waiter, RecordsError> {
    Ok(Waiter {
        number: small(row, "number")?,
        buyer: BuyerId::from_stored(&text(row, "buyer")?),
        quantity: small(row, "quantity")?,
        joined_at: moment(row, "joined_at")?,
    })
}

/// If the counts don't add up, a ledger that is built on them would sell units that don't exist.
fn check(status: &SaleStatus, orders: &[SnapshotOrder]) -> Result<(), RecordsError> {
    use penstock_domain::OrderState::{Held, Paid};
    let units_in = |state| {
        let in_state = orders.iter().filter(|order| order.order.state == state);
        in_state.map(|order| u64::from(order.order.quantity)).sum::<u64>()
    };
    let (total, available) = (u64::from(status.total), u64::from(status.available));
    let (held, paid) = (u64::from(status.held), u64::from(status.paid));
    if (units_in(Held), units_in(Paid)) == (held, paid) && total == available + held + paid {
        return Ok(());
    }
    let sale = status.terms.sale;
    Err(RecordsError::damaged(format!("the stock of sale {sale} and its orders do not add up; audit them")))
}
