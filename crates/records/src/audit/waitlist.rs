//! The waitlist of a sale against the ledger's: the same people, in the same order, for the same units.

use std::collections::BTreeMap;

use penstock_domain::{Decision, Event, LeaveReason, SaleSnapshot, Waiter};

use super::{report::AuditReport, story::Unsettled};
use crate::{RecordsError, session::Session, settled::read_waiters};

pub(super) async fn compare(
    connection: &mut Session,
    ledger: &SaleSnapshot,
    unsettled: &Unsettled<'_>,
    report: &mut AuditReport,
) -> Result<(), RecordsError> {
    let sale = ledger.status.terms.sale;
    let rows = read_waiters(connection, sale).await?;
    let mut here: BTreeMap<u32, Waiter> = rows.into_iter().map(|waiter| (waiter.number, waiter)).collect();
    for decision in unsettled.waiting(sale) {
        catch_up(&mut here, decision);
    }
    for there in &ledger.waiters {
        let (number, buyer) = (there.number, &there.buyer);
        let what = match here.remove(&number) {
            Some(waiter) if waiter == *there => continue,
            Some(waiter) => format!(
                "Number {number} on the waitlist of sale {sale} is {} in the ledger, but {} in the records.",
                in_words(there),
                in_words(&waiter)
            ),
            None => format!("Buyer {buyer} waits for sale {sale} in the ledger, but not in the records."),
        };
        report.differ(Some(sale), None, what);
    }
    for waiter in here.into_values() {
        let buyer = waiter.buyer;
        let what = format!("Buyer {buyer} waits for sale {sale} in the records, but not in the ledger.");
        report.differ(Some(sale), None, what);
    }
    Ok(())
}

/// Continues the records' list by a decision that is not settled yet. An offer takes somebody off it with its hold.
fn catch_up(waiters: &mut BTreeMap<u32, Waiter>, decision: &Decision) {
    match &decision.event {
        Event::Joined { number, buyer, quantity, .. } => {
            let (number, buyer, quantity) = (*number, buyer.clone(), *quantity);
            waiters.insert(number, Waiter { number, buyer, quantity, joined_at: decision.at });
        }
        Event::Left { number, reason: LeaveReason::Asked | LeaveReason::LimitReached, .. } => {
            waiters.remove(number);
        }
        Event::Held { key, .. } => {
            key.offered_to().and_then(|number| waiters.remove(&number));
        }
        _ => {}
    }
}

fn in_words(waiter: &Waiter) -> String {
    let Waiter { buyer, quantity, joined_at, .. } = waiter;
    format!("{buyer} for {quantity} units since {} ms", joined_at.as_millis())
}
