//! Settles a dead letter, once an operator has removed the cause.

use penstock_domain::Timestamp;

use super::{ApplyError, Dependents, apply};
use crate::{
    DeadLetter, Records, RecordsError,
    columns::natural,
    connection::DatabaseConnection,
    dead_letters::read_letter,
    refusal::{Cause, Refusal},
};

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

impl Records {
    /// Settles a dead letter. Retrying a resolved one changes nothing.
    pub async fn retry_dead_letter(&self, id: u64, now: Timestamp) -> Result<DeadLetter, RetryError> {
        let mut transaction = self.begin().await?;
        let query = sqlx::query("SELECT * FROM dead_letters WHERE id = ?").bind(id as i64);
        let Some(mut letter) = transaction.one(query, read_letter).await? else {
            return Err(RetryError::Unknown);
        };
        if letter.resolved_at.is_some() {
            return Ok(letter);
        }
        // Keeps settlers from the stream until the transaction ends.
        let lock = "UPDATE settlement_cursors SET position = position WHERE stream = ?";
        transaction.change(sqlx::query(lock).bind(letter.stream.as_str())).await?;
        if let Some(first) = earlier_letter(&mut transaction, &letter).await? {
            return Err(RetryError::EarlierFirst { first });
        }
        let decisions = std::slice::from_ref(&letter.decision);
        let refusal = match apply(&mut transaction, &letter.stream, decisions, Dependents::Try).await {
            Ok(_) => {
                let update =
                    sqlx::query("UPDATE dead_letters SET resolved_at = ?, tries = tries + 1 WHERE id = ?")
                        .bind(now.as_millis())
                        .bind(id as i64);
                transaction.change(update).await?;
                transaction.commit().await?;
                letter.tries += 1;
                letter.resolved_at = Some(now);
                return Ok(letter);
            }
            Err(ApplyError::Poison { refusal, .. }) => refusal,
            Err(ApplyError::Records(RecordsError::Refused(reason))) => Refusal::new(Cause::Database, reason),
            Err(ApplyError::Records(error)) => return Err(error.into()),
        };
        transaction.rollback().await?;
        let update =
            sqlx::query("UPDATE dead_letters SET cause = ?, reason = ?, tries = tries + 1 WHERE id = ?")
                .bind(refusal.cause.to_string())
                .bind(refusal.reason.as_str())
                .bind(id as i64);
        self.writer().await?.change(update).await?;
        Err(RetryError::StillPoison { refusal })
    }
}

/// The first unresolved letter of the same order, if it is an earlier one.
async fn earlier_letter(
    connection: &mut DatabaseConnection,
    letter: &DeadLetter,
) -> Result<Option<u64>, RecordsError> {
    let Some(order) = letter.order() else { return Ok(None) };
    let query = sqlx::query(
        "SELECT id FROM dead_letters WHERE resolved_at IS NULL AND sale_id = ? AND order_number = ? \
         AND position < ? ORDER BY position LIMIT 1",
    )
    .bind(order.sale.as_i64())
    .bind(i64::from(order.number))
    .bind(letter.decision.position as i64);
    connection.one(query, |row| natural(row, "id")).await
}
