//! Bringing decisions into SQL, exactly once: their rows and the cursor are one transaction.

mod plan;
mod write;

use penstock_domain::{Decision, Event, OrderId, SaleId};
pub(crate) use plan::order_of;
use plan::{Known, Plan};
use sqlx::{Any, AnyConnection, QueryBuilder};

use crate::{
    Records, RecordsError,
    columns::{integer, money, small},
    dead_letters::{NewLetter, insert_letters},
    error::is_unique_violation,
    orders::read_order,
};

/// How many values one `IN (…)` may list; far below the bind limits of SQLite (32,766) and MySQL (65,535).
const MAX_LISTED: usize = 1000;

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The cursor after it.
    pub position: u64,
    /// Decisions that joined the dead letters, because an earlier decision they rest on is one.
    pub dead_lettered: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// Somebody else settled in the meantime: go on from `position`.
    #[error("the settlement cursor is at {position}, not where this batch begins")]
    CursorMoved { position: u64 },
    #[error("the decisions have a gap after position {after}")]
    Gap { after: u64 },
    /// One decision can't be applied to what is stored. Nothing of the batch was.
    #[error("decision {position} can't be settled: {reason}")]
    Poison { position: u64, reason: String },
    #[error(transparent)]
    Records(#[from] RecordsError),
}

impl From<sqlx::Error> for SettleError {
    fn from(error: sqlx::Error) -> Self {
        Self::Records(error.into())
    }
}

/// Why a plan could not be carried out.
#[derive(Debug)]
pub(crate) enum Failure {
    Poison { position: u64, reason: String },
    Records(RecordsError),
}

impl<E: Into<RecordsError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Records(error.into())
    }
}

impl From<Failure> for SettleError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Poison { position, reason } => Self::Poison { position, reason },
            Failure::Records(error) => Self::Records(error),
        }
    }
}

impl Records {
    /// The position of the last settled decision of `stream`; 0 before the first.
    pub async fn cursor(&self, stream: &str) -> Result<u64, RecordsError> {
        let mut connection = self.readers.acquire().await?;
        Ok(read_cursor(&mut connection, stream).await?.unwrap_or(0))
    }

    /// Applies `decisions` and moves the cursor past them in one transaction, or does nothing.
    pub async fn settle(&self, stream: &str, decisions: &[Decision]) -> Result<Settled, SettleError> {
        let (Some(first), Some(last)) = (decisions.first(), decisions.last()) else {
            return Ok(Settled { position: self.cursor(stream).await?, dead_lettered: 0 });
        };
        if let Some(pair) = decisions.windows(2).find(|pair| pair[1].position != pair[0].position + 1) {
            return Err(SettleError::Gap { after: pair[0].position });
        }
        let mut transaction = self.begin().await?;
        move_cursor(&mut transaction, stream, first.position.saturating_sub(1), last.position).await?;
        match apply(&mut transaction, stream, decisions, Letters::Join).await {
            Ok(dead_lettered) => {
                transaction.commit().await?;
                Ok(Settled { position: last.position, dead_lettered })
            }
            Err(Failure::Records(RecordsError::Refused(reason))) => {
                transaction.rollback().await?;
                Err(self.locate(stream, decisions, reason).await)
            }
            Err(failure) => {
                transaction.rollback().await?;
                Err(failure.into())
            }
        }
    }

    /// A constraint refused some row of the batch: applies one decision after the other, to no effect, until
    /// it is known whose.
    async fn locate(&self, stream: &str, decisions: &[Decision], reason: String) -> SettleError {
        let mut transaction = match self.begin().await {
            Ok(transaction) => transaction,
            Err(error) => return error.into(),
        };
        for decision in decisions {
            match apply(&mut transaction, stream, std::slice::from_ref(decision), Letters::Join).await {
                Ok(_) => {}
                Err(Failure::Records(RecordsError::Refused(reason))) => {
                    return SettleError::Poison { position: decision.position, reason };
                }
                Err(failure) => return failure.into(),
            }
        }
        RecordsError::Refused(reason).into()
    }
}

/// Whether decisions that rest on a dead letter become dead letters themselves, or are tried all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Letters {
    Join,
    Ignore,
}

/// Writes everything that follows from `decisions`, except the cursor. Returns how many joined the dead letters.
pub(crate) async fn apply(
    connection: &mut AnyConnection,
    stream: &str,
    decisions: &[Decision],
    letters: Letters,
) -> Result<u64, Failure> {
    let known = load(connection, decisions, letters).await?;
    let mut plan = Plan::new(known);
    for decision in decisions {
        plan.add(decision).map_err(|reason| Failure::Poison { position: decision.position, reason })?;
    }
    let joining: Vec<NewLetter<'_>> = plan
        .joining
        .iter()
        .map(|(decision, reason)| NewLetter { decision, reason, tries: 0, now: decision.at })
        .collect();
    insert_letters(connection, stream, &joining).await?;
    write::write(connection, stream, &plan).await?;
    Ok(joining.len() as u64)
}

/// Reads what `decisions` refer to: their sales, the orders they change, and the dead letters of those sales.
async fn load(
    connection: &mut AnyConnection,
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
    if letters == Letters::Join {
        let orders = sorted(order_of);
        for sale in sales {
            let begin = orders.partition_point(|order| order.sale < sale);
            let end = orders.partition_point(|order| order.sale <= sale);
            load_letters(connection, &orders[begin..end], sale, &mut known).await?;
        }
    }
    Ok(known)
}

async fn load_sales(
    connection: &mut AnyConnection,
    sales: &[SaleId],
    known: &mut Known,
) -> Result<(), RecordsError> {
    let mut query =
        QueryBuilder::<Any>::new("SELECT id, price_minor, currency, hold_seconds FROM sales WHERE id IN (");
    push_list(&mut query, sales.iter().map(|sale| sale.as_i64()));
    for row in query.build().fetch_all(&mut *connection).await? {
        let sale = SaleId::from_i64(integer(&row, "id")?);
        let terms = money(&row, "price_minor", "currency")
            .and_then(|price| Ok((price, small(&row, "hold_seconds")?)));
        known.add_sale(sale, terms.map_err(|error| error.to_string()));
    }
    Ok(())
}

/// Finds the unresolved dead letters of `orders`, which belong to one sale. Nearly always the sale has none at
/// all, which costs one look at the index.
async fn load_letters(
    connection: &mut AnyConnection,
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
        let mut query = QueryBuilder::<Any>::new(
            "SELECT DISTINCT order_number FROM dead_letters WHERE resolved_at IS NULL AND sale_id = ",
        );
        query.push_bind(sale.as_i64()).push(" AND order_number IN (");
        push_list(&mut query, orders.iter().map(|order| i64::from(order.number)));
        for row in query.build().fetch_all(&mut *connection).await? {
            known.add_letter(sale, Some(small(&row, "order_number")?));
        }
    }
    Ok(())
}

async fn load_orders(
    connection: &mut AnyConnection,
    orders: &[OrderId],
    known: &mut Known,
) -> Result<(), RecordsError> {
    let Some(first) = orders.first() else { return Ok(()) };
    let mut query = QueryBuilder::<Any>::new("SELECT * FROM orders WHERE sale_id = ");
    query.push_bind(first.sale.as_i64()).push(" AND order_number IN (");
    push_list(&mut query, orders.iter().map(|order| i64::from(order.number)));
    for row in query.build().fetch_all(&mut *connection).await? {
        let id = OrderId { sale: first.sale, number: small(&row, "order_number")? };
        let stored =
            read_order(&row).and_then(|order| Ok((order, money(&row, "unit_price_minor", "currency")?)));
        match stored {
            Ok(((order, key), unit_price)) => known.add_order(order, key, unit_price),
            Err(error) => known.add_damaged_order(id, error.to_string()),
        }
    }
    Ok(())
}

fn push_list(query: &mut QueryBuilder<Any>, values: impl Iterator<Item = i64>) {
    let mut list = query.separated(", ");
    for value in values {
        list.push_bind(value);
    }
    query.push(")");
}

pub(crate) async fn read_cursor(
    connection: &mut AnyConnection,
    stream: &str,
) -> Result<Option<u64>, RecordsError> {
    let row = sqlx::query("SELECT position FROM settlement_cursors WHERE stream = ?")
        .bind(stream)
        .fetch_optional(&mut *connection)
        .await?;
    let position = row.as_ref().map(|row| integer(row, "position")).transpose()?;
    let position = position.map(|position| u64::try_from(position).map_err(RecordsError::damaged));
    position.transpose()
}

/// Moves the cursor if it still is at `from`. It comes first in its transaction, so that of two settlers one
/// waits for the other.
pub(crate) async fn move_cursor(
    connection: &mut AnyConnection,
    stream: &str,
    from: u64,
    to: u64,
) -> Result<(), SettleError> {
    let moved = sqlx::query("UPDATE settlement_cursors SET position = ? WHERE stream = ? AND position = ?")
        .bind(to as i64)
        .bind(stream)
        .bind(from as i64)
        .execute(&mut *connection)
        .await?;
    if moved.rows_affected() == 1 {
        return Ok(());
    }
    match read_cursor(connection, stream).await? {
        Some(position) => Err(SettleError::CursorMoved { position }),
        None if from != 0 => Err(SettleError::CursorMoved { position: 0 }),
        None => {
            let insert = sqlx::query("INSERT INTO settlement_cursors (stream, position) VALUES (?, ?)")
                .bind(stream)
                .bind(to as i64)
                .execute(&mut *connection)
                .await;
            match insert {
                Ok(_) => Ok(()),
                Err(error) if is_unique_violation(&error) => Err(SettleError::CursorMoved { position: to }),
                Err(error) => Err(error.into()),
            }
        }
    }
}
