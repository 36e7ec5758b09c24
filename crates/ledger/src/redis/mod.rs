//! The ledger on Redis, shared by all nodes. A batch is one call of a script for each sale, and each sale has
//! a stream that is its feed.
//!
//! The rooms, in the order in which they rest on each other:
//! - `layout`: the names of the keys, and what is stored under them.
//! - `store`: the link, the keys and the sales this node has heard of, which every other room works with.
//! - `adopt`: a sale whose server was replaced is compared with the records and gets a new home.
//! - `decide`: a batch of commands becomes script calls, and their answers become replies.
//! - `feed`: the decisions of each sale, for settlement and audits.
//! - `news`: what nodes tell each other, and how a node finds what it has missed.
//! - `recovery`, `forget`: all sales at the start; sales that were closed long ago.
//! - `engine`, `open`: the rooms put together.
//!
//! `scripts/` holds what runs in Redis. The connections are in the crate `penstock-redis-client`.

mod adopt;
mod clock;
mod decide;
mod engine;
mod feed;
mod forget;
mod layout;
mod news;
mod open;
mod recovery;
mod store;

pub use adopt::{NothingSettled, Reconciled, Settled};
pub use clock::SharedClock;
pub use layout::Keys;
pub use open::{LedgerOptions, open};

use penstock_domain::MAX_WAITERS;
use penstock_redis_client::{DEFAULT_TIMEOUT, LinkError};

use crate::Unavailable;

/// The time that one offer to a waiter takes on a server that shares its core with others.
const OFFER_MICROSECONDS: u128 = 30;
/// One call makes the offers to all waiters of a sale. It has to end in time for its caller, and does more
/// than that.
const _: () = assert!(2 * OFFER_MICROSECONDS * MAX_WAITERS as u128 <= DEFAULT_TIMEOUT.as_micros());

impl From<LinkError> for Unavailable {
    fn from(error: LinkError) -> Self {
        Self::new(error)
    }
}
