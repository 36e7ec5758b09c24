//! Placing an order: everything that is checked before the ledger decides, and the decision.

use std::{num::NonZeroU32, sync::Arc, time::Instant};

use penstock_domain::{Accepted, BuyerId, Claim, ClaimRefusal, Command, KeyDigest, Timestamp};
use penstock_gate::{InFlight, QuickRefusal};
use penstock_ledger::LedgerError;

use crate::{
    gate::{NoPass, Peer, Reason, TurnedAway},
    shop::{SaleMissing, Shop},
    storefront::{Details, Shelf},
};

/// A request for units, as far as it can be told before the buyer and the body are looked at.
#[derive(Clone, Copy, Debug)]
pub struct ClaimRequest<'a> {
    pub key: KeyDigest,
    /// The presented pass.
    pub pass: Option<&'a [u8]>,
    pub peer: Peer,
    pub now: Timestamp,
}

/// Why there is no order.
#[derive(Debug)]
pub enum OrderRefusal {
    Missing(SaleMissing),
    /// The ledger has announced the sale, but its details are not loaded.
    NotLoaded,
    Latched(QuickRefusal),
    TurnedAway(TurnedAway),
    NoPass(NoPass),
    Ledger(LedgerError<ClaimRefusal>),
}

impl From<TurnedAway> for OrderRefusal {
    fn from(turned_away: TurnedAway) -> Self {
        Self::TurnedAway(turned_away)
    }
}

/// A claim that is ready for the ledger.
pub struct Attempt {
    claim: Claim,
    details: Arc<Details>,
    /// The sale and the deadline of the pass, if this is a new order of a sale with a gate. Empty for all
    /// others, because counting references to a sale that is in no processor cache takes time.
    gated: Option<(Arc<Shelf>, Timestamp)>,
    /// Why no new order is possible. An order that was accepted before is still found.
    only_recall: Option<NoPass>,
    in_flight: InFlight,
}

impl Shop {
    /// Checks everything that does not need the ledger, the cheapest first. `identify` finds out who is asking and
    /// `read` how many units they want; both may cost something, so they are asked late.
    pub fn check_claim<E: From<OrderRefusal>>(
        &self,
        shelf: &Arc<Shelf>,
        ClaimRequest { key, pass, peer, now }: ClaimRequest<'_>,
        identify: impl FnOnce() -> Result<BuyerId, E>,
        read: impl FnOnce() -> Result<NonZeroU32, E>,
    ) -> Result<Attempt, E> {
        let refused = |turned_away: TurnedAway| E::from(turned_away.into());
        let latch = shelf.latch().ok_or_else(|| OrderRefusal::Missing(self.missing_sale()))?;
        if let Some(refusal) = latch.refuses(key, now) {
            return Err(OrderRefusal::Latched(refusal).into());
        }
        let in_flight = self.enter(shelf).map_err(refused)?;
        let details = shelf.details().ok_or(OrderRefusal::NotLoaded)?;
        self.gate.check_origin(peer, now).map_err(refused)?;
        let buyer = identify()?;
        self.gate.check_buyer(&buyer, now).map_err(refused)?;
        let (mut only_recall, mut pass_until) = (None, None);
        if details.row.gate.pass_required {
            match self.gate.check_pass((shelf.id, &buyer), pass, now) {
                Ok(deadline) => pass_until = Some(deadline),
                // A buyer who was accepted with a pass gets the first answer again after the pass has expired.
                Err(no_pass) if latch.may_have_accepted(key) => only_recall = Some(no_pass),
                Err(no_pass) => return Err(OrderRefusal::NoPass(no_pass).into()),
            }
        }
        let quantity = read()?.get();
        self.gate.pour(now).map_err(refused)?;
        // A retry of an earlier order does not use the current pass. The keys decide that, not the order's date,
        // which comes from another server's clock.
        let used_pass = pass_until.filter(|_| !latch.may_have_accepted(key));
        let gated = used_pass.map(|deadline| (Arc::clone(shelf), deadline));
        let claim = Claim { sale: shelf.id, buyer, quantity, key };
        Ok(Attempt { claim, details, gated, only_recall, in_flight })
    }
}

impl Attempt {
    /// Lets the ledger decide. Also returns the details, to write the order with.
    pub async fn decide(self, shop: &Shop) -> Result<(Accepted, Arc<Details>), OrderRefusal> {
        let began = Instant::now();
        let command = match self.only_recall {
            None => Command::Claim(self.claim),
            Some(_) => Command::Recall(self.claim),
        };
        let (decided, given_at) = shop.ledger.decide(command).await;
        let now = shop.now();
        // The limit controls the time in the ledger. If this thread is late because it is busy refusing, a
        // lower limit would only leave the ledger without work.
        self.in_flight.finished(given_at.saturating_duration_since(began), now);
        match (decided, self.only_recall) {
            (Ok(accepted), _) => {
                if let Some((shelf, deadline)) = &self.gated
                    && let (Some(gate), Some(status)) = (shelf.gate.get(), shelf.status())
                {
                    // Its pass makes room for the next one.
                    gate.door.used(&accepted.order.buyer, *deadline, status.version, now);
                }
                Ok((accepted, self.details))
            }
            (Err(LedgerError::Refused(ClaimRefusal::NotAccepted)), Some(no_pass)) => {
                Err(OrderRefusal::NoPass(no_pass))
            }
            (Err(error), _) => {
                if matches!(error, LedgerError::Busy) {
                    shop.gate.turned_away.count(Reason::Queue);
                }
                Err(OrderRefusal::Ledger(error))
            }
        }
    }
}
