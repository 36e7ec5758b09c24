//! How the `Book` decides about the waitlist. Units that come back while somebody waits do not go on sale:
//! the first waiter gets a hold of them in the same decision, with as much time to pay as any hold.

use super::execution::Execution;
use crate::{BuyerId, Event, JoinRefusal, KeyDigest, LeaveReason, OrderId, Place, SaleId, SaleState};

impl Execution<'_> {
    pub(super) fn join(&mut self, sale: SaleId, buyer: BuyerId, quantity: u32) -> Result<Place, JoinRefusal> {
        let known = self.book.sales.get(&sale).ok_or(JoinRefusal::UnknownSale)?;
        let state = known.status().state(self.now);
        if state == SaleState::Closed {
            return Err(JoinRefusal::Closed);
        }
        if let Some(place) = known.waitlist().place(&buyer) {
            return Ok(place);
        }
        match state {
            SaleState::Paused => return Err(JoinRefusal::Paused),
            SaleState::Draft | SaleState::Scheduled => return Err(JoinRefusal::NotOpen),
            SaleState::Open | SaleState::SoldOut | SaleState::Closed => {}
        }
        if quantity == 0 {
            return Err(JoinRefusal::InvalidQuantity);
        }
        if !known.within_limit(&buyer, quantity) || !known.has_room_for_order(&buyer) {
            return Err(JoinRefusal::LimitReached);
        }
        if state != SaleState::SoldOut {
            return Err(JoinRefusal::NotSoldOut);
        }
        if known.waitlist().is_full() {
            return Err(JoinRefusal::WaitlistFull);
        }
        let position = known.waitlist().len() as u32 + 1;
        let number = known.waitlist().next_number();
        self.record(Event::Joined { sale, number, buyer, quantity });
        Ok(Place { position, quantity, joined_at: self.now })
    }

    pub(super) fn leave(&mut self, sale: SaleId, buyer: BuyerId) -> bool {
        let waiter = self.book.sales.get(&sale).and_then(|known| known.waitlist().find(&buyer));
        let Some(number) = waiter.map(|waiter| waiter.number) else { return false };
        self.record(Event::Left { sale, number, buyer, reason: LeaveReason::Asked });
        true
    }

    /// None also once the sale is closed, because nobody gets an offer then.
    pub(super) fn place(&self, sale: SaleId, buyer: &BuyerId) -> Option<Place> {
        let known = self.book.sales.get(&sale)?;
        (known.status().state(self.now) != SaleState::Closed).then(|| known.waitlist().place(buyer))?
    }

    /// Offers available units to the waiters, until no unit or no waiter is left. Call it after every change
    /// that brings units back or resumes the sale.
    pub(super) fn offer(&mut self, sale: SaleId) {
        while let Some((left, held)) = self.next_offer(sale) {
            self.record(left);
            if let Some(held) = held {
                self.record(held);
            }
        }
        let Some(known) = self.book.sales.get(&sale) else { return };
        let has_units_to_offer =
            known.status().state(self.now) == SaleState::Open && !known.waitlist().is_empty();
        assert!(!has_units_to_offer, "{sale:?} has units on sale while somebody waits for them");
    }

    /// Takes the first waiter off the list and holds units for them, if they may have any.
    fn next_offer(&self, sale: SaleId) -> Option<(Event, Option<Event>)> {
        let known = self.book.sales.get(&sale)?;
        let status = known.status();
        if status.state(self.now) != SaleState::Open {
            return None;
        }
        let waiter = known.waitlist().front()?;
        let (number, buyer) = (waiter.number, waiter.buyer.clone());
        let most = if known.has_room_for_order(&buyer) { known.units_within_limit(&buyer) } else { 0 };
        let quantity = waiter.quantity.min(status.available).min(most);
        let left = |reason| Event::Left { sale, number, buyer: buyer.clone(), reason };
        if quantity == 0 {
            return Some((left(LeaveReason::LimitReached), None));
        }
        let order = OrderId { sale, number: known.next_number() };
        let key = KeyDigest::of_offer(number);
        Some((left(LeaveReason::Offered), Some(Event::Held { order, buyer, quantity, key })))
    }
}
