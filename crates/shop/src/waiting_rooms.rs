//! Keeps the waiting rooms going: opens them, lets people in at a steady pace, makes their state durable, and
//! notifies everybody who watches.

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use futures_util::future::{join, join_all};
use parking_lot::Mutex;
use penstock_domain::{SaleId, SaleState, Timestamp};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use crate::{
    gate::{OpenRoom, SaleGate},
    shop::Shop,
    storefront::Shelf,
};

/// How often people are let in.
const TICK: Duration = Duration::from_millis(100);
/// How often rooms are saved; a draw that can't be made durable is tried again this often.
const SAVE_EVERY: Duration = Duration::from_millis(50);
/// How often the count of issued numbers is noted.
const NOTE_EVERY: Duration = Duration::from_secs(1);

/// Opens the room of a sale that is being published. Its seed is durable before anybody sees the sale, and it
/// has numbers to give out.
pub async fn open(shop: &Shop, shelf: &Shelf) -> io::Result<()> {
    load(shop, shelf).await?;
    match shelf.gate.get().and_then(|gate| gate.door.save(false)) {
        Some(saving) => saving.await,
        None => Ok(()),
    }
}

/// Brings a room into memory; a new one gets its seed. However many ask for it, it is opened once, so that
/// there is never a second seed beside the first.
async fn load(shop: &Shop, shelf: &Shelf) -> io::Result<()> {
    let Some(gate) = shop.gate_of(shelf).filter(|gate| gate.terms.waiting_room) else { return Ok(()) };
    let open = async || {
        let opens_at = shelf.details().and_then(|details| details.row.opens_at);
        let waiting = gate.door.open_room(opens_at, &shop.records).await?;
        Ok(OpenRoom { waiting, changes: watch::Sender::new(0) })
    };
    gate.room.get_or_try_init(open).await.map(drop)
}

/// Loads the rooms that are not in memory yet, for example after a restart. A sale that is over only shows
/// its draw.
pub async fn open_missing(shop: &Shop, complaints: &RoomTroubles) {
    let now = shop.now();
    for shelf in shop.storefront.all() {
        let is_there = shelf.gate.get().is_some_and(|gate| gate.room.get().is_some());
        if !is_there {
            let opened =
                if is_over(&shelf, now) { load(shop, &shelf).await } else { open(shop, &shelf).await };
            complaints.note(shelf.id, "opened", opened);
        }
    }
}

/// Whether nobody can take a ticket any longer. If the ledger has not announced the sale yet, its terms
/// decide.
fn is_over(shelf: &Shelf, now: Timestamp) -> bool {
    match shelf.status() {
        Some(status) => status.state(now) == SaleState::Closed,
        None => {
            let closes_at = shelf.details().and_then(|details| details.row.closes_at);
            closes_at.is_some_and(|closes_at| now >= closes_at)
        }
    }
}

/// Lets people in until the server stops. Where nodes share rooms, it also notes the counts in the records.
pub async fn run(shop: Arc<Shop>, stop: watch::Receiver<bool>) {
    join(let_in(Arc::clone(&shop), stop.clone()), note(shop, stop)).await;
}

async fn let_in(shop: Arc<Shop>, mut stop: watch::Receiver<bool>) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            _ = ticks.tick() => {}
        }
        let now = shop.now();
        for_each_room(&shop, |shelf, gate, room| tick(shelf, gate, room, now));
    }
}

fn tick(shelf: &Shelf, gate: &SaleGate, room: &OpenRoom, now: Timestamp) {
    if gate.door.tick(&|| shelf.status(), now) {
        room.changes.send_modify(|changes| *changes += 1);
    }
}

fn for_each_room(shop: &Shop, mut visit: impl FnMut(&Arc<Shelf>, &SaleGate, &OpenRoom)) {
    for shelf in shop.storefront.all() {
        if let Some(gate) = shelf.gate.get()
            && let Some(room) = gate.room.get()
        {
            visit(&shelf, gate, room);
        }
    }
}

/// Notes what has changed in shared rooms, until the server stops.
async fn note(shop: Arc<Shop>, mut stop: watch::Receiver<bool>) {
    if shop.gate.options.doors.is_none() {
        return;
    }
    let mut noted = HashMap::new();
    let mut ticks = interval(NOTE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            _ = ticks.tick() => {}
        }
        let now = shop.now();
        let mut changed = Vec::new();
        for_each_room(&shop, |shelf, _, room| {
            let figures = room.waiting.figures();
            let counts = (figures.tickets, figures.early);
            if !is_over(shelf, now) && noted.get(&shelf.id) != Some(&counts) {
                changed.push((shelf.id, counts));
            }
        });
        for (sale, (issued, early)) in changed {
            match shop.records.note_waiting_room(sale, issued, early).await {
                Ok(()) => drop(noted.insert(sale, (issued, early))),
                // The next try will do: it matters only if Redis loses the room, too.
                Err(error) => {
                    tracing::debug!(%error, "the counts of waiting rooms can't be noted");
                    break;
                }
            }
        }
    }
}

/// Makes the state of the rooms durable, until the server stops; then once more, exactly.
pub async fn save(shop: Arc<Shop>, mut stop: watch::Receiver<bool>) {
    let complaints = RoomTroubles::default();
    let mut ticks = interval(SAVE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let stopping = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => true,
            _ = ticks.tick() => false,
        };
        let now = shop.now();
        let mut unsaved = Vec::new();
        for_each_room(&shop, |shelf, gate, _| {
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
pub struct RoomTroubles(Mutex<HashMap<SaleId, String>>);

impl RoomTroubles {
    fn note(&self, sale: SaleId, what: &str, outcome: io::Result<()>) {
        let mut known = self.0.lock();
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
