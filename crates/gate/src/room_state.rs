//! What a waiting room remembers across a restart: a few words, and the places whose turn was not over. It
//! does not know how it is stored.

use std::fmt;

use penstock_domain::Timestamp;
use serde::{Deserialize, Serialize};

/// The state of a new room has to be durable before its commitment is shown to anybody.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomState {
    /// Decides the draw. Secret until the opening.
    pub seed: [u8; 32],
    /// Numbers below this one may have been given out.
    pub reserved: u64,
    /// The numbers from before the opening, which take part in the draw. None: the sale has not opened.
    pub early: Option<u64>,
    /// The places below this one were called, or passed over because nobody was there.
    pub admitted: u64,
    /// People whose turn was neither over nor a pass yet.
    #[serde(default)]
    pub open: u64,
    /// Live passes that this process had given out.
    #[serde(default)]
    pub live_passes: u64,
    /// Passes from earlier processes, and until when they may be good.
    #[serde(default)]
    pub old_passes: Vec<(u64, Timestamp)>,
    /// People from this place up to `admitted` who were away may still come back.
    #[serde(default)]
    pub open_from: u64,
    /// Runs of places whose turn was not over.
    #[serde(default)]
    pub called: Vec<(u64, u64)>,
    /// Everybody who was ever called.
    #[serde(default)]
    pub let_in: u64,
}

impl RoomState {
    /// A new room, based on 32 random bytes.
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

/// Leaves out the seed, which reveals the order.
impl fmt::Debug for RoomState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut room = formatter.debug_struct("RoomState");
        room.field("reserved", &self.reserved).field("early", &self.early).field("admitted", &self.admitted);
        room.field("open", &self.open).field("live_passes", &self.live_passes).finish_non_exhaustive()
    }
}
