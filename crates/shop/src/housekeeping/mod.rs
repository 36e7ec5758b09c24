//! What the server loads before it serves, and what it does besides serving.

pub mod following;
mod signed_out;
pub mod waitlists;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use futures_util::stream::BoxStream;
use penstock_domain::{ChallengeKind, SaleState};
use penstock_ledger::{Health, Precedence, take_precedence};
use penstock_records::RecordsError;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval, timeout},
};

use self::{following::Overdue, signed_out::SignedOut};
use crate::{
    live::{self, Live},
    ports::Change,
    shop::Shop,
    storefront::Shelf,
    waiting_rooms::{self, RoomTroubles},
};

const COMPLETE_EVERY: Duration = Duration::from_millis(500);
/// Longer than the `Retry-After` that clients get, so that their retries still belong to the same rush.
const QUIET_AFTER: Duration = Duration::from_secs(3);
/// How often the node checks which server decides which sale.
const LOOK_FOR_HOMES_EVERY: Duration = Duration::from_millis(500);
/// Drawing must not take a whole core from a running sale.
const BETWEEN_PICTURES: Duration = Duration::from_millis(5);

/// How long a node of a cluster waits for its waiting rooms before it serves.
const ROOMS_PATIENCE: Duration = Duration::from_secs(3);
/// When a node of a cluster has not reached the ledger for this long, it stops showing sales: other nodes
/// have newer figures.
const SHOWN_BLINDLY_FOR: Duration = Duration::from_secs(1);
const LOOK_AT_LEDGER_EVERY: Duration = Duration::from_millis(100);

/// What the node has begun to follow by the time it starts to serve.
pub struct Begun {
    changes: BoxStream<'static, Change>,
    overdue: Overdue,
    signed_out: SignedOut,
}

/// Loads the ended sessions, the details of the published sales, and their waiting rooms. Where nodes share a
/// cache, a node can start without the records: it shows what the cache has, and accepts no session until
/// they are back.
pub async fn load(shop: &Arc<Shop>) -> Result<Begun, RecordsError> {
    // Subscribe first, so that no change during loading is missed.
    let changes = shop.options.neighbours.changes();
    let mut signed_out = SignedOut::new(shop);
    let loaded = match signed_out.load(shop).await {
        Ok(()) => following::load(shop).await,
        Err(error) => Err(error),
    };
    let overdue = match loaded {
        Ok(()) => Overdue::default(),
        Err(error @ RecordsError::Unavailable(_)) if shop.catalogue.is_shared() => {
            tracing::error!(%error, "starting without the records: sessions are not accepted until they are back");
            signed_out.are_unknown(shop);
            Overdue::everything()
        }
        Err(error) => return Err(error),
    };
    let complaints = RoomTroubles::default();
    let opening = waiting_rooms::open_missing(shop, &complaints);
    match shop.catalogue.is_shared() {
        // If Redis does not answer, missing rooms must not hold up the other sales. They are opened when it
        // is back.
        true => drop(timeout(ROOMS_PATIENCE, opening).await),
        false => opening.await,
    }
    Ok(Begun { changes, overdue, signed_out })
}

/// Everything the server does besides serving. Returns after the server has stopped and all of it has ended.
pub async fn run(shop: Arc<Shop>, live: Arc<Live>, begun: Begun, stop: watch::Receiver<bool>) {
    let Begun { changes, overdue, signed_out } = begun;
    tokio::join!(
        signed_out.run(Arc::clone(&shop), stop.clone()),
        following::run(Arc::clone(&shop), changes, overdue, stop.clone()),
        following::compare(Arc::clone(&shop), stop.clone()),
        complete(Arc::clone(&shop), stop.clone()),
        take_up_secrets(Arc::clone(&shop), stop.clone()),
        paint(Arc::clone(&shop), stop.clone()),
        tend_limits(Arc::clone(&shop), stop.clone()),
        darken(Arc::clone(&shop), stop.clone()),
        waiting_rooms::run(Arc::clone(&shop), stop.clone()),
        live::run(Arc::clone(&shop), live, stop.clone()),
        waitlists::run(Arc::clone(&shop), stop.clone()),
        waiting_rooms::save(shop, stop),
    );
}

/// Maintains the limits on claims in flight.
async fn tend_limits(shop: Arc<Shop>, mut stop: watch::Receiver<bool>) {
    let mut quiet = interval(QUIET_AFTER);
    let mut homes = interval(LOOK_FOR_HOMES_EVERY);
    homes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            _ = quiet.tick() => shop.gate.in_flight.begin_again_if_quiet(),
            _ = homes.tick() => shop.look_where_sales_are_decided(),
        }
    }
}

/// Stops showing sales while the ledger is away. A single node goes on showing them: nobody decides
/// meanwhile.
async fn darken(shop: Arc<Shop>, mut stop: watch::Receiver<bool>) {
    if !shop.catalogue.is_shared() {
        return;
    }
    let mut ticks = interval(LOOK_AT_LEDGER_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut away_since: Option<Instant> = None;
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            _ = ticks.tick() => {}
        }
        away_since = match shop.ledger.health() {
            Health::Unavailable(_) => away_since.or_else(|| Some(Instant::now())),
            Health::Recovering | Health::Ready | Health::Stopped => None,
        };
        shop.storefront.darken(away_since.is_some_and(|since| since.elapsed() > SHOWN_BLINDLY_FOR));
    }
}

/// Applies a new secret as soon as there is one.
async fn take_up_secrets(shop: Arc<Shop>, mut stop: watch::Receiver<bool>) {
    let mut secrets = shop.options.secrets.clone();
    let following = async {
        // An error means that the secret will never change again.
        while secrets.changed().await.is_ok() {
            let secrets = *secrets.borrow_and_update();
            // In this order, so that passes signed by the oldest secret do not outlive its sessions.
            shop.gate.rekey(&secrets);
            shop.identity.rekey(&secrets);
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => {}
        () = following => {}
    }
}

/// Draws pictures in advance while a sale wants them, so that no request has to. The painter has its own
/// thread, because priorities belong to threads. Nobody waits for it to end: it holds nothing that a stop
/// needs.
async fn paint(shop: Arc<Shop>, mut stop: watch::Receiver<bool>) {
    let stopping = stop.clone();
    match thread::Builder::new().name("painter".to_owned()).spawn(move || paint_until(&shop, &stopping)) {
        Ok(painter) => {
            // An error means that the server was dropped.
            let _ = stop.wait_for(|stop| *stop).await;
            painter.thread().unpark();
        }
        Err(error) => {
            tracing::error!(%error, "can't start the thread that draws pictures; buyers get a proof of work instead of a captcha")
        }
    }
}

fn paint_until(shop: &Shop, stop: &watch::Receiver<bool>) {
    take_precedence(Precedence::Spare);
    // An error of `has_changed` means that the server was dropped.
    while !*stop.borrow() && stop.has_changed().is_ok() {
        let wanted = shop.storefront.all().iter().any(|shelf| wants_pictures(shop, shelf));
        // The process's hook has logged the panic. The next picture will be a different one.
        let drawn =
            wanted && catch_unwind(AssertUnwindSafe(|| shop.gate.pictures.paint_one())).unwrap_or(false);
        thread::park_timeout(if drawn { BETWEEN_PICTURES } else { COMPLETE_EVERY });
    }
}

fn wants_pictures(shop: &Shop, shelf: &Shelf) -> bool {
    shop.gate_of(shelf).is_some_and(|gate| gate.terms.challenge == ChallengeKind::Captcha)
        && shelf.status().is_some_and(|status| status.state(shop.now()) != SaleState::Closed)
}

/// Completes sales that the ledger announced before their details were loaded, and opens waiting rooms.
async fn complete(shop: Arc<Shop>, mut stop: watch::Receiver<bool>) {
    let complaints = RoomTroubles::default();
    let mut ticks = interval(COMPLETE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            _ = ticks.tick() => {}
        }
        if !shop.storefront.incomplete().is_empty() {
            let _turn = shop.refreshing.lock().await;
            if let Err(error) = shop.storefront.complete(&shop.catalogue).await {
                tracing::warn!(%error, "the details of some sales can't be loaded; trying again");
            }
        }
        waiting_rooms::open_missing(&shop, &complaints).await;
    }
}
