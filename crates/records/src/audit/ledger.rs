//! Checks the ledger by itself: units are conserved, nobody is over the limit, and one key has one order.

use std::collections::{BTreeSet, HashMap, HashSet};

use penstock_domain::{KeyDigest, OrderState, SaleId, SaleSnapshot, SnapshotOrder};

use super::{
    finding::{Finding, Source},
    report::AuditReport,
};
use crate::UnitCounts;

/// Units held and paid for by orders, and by each buyer.
#[derive(Debug, Default)]
pub(super) struct OwnedUnits {
    pub(super) held: i64,
    pub(super) paid: i64,
    by_buyer: HashMap<String, i64>,
}

impl OwnedUnits {
    pub(super) fn count(&mut self, order: &SnapshotOrder) {
        let units = i64::from(order.order.quantity);
        match order.order.state {
            OrderState::Held => self.held += units,
            OrderState::Paid => self.paid += units,
            OrderState::Expired | OrderState::Cancelled => return,
        }
        let buyer = order.order.buyer.as_str();
        match self.by_buyer.get_mut(buyer) {
            Some(of_buyer) => *of_buyer += units,
            None => drop(self.by_buyer.insert(buyer.to_owned(), units)),
        }
    }

    pub(super) fn over(&self, limit: u32) -> impl Iterator<Item = (&str, i64)> {
        let over = self.by_buyer.iter().filter(move |(_, units)| **units > i64::from(limit));
        over.map(|(buyer, units)| (buyer.as_str(), *units))
    }
}

/// Checks one sale of the ledger. Returns the buyers it has named and the units oversold.
pub(super) fn check(sale: &SaleSnapshot, report: &mut AuditReport) -> (BTreeSet<String>, u64) {
    let id = sale.status.terms.sale;
    let counts = UnitCounts::of(&sale.status);
    if !counts.is_conserved() {
        report.differ(Some(id), None, Finding::LedgerCounts { counts });
    }
    let mut owned = OwnedUnits::default();
    let mut keys: HashSet<(&str, KeyDigest)> = HashSet::with_capacity(sale.orders.len());
    for (number, snapshot) in sale.orders.iter().enumerate() {
        owned.count(snapshot);
        let order = &snapshot.order;
        if (order.id.sale, order.id.number as usize) != (id, number) {
            report.differ(Some(id), Some(order.id), Finding::OrderMisplaced { number: number as u64 });
        }
        if !keys.insert((order.buyer.as_str(), snapshot.key)) {
            report.duplicated += 1;
            report.differ(Some(id), Some(order.id), Finding::SameKey);
        }
    }
    if (owned.held, owned.paid) != (counts.held, counts.paid) {
        let UnitCounts { held, paid, .. } = counts;
        let (orders_held, orders_paid) = (owned.held, owned.paid);
        report.differ(Some(id), None, Finding::LedgerOrders { held, paid, orders_held, orders_paid });
    }
    let oversold = oversold(id, Source::Ledger, &owned, counts.total, report);
    let limit = sale.status.terms.limit_per_buyer;
    (name_over_limit(id, &owned, limit, &BTreeSet::new(), report), oversold)
}

/// Names and returns the units that were sold but never existed.
pub(super) fn oversold(
    sale: SaleId,
    by: Source,
    owned: &OwnedUnits,
    total: i64,
    report: &mut AuditReport,
) -> u64 {
    let units = owned.held + owned.paid - total;
    if units > 0 {
        report.differ(Some(sale), None, Finding::Oversold { units, by });
    }
    units.max(0).unsigned_abs()
}

/// Counts and names the buyers over the limit, except those already named.
pub(super) fn name_over_limit(
    sale: SaleId,
    owned: &OwnedUnits,
    limit: u32,
    named: &BTreeSet<String>,
    report: &mut AuditReport,
) -> BTreeSet<String> {
    let mut over: Vec<(&str, i64)> = owned.over(limit).filter(|(buyer, _)| !named.contains(*buyer)).collect();
    over.sort_unstable();
    for (buyer, units) in &over {
        report.over_limit += 1;
        let (buyer, units) = ((*buyer).to_owned(), *units);
        report.differ(Some(sale), None, Finding::OverLimit { buyer, units, limit });
    }
    over.into_iter().map(|(buyer, _)| buyer.to_owned()).collect()
}
