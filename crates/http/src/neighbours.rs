//! What the nodes of a shop tell each other beside the ledger's news. Whoever changes something tells after it is
//! committed in the records; whoever hears of it reads it there.

use futures_util::{
    future::BoxFuture,
    stream::{self, BoxStream},
};
use penstock_domain::{AccountId, ItemId, SaleId, Timestamp};
use serde::{Deserialize, Serialize};

/// What has changed, and not into what: so it does no harm to hear of it twice or in another order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Change {
    /// An item was made.
    NewItem(ItemId),
    /// An item was changed.
    Item(ItemId),
    /// A sale was published.
    Sale(SaleId),
    /// The waiting room of a sale was opened.
    Room(SaleId),
    /// Somebody signed out.
    SessionEnded { session: String, expires_at: Timestamp },
    /// A password was changed: the account's sessions that began by then are void.
    SessionsEnded { account: AccountId, since: Timestamp },
    /// Something was missed, and nobody knows what.
    Everything,
}

/// The other nodes of the shop.
pub trait Neighbours: Send + Sync + 'static {
    /// Returns when the others can hear of it. If that takes too long it returns too, and goes on trying by itself.
    fn tell(&self, change: Change) -> BoxFuture<'_, ()>;

    /// Returns when all that was told until now can be heard, or when that takes too long: for a node that stops.
    fn all_told(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// What anybody tells from now on, this node included. It has no end.
    fn changes(&self) -> BoxStream<'static, Change>;
}

/// A shop of one node.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

impl Neighbours for Alone {
    fn tell(&self, _: Change) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn changes(&self) -> BoxStream<'static, Change> {
        Box::pin(stream::pending())
    }
}
