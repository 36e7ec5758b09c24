//! The audit of a shop, which may be selling meanwhile: each stream of the ledger is compared with the records at one
//! point of its feed.

use std::time::Duration;

use penstock_ledger::{Feed, Unavailable, decisions_between};
use penstock_records::{Audit, AuditReport, Forgetting, Records, RecordsError};

/// A ledger that sells may forget decisions between two of our looks, because they were settled; then we look again.
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

/// Compares everything. At most `max_pending` decisions of a stream, which are not settled yet, are held in memory.
pub async fn audit(feed: &dyn Feed, records: &Records, max_pending: u64) -> Result<AuditReport, AuditError> {
    let forgetting = if feed.forgets_closed_sales() { Forgetting::Closed } else { Forgetting::Never };
    // The order matters: every sale that the records know when the audit begins, the ledger has when it lists its streams.
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
        // The records stand still at their cursor, and the ledger's state is taken later, so that the decisions between
        // the two are exactly those that are pending.
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
