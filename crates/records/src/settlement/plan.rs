//! What a batch of decisions changes, worked out in memory before anything is written. So a decision that
//! doesn't fit is found together with the reason, and an order that is held and paid in one batch is written
//! once.

use penstock_domain::{
    BuyerId, Decision, Event, KeyDigest, LeaveReason, OrderId, OrderState, ReleaseReason, SaleId, SaleTerms,
    Timestamp, Waiter,
};
use serde::Serialize;

use super::{
    known::{KnownRows, Origin, PlannedOrder},
    stock::{Movement, Stock},
};
use crate::{
    outbox::{OrderPayload, SalePayload, WaiterPayload},
    refusal::{Cause, Refusal},
};

/// An order that is new to the records, with the columns that never change.
#[derive(Debug)]
pub(super) struct NewOrder<'a> {
    pub(super) order: &'a PlannedOrder,
    pub(super) created_at: Timestamp,
    pub(super) pay_before: Timestamp,
    pub(super) key: KeyDigest,
}

#[derive(Debug)]
pub(super) struct StockRow {
    pub(super) position: u64,
    pub(super) sale: SaleId,
    pub(super) order_number: Option<u32>,
    pub(super) kind: &'static str,
    pub(super) units: u32,
    pub(super) at: Timestamp,
}

#[derive(Debug)]
pub(super) struct OutboxRow {
    pub(super) position: u64,
    pub(super) kind: &'static str,
    pub(super) payload: String,
    pub(super) at: Timestamp,
}

impl OutboxRow {
    fn new(
        position: u64,
        at: Timestamp,
        kind: &'static str,
        payload: &impl Serialize,
    ) -> Result<Self, Refusal> {
        let unwritten = |error: serde_json::Error| Refusal::new(Cause::Unknown, error.to_string());
        let payload = serde_json::to_string(payload).map_err(unwritten)?;
        Ok(Self { position, kind, payload, at })
    }
}

/// The rows that a batch leads to.
#[derive(Debug)]
pub(super) struct BatchPlan<'a> {
    pub(super) known: KnownRows,
    /// New orders, in the order of the feed.
    new_orders: Vec<OrderId>,
    pub(super) stock: Vec<StockRow>,
    pub(super) outbox: Vec<OutboxRow>,
    pub(super) published: Vec<(SaleId, Timestamp)>,
    /// Decisions that become dead letters together with the ones they depend on, and why.
    pub(super) joining: Vec<(&'a Decision, Refusal)>,
}

impl<'a> BatchPlan<'a> {
    pub(super) fn new(known: KnownRows) -> Self {
        Self {
            known,
            new_orders: Vec::new(),
            stock: Vec::new(),
            outbox: Vec::new(),
            published: Vec::new(),
            joining: Vec::new(),
        }
    }

    pub(super) fn new_orders(&self) -> impl Iterator<Item = NewOrder<'_>> {
        self.new_orders.iter().filter_map(|id| {
            let order = self.known.order(*id)?;
            match order.origin {
                Origin::Batch { created_at, pay_before, key } => {
                    Some(NewOrder { order, created_at, pay_before, key })
                }
                Origin::Records { .. } => None,
            }
        })
    }

    /// Orders in the records that the batch changes, each with its earlier state.
    pub(super) fn changed_orders(&self) -> impl Iterator<Item = (&PlannedOrder, OrderState)> {
        self.known.orders.values().flatten().filter_map(|order| match order.origin {
            Origin::Records { state, changed: true } => Some((order, state)),
            _ => None,
        })
    }

    /// The stock rows to be written.
    pub(super) fn stocks(&self) -> impl Iterator<Item = (SaleId, &Stock)> {
        self.known.stocks.iter().filter(|(_, stock)| stock.changed).map(|(sale, stock)| (*sale, stock))
    }

    /// Adds what follows from `decision`, or says why that is impossible.
    pub(super) fn add(&mut self, decision: &'a Decision) -> Result<(), Refusal> {
        let sale = decision.event.sale();
        let order = decision.event.order();
        if let Some(order) = order.filter(|order| self.known.has_letter(*order)) {
            let reason = format!("an earlier decision on order {order} is a dead letter");
            self.join(decision, Refusal::new(Cause::EarlierLetter, reason));
            return Ok(());
        }
        let publishes = matches!(decision.event, Event::Published(_));
        let refusal = match self.known.sales.get(&sale) {
            None => no_sale(sale),
            Some(Err(damage)) => Refusal::new(Cause::Damaged, damage.as_str()),
            Some(Ok(_)) if !publishes && !self.known.stocks.contains_key(&sale) => no_stock(sale),
            Some(Ok(_)) => match self.apply(decision) {
                // Units that a dead letter would return or take are missing here, too.
                Err(refusal) if refusal.cause.is_violation() => refusal,
                applied => return applied,
            },
        };
        if self.known.letters.contains_key(&sale) {
            self.join(decision, refusal);
            return Ok(());
        }
        Err(refusal)
    }

    fn join(&mut self, decision: &'a Decision, refusal: Refusal) {
        let letters = self.known.letters.entry(decision.event.sale()).or_default();
        letters.extend(decision.event.order().map(|order| order.number));
        self.joining.push((decision, refusal));
    }

    /// Checks everything before it changes anything.
    fn apply(&mut self, decision: &Decision) -> Result<(), Refusal> {
        match &decision.event {
            Event::Published(terms) => {
                self.publish(*terms, decision.at)?;
                self.move_units(decision, Movement::Publish, terms.units)?;
                self.tell_sale(decision, "sale.published", Some(terms.units))
            }
            Event::Restocked { units, .. } => {
                self.move_units(decision, Movement::Restock, *units)?;
                self.tell_sale(decision, "sale.restocked", Some(*units))
            }
            Event::Paused(sale) => {
                self.change_stock(*sale, |stock| stock.paused = true);
                self.tell_sale(decision, "sale.paused", None)
            }
            Event::Resumed(sale) => {
                self.change_stock(*sale, |stock| stock.paused = false);
                self.tell_sale(decision, "sale.resumed", None)
            }
            Event::Closed(sale) => {
                self.change_stock(*sale, |stock| stock.closed = true);
                self.tell_sale(decision, "sale.closed", None)
            }
            Event::Held { order, buyer, quantity, key } => {
                if self.known.orders.contains_key(order) {
                    let reason = format!("order {order} is already in the records");
                    return Err(Refusal::new(Cause::OrderExists, reason));
                }
                self.move_units(decision, Movement::Hold, *quantity)?;
                self.hold(*order, buyer, *quantity, *key, decision.at)?;
                if let Some(number) = key.offered_to() {
                    self.known.waitlist.take(order.sale, buyer, number);
                    self.tell_offer(decision, *order, buyer, *quantity)?;
                }
                self.tell_order(decision, "order.held", *order)
            }
            Event::Paid { order, quantity, after_expiry } => {
                let (from, movement) = if *after_expiry {
                    (OrderState::Expired, Movement::PayLate)
                } else {
                    (OrderState::Held, Movement::Pay)
                };
                self.check(*order, Some(*quantity), from, "paid")?;
                self.move_units(decision, movement, *quantity)?;
                self.change(*order, |order| {
                    order.state = OrderState::Paid;
                    order.paid_at = Some(decision.at);
                });
                self.tell_order(decision, "order.paid", *order)
            }
            Event::Released { order, quantity, reason } => {
                let (state, verb, kind) = match reason {
                    ReleaseReason::Expired => (OrderState::Expired, "expired", "order.expired"),
                    ReleaseReason::Cancelled => (OrderState::Cancelled, "cancelled", "order.cancelled"),
                };
                self.check(*order, Some(*quantity), OrderState::Held, verb)?;
                self.move_units(decision, Movement::Release, *quantity)?;
                self.change(*order, |order| order.state = state);
                self.tell_order(decision, kind, *order)
            }
            Event::RefundDue { order } => {
                self.check(*order, None, OrderState::Expired, "owed a refund")?;
                self.change(*order, |order| order.refund_due = true);
                self.tell_order(decision, "order.refund_due", *order)
            }
            Event::Joined { sale, number, buyer, quantity } => {
                let (number, buyer, quantity) = (*number, buyer.clone(), *quantity);
                let waiter = Waiter { number, buyer, quantity, joined_at: decision.at };
                self.known.waitlist.join(*sale, waiter)?;
                self.tell_waiter(decision, "waitlist.joined")
            }
            // The hold that follows takes the buyer off the list and announces the offer.
            Event::Left { reason: LeaveReason::Offered, .. } => Ok(()),
            Event::Left { sale, number, buyer, .. } => {
                self.known.waitlist.leave(*sale, buyer, *number)?;
                self.tell_waiter(decision, "waitlist.left")
            }
        }
    }

    fn publish(&mut self, terms: SaleTerms, at: Timestamp) -> Result<(), Refusal> {
        if self.known.stocks.contains_key(&terms.sale) {
            let reason = format!("sale {} already has stock in the records", terms.sale);
            return Err(Refusal::new(Cause::StockExists, reason));
        }
        self.known.stocks.insert(terms.sale, Stock::published(terms));
        self.published.push((terms.sale, at));
        Ok(())
    }

    fn change_stock(&mut self, sale: SaleId, change: impl FnOnce(&mut Stock)) {
        if let Some(stock) = self.known.stocks.get_mut(&sale) {
            change(stock);
            stock.changed = true;
        }
    }

    fn hold(
        &mut self,
        id: OrderId,
        buyer: &BuyerId,
        quantity: u32,
        key: KeyDigest,
        at: Timestamp,
    ) -> Result<(), Refusal> {
        let Some(Ok(sale)) = self.known.sales.get(&id.sale) else {
            return Err(no_sale(id.sale));
        };
        let pay_before = at.plus_seconds(sale.hold_seconds);
        let order = PlannedOrder {
            id,
            buyer: buyer.clone(),
            quantity,
            unit_price: sale.price,
            state: OrderState::Held,
            paid_at: None,
            refund_due: false,
            origin: Origin::Batch { created_at: at, pay_before, key },
        };
        self.known.orders.insert(id, Ok(order));
        self.new_orders.push(id);
        Ok(())
    }

    /// Checks that the order is in the state `from`, and of that quantity.
    fn check(&self, id: OrderId, quantity: Option<u32>, from: OrderState, verb: &str) -> Result<(), Refusal> {
        let refuse =
            |cause, but: &str| Refusal::new(cause, format!("order {id} should be {verb}, but {but}"));
        let order = match self.known.orders.get(&id) {
            Some(Ok(order)) => order,
            Some(Err(damage)) => return Err(refuse(Cause::Damaged, damage)),
            None => return Err(refuse(Cause::OrderMissing, "it is not in the records")),
        };
        if order.state != from {
            let (is, expected) = (order.state.as_str(), from.as_str());
            return Err(refuse(Cause::OrderState, &format!("it is {is} and not {expected}")));
        }
        if let Some(quantity) = quantity.filter(|quantity| *quantity != order.quantity) {
            let has = order.quantity;
            let reason = format!("order {id} should be {verb} for {quantity} units, but it has {has}");
            return Err(Refusal::new(Cause::OrderQuantity, reason));
        }
        Ok(())
    }

    fn change(&mut self, id: OrderId, change: impl FnOnce(&mut PlannedOrder)) {
        let Some(Ok(order)) = self.known.orders.get_mut(&id) else { return };
        change(order);
        if let Origin::Records { changed, .. } = &mut order.origin {
            *changed = true;
        }
    }

    fn move_units(&mut self, decision: &Decision, movement: Movement, units: u32) -> Result<(), Refusal> {
        let (position, sale, at) = (decision.position, decision.event.sale(), decision.at);
        let order = decision.event.order();
        let KnownRows { orders, stocks, .. } = &mut self.known;
        let buyer = match &decision.event {
            Event::Held { buyer, .. } => Some(buyer),
            _ => order.and_then(|order| orders.get(&order)?.as_ref().ok()).map(|order| &order.buyer),
        };
        let stock = stocks.get_mut(&sale).ok_or_else(|| no_stock(sale))?;
        stock.shift(movement, units, buyer)?;
        let (order_number, kind) = (order.map(|order| order.number), movement.kind());
        self.stock.push(StockRow { position, sale, order_number, kind, units, at });
        Ok(())
    }

    fn tell_sale(
        &mut self,
        decision: &Decision,
        kind: &'static str,
        units: Option<u32>,
    ) -> Result<(), Refusal> {
        let sale = decision.event.sale().to_string();
        let payload = SalePayload { sale, units, at_millis: decision.at.as_millis() };
        self.outbox.push(OutboxRow::new(decision.position, decision.at, kind, &payload)?);
        Ok(())
    }

    fn tell_order(&mut self, decision: &Decision, kind: &'static str, id: OrderId) -> Result<(), Refusal> {
        let Some(Ok(order)) = self.known.orders.get(&id) else { return Ok(()) };
        let payload = OrderPayload {
            order: id.to_string(),
            sale: id.sale.to_string(),
            buyer: order.buyer.as_str(),
            quantity: order.quantity,
            unit_price: order.unit_price.amount(),
            currency: order.unit_price.currency.as_str(),
            state: order.state.as_str(),
            refund_due: order.refund_due,
            at_millis: decision.at.as_millis(),
        };
        self.outbox.push(OutboxRow::new(decision.position, decision.at, kind, &payload)?);
        Ok(())
    }

    fn tell_waiter(&mut self, decision: &Decision, kind: &'static str) -> Result<(), Refusal> {
        let (buyer, quantity) = match &decision.event {
            Event::Joined { buyer, quantity, .. } => (buyer, Some(*quantity)),
            Event::Left { buyer, .. } => (buyer, None),
            _ => return Ok(()),
        };
        let (sale, at_millis) = (decision.event.sale().to_string(), decision.at.as_millis());
        let buyer = buyer.as_str();
        let payload = WaiterPayload { sale, buyer, quantity, order: None, at_millis };
        self.outbox.push(OutboxRow::new(decision.position, decision.at, kind, &payload)?);
        Ok(())
    }

    /// Announces an offer at the position before its hold, where the buyer was taken off the list. That
    /// decision alone is not an offer yet: if a sale is rebuilt from the records between the two, it makes
    /// the offer again.
    fn tell_offer(
        &mut self,
        held: &Decision,
        order: OrderId,
        buyer: &BuyerId,
        quantity: u32,
    ) -> Result<(), Refusal> {
        let (sale, order, buyer) = (order.sale.to_string(), Some(order.to_string()), buyer.as_str());
        let quantity = Some(quantity);
        let payload = WaiterPayload { sale, buyer, quantity, order, at_millis: held.at.as_millis() };
        let position = held.position.saturating_sub(1);
        self.outbox.push(OutboxRow::new(position, held.at, "waitlist.offered", &payload)?);
        Ok(())
    }
}

fn no_sale(sale: SaleId) -> Refusal {
    Refusal::new(Cause::SaleMissing, format!("the records have no sale {sale}"))
}

fn no_stock(sale: SaleId) -> Refusal {
    Refusal::new(Cause::StockMissing, format!("sale {sale} has no stock in the records"))
}
