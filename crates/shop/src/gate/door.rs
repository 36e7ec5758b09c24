//! The door of a sale: everything that all nodes of a shop have to agree on. A number is given out once, a
//! turn is one pass, a challenge is used once, and live passes are counted wherever they were given out. A
//! single node has it all in memory. Nodes that share a shop keep it where all of them see it; this module
//! does not know where.

use std::{io, sync::Arc};

use futures_util::future::{BoxFuture, ready};
use penstock_domain::{BuyerId, SaleId, SaleStatus, Timestamp};
use penstock_gate::{HeadGateOptions, Presented, RoomOptions, WaitingRoom};

use super::archive::RoomArchive;

/// The options that the doors of all sales share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoorOptions {
    pub head: HeadGateOptions,
    pub room: RoomOptions,
    /// How long a challenge is valid.
    pub challenge_seconds: u32,
    /// The most used challenges that are remembered.
    pub max_used_challenges: usize,
}

/// Somebody who asks for a pass and has passed all checks that need no look-up.
#[derive(Clone, Debug)]
pub struct Applicant {
    pub buyer: BuyerId,
    /// The number of the ticket whose turn it is, if the sale has a waiting room.
    pub number: Option<u64>,
    /// When that turn ends.
    pub turn_until: Option<Timestamp>,
    /// The presented challenge, if the sale has one.
    pub challenge: Option<Presented>,
    /// Units that are left.
    pub available: u32,
    pub now: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DoorRefusal {
    #[error("the turn was already used for a pass, which is no longer live")]
    TurnUsed,
    #[error("the turn is over")]
    TurnOver,
    #[error("there are enough live passes for the units that are left")]
    Exhausted,
    #[error("no more live passes can be remembered")]
    TooManyPasses,
    #[error("the challenge was not met, or was used before")]
    ChallengeFailed,
    #[error("no more used challenges can be remembered")]
    TooManyChallenges,
    #[error("there are too many requests at the moment")]
    Busy,
    #[error("the state that the nodes share can't be reached")]
    Unavailable,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassFigures {
    /// Passes that this node has ever issued.
    pub issued: u64,
    /// Live passes of all nodes.
    pub live: u64,
}

/// Calls that don't return a future never wait.
pub trait Door: Send + Sync + 'static {
    /// The waiting room that people ask; a new one gets its seed. It is durable when this returns. Called
    /// once. Where nodes share a room, `archive` knows it even if the shared copy was lost.
    fn open_room<'a>(
        &'a self,
        opens_at: Option<Timestamp>,
        archive: &'a dyn RoomArchive,
    ) -> BoxFuture<'a, io::Result<Arc<WaitingRoom>>>;

    /// Whether a number could be had now. A check before anything is spent on asking for one.
    fn has_numbers(&self) -> bool;

    fn take_number(&self, now: Timestamp) -> BoxFuture<'_, Result<u64, DoorRefusal>>;

    /// Learns of all turns that anybody was told of before the call, if that can be done soon. Call it before
    /// a person is sent away because their turn has not come.
    fn catch_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }

    /// Refuses if a refusal is certain. A check before the costly ones.
    fn look(
        &self,
        buyer: &BuyerId,
        number: Option<u64>,
        available: u32,
        now: Timestamp,
    ) -> Result<(), DoorRefusal>;

    /// The deadline of the buyer's pass: of the one they have, or of a new one. Whatever costs the buyer
    /// something is used up last.
    fn pass(&self, applicant: Applicant) -> BoxFuture<'_, Result<Timestamp, DoorRefusal>>;

    /// An order with this buyer's pass, which is valid until `deadline`, was accepted, so the pass no longer
    /// stands for a buyer who may still come. A status of this version includes the order.
    fn used(&self, buyer: &BuyerId, deadline: Timestamp, sale_version: u64, now: Timestamp);

    /// Lets people in; called about every 100 milliseconds. `status` is called after the passes were counted,
    /// so that an order accepted in between is counted twice rather than not at all. True if something that
    /// people see has changed.
    fn tick(&self, status: &dyn Fn() -> Option<SaleStatus>, now: Timestamp) -> bool;

    /// Makes the state durable if necessary; called again and again. `is_last` says that the server stops and
    /// gives out no further numbers.
    fn save(&self, is_last: bool) -> Option<BoxFuture<'_, io::Result<()>>>;

    fn passes(&self, now: Timestamp) -> PassFigures;
}

/// Makes the doors of nodes that share a shop.
pub trait Doors: Send + Sync + 'static {
    fn door(&self, sale: SaleId, options: DoorOptions) -> Arc<dyn Door>;
}
