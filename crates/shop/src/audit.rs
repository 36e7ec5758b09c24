//! The audit of a shop, which may be selling meanwhile. It compares each stream of the ledger with the
//! records at one point of its feed.

use std::time::Duration;

use penstock_ledger::{Feed, Unavailable, decisions_between};
use penstock_records::{Audit, AuditReport, LedgerForgets, Records, RecordsError};

/// A ledger that sells may forget settled decisions between two looks. Then we look again.
const MAX_LOOKS: u32 = 50;
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);

#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("settlement is {pending} decisions behind; it has to catch up first")]
    TooFarBehind { pending: u64 },
    #[error("no consistent view in {MAX_LOOKS} looks: {0}")]
    Moving(String),
    #[error("the ledger can't be read: {0}")]
    Ledger(#[from] Unavailable),
    #[error(transparent)]
    Records(#[from] RecordsError),
}

/// Compares everything. Holds at most `max_pending` unsettled decisions of a stream in memory.
pub async fn audit(feed: &dyn Feed, records: &Records, max_pending: u64) -> Result<AuditReport, AuditError> {
    let forgetting = if feed.forgets_closed_sales() { LedgerForgets::Closed } else { LedgerForgets::Never };
    // The order matters: every sale that the records have when the audit begins is in the ledger when it
    // lists its streams.
    let mut audit = records.begin_audit(forgetting).await?;
    for stream in feed.streams().await? {
        compare(&mut audit, feed, &stream, max_pending).await?;
    }
    Ok(audit.finish())
}

async fn compare(
    audit: &mut Audit,
    feed: &dyn Feed,
    stream: &str,
    max_pending: u64,
) -> Result<(), AuditError> {
    let mut moved = String::new();
    for _ in 0..MAX_LOOKS {
        // The records stand still at their cursor, and the ledger's state is taken later. So the decisions
        // between the two are exactly the pending ones.
        let look = audit.look(stream).await?;
        let cursor = look.cursor();
        let ledger = feed.state(stream).await?;
        let pending = ledger.position.saturating_sub(cursor.position);
        if pending > max_pending {
            return Err(AuditError::TooFarBehind { pending });
        }
        match decisions_between(feed, stream, cursor, ledger.position).await {
            Ok(pending) => return Ok(audit.compare(look, &ledger, &pending).await?),
            Err(error) => moved = error.to_string(),
        }
        tokio::time::sleep(LOOK_AGAIN_AFTER).await;
    }
    Err(AuditError::Moving(moved))
}
