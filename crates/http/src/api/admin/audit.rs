//! The audit of a running shop: compares ledger and records at one point of the feed.

use std::sync::Arc;

use axum::{Json, extract::State};
use penstock_ledger::Unavailable;
use penstock_records::AuditReport;
use penstock_shop::{AuditError, Code};
use tokio::{runtime::Handle, task::spawn_blocking};

use crate::{
    api::{Api, caller::Admin},
    contract::{problem::Problem, refusals::refusals},
};

/// The most decisions an audit holds in memory. If settlement is further behind than that, it has to catch up
/// first.
const MAX_PENDING: u64 = 2_000_000;

impl From<Unavailable> for Problem {
    fn from(unavailable: Unavailable) -> Self {
        tracing::warn!(reason = unavailable.reason, "the ledger can't be read");
        Self::with_detail(Code::Unavailable, "The ledger can't be read at the moment.")
    }
}

impl From<AuditError> for Problem {
    fn from(error: AuditError) -> Self {
        match error {
            AuditError::TooFarBehind { .. } => {
                Self::with_detail(Code::Busy, "Settlement is too far behind to audit.")
            }
            AuditError::Moving(reason) => {
                tracing::info!(reason, "an audit found no consistent view");
                Self::with_detail(Code::Busy, "Settlement moves too fast to audit. Try again in a moment.")
            }
            AuditError::Ledger(unavailable) => unavailable.into(),
            AuditError::Records(error) => error.into(),
        }
    }
}

/// Compare ledger, stock log and orders
///
/// `ok` is true only if everything adds up. It reads everything, so one audit runs at a time.
#[utoipa::path(get, path = "/api/v1/admin/audit", tag = "admin", security(("bearer" = []), ("session" = [])),
    responses((status = 200, description = "The report", body = AuditReport)),
    extensions(("x-refusals" = json!(refusals!(Admin; Busy)))))]
pub(crate) async fn audit(State(api): State<Api>, _admin: Admin) -> Result<Json<AuditReport>, Problem> {
    let turn = Arc::clone(&api.auditing).try_acquire_owned().map_err(|_| Problem::from(Code::Busy))?;
    // It may compute for seconds. On this thread everybody else would wait for it.
    let runtime = Handle::current();
    let report = spawn_blocking(move || {
        let report =
            runtime.block_on(penstock_shop::audit(&**api.shop.ledger.feed(), &api.shop.records, MAX_PENDING));
        drop(turn);
        report
    });
    let report = report.await.map_err(|_| Problem::from(Code::Internal))??;
    Ok(Json(report))
}
