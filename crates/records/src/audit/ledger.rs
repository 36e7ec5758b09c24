//! What has to be true of the ledger by itself: units are conserved, nobody is over the limit, one key has
//! one order.

use std::collections::{BTreeSet, HashMap, HashSet};

use penstock_domain::{KeyDigest, OrderState, SaleSnapshot, SaleStatus, SnapshotOrder};

use super::report::{AuditReport, UnitCounts};

/// The units that orders hold and have paid for, and by whom.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) held: i64,
    pub(super) paid: i64,
    by_buyer: HashMap<String, i64>,
}

impl Tally {
    pub(super) fn count(&mut self, order: &SnapshotOrder) {
        let units = i64::from(order.order.quantity);
        match order.order.state {
            OrderState::Held => self.held += units,
            OrderState::Paid => self.paid += units,
            OrderState::Expired | OrderState::Cancelled => return,
        }
        let buyer = order.order.buyer.as_str();
        match self.by_buyer.get_mut(buyer) {
            Some(owned) => *owned += units,
            None => drop(self.by_buyer.insert(buyer.to_owned(), units)),
        }
    }

    pub(super) fn over(&self, limit: u32) -> impl Iterator<Item = (&str, i64)> {
        let over = self.by_buyer.iter().filter(move |(_, units)| **units > i64::from(limit));
        over.map(|(buyer, units)| (buyer.as_str(), *units))
    }
}

pub(super) fn counts(status: &SaleStatus) -> UnitCounts {
    UnitCounts {
        total: i64::from(status.total),
        available: i64::from(status.available),
        held: i64::from(status.held),
        paid: i64::from(status.paid),
    }
}

/// Checks one sale of the ledger; returns the buyers it has named and the units oversold.
pub(super) fn check(sale: &SaleSnapshot, report: &mut AuditReport) -> (BTreeSet<String>, u64) {
    let id = sale.status.terms.sale;
    let counts = counts(&sale.status);
    if !counts.is_conserved() {
        report.differ(Some(id), None, format!("The ledger's counts of sale {id} do not add up: {counts}."));
    }
    let mut tally = Tally::default();
    let mut keys: HashSet<(&str, KeyDigest)> = HashSet::with_capacity(sale.orders.len());
    for (number, snapshot) in sale.orders.iter().enumerate() {
        tally.count(snapshot);
        let order = &snapshot.order;
        if (order.id.sale, order.id.number as usize) != (id, number) {
            let what =
                format!("The ledger has order {} in the place of number {number} of sale {id}.", order.id);
            report.differ(Some(id), Some(order.id), what);
        }
        if !keys.insert((order.buyer.as_str(), snapshot.key)) {
            report.duplicated += 1;
            let what =
                format!("Order {} is the second one for the same idempotency key of its buyer.", order.id);
            report.differ(Some(id), Some(order.id), what);
        }
    }
    if (tally.held, tally.paid) != (counts.held, counts.paid) {
        let (held, paid) = (tally.held, tally.paid);
        let what = format!(
            "The ledger counts {} held and {} paid units of sale {id}, but its orders add up to {held} and {paid}.",
            counts.held, counts.paid
        );
        report.differ(Some(id), None, what);
    }
    let oversold = oversold(id, "ledger", &tally, counts.total, report);
    let limit = sale.status.terms.limit_per_buyer;
    (name_over_limit(id, &tally, limit, &BTreeSet::new(), report), oversold)
}

/// Names and returns the units that were sold but never existed.
pub(super) fn oversold(
    sale: penstock_domain::SaleId,
    whose: &str,
    tally: &Tally,
    total: i64,
    report: &mut AuditReport,
) -> u64 {
    let over = tally.held + tally.paid - total;
    if over > 0 {
        let what = format!("Sale {sale} is oversold by {over} units, by the orders in the {whose}.");
        report.differ(Some(sale), None, what);
    }
    over.max(0).unsigned_abs()
}

/// Counts and names the buyers over the limit, except those that were named before.
pub(super) fn name_over_limit(
    sale: penstock_domain::SaleId,
    tally: &Tally,
    limit: u32,
    named: &BTreeSet<String>,
    report: &mut AuditReport,
) -> BTreeSet<String> {
    let mut over: Vec<(&str, i64)> = tally.over(limit).filter(|(buyer, _)| !named.contains(*buyer)).collect();
    over.sort_unstable();
    for (buyer, units) in &over {
        report.over_limit += 1;
        let what = format!("Buyer {buyer} has {units} units of sale {sale}, but the limit is {limit}.");
        report.differ(Some(sale), None, what);
    }
    over.into_iter().map(|(buyer, _)| buyer.to_owned()).collect()
}
