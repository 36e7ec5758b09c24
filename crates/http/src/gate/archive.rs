//! What the records know of waiting rooms, apart from the servers that keep them. If those lose a room, it
//! goes on with the same seed, and above the numbers that people already hold.

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use penstock_domain::SaleId;
use penstock_records::{Records, StoredRoom};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use super::rooms::{for_each_room, is_over};
use crate::app::App;

/// How often the count of issued numbers is noted.
const NOTE_EVERY: Duration = Duration::from_secs(1);

pub trait RoomArchive: Send + Sync {
    /// The known room, or else a new one with this seed. It is durable when this returns.
    fn known_or(&self, sale: SaleId, seed: [u8; 32]) -> BoxFuture<'_, io::Result<StoredRoom>>;
}

impl RoomArchive for Records {
    fn known_or(&self, sale: SaleId, seed: [u8; 32]) -> BoxFuture<'_, io::Result<StoredRoom>> {
        Box::pin(async move { self.waiting_room_or(sale, seed).await.map_err(io::Error::other) })
    }
}

/// Notes what has changed in shared rooms, until the server stops.
pub(super) async fn note(app: Arc<App>, mut stop: watch::Receiver<bool>) {
    if app.gate.options.doors.is_none() {
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
        let now = app.now();
        let mut changed = Vec::new();
        for_each_room(&app, |shelf, _, room| {
            let figures = room.waiting.figures();
            let counts = (figures.tickets, figures.early);
            if !is_over(shelf, now) && noted.get(&shelf.id) != Some(&counts) {
                changed.push((shelf.id, counts));
            }
        });
        for (sale, (issued, early)) in changed {
            match app.records.note_waiting_room(sale, issued, early).await {
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
