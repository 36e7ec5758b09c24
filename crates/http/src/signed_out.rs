//! Follows which sessions were ended on other nodes. An announcement counts at once, without waiting for the
//! database. A node that ends a session may die before announcing it, so the records are also read every few
//! seconds.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream::BoxStream};
use penstock_domain::{AccountId, Timestamp};
use penstock_records::RecordsError;
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};

use crate::{app::App, identity::SessionId, neighbours::Change};

/// How long an ended session may continue if it was not announced.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// How often reading missed changes is tried again.
const TRY_EVERY: Duration = Duration::from_millis(250);
/// If that takes longer than this, no session is accepted meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);
/// A session is recorded as ended at the time when the call began. It may take this long until others can
/// read it.
const OVERLAP_MILLISECONDS: i64 = 60_000;

pub(crate) struct SignedOut {
    changes: BoxStream<'static, Change>,
    /// When the records were last read; None if everything has to be read.
    looked_at: Option<Timestamp>,
}

impl SignedOut {
    /// Hears all announcements from now on.
    pub(crate) fn new(app: &App) -> Self {
        Self { changes: app.options.neighbours.changes(), looked_at: None }
    }

    /// Loads all ended sessions.
    pub(crate) async fn load(&mut self, app: &App) -> Result<(), RecordsError> {
        let now = app.now();
        read(app, None).await?;
        self.looked_at = Some(now);
        Ok(())
    }

    /// They could not be loaded. No session is accepted until they are.
    pub(crate) fn are_unknown(&mut self, app: &App) {
        self.looked_at = None;
        app.identity.revocations.are_unknown();
    }

    /// Follows announcements and reads the records until the server stops.
    pub(crate) async fn run(self, app: Arc<App>, mut stop: watch::Receiver<bool>) {
        let missed = Notify::new();
        let following = async {
            tokio::join!(hear(&app, self.changes, &missed), look(&app, self.looked_at, &missed));
        };
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => {}
            () = following => {}
        }
    }
}

async fn hear(app: &App, mut changes: BoxStream<'static, Change>, missed: &Notify) {
    while let Some(change) = changes.next().await {
        match change {
            Change::SessionEnded { session, expires_at } => end_session(app, &session, expires_at),
            Change::SessionsEnded { account, since } => end_sessions(app, account, since),
            Change::Everything => missed.notify_one(),
            Change::NewItem(_) | Change::Item(_) | Change::Sale(_) | Change::Room(_) => {}
        }
    }
}

async fn look(app: &App, mut looked_at: Option<Timestamp>, missed: &Notify) {
    if !app.catalogue.is_shared() {
        // No other node ends sessions.
        return;
    }
    loop {
        let pause = if looked_at.is_some() { LOOK_EVERY } else { TRY_EVERY };
        tokio::select! {
            () = missed.notified() => looked_at = None,
            () = sleep(pause) => {}
        }
        let now = app.now();
        let mut reading = pin!(read(app, looked_at));
        let in_time = timeout(PATIENCE, &mut reading).await;
        // Without the database nobody can end a session. So as long as nothing was missed, its absence does
        // no harm.
        if looked_at.is_none() && !matches!(in_time, Ok(Ok(()))) {
            app.identity.revocations.are_unknown();
        }
        let read = match in_time {
            Ok(read) => read,
            Err(_) => reading.await,
        };
        match read {
            Ok(()) => {
                looked_at = Some(now);
                app.identity.revocations.are_known();
            }
            Err(error) => tracing::debug!(%error, "the ended sessions can't be read"),
        }
    }
}

/// Reads which sessions were ended since the last look.
async fn read(app: &App, looked_at: Option<Timestamp>) -> Result<(), RecordsError> {
    let since = looked_at.map(|moment| moment.plus_millis(-OVERLAP_MILLISECONDS));
    let sessions = match since {
        Some(since) => app.records.revoked_sessions_since(since).await?,
        None => app.records.revoked_sessions(app.now()).await?,
    };
    for (session, expires_at) in sessions {
        end_session(app, &session, expires_at);
    }
    let since = since.unwrap_or_else(|| app.session_horizon());
    for (account, since) in app.records.accounts_with_revocations(since).await? {
        end_sessions(app, account, since);
    }
    Ok(())
}

fn end_session(app: &App, session: &str, expires_at: Timestamp) {
    if let Some(session) = SessionId::from_text(session)
        && app.identity.revocations.revoke_session(session, expires_at, app.now()).is_err()
    {
        tracing::error!("there are more ended sessions than can be held; one of them is still accepted");
    }
}

fn end_sessions(app: &App, account: AccountId, since: Timestamp) {
    if app.identity.revocations.revoke_account(account, since, app.session_horizon()).is_err() {
        tracing::error!("there are more changed passwords than can be held; some old sessions still count");
    }
}
