//! The waitlist as a batch of decisions leaves it. An offer is two decisions, and a batch may end between
//! them. The row is deleted with the hold, so that a buyer with an offer is always either on the list or has
//! an order.

use std::collections::HashMap;

use penstock_domain::{BuyerId, Decision, Event, LeaveReason, SaleId, Timestamp, Waiter};
use sqlx::AssertSqlSafe;

use crate::{
    RecordsError,
    connection::{DatabaseConnection, Statement},
    refusal::{Cause, Refusal},
    settled::read_waiter,
    statements::{MAX_LISTED, bind_list, insert, marks},
};

/// The places on the waitlist that a batch is about.
#[derive(Debug, Default)]
pub(super) struct BatchWaitlist {
    places: HashMap<(SaleId, BuyerId), WaitlistRow>,
}

#[derive(Debug, Default)]
struct WaitlistRow {
    /// The waiter in the records.
    stored: Option<Waiter>,
    /// The waiter after the batch.
    now: Option<Waiter>,
}

/// The place that a decision changes, if there is one.
fn waiting(event: &Event) -> Option<(SaleId, &BuyerId)> {
    match event {
        Event::Joined { sale, buyer, .. } => Some((*sale, buyer)),
        Event::Left { sale, buyer, reason, .. } => {
            (*reason != LeaveReason::Offered).then_some((*sale, buyer))
        }
        Event::Held { order, buyer, key, .. } => key.offered_to().map(|_| (order.sale, buyer)),
        _ => None,
    }
}

impl BatchWaitlist {
    /// Reads the places that `decisions` change.
    pub(super) async fn load(
        connection: &mut DatabaseConnection,
        decisions: &[Decision],
    ) -> Result<Self, RecordsError> {
        let mut waiting: Vec<(SaleId, &BuyerId)> =
            decisions.iter().filter_map(|decision| waiting(&decision.event)).collect();
        waiting.sort_unstable();
        waiting.dedup();
        let mut waitlist = Self::default();
        for of_sale in waiting.chunk_by(|left, right| left.0 == right.0) {
            for places in of_sale.chunks(MAX_LISTED) {
                waitlist.load_places(connection, places).await?;
            }
        }
        Ok(waitlist)
    }

    async fn load_places(
        &mut self,
        connection: &mut DatabaseConnection,
        places: &[(SaleId, &BuyerId)],
    ) -> Result<(), RecordsError> {
        let Some((sale, _)) = places.first() else { return Ok(()) };
        let query = AssertSqlSafe(format!(
            "SELECT number, buyer, quantity, joined_at FROM waitlist WHERE sale_id = ? AND buyer IN ({})",
            marks(places.len())
        ));
        let query = bind_list(sqlx::query(query).bind(sale.as_i64()), places, |query, (_, buyer)| {
            query.bind(buyer.as_str().to_owned())
        });
        for waiter in connection.all(query, read_waiter).await? {
            let key = (*sale, waiter.buyer.clone());
            self.places.insert(key, WaitlistRow { stored: Some(waiter.clone()), now: Some(waiter) });
        }
        Ok(())
    }

    pub(super) fn join(&mut self, sale: SaleId, waiter: Waiter) -> Result<(), Refusal> {
        let place = self.places.entry((sale, waiter.buyer.clone())).or_default();
        if place.now.is_some() {
            let reason = format!("buyer {} already waits for sale {sale}", waiter.buyer);
            return Err(Refusal::new(Cause::WaiterExists, reason));
        }
        place.now = Some(waiter);
        Ok(())
    }

    pub(super) fn leave(&mut self, sale: SaleId, buyer: &BuyerId, number: u32) -> Result<(), Refusal> {
        if self.take(sale, buyer, number) {
            return Ok(());
        }
        let reason = format!("buyer {buyer} does not wait for sale {sale} with number {number}");
        Err(Refusal::new(Cause::WaiterMissing, reason))
    }

    /// Takes the waiter off the list. False: the waiter is not on it. An order that was offered counts all
    /// the same.
    pub(super) fn take(&mut self, sale: SaleId, buyer: &BuyerId, number: u32) -> bool {
        let place = self.places.get_mut(&(sale, buyer.clone()));
        place.and_then(|place| place.now.take_if(|waiter| waiter.number == number)).is_some()
    }

    pub(super) async fn write(&self, connection: &mut DatabaseConnection) -> Result<(), RecordsError> {
        let changed = || self.places.iter().filter(|(_, place)| place.stored != place.now);
        let mut gone: Vec<(SaleId, u32)> =
            changed().filter_map(|((sale, _), place)| Some((*sale, place.stored.as_ref()?.number))).collect();
        gone.sort_unstable();
        for of_sale in gone.chunk_by(|left, right| left.0 == right.0) {
            for places in of_sale.chunks(MAX_LISTED) {
                delete(connection, places).await?;
            }
        }
        let mut come: Vec<(SaleId, &Waiter)> =
            changed().filter_map(|((sale, _), place)| Some((*sale, place.now.as_ref()?))).collect();
        come.sort_unstable_by_key(|(sale, waiter)| (*sale, waiter.number));
        let into = "INSERT INTO waitlist (sale_id, number, buyer, quantity, joined_at) VALUES ";
        insert(connection, into, 5, &come, bind_waiter).await
    }
}

async fn delete(connection: &mut DatabaseConnection, places: &[(SaleId, u32)]) -> Result<(), RecordsError> {
    let Some((sale, _)) = places.first() else { return Ok(()) };
    let statement = AssertSqlSafe(format!(
        "DELETE FROM waitlist WHERE sale_id = ? AND number IN ({})",
        marks(places.len())
    ));
    let delete = bind_list(sqlx::query(statement).bind(sale.as_i64()), places, |delete, (_, number)| {
        delete.bind(i64::from(*number))
    });
    let deleted = connection.change(delete).await?;
    if deleted == places.len() as u64 {
        return Ok(());
    }
    Err(RecordsError::Refused(format!("only {deleted} of {} places could be deleted", places.len())))
}

fn bind_waiter<'q>(insert: Statement<'q>, (sale, waiter): &(SaleId, &Waiter)) -> Statement<'q> {
    insert
        .bind(sale.as_i64())
        .bind(i64::from(waiter.number))
        .bind(waiter.buyer.as_str().to_owned())
        .bind(i64::from(waiter.quantity))
        .bind(Timestamp::as_millis(waiter.joined_at))
}
