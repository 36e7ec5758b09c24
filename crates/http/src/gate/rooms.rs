//! Keeps the waiting rooms going: opens them, lets people in at a steady pace, makes their state durable, and
//! notifies everybody who watches.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::{join, join_all};
use penstock_domain::{SaleId, SaleState, Timestamp};
use penstock_gate::WaitingRoom;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use super::{SaleGate, archive};
use crate::{app::App, storefront::Shelf};

/// How often people are let in.
const TICK: Duration = Duration::from_millis(100);
/// How often rooms are saved; a draw that can't be made durable is tried again this often.
const SAVE_EVERY: Duration = Duration::from_millis(50);

/// The waiting room of a sale, and a channel to notify its watchers.
pub(crate) struct Room {
    pub(crate) waiting: Arc<WaitingRoom>,
    /// Grows with every change that people see.
    pub(crate) changes: watch::Sender<u64>,
}

/// Opens the room of a sale that is being published. Its seed is durable before anybody sees the sale, and it
/// has numbers to give out.
pub(crate) async fn open(app: &App, shelf: &Shelf) -> io::Result<()> {
    load(app, shelf).await?;
    match shelf.gate.get().and_then(|gate| gate.door.save(false)) {
        Some(saving) => saving.await,
        None => Ok(()),
    }
}

/// Brings a room into memory; a new one gets its seed.
async fn load(app: &App, shelf: &Shelf) -> io::Result<()> {
    let is_missing = |gate: &&SaleGate| gate.terms.waiting_room && gate.room.get().is_none();
    if app.gate.of(shelf).filter(is_missing).is_none() {
        return Ok(());
    }
    let _opening = app.gate.opening.lock().await;
    // Another task may have opened it meanwhile.
    let Some(gate) = app.gate.of(shelf).filter(is_missing) else { return Ok(()) };
    let opens_at = shelf.details().and_then(|details| details.row.opens_at);
    let waiting = gate.door.open_room(opens_at, &app.records).await?;
    gate.room.get_or_init(|| Room { waiting, changes: watch::Sender::new(0) });
    Ok(())
}

/// Loads the rooms that are not in memory yet, for example after a restart. A sale that is over only shows
/// its draw.
pub(crate) async fn open_missing(app: &App, complaints: &Complaints) {
    let now = app.now();
    for shelf in app.storefront.all() {
        let is_there = shelf.gate.get().is_some_and(|gate| gate.room.get().is_some());
        if !is_there {
            let opened = if is_over(&shelf, now) { load(app, &shelf).await } else { open(app, &shelf).await };
            complaints.note(shelf.id, "opened", opened);
        }
    }
}

/// Whether nobody can take a ticket any longer. If the ledger has not announced the sale yet, its terms
/// decide.
pub(super) fn is_over(shelf: &Shelf, now: Timestamp) -> bool {
    match shelf.status() {
        Some(status) => status.state(now) == SaleState::Closed,
        None => {
            let closes_at = shelf.details().and_then(|details| details.row.closes_at);
            closes_at.is_some_and(|closes_at| now >= closes_at)
        }
    }
}

/// Lets people in until the server stops. Where nodes share rooms, it also notes the counts in the records.
pub(crate) async fn run(app: Arc<App>, stop: watch::Receiver<bool>) {
    join(let_in(Arc::clone(&app), stop.clone()), archive::note(app, stop)).await;
}

async fn let_in(app: Arc<App>, mut stop: watch::Receiver<bool>) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            _ = ticks.tick() => {}
        }
        let now = app.now();
        for_each_room(&app, |shelf, gate, room| tick(shelf, gate, room, now));
    }
}

fn tick(shelf: &Shelf, gate: &SaleGate, room: &Room, now: Timestamp) {
    if gate.door.tick(&|| shelf.status(), now) {
        room.changes.send_modify(|changes| *changes += 1);
    }
}

pub(super) fn for_each_room(app: &App, mut visit: impl FnMut(&Arc<Shelf>, &SaleGate, &Room)) {
    for shelf in app.storefront.all() {
        if let Some(gate) = shelf.gate.get()
            && let Some(room) = gate.room.get()
        {
            visit(&shelf, gate, room);
        }
    }
}

/// Makes the state of the rooms durable, until the server stops; then once more, exactly.
pub(crate) async fn save(app: Arc<App>, mut stop: watch::Receiver<bool>) {
    let complaints = Complaints::default();
    let mut ticks = interval(SAVE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let stopping = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => true,
            _ = ticks.tick() => false,
        };
        let now = app.now();
        let mut unsaved = Vec::new();
        for_each_room(&app, |shelf, gate, _| {
            if !is_over(shelf, now) {
                unsaved.push((shelf.id, Arc::clone(&gate.door)));
            }
        });
        // All at once: if rooms are stored remotely, a stop must not wait for each of them in turn.
        join_all(unsaved.iter().map(|(sale, door)| async {
            if let Some(saving) = door.save(stopping) {
                complaints.note(*sale, "saved", saving.await);
            }
        }))
        .await;
        if stopping {
            return;
        }
    }
}

/// The current problems of rooms, so that each is logged once and not twenty times a second.
#[derive(Debug, Default)]
pub(crate) struct Complaints(Mutex<HashMap<SaleId, String>>);

impl Complaints {
    fn note(&self, sale: SaleId, what: &str, outcome: io::Result<()>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(()) => drop(known.remove(&sale)),
            Err(error) => {
                let problem = error.to_string();
                if known.get(&sale) != Some(&problem) {
                    tracing::error!(%sale, problem, "a waiting room can't be {what}");
                    known.insert(sale, problem);
                }
            }
        }
    }
}
