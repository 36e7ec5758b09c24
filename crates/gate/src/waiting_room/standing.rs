//! What a waiting room tells about a ticket, about its draw and about itself.

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
    /// The place in the order of the room, counted from 0. It never changes. None: not drawn yet.
    pub place: Option<u64>,
    /// The position among the people who are there; 1 is the next to be called.
    pub position: Option<u64>,
    pub estimated_wait_seconds: Option<u64>,
}

/// The public part of the draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawView {
    pub commitment: [u8; 32],
    /// Revealed once it can no longer change anything.
    pub seed: Option<[u8; 32]>,
    pub count: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoomFigures {
    /// Tickets given out, including numbers that a crash skipped.
    pub tickets: u64,
    pub early: Option<u64>,
    /// The places below this one were called, or passed over because nobody was there.
    pub admitted: u64,
    /// Everybody who was called.
    pub let_in: u64,
    /// People who wait and are there.
    pub waiting: u64,
    /// People whose turn it is and who have not taken a pass yet.
    pub pending: u64,
    pub admissions_per_second: Option<f64>,
}
