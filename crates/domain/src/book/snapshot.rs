//! The whole `Book` as plain data. Compaction writes it, recovery reads it, and the audit compares it.

use serde::{Deserialize, Serialize};

use super::{Book, MAX_IDLE_ROOM, SaleBook};
use crate::{KeyDigest, Order, SaleStatus, Timestamp, Waiter};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookSnapshot {
    pub position: u64,
    pub clock: Timestamp,
    /// In the order of their ids.
    pub sales: Vec<SaleSnapshot>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaleSnapshot {
    pub status: SaleStatus,
    /// In the order of their numbers, without gaps.
    pub orders: Vec<SnapshotOrder>,
    /// The waitlist, in the order of its numbers.
    pub waiters: Vec<Waiter>,
}

impl SaleSnapshot {
    /// The number of the next person to join the waitlist. It is above every number on the list and every
    /// number that got an offer, because an offer's key is made from the number.
    pub fn next_waiter(&self) -> u32 {
        let offered = self.orders.iter().filter_map(|known| known.key.offered_to());
        let numbers = self.waiters.iter().map(|waiter| waiter.number).chain(offered);
        numbers.max().map_or(0, |last| last.saturating_add(1))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotOrder {
    pub order: Order,
    pub key: KeyDigest,
}

impl Book {
    pub fn snapshot(&self) -> BookSnapshot {
        let mut sales: Vec<SaleSnapshot> = self.sales.values().map(SaleBook::snapshot).collect();
        sales.sort_by_key(|sale| sale.status.terms.sale);
        BookSnapshot { position: self.position, clock: self.clock, sales }
    }

    /// # Panics
    /// If the snapshot breaks an invariant.
    pub fn from_snapshot(snapshot: BookSnapshot) -> Self {
        let BookSnapshot { position, clock, sales } = snapshot;
        let mut book = Self { position, clock, ..Self::default() };
        for sale in sales {
            let id = sale.status.terms.sale;
            let number = book.buyers.publish(id);
            let sale = SaleBook::from_snapshot(sale, number, MAX_IDLE_ROOM.saturating_sub(book.idle_room));
            sale.buyers().for_each(|buyer| book.buyers.add(buyer, number));
            book.idle_room += sale.idle_room();
            book.sales.insert(id, sale);
        }
        book
    }
}
