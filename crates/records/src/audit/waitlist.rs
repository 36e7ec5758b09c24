//! Compares the waitlist of a sale with the ledger's: the same people, in the same order, for the same units.

use std::collections::BTreeMap;

use penstock_domain::{Decision, Event, LeaveReason, SaleSnapshot, Waiter};

use super::{finding::Finding, report::AuditReport, story::Unsettled};
use crate::{RecordsError, connection::DatabaseConnection, settled::read_waiters};

pub(super) async fn compare(
    connection: &mut DatabaseConnection,
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
        let number = there.number;
        let finding = match here.remove(&number) {
            Some(waiter) if waiter == *there => continue,
            Some(waiter) => {
                Finding::WaiterDiffers { number, ledger: there.into(), records: (&waiter).into() }
            }
            None => Finding::WaiterNotInRecords { buyer: there.buyer.to_string() },
        };
        report.differ(Some(sale), None, finding);
    }
    for waiter in here.into_values() {
        report.differ(Some(sale), None, Finding::WaiterNotInLedger { buyer: waiter.buyer.to_string() });
    }
    Ok(())
}

/// Applies a decision that is not settled yet to the records' list. An offer takes a buyer off the list
/// together with its hold.
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
