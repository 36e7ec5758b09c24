//! The ledger's state machine. It takes a command and the time, decides, and reports its decisions as events.
//! It is rebuilt by applying those events again. It knows no clock, no disk and no runtime.

mod buyers;
mod sale_book;
mod snapshot;
mod waiting;
mod waitlist;

use buyers::Buyers;
use hashbrown::HashMap;
use sale_book::SaleBook;
pub use snapshot::{BookSnapshot, SaleSnapshot, SnapshotOrder};

use crate::{
    Accepted, CancelRefusal, Claim, ClaimRefusal, Command, Decision, Event, MAX_HOLD_SECONDS,
    MAX_LIMIT_PER_BUYER, MAX_UNITS, Order, OrderId, OrderState, PaymentRefusal, ReleaseReason, Reply, SaleId,
    SaleRefusal, SaleState, SaleStatus, SaleTerms, Timestamp,
};

/// The most orders, over all sales, that memory is reserved for in advance. Without this limit a thousand
/// large sales would take the memory of a billion orders, and spread the few orders they get over all of it.
const MAX_IDLE_ROOM: usize = 1 << 22;

/// All published sales with their stock, their orders and their idempotency keys.
#[derive(Debug)]
pub struct Book {
    sales: HashMap<SaleId, SaleBook>,
    buyers: Buyers,
    /// The position of the last applied decision; 0 before the first.
    position: u64,
    /// The latest time seen. Time never runs backwards here, whatever the caller's clock does, so that a
    /// sale's holds come due in the order of their numbers.
    clock: Timestamp,
    /// Orders that the sales have reserved memory for and not received yet.
    idle_room: usize,
}

impl Default for Book {
    fn default() -> Self {
        let clock = Timestamp::from_millis(i64::MIN);
        Self { sales: HashMap::new(), buyers: Buyers::default(), position: 0, clock, idle_room: 0 }
    }
}

impl Book {
    pub fn position(&self) -> u64 {
        self.position
    }

    pub fn status(&self, sale: SaleId) -> Option<SaleStatus> {
        self.sales.get(&sale).map(SaleBook::status)
    }

    pub fn statuses(&self) -> impl Iterator<Item = SaleStatus> + '_ {
        self.sales.values().map(SaleBook::status)
    }

    /// Decides `command` at the time `now`, applies what follows, and appends it to `decisions`.
    pub fn execute(&mut self, command: Command, now: Timestamp, decisions: &mut Vec<Decision>) -> Reply {
        let now = now.max(self.clock);
        self.clock = now;
        match command {
            Command::Publish(terms) => Reply::Sale(self.publish(terms, now, decisions)),
            Command::Restock { sale, units } => Reply::Sale(self.restock(sale, units, now, decisions)),
            Command::Pause(sale) => Reply::Sale(self.set_paused(sale, true, now, decisions)),
            Command::Resume(sale) => Reply::Sale(self.set_paused(sale, false, now, decisions)),
            Command::Close(sale) => Reply::Sale(self.close(sale, now, decisions)),
            Command::Claim(claim) => Reply::Verdict(self.claim(claim, now, decisions)),
            Command::Recall(claim) => Reply::Verdict(self.recall(&claim)),
            Command::ConfirmPayment { order, buyer } => {
                Reply::Payment(match self.find(order, buyer.as_ref()) {
                    Some(found) => self.confirm_payment(&found, now, decisions),
                    None => Err(PaymentRefusal::UnknownOrder),
                })
            }
            Command::Cancel { order, buyer } => Reply::Cancelled(match self.find(order, buyer.as_ref()) {
                Some(found) => self.cancel(&found, now, decisions),
                None => Err(CancelRefusal::UnknownOrder),
            }),
            Command::ExpireDue { max } => Reply::Expired(self.expire_due(max, now, decisions)),
            Command::FindOrder { order, buyer } => Reply::Found(self.find(order, buyer.as_ref())),
            Command::OrdersOf { buyer, max } => {
                let mut orders: Vec<Order> = Vec::new();
                for sale in self.buyers.sales_of(&buyer).filter_map(|sale| self.sales.get(&sale)) {
                    sale.newest_orders_of(&buyer, max as usize, &mut orders);
                }
                orders.sort_by_key(|order| std::cmp::Reverse((order.created_at, order.id)));
                orders.truncate(max as usize);
                Reply::Orders(orders)
            }
            Command::Join { sale, buyer, quantity } => {
                Reply::Joined(self.join(sale, buyer, quantity, now, decisions))
            }
            Command::Leave { sale, buyer } => Reply::Left(self.leave(sale, buyer, now, decisions)),
            Command::FindPlace { sale, buyer } => Reply::Place(self.place(sale, &buyer, now)),
        }
    }

    /// Applies a decision that was made before, to get back to the state it led to.
    ///
    /// # Panics
    /// If the decision does not follow from the state. Then the feed is not ours, and selling on would be
    /// wrong.
    pub fn apply(&mut self, decision: &Decision) {
        assert_eq!(decision.position, self.position + 1, "the feed has a gap");
        self.position = decision.position;
        self.clock = self.clock.max(decision.at);
        if let Event::Published(terms) = &decision.event {
            let number = self.buyers.publish(terms.sale);
            let sale = SaleBook::new(*terms, number, MAX_IDLE_ROOM.saturating_sub(self.idle_room));
            self.idle_room += sale.idle_room();
            let known = self.sales.insert(terms.sale, sale);
            assert!(known.is_none(), "{:?} was published twice", terms.sale);
        }
        let sale_id = decision.event.sale();
        let sale = self.sales.get_mut(&sale_id).unwrap_or_else(|| panic!("{sale_id:?} was never published"));
        if let Event::Held { buyer, .. } = &decision.event
            && !sale.has_order_of(buyer)
        {
            self.buyers.add(buyer, sale.number);
        }
        self.idle_room -= sale.idle_room();
        sale.apply(&decision.event, decision.at);
        self.idle_room += sale.idle_room();
        sale.assert_invariants();
    }

    fn record(&mut self, event: Event, now: Timestamp, decisions: &mut Vec<Decision>) {
        let decision = Decision { position: self.position + 1, at: now, event };
        self.apply(&decision);
        decisions.push(decision);
    }

    fn known(&self, sale: SaleId) -> Result<SaleStatus, SaleRefusal> {
        self.status(sale).ok_or(SaleRefusal::UnknownSale)
    }

    fn publish(
        &mut self,
        terms: SaleTerms,
        now: Timestamp,
        decisions: &mut Vec<Decision>,
    ) -> Result<SaleStatus, SaleRefusal> {
        let in_bounds = terms.units <= MAX_UNITS
            && (1..=MAX_LIMIT_PER_BUYER).contains(&terms.limit_per_buyer)
            && (1..=MAX_HOLD_SECONDS).contains(&terms.hold_seconds);
        if !in_bounds {
            return Err(SaleRefusal::InvalidTerms);
        }
        if !self.sales.contains_key(&terms.sale) {
            self.record(Event::Published(terms), now, decisions);
        }
        self.known(terms.sale)
    }

    fn restock(
        &mut self,
        sale: SaleId,
        units: u32,
        now: Timestamp,
        decisions: &mut Vec<Decision>,
    ) -> Result<SaleStatus, SaleRefusal> {
        let status = self.known(sale)?;
        if status.state(now) == SaleState::Closed {
            return Err(SaleRefusal::Closed);
        }
        if units > MAX_UNITS - status.total {
            return Err(SaleRefusal::TooManyUnits);
        }
        if units > 0 {
            self.record(Event::Restocked { sale, units }, now, decisions);
            self.offer(sale, now, decisions);
        }
        self.known(sale)
    }

    fn set_paused(
        &mut self,
        sale: SaleId,
        paused: bool,
        now: Timestamp,
        decisions: &mut Vec<Decision>,
    ) -> Result<SaleStatus, SaleRefusal> {
        let status = self.known(sale)?;
        if status.state(now) == SaleState::Closed {
            return Err(SaleRefusal::Closed);
        }
        if status.paused != paused {
            let event = if paused { Event::Paused(sale) } else { Event::Resumed(sale) };
            self.record(event, now, decisions);
            self.offer(sale, now, decisions);
        }
        self.known(sale)
    }

    fn close(
        &mut self,
        sale: SaleId,
        now: Timestamp,
        decisions: &mut Vec<Decision>,
    ) -> Result<SaleStatus, SaleRefusal> {
        if !self.known(sale)?.closed {
            self.record(Event::Closed(sale), now, decisions);
        }
        self.known(sale)
    }

    fn recall(&self, claim: &Claim) -> Result<Accepted, ClaimRefusal> {
        let sale = self.sales.get(&claim.sale).ok_or(ClaimRefusal::UnknownSale)?;
        sale.first_answer(claim).unwrap_or(Err(ClaimRefusal::NotAccepted))
    }

    fn claim(
        &mut self,
        claim: Claim,
        now: Timestamp,
        decisions: &mut Vec<Decision>,
    ) -> Result<Accepted, ClaimRefusal> {
        let sale = self.sales.get(&claim.sale).ok_or(ClaimRefusal::UnknownSale)?;
        if let Some(first) = sale.first_answer(&claim) {
            return first;
        }
        let status = sale.status();
        match status.state(now) {
            SaleState::Draft | SaleState::Scheduled => return Err(ClaimRefusal::NotOpen),
            SaleState::Paused => return Err(ClaimRefusal::Paused),
            SaleState::Closed => return Err(ClaimRefusal::Closed),
            SaleState::Open | SaleState::SoldOut => {}
        }
        if claim.quantity == 0 {
            return Err(ClaimRefusal::InvalidQuantity);
        }
        if !sale.within_limit(&claim.buyer, claim.quantity) || !sale.has_room_for_order(&claim.buyer) {
            return Err(ClaimRefusal::LimitReached);
        }
        if claim.quantity > status.available {
            return Err(ClaimRefusal::SoldOut);
        }
        let order = OrderId { sale: claim.sale, number: sale.next_number() };
        let Claim { buyer, quantity, key, .. } = claim;
        self.record(Event::Held { order, buyer, quantity, key }, now, decisions);
        Ok(Accepted { order: self.existing(order), is_repeated: false })
    }

    /// A payment in time turns the hold into a paid order. A late one gets its units again if they are still
    /// available, and a refund is due if not. Both happen in one step, so nobody is charged without stock.
    fn confirm_payment(
        &mut self,
        order: &Order,
        now: Timestamp,
        decisions: &mut Vec<Decision>,
    ) -> Result<Order, PaymentRefusal> {
        let (id, quantity) = (order.id, order.quantity);
        match order.state {
            OrderState::Paid => return Ok(order.clone()),
            OrderState::Cancelled => return Err(PaymentRefusal::HoldExpired),
            OrderState::Expired if order.refund_due => return Err(PaymentRefusal::RefundDue),
            // A hold that has run out but is not yet released would be released and taken again: the same
            // result.
            OrderState::Held => {
                self.record(Event::Paid { order: id, quantity, after_expiry: false }, now, decisions)
            }
            OrderState::Expired => {
                let Some(sale) = self.sales.get(&id.sale) else { return Err(PaymentRefusal::UnknownOrder) };
                // This holds after the sale's end, too: the order was claimed in time, and nobody else can
                // have the unit now.
                if quantity > sale.status().available || !sale.within_limit(&order.buyer, quantity) {
                    self.record(Event::RefundDue { order: id }, now, decisions);
                    return Err(PaymentRefusal::RefundDue);
                }
                self.record(Event::Paid { order: id, quantity, after_expiry: true }, now, decisions);
            }
        }
        Ok(self.existing(id))
    }

    fn cancel(
        &mut self,
        order: &Order,
        now: Timestamp,
        decisions: &mut Vec<Decision>,
    ) -> Result<Order, CancelRefusal> {
        match order.state {
            OrderState::Paid => Err(CancelRefusal::AlreadyPaid),
            OrderState::Expired => Err(CancelRefusal::HoldExpired),
            OrderState::Cancelled => Ok(order.clone()),
            OrderState::Held => {
                let reason = ReleaseReason::Cancelled;
                let event = Event::Released { order: order.id, quantity: order.quantity, reason };
                self.record(event, now, decisions);
                self.offer(order.id.sale, now, decisions);
                Ok(self.existing(order.id))
            }
        }
    }

    fn expire_due(&mut self, max: u32, now: Timestamp, decisions: &mut Vec<Decision>) -> u32 {
        let mut due: Vec<(OrderId, u32)> = Vec::new();
        for sale in self.sales.values() {
            sale.due_holds(now, max as usize - due.len(), &mut due);
            if due.len() == max as usize {
                break;
            }
        }
        for (order, quantity) in &due {
            let reason = ReleaseReason::Expired;
            self.record(Event::Released { order: *order, quantity: *quantity, reason }, now, decisions);
        }
        // Offer all units that come back to one sale together, so that a waiter who wants several gets them.
        for of_one_sale in due.chunk_by(|(one, _), (next, _)| one.sale == next.sale) {
            if let Some((order, _)) = of_one_sale.first() {
                self.offer(order.sale, now, decisions);
            }
        }
        due.len() as u32
    }

    /// The order, if it exists and belongs to `buyer`; None matches any buyer.
    fn find(&self, order: OrderId, buyer: Option<&crate::BuyerId>) -> Option<Order> {
        let found = self.sales.get(&order.sale)?.order(order.number)?;
        buyer.is_none_or(|buyer| *buyer == found.buyer).then_some(found)
    }

    fn existing(&self, order: OrderId) -> Order {
        self.find(order, None).unwrap_or_else(|| panic!("{order} was just recorded"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BuyerId, KeyDigest};

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn publish(book: &mut Book, number: u64) -> SaleId {
        let sale = SaleId::from_random(number);
        let terms = SaleTerms {
            sale,
            units: MAX_UNITS,
            limit_per_buyer: 1,
            opens_at: None,
            closes_at: None,
            hold_seconds: 60,
        };
        assert!(matches!(book.execute(Command::Publish(terms), NOW, &mut Vec::new()), Reply::Sale(Ok(_))));
        sale
    }

    fn claim(book: &mut Book, sale: SaleId, number: u32) {
        let name = number.to_string();
        let buyer = BuyerId::of_subject(&name).unwrap();
        let key = KeyDigest::of(name.as_bytes()).unwrap();
        let claim = Command::Claim(Claim { sale, buyer, quantity: 1, key });
        assert!(matches!(book.execute(claim, NOW, &mut Vec::new()), Reply::Verdict(Ok(_))));
    }

    #[test]
    fn a_buyers_orders_are_searched_only_in_sales_where_they_have_some() {
        let mut book = Book::default();
        let sales: Vec<SaleId> = (1..=500).map(|number| publish(&mut book, number)).collect();
        sales.iter().for_each(|sale| claim(&mut book, *sale, 1));
        [7, 300].into_iter().for_each(|place| claim(&mut book, sales[place], 2));
        let buyer = BuyerId::of_subject("2").unwrap();
        for mut book in [Book::from_snapshot(book.snapshot()), book] {
            assert_eq!(book.buyers.sales_of(&buyer).count(), 2, "sales that are searched");
            let command = Command::OrdersOf { buyer: buyer.clone(), max: 10 };
            let Reply::Orders(orders) = book.execute(command, NOW, &mut Vec::new()) else {
                panic!("no list")
            };
            let mut found: Vec<SaleId> = orders.iter().map(|order| order.id.sale).collect();
            found.sort();
            let mut expected = vec![sales[7], sales[300]];
            expected.sort();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn many_large_sales_share_the_memory_reserved_in_advance() {
        let mut book = Book::default();
        let sales: Vec<SaleId> = (1..=20).map(|number| publish(&mut book, number)).collect();
        assert_eq!(book.idle_room, MAX_IDLE_ROOM);
        // A sale that got no share sells as well as any other.
        let last = sales[sales.len() - 1];
        assert_eq!(book.sales[&last].idle_room(), 0);
        (0..1_000).for_each(|number| claim(&mut book, last, number));
        assert_eq!(book.idle_room, MAX_IDLE_ROOM);
        // A share that is used or given up goes to the next sale.
        claim(&mut book, sales[0], 0);
        assert_eq!(book.idle_room, MAX_IDLE_ROOM - 1);
        book.execute(Command::Close(sales[0]), NOW, &mut Vec::new());
        assert!(book.idle_room < MAX_IDLE_ROOM - 1);
        publish(&mut book, 21);
        assert_eq!(book.idle_room, MAX_IDLE_ROOM);
        assert_eq!(Book::from_snapshot(book.snapshot()).idle_room, MAX_IDLE_ROOM);
    }
}
