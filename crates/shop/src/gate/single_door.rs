//! The door of a sale for a single node: everything is in memory, and the waiting room has a store of its
//! own.

use std::{
    io,
    sync::{Arc, OnceLock},
};

use futures_util::future::{BoxFuture, ready};
use penstock_domain::{BuyerId, SaleId, SaleStatus, Timestamp};
use penstock_gate::{
    ChallengeRefusal, Challenges, HeadGate, HeadGateRefusal, RoomOptions, RoomState, WaitingRoom,
};
use tokio::{sync::Mutex, task::spawn_blocking};

use super::{
    archive::RoomArchive,
    door::{Applicant, Door, DoorOptions, DoorRefusal, PassFigures},
    options::RoomStore,
};

pub(super) struct SingleDoor {
    sale: SaleId,
    options: RoomOptions,
    head: HeadGate,
    challenges: Arc<Challenges>,
    store: Arc<dyn RoomStore>,
    /// Empty without a waiting room, and until it is loaded.
    room: OnceLock<Arc<WaitingRoom>>,
    /// Publishing a sale saves its room, and so does the task that saves all rooms. They must not write at
    /// the same time, and the older state must not be written last.
    saving: Mutex<()>,
}

impl SingleDoor {
    pub(super) fn new(
        sale: SaleId,
        options: DoorOptions,
        challenges: &Arc<Challenges>,
        store: &Arc<dyn RoomStore>,
    ) -> Self {
        Self {
            sale,
            options: options.room,
            head: HeadGate::new(options.head),
            challenges: Arc::clone(challenges),
            store: Arc::clone(store),
            room: OnceLock::new(),
            saving: Mutex::new(()),
        }
    }
}

impl Door for SingleDoor {
    fn open_room<'a>(
        &'a self,
        _opens_at: Option<Timestamp>,
        _archive: &'a dyn RoomArchive,
    ) -> BoxFuture<'a, io::Result<Arc<WaitingRoom>>> {
        let (store, sale) = (Arc::clone(&self.store), self.sale);
        Box::pin(async move {
            let state = spawn_blocking(move || load_or_create(&*store, sale)).await;
            let state = state.map_err(io::Error::other)??;
            let room = self.room.get_or_init(|| Arc::new(WaitingRoom::new(sale, state, self.options)));
            Ok(Arc::clone(room))
        })
    }

    fn has_numbers(&self) -> bool {
        self.room.get().is_some_and(|room| room.has_numbers())
    }

    fn take_number(&self, _now: Timestamp) -> BoxFuture<'_, Result<u64, DoorRefusal>> {
        let number = self.room.get().and_then(|room| room.take_number());
        Box::pin(ready(number.ok_or(DoorRefusal::Busy)))
    }

    fn look(
        &self,
        buyer: &BuyerId,
        number: Option<u64>,
        available: u32,
        now: Timestamp,
    ) -> Result<(), DoorRefusal> {
        let has_taken = |number: u64| self.room.get().is_some_and(|room| room.has_taken(number));
        if number.is_some_and(has_taken) && !self.head.has_live(buyer, now) {
            return Err(DoorRefusal::TurnUsed);
        }
        if self.head.has_room_for(buyer, available, now) { Ok(()) } else { Err(DoorRefusal::Exhausted) }
    }

    fn pass(&self, applicant: Applicant) -> BoxFuture<'_, Result<Timestamp, DoorRefusal>> {
        Box::pin(ready(self.take_pass(&applicant)))
    }

    fn used(&self, buyer: &BuyerId, deadline: Timestamp, _sale_version: u64, now: Timestamp) {
        if !self.head.used(buyer, now)
            && let Some(room) = self.room.get()
        {
            room.old_pass_used(deadline);
        }
    }

    fn tick(&self, status: &dyn Fn() -> Option<SaleStatus>, now: Timestamp) -> bool {
        let live_passes = self.head.live_passes(now);
        match (self.room.get(), status()) {
            (Some(room), Some(status)) => room.tick(&status, live_passes, now),
            _ => false,
        }
    }

    fn save(&self, is_last: bool) -> Option<BoxFuture<'_, io::Result<()>>> {
        let room = self.room.get()?;
        if !is_last && room.unsaved().is_none() {
            return None;
        }
        let (store, sale) = (Arc::clone(&self.store), self.sale);
        Some(Box::pin(async move {
            let _turn = self.saving.lock().await;
            // Another task may have saved it meanwhile.
            let state = if is_last { Some(room.closing_state()) } else { room.unsaved() };
            let Some(state) = state else { return Ok(()) };
            let saved = state.clone();
            spawn_blocking(move || store.save(sale, &state)).await.map_err(io::Error::other)??;
            room.saved(&saved);
            Ok(())
        }))
    }

    fn passes(&self, now: Timestamp) -> PassFigures {
        PassFigures { issued: self.head.issued(), live: self.head.live(now) }
    }
}

impl SingleDoor {
    fn take_pass(&self, applicant: &Applicant) -> Result<Timestamp, DoorRefusal> {
        if let Some(challenge) = &applicant.challenge {
            self.challenges.redeem(challenge).map_err(|refusal| match refusal {
                ChallengeRefusal::Failed => DoorRefusal::ChallengeFailed,
                ChallengeRefusal::Full => DoorRefusal::TooManyChallenges,
            })?;
        }
        let taken = self.head.take(&applicant.buyer, applicant.available, applicant.now);
        let deadline = taken.map_err(|refusal| match refusal {
            HeadGateRefusal::Exhausted => DoorRefusal::Exhausted,
            HeadGateRefusal::Full => DoorRefusal::TooManyPasses,
        })?;
        if let (Some(number), Some(room)) = (applicant.number, self.room.get()) {
            room.pass_taken(number);
        }
        Ok(deadline)
    }
}

fn load_or_create(store: &dyn RoomStore, sale: SaleId) -> io::Result<RoomState> {
    if let Some(state) = store.load(sale)? {
        return Ok(state);
    }
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(io::Error::other)?;
    let state = RoomState::new(seed);
    store.save(sale, &state)?;
    Ok(state)
}
