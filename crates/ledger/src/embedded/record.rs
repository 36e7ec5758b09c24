//! The journal's record: all decisions of one group commit, packed.

use penstock_domain::{Decision, Event, Timestamp};
use serde::{Serialize, Serializer};

use super::error::JournalError;

/// Packs consecutive `decisions` that were made at one time into `bytes`. Positions are not stored: the
/// journal knows the last one.
pub(super) fn encode(decisions: &[Decision], bytes: Vec<u8>) -> Result<Vec<u8>, JournalError> {
    let Some(first) = decisions.first() else { return Ok(bytes) };
    assert!(decisions.iter().all(|decision| decision.at == first.at), "a batch is decided at one time");
    Ok(postcard::to_extend(&(first.at, Events(decisions)), bytes)?)
}

/// Unpacks the decisions of a record. `last` is the position of its last decision.
pub(super) fn decode(
    last: u64,
    bytes: &[u8],
) -> Result<impl Iterator<Item = Decision> + use<>, JournalError> {
    let (at, events): (Timestamp, Vec<Event>) = postcard::from_bytes(bytes)?;
    let before = last.checked_sub(events.len() as u64);
    let before =
        before.ok_or_else(|| JournalError::Damaged(format!("too many events before position {last}")))?;
    let positions = before + 1..=last;
    Ok(positions.zip(events).map(move |(position, event)| Decision { position, at, event }))
}

struct Events<'a>(&'a [Decision]);

impl Serialize for Events<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|decision| &decision.event))
    }
}

#[cfg(test)]
mod tests {
    use penstock_domain::{BuyerId, KeyDigest, LeaveReason, OrderId, ReleaseReason, SaleId, SaleTerms};

    use super::*;

    /// One record with all kinds of decisions that each version knew, as that version wrote it.
    const VERSION_1: &str = "80a0abfef9620a00ac02e807020180a0abfef96200840701ac020502ac0203ac0204ac0205ac020003616e6e02\
        f899d9a2d69cfddea401e3cbc582baac83f5bb0106ac0200020007ac0201010007ac0202010108ac0201";
    const VERSION_2: &str =
        "80a0abfef9620409ac020703626f62030aac020703626f62000aac020703626f62010aac020703626f6202";

    const SALE: SaleId = SaleId::from_random(300);
    const AT: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn of_version_1() -> Vec<Event> {
        let order = |number| OrderId { sale: SALE, number };
        let buyer = BuyerId::of_subject("ann").unwrap();
        let terms = SaleTerms {
            sale: SALE,
            units: 1_000,
            limit_per_buyer: 2,
            opens_at: Some(AT),
            closes_at: None,
            hold_seconds: 900,
        };
        vec![
            Event::Published(terms),
            Event::Restocked { sale: SALE, units: 5 },
            Event::Paused(SALE),
            Event::Resumed(SALE),
            Event::Closed(SALE),
            Event::Held { order: order(0), buyer, quantity: 2, key: KeyDigest::of(b"key").unwrap() },
            Event::Paid { order: order(0), quantity: 2, after_expiry: false },
            Event::Released { order: order(1), quantity: 1, reason: ReleaseReason::Expired },
            Event::Released { order: order(2), quantity: 1, reason: ReleaseReason::Cancelled },
            Event::RefundDue { order: order(1) },
        ]
    }

    fn of_version_2() -> Vec<Event> {
        let buyer = BuyerId::of_subject("bob").unwrap();
        let left = |reason| Event::Left { sale: SALE, number: 7, buyer: buyer.clone(), reason };
        vec![
            Event::Joined { sale: SALE, number: 7, buyer: buyer.clone(), quantity: 3 },
            left(LeaveReason::Asked),
            left(LeaveReason::Offered),
            left(LeaveReason::LimitReached),
        ]
    }

    #[test]
    fn records_of_older_versions_still_decode() {
        for (hex, events) in [(VERSION_1, of_version_1()), (VERSION_2, of_version_2())] {
            let bytes: Vec<u8> = (0..hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
                .collect();
            let expected = (11..).zip(events).map(|(position, event)| Decision { position, at: AT, event });
            let expected: Vec<Decision> = expected.collect();
            let last = expected.last().unwrap().position;
            assert_eq!(decode(last, &bytes).unwrap().collect::<Vec<_>>(), expected);
            assert_eq!(encode(&expected, Vec::new()).unwrap(), bytes);
        }
    }
}
