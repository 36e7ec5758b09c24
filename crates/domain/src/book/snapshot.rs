//! The whole `Book` as plain data: what compaction writes, recovery reads, and the audit compares.

use serde::{Deserialize, Serialize};

use super::{Book, SaleBook};
use crate::{KeyDigest, Order, SaleStatus, Timestamp};

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
        let sales = sales.into_iter().map(|sale| (sale.status.terms.sale, SaleBook::from_snapshot(sale)));
        Self { sales: sales.collect(), position, clock }
    }
}
