//! Brings decisions into SQL, exactly once: their rows and the cursor are written in one transaction.

mod known;
mod load;
mod plan;
mod retry;
mod stock;
mod waitlist;
mod write;

use load::Dependents;
use penstock_domain::{Cursor, Decision, Mark, Timestamp};
use plan::BatchPlan;
pub use retry::RetryError;
use sqlx::{AssertSqlSafe, any::AnyRow};

use crate::{
    Records, RecordsError,
    columns::natural,
    connection::DatabaseConnection,
    dead_letters::{NewLetter, insert_letters},
    leases::{Lease, millis},
    refusal::{Cause, Refusal},
};

/// The result of a settled batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettledBatch {
    /// How far the stream is settled after it.
    pub cursor: Cursor,
    /// Decisions that became dead letters because they depend on an earlier one.
    pub dead_lettered: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// Another settler has settled in the meantime: continue from `position`.
    #[error("the settlement cursor is at {position}, not where this batch begins")]
    CursorMoved { position: u64 },
    /// Another settler has taken the lease over, or a ledger has stopped settlement: take it again.
    #[error("the lease of this stream was lost")]
    Fenced,
    #[error("the decisions have a gap after position {after}")]
    Gap { after: u64 },
    /// One decision can't be applied, and nothing of the batch was settled. A violation has to be reported.
    #[error("decision {position} can't be settled: {refusal}")]
    Poison { position: u64, refusal: Refusal },
    #[error(transparent)]
    Records(#[from] RecordsError),
}

/// Why a plan could not be carried out.
#[derive(Debug)]
enum ApplyError {
    Poison { position: u64, refusal: Refusal },
    Records(RecordsError),
}

impl<E: Into<RecordsError>> From<E> for ApplyError {
    fn from(error: E) -> Self {
        Self::Records(error.into())
    }
}

impl From<ApplyError> for SettleError {
    fn from(failure: ApplyError) -> Self {
        match failure {
            ApplyError::Poison { position, refusal } => Self::Poison { position, refusal },
            ApplyError::Records(error) => Self::Records(error),
        }
    }
}

impl Records {
    /// Applies `decisions` and moves the lease's cursor past them, to a position marked `mark`, in one
    /// transaction; or does nothing.
    pub async fn settle(
        &self,
        lease: &Lease,
        decisions: &[Decision],
        mark: Mark,
    ) -> Result<SettledBatch, SettleError> {
        let (Some(first), Some(last)) = (decisions.first(), decisions.last()) else {
            return Ok(SettledBatch { cursor: lease.cursor, dead_lettered: 0 });
        };
        if let Some(pair) = decisions.windows(2).find(|pair| pair[1].position != pair[0].position + 1) {
            return Err(SettleError::Gap { after: pair[0].position });
        }
        let mut transaction = self.begin().await?;
        let (from, cursor) = (first.position.saturating_sub(1), Cursor { position: last.position, mark });
        move_cursor(&mut transaction, lease, from, cursor).await?;
        match apply(&mut transaction, &lease.stream, decisions, Dependents::Join).await {
            Ok(dead_lettered) => {
                transaction.commit().await?;
                Ok(SettledBatch { cursor, dead_lettered })
            }
            Err(ApplyError::Records(RecordsError::Refused(reason))) => {
                transaction.rollback().await?;
                Err(self.locate(&lease.stream, decisions, reason).await)
            }
            Err(failure) => {
                transaction.rollback().await?;
                Err(failure.into())
            }
        }
    }

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
        move_cursor(&mut transaction, lease, position.saturating_sub(1), Cursor { position, mark }).await?;
        insert_letters(&mut transaction, &lease.stream, &[NewLetter { decision, refusal, tries, now }])
            .await?;
        transaction.commit().await?;
        Ok(())
    }

    /// A constraint refused a row of the batch: applies one decision after the other, without committing,
    /// until the refused one is found.
    async fn locate(&self, stream: &str, decisions: &[Decision], reason: String) -> SettleError {
        let mut transaction = match self.begin().await {
            Ok(transaction) => transaction,
            Err(error) => return error.into(),
        };
        for decision in decisions {
            match apply(&mut transaction, stream, std::slice::from_ref(decision), Dependents::Join).await {
                Ok(_) => {}
                Err(ApplyError::Records(RecordsError::Refused(reason))) => {
                    let refusal = Refusal::new(Cause::Database, reason);
                    return SettleError::Poison { position: decision.position, refusal };
                }
                Err(failure) => return failure.into(),
            }
        }
        RecordsError::Refused(reason).into()
    }
}

/// Moves the cursor of a lease on from the position `from`, if it is still there and the lease holds, and
/// renews the lease. It comes first in its transaction, so that of two settlers one waits for the other.
async fn move_cursor(
    connection: &mut DatabaseConnection,
    lease: &Lease,
    from: u64,
    to: Cursor,
) -> Result<(), SettleError> {
    let move_on = AssertSqlSafe(format!(
        "UPDATE settlement_cursors SET position = ?, mark = ?, lease_until = {} + ? \
         WHERE stream = ? AND position = ? AND fence = ? AND epoch = ?",
        connection.dialect().now_millis()
    ));
    let move_on = sqlx::query(move_on)
        .bind(to.position as i64)
        .bind(to.mark.to_string())
        .bind(millis(lease.seconds))
        .bind(&*lease.stream)
        .bind(from as i64)
        .bind(lease.fence as i64)
        .bind(lease.epoch as i64);
    if connection.change(move_on).await? == 1 {
        return Ok(());
    }
    let query = sqlx::query("SELECT position, fence, epoch FROM settlement_cursors WHERE stream = ?")
        .bind(&*lease.stream);
    let read = |row: &AnyRow| Ok((natural(row, "position")?, natural(row, "fence")?, natural(row, "epoch")?));
    match connection.one(query, read).await? {
        Some((position, fence, epoch)) if (fence, epoch) == (lease.fence, lease.epoch) => {
            Err(SettleError::CursorMoved { position })
        }
        _ => Err(SettleError::Fenced),
    }
}

/// Writes everything that follows from `decisions`, except the cursor. Returns how many became dead letters
/// because of an earlier one.
async fn apply(
    connection: &mut DatabaseConnection,
    stream: &str,
    decisions: &[Decision],
    dependents: Dependents,
) -> Result<u64, ApplyError> {
    let known = load::load(connection, decisions, dependents).await?;
    let mut plan = BatchPlan::new(known);
    for decision in decisions {
        plan.add(decision).map_err(|refusal| ApplyError::Poison { position: decision.position, refusal })?;
    }
    let joining: Vec<NewLetter<'_>> = plan
        .joining
        .iter()
        .map(|(decision, refusal)| NewLetter { decision, refusal, tries: 0, now: decision.at })
        .collect();
    insert_letters(connection, stream, &joining).await?;
    write::write(connection, stream, &plan).await?;
    Ok(joining.len() as u64)
}
