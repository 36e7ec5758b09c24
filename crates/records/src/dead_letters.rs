//! Decisions that could not be settled. They keep their place: an operator removes the cause and retries
//! them, those of one order in order. Retrying is a part of settlement.

use penstock_domain::{Decision, OrderId, SaleId, Timestamp};
use sqlx::any::AnyRow;

use crate::{
    Records, RecordsError,
    columns::{integer, moment, natural, optional_moment, text},
    connection::DatabaseConnection,
    refusal::{Cause, Refusal},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    pub id: u64,
    pub stream: String,
    pub decision: Decision,
    /// Why the last try failed.
    pub refusal: Refusal,
    pub tries: u32,
    pub created_at: Timestamp,
    pub resolved_at: Option<Timestamp>,
}

impl DeadLetter {
    /// The order that it concerns, if there is one.
    pub fn order(&self) -> Option<OrderId> {
        self.decision.event.order()
    }
}

/// A dead letter to be written.
pub(crate) struct NewLetter<'a> {
    pub(crate) decision: &'a Decision,
    pub(crate) refusal: &'a Refusal,
    pub(crate) tries: u32,
    pub(crate) now: Timestamp,
}

impl Records {
    /// The unresolved dead letters after the letter `after`, in the order in which to retry them.
    pub async fn dead_letters(
        &self,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Vec<DeadLetter>, RecordsError> {
        let query = sqlx::query(
            "SELECT * FROM dead_letters WHERE resolved_at IS NULL AND id > ? ORDER BY id LIMIT ?",
        )
        .bind(after.unwrap_or(0) as i64)
        .bind(i64::from(limit));
        self.reader().await?.all(query, read_letter).await
    }

    /// How many dead letters are unresolved.
    pub async fn dead_letter_count(&self) -> Result<u64, RecordsError> {
        count_letters(&mut self.reader().await?, None).await
    }
}

/// How many dead letters of one sale, or of all of them, are unresolved.
pub(crate) async fn count_letters(
    connection: &mut DatabaseConnection,
    sale: Option<SaleId>,
) -> Result<u64, RecordsError> {
    let query = match sale {
        Some(sale) => sqlx::query(
            "SELECT COUNT(*) AS letters FROM dead_letters WHERE resolved_at IS NULL AND sale_id = ?",
        )
        .bind(sale.as_i64()),
        None => sqlx::query("SELECT COUNT(*) AS letters FROM dead_letters WHERE resolved_at IS NULL"),
    };
    Ok(connection.one(query, |row| natural(row, "letters")).await?.unwrap_or(0))
}

/// Takes `ids` ids and returns the number before the first. Anyone else who wants some, on another stream,
/// waits until the transaction ends.
async fn take_ids(connection: &mut DatabaseConnection, ids: i64) -> Result<i64, RecordsError> {
    let take = "UPDATE counters SET last_number = last_number + ? WHERE name = 'dead_letters'";
    connection.change(sqlx::query(take).bind(ids)).await?;
    let query = sqlx::query("SELECT last_number FROM counters WHERE name = 'dead_letters'");
    let last = connection.one(query, |row| integer(row, "last_number")).await?;
    Ok(last.ok_or_else(|| RecordsError::damaged("the counter of dead letters is missing"))? - ids)
}

/// Appends letters; their ids continue from the highest.
pub(crate) async fn insert_letters(
    connection: &mut DatabaseConnection,
    stream: &str,
    letters: &[NewLetter<'_>],
) -> Result<(), RecordsError> {
    if letters.is_empty() {
        return Ok(());
    }
    let mut id = take_ids(connection, letters.len() as i64).await?;
    for letter in letters {
        id += 1;
        let decision = serde_json::to_string(letter.decision).map_err(RecordsError::damaged)?;
        let insert = sqlx::query(
            "INSERT INTO dead_letters (id, stream, position, sale_id, order_number, decision, cause, reason, \
             tries, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(id)
        .bind(stream)
        .bind(letter.decision.position as i64)
        .bind(letter.decision.event.sale().as_i64())
        .bind(letter.decision.event.order().map(|order| i64::from(order.number)))
        .bind(decision)
        .bind(letter.refusal.cause.to_string())
        .bind(letter.refusal.reason.as_str())
        .bind(i64::from(letter.tries))
        .bind(letter.now.as_millis());
        connection.change(insert).await?;
    }
    Ok(())
}

pub(crate) fn read_letter(row: &AnyRow) -> Result<DeadLetter, RecordsError> {
    Ok(DeadLetter {
        id: natural(row, "id")?,
        stream: text(row, "stream")?,
        decision: serde_json::from_str(&text(row, "decision")?).map_err(RecordsError::damaged)?,
        refusal: Refusal::new(Cause::from_name(&text(row, "cause")?), text(row, "reason")?),
        tries: u32::try_from(integer(row, "tries")?).unwrap_or(u32::MAX),
        created_at: moment(row, "created_at")?,
        resolved_at: optional_moment(row, "resolved_at")?,
    })
}
