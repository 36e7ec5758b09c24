//! What a waiting room has to remember across a restart: a few words, whatever the number of people in it. It does
//! not know how it is stored.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How many crashes are remembered. What is older is treated as people who do not come.
const MAX_UNCERTAIN: usize = 16;

/// A new room's state has to be durable before its commitment is shown to anybody.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomState {
    /// Decides the draw. Secret until the opening.
    pub seed: [u8; 32],
    /// Numbers below may have been given out.
    pub reserved: u64,
    /// So many numbers came before the opening and take part in the draw. None: the sale has not opened.
    pub early: Option<u64>,
    /// The places below had their turn.
    pub admitted: u64,
    /// So many of those could still buy: they had a turn or a pass that was not over.
    #[serde(default)]
    pub open: u64,
    /// From this place up to `admitted`, turns were not over.
    #[serde(default)]
    pub open_from: u64,
    /// Numbers below have been given out, except for uncertain ones.
    pub issued: u64,
    /// Numbers that were reserved when the process was killed. Few of them, if any, were given out.
    pub uncertain: Vec<Uncertain>,
}

/// The numbers `from..to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uncertain {
    pub from: u64,
    pub to: u64,
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
            open_from: 0,
            issued: 0,
            uncertain: Vec::new(),
        }
    }

    /// After a restart: numbers go on at `reserved`, and what lies between is uncertain. After an orderly stop
    /// nothing does.
    pub(crate) fn restored(mut self) -> Self {
        if self.issued < self.reserved {
            self.uncertain.push(Uncertain { from: self.issued, to: self.reserved });
            let too_many = self.uncertain.len().saturating_sub(MAX_UNCERTAIN);
            self.uncertain.drain(..too_many);
        }
        self.issued = self.reserved;
        self
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
            .field("open_from", &self.open_from)
            .field("issued", &self.issued)
            .field("uncertain", &self.uncertain)
            .finish_non_exhaustive()
    }
}
