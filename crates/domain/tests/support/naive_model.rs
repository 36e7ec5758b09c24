//! A second, naive ledger to compare `Book` with: plain lists, and everything is recounted for every answer.
//! Written from the rules, not from `Book`'s code.

use penstock_domain::*;

use crate::naive_waitlist::NaiveWaiter;

#[derive(Clone, Debug)]
pub(crate) struct NaiveOrder {
    pub(crate) order: Order,
    pub(crate) key: KeyDigest,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct NaiveLedger {
    pub(crate) terms: Vec<SaleTerms>,
    pub(crate) restocked: Vec<(SaleId, u32)>,
    pub(crate) paused: Vec<SaleId>,
    pub(crate) closed: Vec<SaleId>,
    pub(crate) orders: Vec<NaiveOrder>,
    /// Everybody who waits for any sale, in the order of joining.
    pub(crate) waiting: Vec<NaiveWaiter>,
}

impl NaiveLedger {
    pub(crate) fn total(&self, sale: SaleId) -> u32 {
        let published: u32 = self.terms.iter().filter(|t| t.sale == sale).map(|t| t.units).sum();
        published + self.restocked.iter().filter(|(s, _)| *s == sale).map(|(_, units)| units).sum::<u32>()
    }

    pub(crate) fn units(&self, sale: SaleId, state: OrderState) -> u32 {
        let of_sale = self.orders.iter().map(|o| &o.order).filter(|o| o.id.sale == sale);
        of_sale.filter(|o| o.state == state).map(|o| o.quantity).sum()
    }

    pub(crate) fn available(&self, sale: SaleId) -> u32 {
        self.total(sale) - self.units(sale, OrderState::Held) - self.units(sale, OrderState::Paid)
    }

    pub(crate) fn owned(&self, sale: SaleId, buyer: &BuyerId) -> u32 {
        let theirs = self.orders.iter().map(|o| &o.order).filter(|o| o.id.sale == sale && o.buyer == *buyer);
        theirs.filter(|o| matches!(o.state, OrderState::Held | OrderState::Paid)).map(|o| o.quantity).sum()
    }

    pub(crate) fn terms_of(&self, sale: SaleId) -> Option<SaleTerms> {
        self.terms.iter().copied().find(|t| t.sale == sale)
    }

    pub(crate) fn is_closed(&self, sale: SaleId, now: Timestamp) -> bool {
        let by_time = self.terms_of(sale).and_then(|t| t.closes_at).is_some_and(|at| now >= at);
        by_time || self.closed.contains(&sale)
    }

    fn order_mut(&mut self, id: OrderId, buyer: Option<&BuyerId>) -> Option<&mut Order> {
        let found = self.orders.iter_mut().map(|o| &mut o.order).find(|o| o.id == id)?;
        buyer.is_none_or(|buyer| *buyer == found.buyer).then_some(found)
    }

    /// Changes nothing: it takes `&self`.
    pub(crate) fn recall(&self, claim: &Claim) -> Result<Accepted, ClaimRefusal> {
        self.terms_of(claim.sale).ok_or(ClaimRefusal::UnknownSale)?;
        let earlier = self
            .orders
            .iter()
            .find(|o| o.order.id.sale == claim.sale && o.order.buyer == claim.buyer && o.key == claim.key);
        let order = &earlier.ok_or(ClaimRefusal::NotAccepted)?.order;
        if order.quantity != claim.quantity {
            return Err(ClaimRefusal::KeyReused);
        }
        let order = Order { state: OrderState::Held, paid_at: None, refund_due: false, ..order.clone() };
        Ok(Accepted { order, is_repeated: true })
    }

    pub(crate) fn claim(&mut self, claim: &Claim, now: Timestamp) -> Result<Accepted, ClaimRefusal> {
        let terms = self.terms_of(claim.sale).ok_or(ClaimRefusal::UnknownSale)?;
        let recalled = self.recall(claim);
        if recalled != Err(ClaimRefusal::NotAccepted) {
            return recalled;
        }
        if self.is_closed(claim.sale, now) {
            return Err(ClaimRefusal::Closed);
        }
        if self.paused.contains(&claim.sale) {
            return Err(ClaimRefusal::Paused);
        }
        if terms.opens_at.is_some_and(|at| now < at) {
            return Err(ClaimRefusal::NotOpen);
        }
        if claim.quantity == 0 {
            return Err(ClaimRefusal::InvalidQuantity);
        }
        let wanted = u64::from(self.owned(claim.sale, &claim.buyer)) + u64::from(claim.quantity);
        let is_theirs = |o: &&NaiveOrder| o.order.id.sale == claim.sale && o.order.buyer == claim.buyer;
        let orders = self.orders.iter().filter(is_theirs).count();
        if wanted > u64::from(terms.limit_per_buyer) || orders >= MAX_ORDERS_PER_BUYER {
            return Err(ClaimRefusal::LimitReached);
        }
        if claim.quantity > self.available(claim.sale) {
            return Err(ClaimRefusal::SoldOut);
        }
        let number = self.orders.iter().filter(|o| o.order.id.sale == claim.sale).count() as u32;
        let order = Order {
            id: OrderId { sale: claim.sale, number },
            buyer: claim.buyer.clone(),
            quantity: claim.quantity,
            state: OrderState::Held,
            created_at: now,
            pay_before: now.plus_seconds(terms.hold_seconds),
            paid_at: None,
            refund_due: false,
        };
        self.orders.push(NaiveOrder { order: order.clone(), key: claim.key });
        Ok(Accepted { order, is_repeated: false })
    }

    pub(crate) fn confirm_payment(
        &mut self,
        id: OrderId,
        buyer: Option<&BuyerId>,
        now: Timestamp,
    ) -> Result<Order, PaymentRefusal> {
        let order = self.order_mut(id, buyer).ok_or(PaymentRefusal::UnknownOrder)?.clone();
        let limit = self.terms_of(id.sale).map_or(0, |t| t.limit_per_buyer);
        let has_unit = order.quantity <= self.available(id.sale)
            && self.owned(id.sale, &order.buyer) + order.quantity <= limit;
        let entry = self.order_mut(id, None).ok_or(PaymentRefusal::UnknownOrder)?;
        match order.state {
            OrderState::Paid => {}
            OrderState::Cancelled => return Err(PaymentRefusal::HoldExpired),
            OrderState::Expired if order.refund_due => return Err(PaymentRefusal::RefundDue),
            OrderState::Expired if !has_unit => {
                entry.refund_due = true;
                return Err(PaymentRefusal::RefundDue);
            }
            OrderState::Held | OrderState::Expired => {
                entry.state = OrderState::Paid;
                entry.paid_at = Some(now);
            }
        }
        Ok(entry.clone())
    }

    pub(crate) fn cancel(&mut self, id: OrderId, buyer: Option<&BuyerId>) -> Result<Order, CancelRefusal> {
        let order = self.order_mut(id, buyer).ok_or(CancelRefusal::UnknownOrder)?;
        match order.state {
            OrderState::Paid => Err(CancelRefusal::AlreadyPaid),
            OrderState::Expired => Err(CancelRefusal::HoldExpired),
            OrderState::Held | OrderState::Cancelled => {
                order.state = OrderState::Cancelled;
                Ok(order.clone())
            }
        }
    }

    pub(crate) fn expire_all_due(&mut self, now: Timestamp) -> u32 {
        let mut expired = 0;
        for NaiveOrder { order, .. } in &mut self.orders {
            if order.state == OrderState::Held && order.pay_before <= now {
                order.state = OrderState::Expired;
                expired += 1;
            }
        }
        expired
    }

    /// Publish, restock, pause, resume and close: whether the command is accepted.
    pub(crate) fn change_sale(&mut self, command: &Command, now: Timestamp) -> Result<(), SaleRefusal> {
        if let Command::Publish(terms) = command {
            if self.terms_of(terms.sale).is_none() {
                self.terms.push(*terms);
            }
            return Ok(());
        }
        let (Command::Restock { sale, .. }
        | Command::Pause(sale)
        | Command::Resume(sale)
        | Command::Close(sale)) = command
        else {
            panic!("{command:?} does not change a sale");
        };
        self.terms_of(*sale).ok_or(SaleRefusal::UnknownSale)?;
        let closed = self.is_closed(*sale, now);
        match command {
            Command::Close(_) => self.closed.push(*sale),
            _ if closed => return Err(SaleRefusal::Closed),
            Command::Restock { units, .. } => {
                if u64::from(self.total(*sale)) + u64::from(*units) > u64::from(MAX_UNITS) {
                    return Err(SaleRefusal::TooManyUnits);
                }
                self.restocked.push((*sale, *units));
            }
            Command::Pause(_) => self.paused.push(*sale),
            _ => self.paused.retain(|paused| paused != sale),
        }
        Ok(())
    }
}
