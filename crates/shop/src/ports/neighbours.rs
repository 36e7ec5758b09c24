//! The messages between the nodes of a shop, apart from the ledger's news. A node announces a change after it
//! is committed in the records; nodes that hear of it read it there.

use futures_util::{
    future::BoxFuture,
    stream::{self, BoxStream},
};
use penstock_domain::{AccountId, ItemId, SaleId, Timestamp};
use serde::{Deserialize, Serialize};

/// Says what has changed, but not the new value, so hearing of it twice or out of order does no harm.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Change {
    /// An item was created.
    NewItem(ItemId),
    /// An item was changed.
    Item(ItemId),
    /// A sale was published.
    Sale(SaleId),
    /// The waiting room of a sale was opened.
    Room(SaleId),
    /// Somebody signed out.
    SessionEnded { session: String, expires_at: Timestamp },
    /// A password was changed: the account's sessions that began before are void.
    SessionsEnded { account: AccountId, since: Timestamp },
    /// Something was missed; it is unknown what.
    Everything,
}

/// The other nodes of the shop.
pub trait Neighbours: Send + Sync + 'static {
    /// Returns when the others can hear of it. If that takes too long, returns anyway and keeps trying in the
    /// background.
    fn tell(&self, change: Change) -> BoxFuture<'_, ()>;

    /// Returns when everything told so far can be heard, or when that takes too long. For a node that stops.
    fn all_told(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Changes that any node announces from now on, including this one. The stream does not end.
    fn changes(&self) -> BoxStream<'static, Change>;
}

/// A shop with a single node.
#[derive(Clone, Copy, Debug)]
pub struct NoNeighbours;

impl Neighbours for NoNeighbours {
    fn tell(&self, _: Change) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn changes(&self) -> BoxStream<'static, Change> {
        Box::pin(stream::pending())
    }
}
