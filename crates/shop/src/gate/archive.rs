//! What the records know of waiting rooms, apart from the servers that keep them. If those lose a room, it
//! goes on with the same seed, and above the numbers that people already hold.

use std::io;

use futures_util::future::BoxFuture;
use penstock_domain::SaleId;
use penstock_records::Records;
pub use penstock_records::StoredRoom;

pub trait RoomArchive: Send + Sync {
    /// The known room, or else a new one with this seed. It is durable when this returns.
    fn known_or(&self, sale: SaleId, seed: [u8; 32]) -> BoxFuture<'_, io::Result<StoredRoom>>;
}

impl RoomArchive for Records {
    fn known_or(&self, sale: SaleId, seed: [u8; 32]) -> BoxFuture<'_, io::Result<StoredRoom>> {
        Box::pin(async move { self.waiting_room_or(sale, seed).await.map_err(io::Error::other) })
    }
}
