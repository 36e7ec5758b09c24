//! The doors of sales for nodes that share a shop. Tickets, turns, challenges and passes are good on every
//! node, and their totals hold across all of them. A door only puts its parts together.

use std::{
    io,
    sync::{Arc, OnceLock},
};

use futures_util::future::BoxFuture;
use penstock_domain::{BuyerId, SaleId, SaleStatus, Timestamp};
use penstock_gate::WaitingRoom;
use penstock_ledger::Clock;
use penstock_redis_client::{Link, LinkError};
use penstock_shop::gate::{
    Applicant, Door, DoorOptions, DoorRefusal, Doors, PassFigures, RoomArchive, StoredRoom,
};
use tokio::runtime::Handle;

use crate::{
    gate_calls::{GateCalls, Remembered, Scripts, mark_of},
    numbers::SharedNumbers,
    passes::Passes,
    rooms::{NodeRoom, look_after},
};

#[derive(Clone)]
pub struct SharedDoorsOptions {
    /// Unique to this node.
    pub node: String,
    /// Put before every key, for shops that share a Redis.
    pub prefix: String,
    /// In place of Redis' clock, for tests.
    pub moment: Option<Clock>,
}

impl std::fmt::Debug for SharedDoorsOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SharedDoorsOptions").field("node", &self.node).finish_non_exhaustive()
    }
}

/// Background work runs on the runtime that created this.
#[derive(Debug)]
pub struct SharedDoors {
    link: Link,
    scripts: Scripts,
    runtime: Handle,
    options: SharedDoorsOptions,
}

impl SharedDoors {
    pub fn new(link: Link, runtime: Handle, options: SharedDoorsOptions) -> Self {
        let scripts = Scripts::learnt_by(&link);
        Self { link, scripts, runtime, options }
    }
}

impl Doors for SharedDoors {
    fn door(&self, sale: SaleId, options: DoorOptions) -> Arc<dyn Door> {
        let calls = GateCalls {
            link: self.link.clone(),
            scripts: self.scripts.clone(),
            node: self.options.node.clone(),
            moment: self.options.moment.clone(),
            prefix: self.options.prefix.clone(),
            sale,
        };
        let passes = Passes::start(&self.runtime, &calls, options);
        Arc::new(SharedDoor { calls, options, runtime: self.runtime.clone(), passes, room: OnceLock::new() })
    }
}

struct SharedDoor {
    calls: GateCalls,
    options: DoorOptions,
    runtime: Handle,
    passes: Passes,
    room: OnceLock<Arc<NodeRoom>>,
}

impl SharedDoor {
    /// The seed of the room, on which Redis and the archive have to agree.
    async fn find_room(
        &self,
        opens_at: Option<Timestamp>,
        archive: &dyn RoomArchive,
    ) -> io::Result<[u8; 32]> {
        let there = self.call(|calls| async move { calls.seed().await }).await?;
        let mut offered = [0; 32];
        getrandom::fill(&mut offered).map_err(io::Error::other)?;
        let offered = there.unwrap_or(offered);
        let known = match (archive.known_or(self.calls.sale, offered).await, there) {
            (Ok(known), _) => known,
            // The archive is needed only if Redis has lost the room.
            (Err(error), Some(seed)) => {
                tracing::warn!(sale = %self.calls.sale, %error, "opening a waiting room without the records");
                StoredRoom { seed, issued: 0, early: None }
            }
            (Err(error), None) => return Err(error),
        };
        let was_lost = there.is_none() && known.issued > 0;
        let remembered = match was_lost {
            true => Remembered::new(known.issued, known.early, 0, None),
            false => Remembered::default(),
        };
        let (seed, issued) = (known.seed, known.issued);
        if was_lost {
            tracing::warn!(sale = %self.calls.sale, issued, "Redis lost a waiting room; restoring it from the records");
        }
        let found = self.call(|calls| async move { calls.room(seed, opens_at, &remembered).await }).await?;
        if found == seed { Ok(seed) } else { Err(io::Error::other(self.calls.other_seed())) }
    }

    /// Runs the call on the runtime that the connections to Redis belong to.
    async fn call<T, F>(&self, call: impl FnOnce(GateCalls) -> F) -> io::Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, LinkError>> + Send + 'static,
    {
        let answered = self.runtime.spawn(call(self.calls.clone())).await;
        answered.map_err(io::Error::other)?.map_err(io::Error::other)
    }

    fn begin_room(&self, seed: [u8; 32], opens_at: Option<Timestamp>) -> Arc<NodeRoom> {
        let turn_seconds = self.options.room.turn_seconds;
        let numbers = SharedNumbers::start(&self.runtime, self.calls.clone(), seed, opens_at, turn_seconds);
        let room =
            NodeRoom::new(self.calls.clone(), self.options, (seed, opens_at), numbers, self.passes.clone());
        let room = Arc::new(room);
        self.runtime.spawn(look_after(Arc::downgrade(&room)));
        room
    }
}

impl Door for SharedDoor {
    fn open_room<'a>(
        &'a self,
        opens_at: Option<Timestamp>,
        archive: &'a dyn RoomArchive,
    ) -> BoxFuture<'a, io::Result<Arc<WaitingRoom>>> {
        Box::pin(async move {
            let seed = self.find_room(opens_at, archive).await?;
            let room = self.room.get_or_init(|| self.begin_room(seed, opens_at));
            Ok(Arc::clone(&room.shown))
        })
    }

    fn has_numbers(&self) -> bool {
        self.room.get().is_some_and(|room| !room.numbers.is_cut_off())
    }

    fn take_number(&self, now: Timestamp) -> BoxFuture<'_, Result<u64, DoorRefusal>> {
        Box::pin(async move {
            match self.room.get() {
                Some(room) => room.numbers.take(now).await,
                None => Err(DoorRefusal::Unavailable),
            }
        })
    }

    fn catch_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Some(room) = self.room.get() {
                room.catch_up().await;
            }
        })
    }

    /// Only the shared state can answer this, and asking for it together with the pass costs no more.
    fn look(&self, _: &BuyerId, _: Option<u64>, _: u32, _: Timestamp) -> Result<(), DoorRefusal> {
        Ok(())
    }

    fn pass(&self, applicant: Applicant) -> BoxFuture<'_, Result<Timestamp, DoorRefusal>> {
        Box::pin(self.passes.ask(applicant))
    }

    fn used(&self, buyer: &BuyerId, _deadline: Timestamp, sale_version: u64, _now: Timestamp) {
        self.passes.used(mark_of(buyer), sale_version);
    }

    fn tick(&self, status: &dyn Fn() -> Option<SaleStatus>, now: Timestamp) -> bool {
        match (self.room.get(), status()) {
            (Some(room), Some(status)) => room.note_status(status, now),
            _ => false,
        }
    }

    fn save(&self, is_last: bool) -> Option<BoxFuture<'_, io::Result<()>>> {
        let room = self.room.get().filter(|_| is_last)?;
        Some(Box::pin(async {
            room.leave().await;
            Ok(())
        }))
    }

    fn passes(&self, _now: Timestamp) -> PassFigures {
        self.passes.figures()
    }
}
