//! What the server loads before it serves, and what it does beside serving.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
    time::Duration,
};

use penstock_domain::{ChallengeKind, SaleState};
use penstock_ledger::{Turn, take_turn};
use penstock_records::RecordsError;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use crate::{
    app::App,
    gate::rooms::{self, Complaints},
    identity::SessionId,
    storefront::Shelf,
};

const COMPLETE_EVERY: Duration = Duration::from_millis(500);
/// Longer than clients are told to stay away, so that their coming back is still the same rush.
const QUIET_AFTER: Duration = Duration::from_secs(3);
/// Painting must not take a whole core from a sale that is under way.
const BETWEEN_PICTURES: Duration = Duration::from_millis(5);

/// Loads the ended sessions, the details of the published sales, and their waiting rooms.
pub(crate) async fn load(app: &Arc<App>) -> Result<(), RecordsError> {
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
    app.storefront.load(&app.records).await?;
    rooms::open_missing(app, &Complaints::default()).await;
    Ok(())
}

/// Everything that goes on beside serving; returns when the server stops and all of it has come to its end.
pub(crate) async fn run(app: Arc<App>, stop: watch::Receiver<bool>) {
    tokio::join!(
        complete(Arc::clone(&app), stop.clone()),
        take_up_secrets(Arc::clone(&app), stop.clone()),
        paint(Arc::clone(&app), stop.clone()),
        begin_again(Arc::clone(&app), stop.clone()),
        rooms::run(Arc::clone(&app), stop.clone()),
        rooms::save(app, stop),
    );
}

/// Lets the next rush in whole, whatever was measured in the last.
async fn begin_again(app: Arc<App>, mut stop: watch::Receiver<bool>) {
    let mut ticks = interval(QUIET_AFTER);
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            _ = ticks.tick() => app.gate.in_flight.begin_again_if_quiet(),
        }
    }
}

/// Takes up a new secret as soon as there is one.
async fn take_up_secrets(app: Arc<App>, mut stop: watch::Receiver<bool>) {
    let mut secrets = app.options.secrets.clone();
    let following = async {
        // An error means that the secret never changes any more.
        while secrets.changed().await.is_ok() {
            let secrets = *secrets.borrow_and_update();
            app.identity.rekey(&secrets);
            app.gate.rekey(&secrets);
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => {}
        () = following => {}
    }
}

/// Draws pictures ahead, as long as a sale wants them, so that no request has to. The painter has a thread of its own,
/// because priorities belong to threads. Nobody waits for it to end: it holds nothing that a stop needs.
async fn paint(app: Arc<App>, mut stop: watch::Receiver<bool>) {
    let stopping = stop.clone();
    match thread::Builder::new().name("painter".to_owned()).spawn(move || paint_until(&app, &stopping)) {
        Ok(painter) => {
            // An error means that the server was dropped.
            let _ = stop.wait_for(|stop| *stop).await;
            painter.thread().unpark();
        }
        Err(error) => {
            tracing::error!(%error, "there is no thread to draw pictures; captchas are answered `busy`")
        }
    }
}

fn paint_until(app: &App, stop: &watch::Receiver<bool>) {
    take_turn(Turn::Spare);
    // That it can't be asked means that the server was dropped.
    while !*stop.borrow() && stop.has_changed().is_ok() {
        let wanted = app.storefront.all().iter().any(|shelf| wants_pictures(app, shelf));
        // The panic itself was logged by the process's hook. The next picture is another one.
        let drawn =
            wanted && catch_unwind(AssertUnwindSafe(|| app.gate.pictures.paint_one())).unwrap_or(false);
        thread::park_timeout(if drawn { BETWEEN_PICTURES } else { COMPLETE_EVERY });
    }
}

fn wants_pictures(app: &App, shelf: &Shelf) -> bool {
    app.gate.of(shelf).is_some_and(|gate| gate.terms.challenge == ChallengeKind::Captcha)
        && shelf.status().is_some_and(|status| status.state(app.now()) != SaleState::Closed)
}

/// Completes the storefront where the ledger told of a sale first, and opens waiting rooms.
async fn complete(app: Arc<App>, mut stop: watch::Receiver<bool>) {
    let complaints = Complaints::default();
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
        rooms::open_missing(&app, &complaints).await;
    }
}
