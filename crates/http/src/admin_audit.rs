//! The audit of a running shop: ledger and records are compared at one point of the feed.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use penstock_ledger::{Unavailable, decisions_between, embedded};
use penstock_records::AuditReport;
use tokio::{runtime::Handle, task::spawn_blocking};

use crate::{
    app::{Admin, App},
    problem::{Code, Problem},
};

/// Decisions that an audit holds in memory at most; when settlement is further behind, it has to catch up first.
const MAX_PENDING: u64 = 2_000_000;
const ATTEMPTS: u32 = 5;

impl From<Unavailable> for Problem {
    fn from(unavailable: Unavailable) -> Self {
        tracing::warn!(reason = unavailable.reason, "the ledger can't be read");
        Self::with_detail(Code::Unavailable, "The ledger can't be read at the moment.")
    }
}

/// Compare ledger, stock log and orders
///
/// `ok` is true only if everything adds up. It reads everything, so one audit runs at a time.
#[utoipa::path(get, path = "/api/v1/admin/audit", tag = "admin", security(("bearer" = []), ("session" = [])),
    responses((status = 200, description = "The report", body = Object)))]
pub(crate) async fn audit(State(app): State<Arc<App>>, _admin: Admin) -> Result<Response, Problem> {
    let turn = Arc::clone(&app.auditing).try_acquire_owned().map_err(|_| Problem::from(Code::Busy))?;
    // It may compute for seconds, and on this thread everybody else would wait for it.
    let runtime = Handle::current();
    let report = spawn_blocking(move || {
        let report = runtime.block_on(attempts(&app));
        drop(turn);
        report
    });
    let report = report.await.map_err(|_| Problem::from(Code::Internal))??;
    Ok(axum::Json(report).into_response())
}

async fn attempts(app: &App) -> Result<AuditReport, Problem> {
    for _ in 0..ATTEMPTS {
        if let Some(report) = attempt(app).await? {
            return Ok(report);
        }
    }
    Err(Problem::with_detail(Code::Busy, "Settlement moves too fast to audit. Try again in a moment."))
}

/// None if the feed forgot decisions that were settled while we read.
async fn attempt(app: &App) -> Result<Option<AuditReport>, Problem> {
    // The order matters: the records stand still at their cursor once the audit has begun, and the ledger's
    // state is taken later, so that the decisions between the two are exactly those that are pending.
    let audit = app.records.begin_audit(embedded::STREAM).await?;
    let ledger = app.ledger.feed().state(embedded::STREAM).await?;
    let cursor = audit.cursor();
    if ledger.position.saturating_sub(cursor.position) > MAX_PENDING {
        return Err(Problem::with_detail(Code::Busy, "Settlement is too far behind to audit."));
    }
    match decisions_between(&**app.ledger.feed(), embedded::STREAM, cursor, ledger.position).await {
        Ok(pending) => Ok(Some(audit.compare(&ledger, &pending).await?)),
        Err(error) => {
            tracing::debug!(reason = %error, "the audit looks again");
            Ok(None)
        }
    }
}
