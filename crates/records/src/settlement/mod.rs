//! Bringing decisions into SQL, exactly once: their rows and the cursor are one transaction.

mod load;
mod plan;
mod stock;
mod write;

pub(crate) use load::Letters;
use penstock_domain::Decision;
use plan::Plan;
pub(crate) use plan::order_of;
use sqlx::AnyConnection;
pub use stock::Violation;

use crate::{
    Records, RecordsError,
    columns::integer,
    dead_letters::{NewLetter, insert_letters},
    error::is_unique_violation,
};

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
    /// One decision can't be applied to what is stored. Nothing of the batch was. A `violation` means that the
    /// ledger broke a promise, or that the stock row was tampered with: somebody has to hear of it.
    #[error("decision {position} can't be settled: {reason}")]
    Poison { position: u64, reason: String, violation: Option<Violation> },
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
    Poison { position: u64, reason: String, violation: Option<Violation> },
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
            Failure::Poison { position, reason, violation } => Self::Poison { position, reason, violation },
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
                    return SettleError::Poison { position: decision.position, reason, violation: None };
                }
                Err(failure) => return failure.into(),
            }
        }
        RecordsError::Refused(reason).into()
    }
}

/// Writes everything that follows from `decisions`, except the cursor. Returns how many joined the dead letters.
pub(crate) async fn apply(
    connection: &mut AnyConnection,
    stream: &str,
    decisions: &[Decision],
    letters: Letters,
) -> Result<u64, Failure> {
    let known = load::load(connection, decisions, letters).await?;
    let mut plan = Plan::new(known);
    for decision in decisions {
        plan.add(decision).map_err(|refusal| Failure::Poison {
            position: decision.position,
            reason: refusal.reason,
            violation: refusal.violation,
        })?;
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
