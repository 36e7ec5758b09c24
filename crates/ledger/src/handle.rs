//! `Ledger`: the cheap handle through which the rest of Penstock uses the ledger. Every method is a command,
//! with the answer as a type of its own.

use std::{convert::Infallible, fmt, sync::Arc, time::Instant};

use penstock_domain::{
    Accepted, BuyerId, CancelRefusal, Claim, ClaimRefusal, Command, JoinRefusal, Order, OrderId,
    PaymentRefusal, Place, Reply, SaleId, SaleRefusal, SaleStatus, SaleTerms,
};
use tokio::sync::watch;

use crate::{
    port::{Feed, Health, Home, Homes, LedgerError},
    queue::{Failure, Queue},
    stats::{Counters, LedgerStats},
};

/// The answer in a reply, which is of the kind that belongs to the command.
macro_rules! answer {
    ($reply:expr, $kind:ident) => {
        match $reply {
            Reply::$kind(answer) => answer,
            other => return Err(unexpected(&other)),
        }
    };
}

#[derive(Clone)]
pub struct Ledger {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Arc<Queue>,
    homes: Homes,
    feed: Arc<dyn Feed>,
    counters: Arc<Counters>,
    health: watch::Receiver<Health>,
}

/// Without handles nobody can ask, so the writer ends with the last one.
impl Drop for Shared {
    fn drop(&mut self) {
        self.queue.stop();
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Ledger").field("health", &self.health()).finish_non_exhaustive()
    }
}

impl Ledger {
    pub(crate) fn new(
        queue: Arc<Queue>,
        homes: Homes,
        feed: Arc<dyn Feed>,
        counters: Arc<Counters>,
        health: watch::Receiver<Health>,
    ) -> Self {
        Self { shared: Arc::new(Shared { queue, homes, feed, counters, health }) }
    }

    pub async fn claim(&self, claim: Claim) -> Result<Order, LedgerError<ClaimRefusal>> {
        self.decide(Command::Claim(claim)).await.0.map(|accepted| accepted.order)
    }

    /// The first answer to this claim if it was accepted before. It never makes an order.
    pub async fn recall(&self, claim: Claim) -> Result<Order, LedgerError<ClaimRefusal>> {
        self.decide(Command::Recall(claim)).await.0.map(|accepted| accepted.order)
    }

    /// A claim or a recall. Also tells when the answer was given; a busy thread may take it much later. The
    /// time until then is the ledger's, the rest is not.
    pub async fn decide(&self, command: Command) -> (Result<Accepted, LedgerError<ClaimRefusal>>, Instant) {
        let (answer, given_at) = self.shared.queue.ask(command).await;
        let verdict = match answer.map_err(failed) {
            Ok(Reply::Verdict(verdict)) => verdict.map_err(LedgerError::Refused),
            Ok(other) => Err(unexpected(&other)),
            Err(error) => Err(error),
        };
        (verdict, given_at)
    }

    /// `buyer` is the buyer who reports the payment; None stands for a provider or an operator.
    pub async fn confirm_payment(
        &self,
        order: OrderId,
        buyer: Option<BuyerId>,
    ) -> Result<Order, LedgerError<PaymentRefusal>> {
        answer!(self.ask(Command::ConfirmPayment { order, buyer }).await?, Payment)
            .map_err(LedgerError::Refused)
    }

    pub async fn cancel(
        &self,
        order: OrderId,
        buyer: Option<BuyerId>,
    ) -> Result<Order, LedgerError<CancelRefusal>> {
        answer!(self.ask(Command::Cancel { order, buyer }).await?, Cancelled).map_err(LedgerError::Refused)
    }

    pub async fn publish(&self, terms: SaleTerms) -> Result<SaleStatus, LedgerError<SaleRefusal>> {
        self.ask_sale(Command::Publish(terms)).await
    }

    pub async fn restock(&self, sale: SaleId, units: u32) -> Result<SaleStatus, LedgerError<SaleRefusal>> {
        self.ask_sale(Command::Restock { sale, units }).await
    }

    pub async fn pause(&self, sale: SaleId) -> Result<SaleStatus, LedgerError<SaleRefusal>> {
        self.ask_sale(Command::Pause(sale)).await
    }

    pub async fn resume(&self, sale: SaleId) -> Result<SaleStatus, LedgerError<SaleRefusal>> {
        self.ask_sale(Command::Resume(sale)).await
    }

    pub async fn close(&self, sale: SaleId) -> Result<SaleStatus, LedgerError<SaleRefusal>> {
        self.ask_sale(Command::Close(sale)).await
    }

    /// Releases at most `max` overdue holds and returns their number.
    pub async fn expire_due(&self, max: u32) -> Result<u32, LedgerError<Infallible>> {
        Ok(answer!(self.ask(Command::ExpireDue { max }).await?, Expired))
    }

    /// The order, if it exists and belongs to `buyer` (None: anybody).
    pub async fn find_order(
        &self,
        order: OrderId,
        buyer: Option<BuyerId>,
    ) -> Result<Option<Order>, LedgerError<Infallible>> {
        Ok(answer!(self.ask(Command::FindOrder { order, buyer }).await?, Found))
    }

    /// The buyer's newest orders across all sales, newest first.
    pub async fn orders_of(&self, buyer: BuyerId, max: u32) -> Result<Vec<Order>, LedgerError<Infallible>> {
        Ok(answer!(self.ask(Command::OrdersOf { buyer, max }).await?, Orders))
    }

    /// Puts the buyer on the waitlist of a sold-out sale, and returns their place. A buyer who is on it
    /// already keeps their place.
    pub async fn join_waitlist(
        &self,
        sale: SaleId,
        buyer: BuyerId,
        quantity: u32,
    ) -> Result<Place, LedgerError<JoinRefusal>> {
        answer!(self.ask(Command::Join { sale, buyer, quantity }).await?, Joined)
            .map_err(LedgerError::Refused)
    }

    /// Takes the buyer off the waitlist, and returns whether they were on it.
    pub async fn leave_waitlist(
        &self,
        sale: SaleId,
        buyer: BuyerId,
    ) -> Result<bool, LedgerError<Infallible>> {
        Ok(answer!(self.ask(Command::Leave { sale, buyer }).await?, Left))
    }

    /// The buyer's place on the waitlist; None if they are not on it or the sale is over.
    pub async fn place_on_waitlist(
        &self,
        sale: SaleId,
        buyer: BuyerId,
    ) -> Result<Option<Place>, LedgerError<Infallible>> {
        Ok(answer!(self.ask(Command::FindPlace { sale, buyer }).await?, Place))
    }

    pub fn feed(&self) -> &Arc<dyn Feed> {
        &self.shared.feed
    }

    pub fn health(&self) -> Health {
        self.shared.health.borrow().clone()
    }

    /// Waits until the ledger has left `Recovering`, and returns its new health.
    pub async fn recovered(&self) -> Health {
        let mut health = self.shared.health.clone();
        match health.wait_for(|health| *health != Health::Recovering).await {
            Ok(health) => health.clone(),
            Err(_) => Health::Stopped,
        }
    }

    /// Requests that wait to be decided.
    pub fn queue_depth(&self) -> usize {
        self.shared.queue.depth()
    }

    /// The server that decides the sale, as far as is known. Sales of different homes don't wait for each other.
    pub fn home_of(&self, sale: SaleId) -> Home {
        self.shared.homes.of(sale)
    }

    pub fn stats(&self) -> LedgerStats {
        self.shared.counters.read()
    }

    /// Accepts nothing new, decides and answers everything that waits, and ends the writer.
    pub async fn stop(&self) {
        self.shared.queue.stop();
        let mut health = self.shared.health.clone();
        // An error means that the writer is gone, which is what we wait for.
        drop(health.wait_for(|health| *health == Health::Stopped).await);
    }

    async fn ask_sale(&self, command: Command) -> Result<SaleStatus, LedgerError<SaleRefusal>> {
        answer!(self.ask(command).await?, Sale).map_err(LedgerError::Refused)
    }

    async fn ask<R>(&self, command: Command) -> Result<Reply, LedgerError<R>> {
        self.shared.queue.ask(command).await.0.map_err(failed)
    }
}

fn failed<R>(failure: Failure) -> LedgerError<R> {
    match failure {
        Failure::Busy => LedgerError::Busy,
        Failure::Unavailable(reason) => LedgerError::Unavailable(reason.to_string()),
    }
}

fn unexpected<R>(reply: &Reply) -> LedgerError<R> {
    tracing::error!(?reply, "the engine's answer does not belong to its command");
    LedgerError::Unavailable("the engine's answer does not belong to its command".into())
}
