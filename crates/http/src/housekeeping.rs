//! What the server loads before it serves, and what it does beside serving.

use std::{sync::Arc, time::Duration};

use penstock_records::RecordsError;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use crate::{app::App, identity::SessionId};

const COMPLETE_EVERY: Duration = Duration::from_millis(500);

/// Loads the ended sessions and the details of the published sales.
pub(crate) async fn load(app: &App) -> Result<(), RecordsError> {
    let now = app.now();
    let revocations = &app.identity.revocations;
    for (session, expires_at) in app.records.revoked_sessions(now).await? {
        if let Some(session) = SessionId::from_text(&session)
            && revocations.revoke_session(session, expires_at, now).is_err()
        {
            tracing::error!("there are more ended sessions than can be held; the rest count as running");
            break;
        }
    }
    let horizon = now.plus_millis(-i64::from(app.options.session_seconds) * 1000);
    for (account, since) in app.records.accounts_with_revocations(horizon).await? {
        if revocations.revoke_account(account, since, horizon).is_err() {
            tracing::error!(
                "there are more changed passwords than can be held; old sessions of the rest count"
            );
            break;
        }
    }
    app.storefront.load(&app.records).await
}

/// Completes the storefront where the ledger told of a sale first, and forgets what has expired.
pub(crate) async fn run(app: Arc<App>, mut stop: watch::Receiver<bool>) {
    let mut ticks = interval(COMPLETE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            _ = ticks.tick() => {}
        }
        if let Err(error) = app.storefront.complete(&app.records).await {
            tracing::warn!(%error, "housekeeping has to wait");
        }
    }
}
