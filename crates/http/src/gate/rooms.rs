//! Keeps the waiting rooms going: opens them, lets people in at a steady pace, makes durable what has to be, and tells
//! everybody who watches.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use penstock_domain::{SaleId, Timestamp};
use penstock_gate::{RoomOptions, RoomState, WaitingRoom};
use tokio::{
    sync::watch,
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use super::{RoomStore, SaleGate};
use crate::{app::App, storefront::Shelf};

/// How often people are let in.
const TICK: Duration = Duration::from_millis(100);
/// A draw that can't be made durable is tried again this often, and everything else is saved.
const SAVE_EVERY: Duration = Duration::from_millis(50);

/// The waiting room of a sale, and who has to be told.
pub(crate) struct Room {
    pub(crate) waiting: WaitingRoom,
    /// Grows with every change that people see.
    pub(crate) changes: watch::Sender<u64>,
}

/// The room of a sale that is being published, durable with its seed before anybody sees the sale.
pub(crate) async fn open(app: &Arc<App>, shelf: &Arc<Shelf>) -> io::Result<()> {
    let Some(gate) = app.gate.of(shelf).filter(|gate| gate.terms.waiting_room && gate.room.get().is_none())
    else {
        return Ok(());
    };
    let store = Arc::clone(&app.gate.options.room_store);
    let options = RoomOptions {
        turn_seconds: app.gate.options.turn_seconds,
        pass_seconds: app.gate.options.pass_seconds,
        admissions_per_second: app.gate.options.admissions_per_second,
    };
    let sale = shelf.id;
    let opened = spawn_blocking(move || load_or_create(&*store, sale, options)).await;
    let waiting = opened.map_err(io::Error::other)??;
    gate.room.get_or_init(|| Room { waiting, changes: watch::Sender::new(0) });
    Ok(())
}

/// A room with numbers to give out.
fn load_or_create(store: &dyn RoomStore, sale: SaleId, options: RoomOptions) -> io::Result<WaitingRoom> {
    let state = match store.load(sale)? {
        Some(state) => state,
        None => {
            let mut seed = [0; 32];
            getrandom::fill(&mut seed).map_err(io::Error::other)?;
            RoomState::new(seed)
        }
    };
    let waiting = WaitingRoom::new(sale, state, options);
    // A new room has a seed to save, any room its first numbers.
    if let Some(state) = waiting.unsaved() {
        store.save(sale, &state)?;
        waiting.saved(&state);
    }
    Ok(waiting)
}

/// Opens the rooms that are not open yet, for example after a restart.
pub(crate) async fn open_missing(app: &Arc<App>, complaint: &Complaint) {
    for shelf in app.storefront.all() {
        if let Err(error) = open(app, &shelf).await {
            complaint.raise(format!("the waiting room of sale {} can't be opened: {error}", shelf.id));
        }
    }
}

/// Lets people in until the server stops.
pub(crate) async fn run(app: Arc<App>, mut stop: watch::Receiver<bool>) {
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
    // In this order: an order that is accepted in between is rather counted twice than not at all.
    let live_passes = gate.head.live(now);
    let Some(status) = shelf.status() else { return };
    if room.waiting.tick(&status, live_passes, now) {
        room.changes.send_modify(|changes| *changes += 1);
    }
}

fn for_each_room(app: &App, mut visit: impl FnMut(&Arc<Shelf>, &SaleGate, &Room)) {
    for shelf in app.storefront.all() {
        if let Some(gate) = shelf.gate.get()
            && let Some(room) = gate.room.get()
        {
            visit(&shelf, gate, room);
        }
    }
}

/// Makes durable what the rooms have to remember, until the server stops; then once more, exactly.
pub(crate) async fn save(app: Arc<App>, mut stop: watch::Receiver<bool>) {
    let complaint = Complaint::default();
    let mut ticks = interval(SAVE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let stopping = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => true,
            _ = ticks.tick() => false,
        };
        let mut unsaved = Vec::new();
        for_each_room(&app, |shelf, _, room| {
            let state = if stopping { Some(room.waiting.closing_state()) } else { room.waiting.unsaved() };
            unsaved.extend(state.map(|state| (Arc::clone(shelf), state)));
        });
        for (shelf, state) in unsaved {
            save_one(&app, &shelf, state, &complaint).await;
        }
        if stopping {
            return;
        }
    }
}

async fn save_one(app: &App, shelf: &Shelf, state: RoomState, complaint: &Complaint) {
    let store = Arc::clone(&app.gate.options.room_store);
    let (sale, written) = (shelf.id, state.clone());
    let saved = spawn_blocking(move || store.save(sale, &written)).await;
    match saved.unwrap_or_else(|error| Err(io::Error::other(error))) {
        Ok(()) => {
            complaint.settle();
            if let Some(room) = shelf.gate.get().and_then(|gate| gate.room.get()) {
                room.waiting.saved(&state);
                room.changes.send_modify(|changes| *changes += 1);
            }
        }
        Err(error) => complaint.raise(format!("the waiting room of sale {sale} can't be saved: {error}")),
    }
}

/// Something that is wrong for a while: said once, not twenty times a second.
#[derive(Debug, Default)]
pub(crate) struct Complaint(Mutex<Option<String>>);

impl Complaint {
    fn raise(&self, problem: String) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref() != Some(&problem) {
            tracing::error!(problem, "a waiting room has to wait");
            *known = Some(problem);
        }
    }

    fn settle(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
