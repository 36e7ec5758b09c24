//! What a batch of decisions changes, worked out in memory before anything is written: so a decision that
//! doesn't fit is found with its reason, and an order that is held and paid in one batch is one row.

use std::collections::{HashMap, HashSet};

use penstock_domain::{
    Decision, Event, KeyDigest, Money, Order, OrderId, OrderState, ReleaseReason, SaleId, Timestamp,
};
use serde::Serialize;

#[derive(Debug)]
struct KnownSale {
    price: Money,
    hold_seconds: u32,
}

#[derive(Debug)]
pub(super) struct PlannedOrder {
    pub(super) order: Order,
    pub(super) key: KeyDigest,
    pub(super) unit_price: Money,
    /// The state in the records; None: the order is new to them.
    pub(super) stored: Option<OrderState>,
    pub(super) changed: bool,
}

/// What the records hold of the sales and orders that a batch is about.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// An error says why a row can't be read: what rests on it is poison, and nothing else.
    sales: HashMap<SaleId, Result<KnownSale, String>>,
    orders: HashMap<OrderId, PlannedOrder>,
    damaged_orders: HashMap<OrderId, String>,
    /// Unresolved dead letters: the numbers of their orders, and None as soon as the sale has any.
    letters: HashMap<SaleId, HashSet<Option<u32>>>,
}

impl Known {
    pub(super) fn add_sale(&mut self, sale: SaleId, terms: Result<(Money, u32), String>) {
        self.sales.insert(sale, terms.map(|(price, hold_seconds)| KnownSale { price, hold_seconds }));
    }

    pub(super) fn add_damaged_order(&mut self, order: OrderId, reason: String) {
        self.damaged_orders.insert(order, reason);
    }

    pub(super) fn add_order(&mut self, order: Order, key: KeyDigest, unit_price: Money) {
        let stored = Some(order.state);
        self.orders.insert(order.id, PlannedOrder { order, key, unit_price, stored, changed: false });
    }

    pub(super) fn add_letter(&mut self, sale: SaleId, number: Option<u32>) {
        self.letters.entry(sale).or_default().insert(number);
    }

    fn has_letter(&self, order: OrderId) -> bool {
        self.letters.get(&order.sale).is_some_and(|numbers| numbers.contains(&Some(order.number)))
    }
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

/// The rows that a batch leads to.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    known: Known,
    /// New orders, in the order of the feed.
    new_orders: Vec<OrderId>,
    pub(super) stock: Vec<StockRow>,
    pub(super) outbox: Vec<OutboxRow>,
    pub(super) published: Vec<(SaleId, Timestamp)>,
    /// Decisions that become dead letters together with what they rest on, and why.
    pub(super) joining: Vec<(&'a Decision, String)>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(known: Known) -> Self {
        Self {
            known,
            new_orders: Vec::new(),
            stock: Vec::new(),
            outbox: Vec::new(),
            published: Vec::new(),
            joining: Vec::new(),
        }
    }

    pub(super) fn new_orders(&self) -> impl Iterator<Item = &PlannedOrder> {
        self.new_orders.iter().filter_map(|order| self.known.orders.get(order))
    }

    pub(super) fn changed_orders(&self) -> impl Iterator<Item = &PlannedOrder> {
        self.known.orders.values().filter(|order| order.stored.is_some() && order.changed)
    }

    /// Adds what follows from `decision`, or says why it can't be.
    pub(super) fn add(&mut self, decision: &'a Decision) -> Result<(), String> {
        let sale = decision.event.sale();
        let order = order_of(&decision.event);
        if let Some(order) = order.filter(|order| self.known.has_letter(*order)) {
            self.join(decision, format!("an earlier decision on order {order} is a dead letter"));
            return Ok(());
        }
        let reason = match self.known.sales.get(&sale) {
            Some(Ok(_)) => return self.apply(decision),
            Some(Err(damage)) => damage.clone(),
            None => format!("the records have no sale {sale}"),
        };
        if self.known.letters.contains_key(&sale) {
            self.join(decision, reason);
            return Ok(());
        }
        Err(reason)
    }

    fn join(&mut self, decision: &'a Decision, reason: String) {
        let number = order_of(&decision.event).map(|order| order.number);
        self.known.add_letter(decision.event.sale(), number);
        self.joining.push((decision, reason));
    }

    fn apply(&mut self, decision: &Decision) -> Result<(), String> {
        match &decision.event {
            Event::Published(terms) => {
                self.published.push((terms.sale, decision.at));
                self.move_units(decision, None, "publish", terms.units);
                self.tell_sale(decision, "sale.published", Some(terms.units))
            }
            Event::Restocked { units, .. } => {
                self.move_units(decision, None, "restock", *units);
                self.tell_sale(decision, "sale.restocked", Some(*units))
            }
            Event::Paused(_) => self.tell_sale(decision, "sale.paused", None),
            Event::Resumed(_) => self.tell_sale(decision, "sale.resumed", None),
            Event::Closed(_) => self.tell_sale(decision, "sale.closed", None),
            Event::Held { order, buyer, quantity, key } => {
                self.hold(*order, buyer, *quantity, *key, decision.at)?;
                self.move_units(decision, Some(*order), "hold", *quantity);
                self.tell_order(decision, "order.held", *order)
            }
            Event::Paid { order, quantity, after_expiry } => {
                let from = if *after_expiry { OrderState::Expired } else { OrderState::Held };
                let planned = self.change(*order, Some(*quantity), from, "paid")?;
                planned.state = OrderState::Paid;
                planned.paid_at = Some(decision.at);
                let kind = if *after_expiry { "pay_late" } else { "pay" };
                self.move_units(decision, Some(*order), kind, *quantity);
                self.tell_order(decision, "order.paid", *order)
            }
            Event::Released { order, quantity, reason } => {
                let (state, verb, kind) = match reason {
                    ReleaseReason::Expired => (OrderState::Expired, "expired", "order.expired"),
                    ReleaseReason::Cancelled => (OrderState::Cancelled, "cancelled", "order.cancelled"),
                };
                self.change(*order, Some(*quantity), OrderState::Held, verb)?.state = state;
                self.move_units(decision, Some(*order), "release", *quantity);
                self.tell_order(decision, kind, *order)
            }
            Event::RefundDue { order } => {
                self.change(*order, None, OrderState::Expired, "owed a refund")?.refund_due = true;
                self.tell_order(decision, "order.refund_due", *order)
            }
        }
    }

    fn hold(
        &mut self,
        id: OrderId,
        buyer: &penstock_domain::BuyerId,
        quantity: u32,
        key: KeyDigest,
        at: Timestamp,
    ) -> Result<(), String> {
        if self.known.orders.contains_key(&id) {
            return Err(format!("order {id} is in the records already"));
        }
        let Some(Ok(sale)) = self.known.sales.get(&id.sale) else {
            return Err(format!("the records have no sale {}", id.sale));
        };
        let order = Order {
            id,
            buyer: buyer.clone(),
            quantity,
            state: OrderState::Held,
            created_at: at,
            pay_before: at.plus_seconds(sale.hold_seconds),
            paid_at: None,
            refund_due: false,
        };
        let planned = PlannedOrder { order, key, unit_price: sale.price, stored: None, changed: false };
        self.known.orders.insert(id, planned);
        self.new_orders.push(id);
        Ok(())
    }

    /// The order, if it is in the state `from`, to be changed.
    fn change(
        &mut self,
        id: OrderId,
        quantity: Option<u32>,
        from: OrderState,
        verb: &str,
    ) -> Result<&mut Order, String> {
        let Some(planned) = self.known.orders.get_mut(&id) else {
            if let Some(damage) = self.known.damaged_orders.get(&id) {
                return Err(format!("order {id} was to be {verb}, but {damage}"));
            }
            return Err(format!("order {id} was to be {verb}, but it is not in the records"));
        };
        let order = &mut planned.order;
        if order.state != from {
            return Err(format!(
                "order {id} was to be {verb}, but it is {} and not {}",
                order.state.as_str(),
                from.as_str()
            ));
        }
        if let Some(quantity) = quantity.filter(|quantity| *quantity != order.quantity) {
            return Err(format!(
                "order {id} was to be {verb} for {quantity} units, but it has {}",
                order.quantity
            ));
        }
        planned.changed = true;
        Ok(order)
    }

    fn move_units(&mut self, decision: &Decision, order: Option<OrderId>, kind: &'static str, units: u32) {
        let order_number = order.map(|order| order.number);
        let (position, sale, at) = (decision.position, decision.event.sale(), decision.at);
        self.stock.push(StockRow { position, sale, order_number, kind, units, at });
    }

    fn tell_sale(
        &mut self,
        decision: &Decision,
        kind: &'static str,
        units: Option<u32>,
    ) -> Result<(), String> {
        let sale = decision.event.sale().to_string();
        self.tell(decision, kind, &SalePayload { sale, units, at_millis: decision.at.as_millis() })
    }

    fn tell_order(&mut self, decision: &Decision, kind: &'static str, id: OrderId) -> Result<(), String> {
        let Some(PlannedOrder { order, unit_price, .. }) = self.known.orders.get(&id) else { return Ok(()) };
        let payload = serde_json::to_string(&OrderPayload {
            order: id.to_string(),
            sale: id.sale.to_string(),
            buyer: order.buyer.as_str(),
            quantity: order.quantity,
            unit_price: unit_price.amount(),
            currency: unit_price.currency.as_str(),
            state: order.state.as_str(),
            refund_due: order.refund_due,
            at_millis: decision.at.as_millis(),
        })
        .map_err(|error| error.to_string())?;
        self.outbox.push(OutboxRow { position: decision.position, kind, payload, at: decision.at });
        Ok(())
    }

    fn tell(
        &mut self,
        decision: &Decision,
        kind: &'static str,
        payload: &impl Serialize,
    ) -> Result<(), String> {
        let payload = serde_json::to_string(payload).map_err(|error| error.to_string())?;
        self.outbox.push(OutboxRow { position: decision.position, kind, payload, at: decision.at });
        Ok(())
    }
}

#[derive(Serialize)]
struct SalePayload {
    sale: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    units: Option<u32>,
    at_millis: i64,
}

#[derive(Serialize)]
struct OrderPayload<'a> {
    order: String,
    sale: String,
    buyer: &'a str,
    quantity: u32,
    unit_price: String,
    currency: &'a str,
    state: &'a str,
    refund_due: bool,
    at_millis: i64,
}

/// The order that a decision is about, if it is about one.
pub(crate) fn order_of(event: &Event) -> Option<OrderId> {
    match event {
        Event::Held { order, .. } => Some(*order),
        other => changed_order(other),
    }
}

/// The order that a decision changes, which therefore has to exist.
pub(super) fn changed_order(event: &Event) -> Option<OrderId> {
    match event {
        Event::Paid { order, .. } | Event::Released { order, .. } | Event::RefundDue { order } => {
            Some(*order)
        }
        Event::Held { .. }
        | Event::Published(_)
        | Event::Restocked { .. }
        | Event::Paused(_)
        | Event::Resumed(_)
        | Event::Closed(_) => None,
    }
}
