//! What this node has heard of all sales. The engine, the feed and the news between nodes share it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::{HashMap, HashSet};
use penstock_domain::{SaleId, SaleTerms, Timestamp};

use super::codec::Counts;

#[derive(Debug, Default)]
pub(super) struct Sales {
    known: Mutex<HashMap<SaleId, (SaleTerms, Counts)>>,
    /// Sales that have a home, but a history that the records can't follow.
    doubted: Mutex<HashSet<SaleId>>,
}

impl Sales {
    /// Remembers the state of a sale, unless a newer one is known.
    pub(super) fn learn(&self, terms: SaleTerms, counts: Counts) {
        let mut known = self.locked();
        let (_, latest) = known.entry(terms.sale).or_insert((terms, counts));
        // The same version may come with a later due time.
        if counts.version() >= latest.version() {
            *latest = counts;
        }
    }

    pub(super) fn forget(&self, sale: SaleId) {
        self.locked().remove(&sale);
        self.believe(sale);
    }

    /// Marks the sale to be compared with the records again, although it has a home.
    pub(super) fn doubt(&self, sale: SaleId) {
        self.doubted().insert(sale);
    }

    pub(super) fn is_doubted(&self, sale: SaleId) -> bool {
        self.doubted().contains(&sale)
    }

    pub(super) fn believe(&self, sale: SaleId) {
        self.doubted().remove(&sale);
    }

    pub(super) fn counts(&self, sale: SaleId) -> Option<Counts> {
        self.locked().get(&sale).map(|(_, counts)| *counts)
    }

    /// All sales whose orders are still in Redis.
    pub(super) fn remembered(&self) -> Vec<SaleId> {
        let known = self.locked();
        known.iter().filter(|(_, (_, counts))| !counts.forgotten).map(|(sale, _)| *sale).collect()
    }

    /// The sales without holds that are over at `now`, because their window has ended or they were closed.
    pub(super) fn over(&self, now: Timestamp) -> Vec<SaleId> {
        let known = self.locked();
        let is_over = |(terms, counts): &&(SaleTerms, Counts)| {
            counts.held == 0 && (counts.closed || terms.closes_at.is_some_and(|closes_at| closes_at <= now))
        };
        known.values().filter(is_over).map(|(terms, _)| terms.sale).collect()
    }

    /// The sales that may have overdue holds at `now`, the longest overdue first.
    pub(super) fn due(&self, now: Timestamp) -> Vec<SaleId> {
        let known = self.locked();
        let due = known.iter().filter_map(|(sale, (_, counts))| Some((counts.due?, *sale)));
        let mut due: Vec<_> = due.filter(|(due, _)| *due <= now).collect();
        due.sort_unstable();
        due.into_iter().map(|(_, sale)| sale).collect()
    }

    fn doubted(&self) -> MutexGuard<'_, HashSet<SaleId>> {
        self.doubted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<SaleId, (SaleTerms, Counts)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
