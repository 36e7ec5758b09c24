//! What a waiting room says of a ticket, of its draw and of itself.

use penstock_domain::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoneReason {
    SoldOut,
    TurnOver,
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketState {
    Waiting,
    Admitted { until: Timestamp },
    Gone(GoneReason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub state: TicketState,
    /// The place in the order of the room, which never changes. Counts from 0. None: not drawn yet.
    pub place: Option<u64>,
    /// Among the people who are there; 1 is the next to be called.
    pub position: Option<u64>,
    pub estimated_wait_seconds: Option<u64>,
}

/// What anybody may know of the draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawView {
    pub commitment: [u8; 32],
    /// Told when it can no longer change anything.
    pub seed: Option<[u8; 32]>,
    pub count: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoomFigures {
    /// Tickets given out, including numbers that a crash skipped.
    pub tickets: u64,
    pub early: Option<u64>,
    /// The places below were called, or gone past because nobody was there.
    pub admitted: u64,
    /// People who were called.
    pub let_in: u64,
    /// People who wait and are there.
    pub waiting: u64,
    /// People whose turn it is and who have not taken a pass yet.
    pub pending: u64,
    pub admissions_per_second: Option<f64>,
}
