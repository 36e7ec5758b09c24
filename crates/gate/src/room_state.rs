//! What a waiting room has to remember across a restart: a few words, and the places whose turn was not over.
//! It does not know how it is stored.

use std::fmt;

use penstock_domain::Timestamp;
use serde::{Deserialize, Serialize};

/// A new room's state has to be durable before its commitment is shown to anybody.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomState {
    /// Decides the draw. Secret until the opening.
    pub seed: [u8; 32],
    /// Numbers below may have been given out.
    pub reserved: u64,
    /// So many numbers came before the opening and take part in the draw. None: the sale has not opened.
    pub early: Option<u64>,
    /// The places below were called, or gone past because nobody was there.
    pub admitted: u64,
    /// How many people had a turn that was not over and had not become a pass.
    #[serde(default)]
    pub open: u64,
    /// How many passes were in people's hands that this process had given out.
    #[serde(default)]
    pub live_passes: u64,
    /// Passes from before it, and until when they may be good.
    #[serde(default)]
    pub old_passes: Vec<(u64, Timestamp)>,
    /// Those from this place up to `admitted` who were away may still come back.
    #[serde(default)]
    pub open_from: u64,
    /// Runs of places whose turn was not over.
    #[serde(default)]
    pub called: Vec<(u64, u64)>,
    /// People who were ever called.
    #[serde(default)]
    pub let_in: u64,
}

impl RoomState {
    /// A new room, decided by 32 random bytes.
    pub fn new(seed: [u8; 32]) -> Self {
        Self {
            seed,
            reserved: 0,
            early: None,
            admitted: 0,
            open: 0,
            live_passes: 0,
            old_passes: Vec::new(),
            open_from: 0,
            called: Vec::new(),
            let_in: 0,
        }
    }

    pub(crate) fn is_called(&self, place: u64) -> bool {
        self.called.iter().any(|(from, to)| (*from..*to).contains(&place))
    }
}

/// Leaves out the seed: it tells the order.
impl fmt::Debug for RoomState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RoomState")
            .field("reserved", &self.reserved)
            .field("early", &self.early)
            .field("admitted", &self.admitted)
            .field("open", &self.open)
            .field("live_passes", &self.live_passes)
            .field("open_from", &self.open_from)
            .finish_non_exhaustive()
    }
}
