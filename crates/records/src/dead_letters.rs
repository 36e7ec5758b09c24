//! Decisions that could not be settled. They keep their place: an operator removes the cause and retries
//! them, those of one order in order.

use penstock_domain::{Cursor, Decision, Mark, OrderId, Timestamp};
use sqlx::any::AnyRow;

use crate::{
    Records, RecordsError, SettleError,
    columns::{integer, moment, optional_moment, text},
    leases::{Lease, move_cursor},
    session::Session,
    settlement::{Cause, Failure, Letters, Refusal, apply, order_of},
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
        order_of(&self.decision.event)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum RetryError {
    #[error("there is no such dead letter")]
    Unknown,
    #[error("dead letter {first} concerns the same order and has to be retried first")]
    EarlierFirst { first: u64 },
    #[error("it still can't be settled: {refusal}")]
    StillPoison { refusal: Refusal },
    #[error(transparent)]
    Records(#[from] RecordsError),
}

impl From<sqlx::Error> for RetryError {
    fn from(error: sqlx::Error) -> Self {
        Self::Records(error.into())
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
    /// Puts `decision` aside and moves the lease's cursor past it, to a position marked `mark`, in one
    /// transaction.
    pub async fn dead_letter(
        &self,
        lease: &Lease,
        decision: &Decision,
        mark: Mark,
        refusal: &Refusal,
        tries: u32,
        now: Timestamp,
    ) -> Result<(), SettleError> {
        let mut transaction = self.begin().await?;
        let position = decision.position;
        let (from, to) = (position.saturating_sub(1), Cursor { position, mark });
        move_cursor(&mut transaction, self.dialect, lease, from, to).await?;
        insert_letters(&mut transaction, &lease.stream, &[NewLetter { decision, refusal, tries, now }])
            .await?;
        transaction.commit().await?;
        Ok(())
    }

    /// The unresolved dead letters after the letter `after`, in the order in which to retry them.
    pub async fn dead_letters(
        &self,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Vec<DeadLetter>, RecordsError> {
        let rows = sqlx::query(
            "SELECT * FROM dead_letters WHERE resolved_at IS NULL AND id > ? ORDER BY id LIMIT ?",
        )
        .bind(after.unwrap_or(0) as i64)
        .bind(i64::from(limit))
        .fetch_all(&mut self.reader().await?)
        .await?;
        rows.iter().map(read_letter).collect()
    }

    /// How many dead letters are unresolved.
    pub async fn dead_letter_count(&self) -> Result<u64, RecordsError> {
        let row = sqlx::query("SELECT COUNT(*) AS letters FROM dead_letters WHERE resolved_at IS NULL")
            .fetch_one(&mut self.reader().await?)
            .await?;
        Ok(integer(&row, "letters")?.unsigned_abs())
    }

    /// Settles a dead letter. Retrying a resolved one changes nothing.
    pub async fn retry_dead_letter(&self, id: u64, now: Timestamp) -> Result<DeadLetter, RetryError> {
        let mut transaction = self.begin().await?;
        let row = sqlx::query("SELECT * FROM dead_letters WHERE id = ?")
            .bind(id as i64)
            .fetch_optional(&mut transaction)
            .await?;
        let Some(mut letter) = row.as_ref().map(read_letter).transpose()? else {
            return Err(RetryError::Unknown);
        };
        if letter.resolved_at.is_some() {
            return Ok(letter);
        }
        lock_stream(&mut transaction, &letter.stream).await?;
        if let Some(first) = earlier_letter(&mut transaction, &letter).await? {
            return Err(RetryError::EarlierFirst { first });
        }
        let decisions = std::slice::from_ref(&letter.decision);
        let refusal = match apply(&mut transaction, &letter.stream, decisions, Letters::Ignore).await {
            Ok(_) => {
                sqlx::query("UPDATE dead_letters SET resolved_at = ?, tries = tries + 1 WHERE id = ?")
                    .bind(now.as_millis())
                    .bind(id as i64)
                    .execute(&mut transaction)
                    .await?;
                transaction.commit().await?;
                letter.tries += 1;
                letter.resolved_at = Some(now);
                return Ok(letter);
            }
            Err(Failure::Poison { refusal, .. }) => refusal,
            Err(Failure::Records(RecordsError::Refused(reason))) => Refusal::new(Cause::Database, reason),
            Err(Failure::Records(error)) => return Err(error.into()),
        };
        transaction.rollback().await?;
        sqlx::query("UPDATE dead_letters SET cause = ?, reason = ?, tries = tries + 1 WHERE id = ?")
            .bind(refusal.cause.to_string())
            .bind(refusal.reason.as_str())
            .bind(id as i64)
            .execute(&mut self.writer().await?)
            .await?;
        Err(RetryError::StillPoison { refusal })
    }
}

/// Keeps other settlers from the stream until the transaction ends.
async fn lock_stream(connection: &mut Session, stream: &str) -> Result<(), RecordsError> {
    sqlx::query("UPDATE settlement_cursors SET position = position WHERE stream = ?")
        .bind(stream)
        .execute(&mut *connection)
        .await?;
    Ok(())
}

/// The first unresolved letter of the same order, if it is an earlier one.
async fn earlier_letter(connection: &mut Session, letter: &DeadLetter) -> Result<Option<u64>, RecordsError> {
    let Some(order) = letter.order() else { return Ok(None) };
    let row = sqlx::query(
        "SELECT id FROM dead_letters WHERE resolved_at IS NULL AND sale_id = ? AND order_number = ? \
         AND position < ? ORDER BY position LIMIT 1",
    )
    .bind(order.sale.as_i64())
    .bind(i64::from(order.number))
    .bind(letter.decision.position as i64)
    .fetch_optional(&mut *connection)
    .await?;
    row.map(|row| Ok(integer(&row, "id")?.unsigned_abs())).transpose()
}

/// Takes `ids` ids and returns the number before the first. Anyone else who wants some, on another stream,
/// waits until the transaction ends.
async fn take_ids(connection: &mut Session, ids: i64) -> Result<i64, RecordsError> {
    sqlx::query("UPDATE counters SET last_number = last_number + ? WHERE name = 'dead_letters'")
        .bind(ids)
        .execute(&mut *connection)
        .await?;
    let row = sqlx::query("SELECT last_number FROM counters WHERE name = 'dead_letters'")
        .fetch_one(&mut *connection)
        .await?;
    Ok(integer(&row, "last_number")? - ids)
}

/// Appends letters; their ids continue from the highest.
pub(crate) async fn insert_letters(
    connection: &mut Session,
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
        sqlx::query(
            "INSERT INTO dead_letters (id, stream, position, sale_id, order_number, decision, cause, reason, \
             tries, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(id)
        .bind(stream)
        .bind(letter.decision.position as i64)
        .bind(letter.decision.event.sale().as_i64())
        .bind(order_of(&letter.decision.event).map(|order| i64::from(order.number)))
        .bind(decision)
        .bind(letter.refusal.cause.to_string())
        .bind(letter.refusal.reason.as_str())
        .bind(i64::from(letter.tries))
        .bind(letter.now.as_millis())
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

pub(crate) fn read_letter(row: &AnyRow) -> Result<DeadLetter, RecordsError> {
    Ok(DeadLetter {
        id: integer(row, "id")?.unsigned_abs(),
        stream: text(row, "stream")?,
        decision: serde_json::from_str(&text(row, "decision")?).map_err(RecordsError::damaged)?,
        refusal: Refusal::new(Cause::from_name(&text(row, "cause")?), text(row, "reason")?),
        tries: u32::try_from(integer(row, "tries")?).unwrap_or(u32::MAX),
        created_at: moment(row, "created_at")?,
        resolved_at: optional_moment(row, "resolved_at")?,
    })
}
