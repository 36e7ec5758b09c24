//! One sale's part of the gate.

use std::sync::Arc;

use penstock_domain::{GateTerms, Timestamp};
use penstock_gate::WaitingRoom;
use tokio::sync::{OnceCell, watch};

use super::door::Door;

pub struct SaleGate {
    pub terms: GateTerms,
    pub door: Arc<dyn Door>,
    /// Empty without a waiting room, and until it is loaded.
    pub room: OnceCell<OpenRoom>,
}

/// The waiting room of a sale, and a channel to notify its watchers.
pub struct OpenRoom {
    pub waiting: Arc<WaitingRoom>,
    /// Grows with every change that people see.
    pub changes: watch::Sender<u64>,
}

/// Why there is no waiting room to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    NotGated,
    /// It is being opened.
    Opening,
}

impl SaleGate {
    pub fn new(terms: GateTerms, door: Arc<dyn Door>) -> Self {
        Self { terms, door, room: OnceCell::new() }
    }

    pub fn room(&self) -> Result<&OpenRoom, NoRoom> {
        if !self.terms.waiting_room {
            return Err(NoRoom::NotGated);
        }
        self.room.get().ok_or(NoRoom::Opening)
    }

    pub fn figures(&self, now: Timestamp) -> GateFigures {
        let room = self.room.get().map(|room| room.waiting.figures());
        let passes = self.door.passes(now);
        GateFigures {
            passes_issued: passes.issued,
            passes_live: passes.live,
            tickets: room.map_or(0, |room| room.tickets),
            let_in: room.map_or(0, |room| room.let_in),
            waiting: room.map_or(0, |room| room.waiting),
            pending: room.map_or(0, |room| room.pending),
        }
    }
}

/// The people at the gate, in one sale or in all.
#[derive(Clone, Copy, Debug, Default)]
pub struct GateFigures {
    pub passes_issued: u64,
    pub passes_live: u64,
    pub tickets: u64,
    /// People who were called.
    pub let_in: u64,
    /// People who are waiting and present.
    pub waiting: u64,
    pub pending: u64,
}

impl GateFigures {
    pub fn plus(self, other: Self) -> Self {
        Self {
            passes_issued: self.passes_issued + other.passes_issued,
            passes_live: self.passes_live + other.passes_live,
            tickets: self.tickets + other.tickets,
            let_in: self.let_in + other.let_in,
            waiting: self.waiting + other.waiting,
            pending: self.pending + other.pending,
        }
    }
}
