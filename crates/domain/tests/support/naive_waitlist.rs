//! The waitlist of the naive ledger: a plain list, searched from the start. Written from the rules.

use penstock_domain::*;

use crate::naive_model::{NaiveLedger, NaiveOrder};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NaiveWaiter {
    pub(crate) sale: SaleId,
    pub(crate) buyer: BuyerId,
    pub(crate) quantity: u32,
    pub(crate) joined_at: Timestamp,
}

impl NaiveLedger {
    fn is_going_on(&self, sale: SaleId, now: Timestamp) -> bool {
        let has_begun = self.terms_of(sale).is_some_and(|t| t.opens_at.is_none_or(|at| at <= now));
        has_begun && !self.is_closed(sale, now) && !self.paused.contains(&sale)
    }

    /// The units the buyer may still get with one more order.
    fn most(&self, sale: SaleId, buyer: &BuyerId) -> u32 {
        let orders =
            self.orders.iter().filter(|o| o.order.id.sale == sale && o.order.buyer == *buyer).count();
        let limit = self.terms_of(sale).map_or(0, |t| t.limit_per_buyer);
        if orders < MAX_ORDERS_PER_BUYER { limit - self.owned(sale, buyer) } else { 0 }
    }

    pub(crate) fn place(&self, sale: SaleId, buyer: &BuyerId, now: Timestamp) -> Option<Place> {
        let theirs = self.waiting.iter().filter(|waiter| waiter.sale == sale);
        let (waiter, position) = theirs.zip(1..).find(|(waiter, _)| waiter.buyer == *buyer)?;
        let place = Place { position, quantity: waiter.quantity, joined_at: waiter.joined_at };
        (!self.is_closed(sale, now)).then_some(place)
    }

    pub(crate) fn join(
        &mut self,
        sale: SaleId,
        buyer: &BuyerId,
        quantity: u32,
        now: Timestamp,
    ) -> Result<Place, JoinRefusal> {
        let terms = self.terms_of(sale).ok_or(JoinRefusal::UnknownSale)?;
        if self.is_closed(sale, now) {
            return Err(JoinRefusal::Closed);
        }
        if let Some(place) = self.place(sale, buyer, now) {
            return Ok(place);
        }
        if self.paused.contains(&sale) {
            return Err(JoinRefusal::Paused);
        }
        if terms.opens_at.is_some_and(|at| now < at) {
            return Err(JoinRefusal::NotOpen);
        }
        if quantity == 0 {
            return Err(JoinRefusal::InvalidQuantity);
        }
        if quantity > self.most(sale, buyer) {
            return Err(JoinRefusal::LimitReached);
        }
        if self.available(sale) > 0 {
            return Err(JoinRefusal::NotSoldOut);
        }
        self.waiting.push(NaiveWaiter { sale, buyer: buyer.clone(), quantity, joined_at: now });
        Ok(self.place(sale, buyer, now).unwrap())
    }

    pub(crate) fn leave(&mut self, sale: SaleId, buyer: &BuyerId) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|waiter| waiter.sale != sale || waiter.buyer != *buyer);
        self.waiting.len() < before
    }

    /// Gives available units to the waiters.
    pub(crate) fn serve(&mut self, now: Timestamp) {
        let can_be_served = |model: &Self, waiter: &NaiveWaiter| {
            model.is_going_on(waiter.sale, now) && model.available(waiter.sale) > 0
        };
        while let Some(place) = self.waiting.iter().position(|waiter| can_be_served(self, waiter)) {
            let NaiveWaiter { sale, buyer, quantity, .. } = self.waiting.remove(place);
            let quantity = quantity.min(self.available(sale)).min(self.most(sale, &buyer));
            if quantity == 0 {
                continue;
            }
            let number = self.orders.iter().filter(|o| o.order.id.sale == sale).count() as u32;
            let hold_seconds = self.terms_of(sale).map_or(0, |t| t.hold_seconds);
            let order = Order {
                id: OrderId { sale, number },
                buyer,
                quantity,
                state: OrderState::Held,
                created_at: now,
                pay_before: now.plus_seconds(hold_seconds),
                paid_at: None,
                refund_due: false,
            };
            // No claim has this key. Keys of offers are not compared.
            self.orders.push(NaiveOrder { order, key: KeyDigest::of_offer(u32::MAX) });
        }
    }
}
