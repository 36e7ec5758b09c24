//! Brings decisions into SQL, exactly once: their rows and the cursor are written in one transaction.

mod load;
mod plan;
mod refusal;
mod stock;
mod waitlist;
mod write;

pub(crate) use load::Letters;
use penstock_domain::{Cursor, Decision, Mark};
use plan::Plan;
pub(crate) use plan::order_of;
pub use refusal::{Cause, Refusal};

use crate::{
    Records, RecordsError,
    dead_letters::{NewLetter, insert_letters},
    leases::{Lease, move_cursor},
    session::Session,
};

/// The result of a settled batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
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

impl From<sqlx::Error> for SettleError {
    fn from(error: sqlx::Error) -> Self {
        Self::Records(error.into())
    }
}

/// Why a plan could not be carried out.
#[derive(Debug)]
pub(crate) enum Failure {
    Poison { position: u64, refusal: Refusal },
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
            Failure::Poison { position, refusal } => Self::Poison { position, refusal },
            Failure::Records(error) => Self::Records(error),
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
    ) -> Result<Settled, SettleError> {
        let (Some(first), Some(last)) = (decisions.first(), decisions.last()) else {
            return Ok(Settled { cursor: lease.cursor, dead_lettered: 0 });
        };
        if let Some(pair) = decisions.windows(2).find(|pair| pair[1].position != pair[0].position + 1) {
            return Err(SettleError::Gap { after: pair[0].position });
        }
        let mut transaction = self.begin().await?;
        let (from, cursor) = (first.position.saturating_sub(1), Cursor { position: last.position, mark });
        move_cursor(&mut transaction, self.dialect, lease, from, cursor).await?;
        match apply(&mut transaction, &lease.stream, decisions, Letters::Join).await {
            Ok(dead_lettered) => {
                transaction.commit().await?;
                Ok(Settled { cursor, dead_lettered })
            }
            Err(Failure::Records(RecordsError::Refused(reason))) => {
                transaction.rollback().await?;
                Err(self.locate(&lease.stream, decisions, reason).await)
            }
            Err(failure) => {
                transaction.rollback().await?;
                Err(failure.into())
            }
        }
    }

    /// A constraint refused a row of the batch: applies one decision after the other, without committing,
    /// until the refused one is found.
    async fn locate(&self, stream: &str, decisions: &[Decision], reason: String) -> SettleError {
        let mut transaction = match self.begin().await {
            Ok(transaction) => transaction,
            Err(error) => return error.into(),
        };
        for decision in decisions {
            match apply(&mut transaction, stream, std::slice::from_ref(decision), Letters::Join).await {
                Ok(_) => {}
                Err(Failure::Records(RecordsError::Refused(reason))) => {
                    let refusal = Refusal::new(Cause::Database, reason);
                    return SettleError::Poison { position: decision.position, refusal };
                }
                Err(failure) => return failure.into(),
            }
        }
        RecordsError::Refused(reason).into()
    }
}

/// Writes everything that follows from `decisions`, except the cursor. Returns how many became dead letters
/// because of an earlier one.
pub(crate) async fn apply(
    connection: &mut Session,
    stream: &str,
    decisions: &[Decision],
    letters: Letters,
) -> Result<u64, Failure> {
    let known = load::load(connection, decisions, letters).await?;
    let mut plan = Plan::new(known);
    for decision in decisions {
        plan.add(decision).map_err(|refusal| Failure::Poison { position: decision.position, refusal })?;
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
