//! How the `Book` decides a command about a sale, a claim or an order.

use super::Book;
use crate::{
    Accepted, BuyerId, CancelRefusal, Claim, ClaimRefusal, Command, Decision, Event, MAX_UNITS, Order,
    OrderId, OrderState, PaymentRefusal, ReleaseReason, Reply, SaleId, SaleRefusal, SaleState, SaleStatus,
    SaleTerms, Timestamp,
};

/// One command at one moment. Each decision is applied to the book at once and added to `decisions`.
pub(super) struct Execution<'a> {
    pub(super) book: &'a mut Book,
    pub(super) now: Timestamp,
    pub(super) decisions: &'a mut Vec<Decision>,
}

impl Execution<'_> {
    pub(super) fn run(mut self, command: Command) -> Reply {
        match command {
            Command::Publish(terms) => Reply::Sale(self.publish(terms)),
            Command::Restock { sale, units } => Reply::Sale(self.restock(sale, units)),
            Command::Pause(sale) => Reply::Sale(self.set_paused(sale, true)),
            Command::Resume(sale) => Reply::Sale(self.set_paused(sale, false)),
            Command::Close(sale) => Reply::Sale(self.close(sale)),
            Command::Claim(claim) => Reply::Verdict(self.claim(claim)),
            Command::Recall(claim) => Reply::Verdict(self.recall(&claim)),
            Command::ConfirmPayment { order, buyer } => {
                Reply::Payment(self.confirm_payment(order, buyer.as_ref()))
            }
            Command::Cancel { order, buyer } => Reply::Cancelled(self.cancel(order, buyer.as_ref())),
            Command::ExpireDue { max } => Reply::Expired(self.expire_due(max as usize)),
            Command::FindOrder { order, buyer } => Reply::Found(self.book.find(order, buyer.as_ref())),
            Command::OrdersOf { buyer, max } => Reply::Orders(self.book.orders_of(&buyer, max as usize)),
            Command::Join { sale, buyer, quantity } => Reply::Joined(self.join(sale, buyer, quantity)),
            Command::Leave { sale, buyer } => Reply::Left(self.leave(sale, buyer)),
            Command::FindPlace { sale, buyer } => Reply::Place(self.place(sale, &buyer)),
        }
    }

    pub(super) fn record(&mut self, event: Event) {
        let decision = Decision { position: self.book.position + 1, at: self.now, event };
        self.book.apply(&decision);
        self.decisions.push(decision);
    }

    fn status(&self, sale: SaleId) -> Result<SaleStatus, SaleRefusal> {
        self.book.status(sale).ok_or(SaleRefusal::UnknownSale)
    }

    /// The status of a sale that is not closed.
    fn status_to_change(&self, sale: SaleId) -> Result<SaleStatus, SaleRefusal> {
        let status = self.status(sale)?;
        if status.state(self.now) == SaleState::Closed { Err(SaleRefusal::Closed) } else { Ok(status) }
    }

    fn publish(&mut self, terms: SaleTerms) -> Result<SaleStatus, SaleRefusal> {
        if !terms.are_within_bounds() {
            return Err(SaleRefusal::InvalidTerms);
        }
        if self.book.status(terms.sale).is_none() {
            self.record(Event::Published(terms));
        }
        self.status(terms.sale)
    }

    fn restock(&mut self, sale: SaleId, units: u32) -> Result<SaleStatus, SaleRefusal> {
        if units > MAX_UNITS - self.status_to_change(sale)?.total {
            return Err(SaleRefusal::TooManyUnits);
        }
        if units > 0 {
            self.record(Event::Restocked { sale, units });
            self.offer(sale);
        }
        self.status(sale)
    }

    fn set_paused(&mut self, sale: SaleId, paused: bool) -> Result<SaleStatus, SaleRefusal> {
        if self.status_to_change(sale)?.paused != paused {
            self.record(if paused { Event::Paused(sale) } else { Event::Resumed(sale) });
            self.offer(sale);
        }
        self.status(sale)
    }

    fn close(&mut self, sale: SaleId) -> Result<SaleStatus, SaleRefusal> {
        if !self.status(sale)?.closed {
            self.record(Event::Closed(sale));
        }
        self.status(sale)
    }

    fn recall(&self, claim: &Claim) -> Result<Accepted, ClaimRefusal> {
        let sale = self.book.sales.get(&claim.sale).ok_or(ClaimRefusal::UnknownSale)?;
        sale.first_answer(claim).unwrap_or(Err(ClaimRefusal::NotAccepted))
    }

    fn claim(&mut self, claim: Claim) -> Result<Accepted, ClaimRefusal> {
        let sale = self.book.sales.get(&claim.sale).ok_or(ClaimRefusal::UnknownSale)?;
        if let Some(first) = sale.first_answer(&claim) {
            return first;
        }
        let status = sale.status();
        match status.state(self.now) {
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
        self.record(Event::Held { order, buyer, quantity, key });
        Ok(Accepted { order: self.existing(order), is_repeated: false })
    }

    /// A payment in time turns the hold into a paid order. A late one gets its units again if they are still
    /// available, and a refund is due if not. Both happen in one step, so nobody is charged without stock.
    fn confirm_payment(&mut self, id: OrderId, buyer: Option<&BuyerId>) -> Result<Order, PaymentRefusal> {
        let order = self.book.find(id, buyer).ok_or(PaymentRefusal::UnknownOrder)?;
        let quantity = order.quantity;
        match order.state {
            OrderState::Paid => return Ok(order),
            OrderState::Cancelled => return Err(PaymentRefusal::HoldExpired),
            OrderState::Expired if order.refund_due => return Err(PaymentRefusal::RefundDue),
            // A hold that has run out but is not yet released would be released and taken again: the same
            // result.
            OrderState::Held => self.record(Event::Paid { order: id, quantity, after_expiry: false }),
            OrderState::Expired => {
                let sale = self.book.sales.get(&id.sale).ok_or(PaymentRefusal::UnknownOrder)?;
                // This holds after the sale's end, too: the order was claimed in time, and nobody else can
                // have the unit now.
                if quantity > sale.status().available || !sale.within_limit(&order.buyer, quantity) {
                    self.record(Event::RefundDue { order: id });
                    return Err(PaymentRefusal::RefundDue);
                }
                self.record(Event::Paid { order: id, quantity, after_expiry: true });
            }
        }
        Ok(self.existing(id))
    }

    fn cancel(&mut self, id: OrderId, buyer: Option<&BuyerId>) -> Result<Order, CancelRefusal> {
        let order = self.book.find(id, buyer).ok_or(CancelRefusal::UnknownOrder)?;
        match order.state {
            OrderState::Paid => Err(CancelRefusal::AlreadyPaid),
            OrderState::Expired => Err(CancelRefusal::HoldExpired),
            OrderState::Cancelled => Ok(order),
            OrderState::Held => {
                let reason = ReleaseReason::Cancelled;
                self.record(Event::Released { order: id, quantity: order.quantity, reason });
                self.offer(id.sale);
                Ok(self.existing(id))
            }
        }
    }

    /// Releases holds that have run out, at most `max`, and returns how many.
    fn expire_due(&mut self, max: usize) -> u32 {
        let mut due: Vec<(OrderId, u32)> = Vec::new();
        for sale in self.book.sales.values() {
            sale.due_holds(self.now, max - due.len(), &mut due);
            if due.len() == max {
                break;
            }
        }
        for (order, quantity) in due.iter().copied() {
            self.record(Event::Released { order, quantity, reason: ReleaseReason::Expired });
        }
        // Offer all units that come back to one sale together, so that a waiter who wants several gets them.
        for of_one_sale in due.chunk_by(|(one, _), (next, _)| one.sale == next.sale) {
            if let Some((order, _)) = of_one_sale.first() {
                self.offer(order.sale);
            }
        }
        due.len() as u32
    }

    fn existing(&self, order: OrderId) -> Order {
        self.book.find(order, None).unwrap_or_else(|| panic!("{order} was just recorded"))
    }
}
