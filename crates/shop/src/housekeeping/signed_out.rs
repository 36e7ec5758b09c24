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

use crate::{identity::SessionId, ports::Change, shop::Shop};

/// How long an ended session may continue if it was not announced.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// How often reading missed changes is tried again.
const TRY_EVERY: Duration = Duration::from_millis(250);
/// If that takes longer than this, no session is accepted meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);
/// A session is recorded as ended at the time when the call began. It may take this long until others can
/// read it.
const OVERLAP_MILLISECONDS: i64 = 60_000;

pub(super) struct SignedOut {
    changes: BoxStream<'static, Change>,
    /// When the records were last read; None if everything has to be read.
    looked_at: Option<Timestamp>,
}

impl SignedOut {
    /// Hears all announcements from now on.
    pub(super) fn new(shop: &Shop) -> Self {
        Self { changes: shop.options.neighbours.changes(), looked_at: None }
    }

    /// Loads all ended sessions.
    pub(super) async fn load(&mut self, shop: &Shop) -> Result<(), RecordsError> {
        let now = shop.now();
        read(shop, None).await?;
        self.looked_at = Some(now);
        Ok(())
    }

    /// They could not be loaded. No session is accepted until they are.
    pub(super) fn are_unknown(&mut self, shop: &Shop) {
        self.looked_at = None;
        shop.identity.revocations.are_unknown();
    }

    /// Follows announcements and reads the records until the server stops.
    pub(super) async fn run(self, shop: Arc<Shop>, mut stop: watch::Receiver<bool>) {
        let missed = Notify::new();
        let following = async {
            tokio::join!(hear(&shop, self.changes, &missed), look(&shop, self.looked_at, &missed));
        };
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => {}
            () = following => {}
        }
    }
}

async fn hear(shop: &Shop, mut changes: BoxStream<'static, Change>, missed: &Notify) {
    while let Some(change) = changes.next().await {
        match change {
            Change::SessionEnded { session, expires_at } => end_session(shop, &session, expires_at),
            Change::SessionsEnded { account, since } => end_sessions(shop, account, since),
            Change::Everything => missed.notify_one(),
            Change::NewItem(_) | Change::Item(_) | Change::Sale(_) | Change::Room(_) => {}
        }
    }
}

async fn look(shop: &Shop, mut looked_at: Option<Timestamp>, missed: &Notify) {
    if !shop.catalogue.is_shared() {
        // No other node ends sessions.
        return;
    }
    loop {
        let pause = if looked_at.is_some() { LOOK_EVERY } else { TRY_EVERY };
        tokio::select! {
            () = missed.notified() => looked_at = None,
            () = sleep(pause) => {}
        }
        let now = shop.now();
        let mut reading = pin!(read(shop, looked_at));
        let in_time = timeout(PATIENCE, &mut reading).await;
        // Without the database nobody can end a session. So as long as nothing was missed, its absence does
        // no harm.
        if looked_at.is_none() && !matches!(in_time, Ok(Ok(()))) {
            shop.identity.revocations.are_unknown();
        }
        let read = match in_time {
            Ok(read) => read,
            Err(_) => reading.await,
        };
        match read {
            Ok(()) => {
                looked_at = Some(now);
                shop.identity.revocations.are_known();
            }
            Err(error) => tracing::debug!(%error, "the ended sessions can't be read"),
        }
    }
}

/// Reads which sessions were ended since the last look.
async fn read(shop: &Shop, looked_at: Option<Timestamp>) -> Result<(), RecordsError> {
    let since = looked_at.map(|moment| moment.plus_millis(-OVERLAP_MILLISECONDS));
    let sessions = match since {
        Some(since) => shop.records.revoked_sessions_since(since).await?,
        None => shop.records.revoked_sessions(shop.now()).await?,
    };
    for (session, expires_at) in sessions {
        end_session(shop, &session, expires_at);
    }
    let since = since.unwrap_or_else(|| shop.session_horizon());
    for (account, since) in shop.records.accounts_with_revocations(since).await? {
        end_sessions(shop, account, since);
    }
    Ok(())
}

fn end_session(shop: &Shop, session: &str, expires_at: Timestamp) {
    if let Some(session) = SessionId::from_text(session)
        && shop.identity.revocations.revoke_session(session, expires_at, shop.now()).is_err()
    {
        tracing::error!("there are more ended sessions than can be held; one of them is still accepted");
    }
}

fn end_sessions(shop: &Shop, account: AccountId, since: Timestamp) {
    if shop.identity.revocations.revoke_account(account, since, shop.session_horizon()).is_err() {
        tracing::error!("there are more changed passwords than can be held; some old sessions still count");
    }
}
