//! The audit's own rules for what a decision does to the units of a sale, to an order, and to an order's
//! movements.

use std::collections::{BTreeMap, HashMap};

use penstock_domain::{
    Decision, Event, Order, OrderId, OrderState, ReleaseReason, SaleId, SnapshotOrder, Timestamp,
};

use super::finding::{Finding, OrderTime};
use crate::UnitCounts;

/// Decisions that are not in the records yet: pending ones and dead letters, in the order of the feed.
#[derive(Debug, Default)]
pub(super) struct Unsettled<'a> {
    orders: BTreeMap<OrderId, Vec<&'a Decision>>,
    units: HashMap<SaleId, UnitCounts>,
    changes: HashMap<SaleId, UnsettledChange>,
    waiting: HashMap<SaleId, Vec<&'a Decision>>,
}

/// What unsettled decisions change in a sale, besides its units.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UnsettledChange {
    pub(super) published: bool,
    pub(super) paused: Option<bool>,
    pub(super) closed: bool,
}

impl<'a> Unsettled<'a> {
    /// `decisions` have to be in the order of their positions.
    pub(super) fn new(decisions: impl Iterator<Item = &'a Decision>) -> Self {
        let mut unsettled = Self::default();
        for decision in decisions {
            let sale = decision.event.sale();
            unsettled.units.entry(sale).or_default().add(moved(&decision.event));
            let change = unsettled.changes.entry(sale).or_default();
            match &decision.event {
                Event::Published(_) => change.published = true,
                Event::Paused(_) => change.paused = Some(true),
                Event::Resumed(_) => change.paused = Some(false),
                Event::Closed(_) => change.closed = true,
                Event::Joined { .. } | Event::Left { .. } => {
                    unsettled.waiting.entry(sale).or_default().push(decision);
                }
                Event::Held { key, .. } if key.offered_to().is_some() => {
                    unsettled.waiting.entry(sale).or_default().push(decision);
                }
                _ => {}
            }
            if let Some(order) = decision.event.order() {
                unsettled.orders.entry(order).or_default().push(decision);
            }
        }
        unsettled
    }

    pub(super) fn units(&self, sale: SaleId) -> UnitCounts {
        self.units.get(&sale).copied().unwrap_or_default()
    }

    pub(super) fn change(&self, sale: SaleId) -> UnsettledChange {
        self.changes.get(&sale).copied().unwrap_or_default()
    }

    /// The decisions that change the sale's waitlist.
    pub(super) fn waiting(&self, sale: SaleId) -> &[&'a Decision] {
        self.waiting.get(&sale).map_or(&[], Vec::as_slice)
    }

    pub(super) fn of(&self, order: OrderId) -> &[&'a Decision] {
        self.orders.get(&order).map_or(&[], Vec::as_slice)
    }

    /// The orders of `sale` that have unsettled decisions, from the number `from` on.
    pub(super) fn numbers(&self, sale: SaleId, from: u32) -> Vec<u32> {
        let span = OrderId { sale, number: from }..=OrderId { sale, number: u32::MAX };
        self.orders.range(span).map(|(order, _)| order.number).collect()
    }
}

/// What a decision does to the units of its sale.
fn moved(event: &Event) -> UnitCounts {
    let (kind, units) = match event {
        Event::Published(terms) => ("publish", terms.units),
        Event::Restocked { units, .. } => ("restock", *units),
        Event::Held { quantity, .. } => ("hold", *quantity),
        Event::Paid { quantity, after_expiry: false, .. } => ("pay", *quantity),
        Event::Paid { quantity, after_expiry: true, .. } => ("pay_late", *quantity),
        Event::Released { quantity, .. } => ("release", *quantity),
        _ => return UnitCounts::default(),
    };
    movement(kind, i64::from(units)).unwrap_or_default()
}

/// What a row of the stock log does to the units of its sale. None: there is no such kind.
pub(super) fn movement(kind: &str, units: i64) -> Option<UnitCounts> {
    let none = UnitCounts::default();
    Some(match kind {
        "publish" | "restock" => UnitCounts { total: units, available: units, ..none },
        "hold" => UnitCounts { available: -units, held: units, ..none },
        "pay" => UnitCounts { held: -units, paid: units, ..none },
        "pay_late" => UnitCounts { available: -units, paid: units, ..none },
        "release" => UnitCounts { available: units, held: -units, ..none },
        _ => return None,
    })
}

/// An order's movements in the stock log.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Movements {
    pub(super) holds: i64,
    pub(super) units: UnitCounts,
}

impl Movements {
    pub(super) fn add_logged(&mut self, kind: &str, rows: i64, units: i64) -> bool {
        let Some(moved) = movement(kind, units) else { return false };
        self.holds += if kind == "hold" { rows } else { 0 };
        self.units.add(moved);
        true
    }

    pub(super) fn add_unsettled(&mut self, decision: &Decision) {
        self.holds += i64::from(matches!(decision.event, Event::Held { .. }));
        self.units.add(moved(&decision.event));
    }

    /// Where the order's units have to be.
    pub(super) fn expected(order: &Order) -> UnitCounts {
        let units = i64::from(order.quantity);
        let none = UnitCounts::default();
        match order.state {
            OrderState::Held => UnitCounts { available: -units, held: units, ..none },
            OrderState::Paid => UnitCounts { available: -units, paid: units, ..none },
            OrderState::Expired | OrderState::Cancelled => none,
        }
    }
}

/// Applies a decision that is not settled yet to an order, or says why that is impossible.
pub(super) fn tell(
    story: &mut Option<SnapshotOrder>,
    decision: &Decision,
    hold_seconds: u32,
) -> Result<(), Finding> {
    let position = decision.position;
    if let Event::Held { order, buyer, quantity, key } = &decision.event {
        if story.is_some() {
            return Err(Finding::OrderHeldAlready { decision: position });
        }
        let order = Order {
            id: *order,
            buyer: buyer.clone(),
            quantity: *quantity,
            state: OrderState::Held,
            created_at: decision.at,
            pay_before: decision.at.plus_seconds(hold_seconds),
            paid_at: None,
            refund_due: false,
        };
        *story = Some(SnapshotOrder { order, key: *key });
        return Ok(());
    }
    let Some(SnapshotOrder { order, .. }) = story else {
        return Err(Finding::OrderToChangeMissing { decision: position });
    };
    let from = match &decision.event {
        Event::Paid { after_expiry: true, .. } | Event::RefundDue { .. } => OrderState::Expired,
        _ => OrderState::Held,
    };
    if order.state != from {
        let (needed, records) = (from.as_str(), order.state.as_str());
        return Err(Finding::OrderInWrongState { decision: position, needed, records });
    }
    match &decision.event {
        Event::Paid { .. } => {
            order.state = OrderState::Paid;
            order.paid_at = Some(decision.at);
        }
        Event::Released { reason: ReleaseReason::Expired, .. } => order.state = OrderState::Expired,
        Event::Released { reason: ReleaseReason::Cancelled, .. } => order.state = OrderState::Cancelled,
        _ => order.refund_due = true,
    }
    Ok(())
}

/// How an order in the records differs from the ledger's.
pub(super) fn compare(ledger: &SnapshotOrder, records: &SnapshotOrder) -> Vec<Finding> {
    let (there, here) = (&ledger.order, &records.order);
    let mut findings = Vec::new();
    if there.state != here.state {
        findings.push(Finding::OrderState { ledger: there.state.as_str(), records: here.state.as_str() });
    }
    if there.buyer != here.buyer {
        let (ledger, records) = (there.buyer.to_string(), here.buyer.to_string());
        findings.push(Finding::OrderBuyer { ledger, records });
    }
    if there.quantity != here.quantity {
        findings.push(Finding::OrderQuantity { ledger: there.quantity, records: here.quantity });
    }
    for (of, there, here) in [
        (OrderTime::CreatedAt, Some(there.created_at), Some(here.created_at)),
        (OrderTime::PayBefore, Some(there.pay_before), Some(here.pay_before)),
        (OrderTime::PaidAt, there.paid_at, here.paid_at),
    ] {
        if there != here {
            let [ledger_millis, records_millis] =
                [there, here].map(|moment| moment.map(Timestamp::as_millis));
            findings.push(Finding::OrderTime { of, ledger_millis, records_millis });
        }
    }
    if there.refund_due != here.refund_due {
        let (ledger_due, records_due) = (there.refund_due, here.refund_due);
        findings.push(Finding::OrderRefund { ledger_due, records_due });
    }
    if ledger.key != records.key {
        findings.push(Finding::OrderKey);
    }
    findings
}
