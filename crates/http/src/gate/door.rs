//! The door of a sale: what has to be right for all nodes of a shop together. A number is given out once, a turn is
//! one pass, a challenge is used once, and live passes are counted wherever they were given out. A node that is alone has
//! it all in memory; nodes that share a shop have it where all of them see it, which is not known here.

use std::{io, sync::Arc};

use futures_util::future::{BoxFuture, ready};
use penstock_domain::{BuyerId, SaleId, SaleStatus, Timestamp};
use penstock_gate::{HeadGateOptions, Presented, RoomOptions, WaitingRoom};

use super::RoomArchive;

/// What the doors of all sales have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoorOptions {
    pub head: HeadGateOptions,
    pub room: RoomOptions,
    /// How long a challenge is good.
    pub challenge_seconds: u32,
    /// Used challenges that are remembered.
    pub max_used_challenges: usize,
}

/// Somebody who asks for a pass and has met everything that can be checked without looking anything up.
#[derive(Clone, Debug)]
pub struct Applicant {
    pub buyer: BuyerId,
    /// Of the ticket whose turn it is, where the sale has a waiting room.
    pub number: Option<u64>,
    /// When that turn ends.
    pub turn_until: Option<Timestamp>,
    /// Where the sale has a challenge.
    pub challenge: Option<Presented>,
    /// Units that are left.
    pub available: u32,
    pub now: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DoorRefusal {
    #[error("the turn has become a pass already, which is not live any more")]
    TurnUsed,
    #[error("the turn is over")]
    TurnOver,
    #[error("there are live passes enough for the units that are left")]
    Exhausted,
    #[error("no more live passes can be remembered")]
    TooManyPasses,
    #[error("the challenge was not met, or was used before")]
    ChallengeFailed,
    #[error("no more used challenges can be remembered")]
    TooManyChallenges,
    #[error("too many ask at the moment")]
    Busy,
    #[error("what the nodes share can't be reached")]
    Unavailable,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassFigures {
    /// Ever, by this node.
    pub issued: u64,
    /// Of all nodes.
    pub live: u64,
}

/// Calls that don't return a future never wait.
pub trait Door: Send + Sync + 'static {
    /// The waiting room, as people ask it; a new one gets its seed, which is durable when this returns. Called once.
    /// Where nodes share a room, `archive` knows it even if what they share was lost.
    fn open_room<'a>(
        &'a self,
        opens_at: Option<Timestamp>,
        archive: &'a dyn RoomArchive,
    ) -> BoxFuture<'a, io::Result<Arc<WaitingRoom>>>;

    /// A number could be had now: a look before anything is spent on asking for one.
    fn has_numbers(&self) -> bool;

    fn take_number(&self, now: Timestamp) -> BoxFuture<'_, Result<u64, DoorRefusal>>;

    /// Hears of all turns that anybody was told of before the call, if that can be done soon; to be called before somebody
    /// is sent away because his turn has not come.
    fn catch_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }

    /// Refuses what is known to be refused: a look before the costly checks.
    fn look(
        &self,
        buyer: &BuyerId,
        number: Option<u64>,
        available: u32,
        now: Timestamp,
    ) -> Result<(), DoorRefusal>;

    /// The deadline of the buyer's pass: that of the one he has, or of a new one. What costs him something is used up
    /// last.
    fn pass(&self, applicant: Applicant) -> BoxFuture<'_, Result<Timestamp, DoorRefusal>>;

    /// An order with this buyer's pass, which is good until `deadline`, was accepted, so the pass no longer stands for
    /// somebody who may still come. A status of this version shows the order.
    fn used(&self, buyer: &BuyerId, deadline: Timestamp, sale_version: u64, now: Timestamp);

    /// Lets people in; to be called about every 100 milliseconds. `status` is asked after the passes were counted: an
    /// order that is accepted in between is rather counted twice than not at all. True: something people see has changed.
    fn tick(&self, status: &dyn Fn() -> Option<SaleStatus>, now: Timestamp) -> bool;

    /// Makes durable what has to be, if anything; called again and again. `is_last`: the server stops, and no number is
    /// given out any more.
    fn save(&self, is_last: bool) -> Option<BoxFuture<'_, io::Result<()>>>;

    fn passes(&self, now: Timestamp) -> PassFigures;
}

/// Makes the doors of nodes that share a shop.
pub trait Doors: Send + Sync + 'static {
    fn door(&self, sale: SaleId, options: DoorOptions) -> Arc<dyn Door>;
}
