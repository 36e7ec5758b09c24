//! The latch of one sale. It refuses from memory what the ledger would refuse, as long as that is certain.
//!
//! It is a shortcut and never the truth. It may send a claim on to the ledger for no reason. But it refuses
//! only if the last durable news says so, and never refuses a retry of an accepted claim, because that has to
//! get its first answer again.

use std::sync::atomic::Ordering::{Acquire, Release};

use penstock_domain::{KeyDigest, SaleStatus, Timestamp};

use crate::{
    accepted_keys::{AcceptedKeys, Growth},
    latest::Latest,
    sync::{AtomicU8, Mutex},
};

/// The ledger's answer to any new claim at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuickRefusal {
    SoldOut,
    NotOpen,
    Paused,
    Closed,
}

const SELLING: u8 = 0;
const SOLD_OUT: u8 = 1;
const PAUSED: u8 = 2;
const CLOSED: u8 = 3;

/// Fields that a claim needs come first and rarely used ones last, because there may be more sales than fit
/// into a cache.
#[derive(Debug)]
#[repr(C)]
pub struct Latch {
    /// The part of the refusal that does not depend on time.
    situation: AtomicU8,
    /// The opening hours never change after publishing.
    opens_at: Timestamp,
    closes_at: Timestamp,
    latest: Latest,
    /// Locked by writers of news. A claim never waits for it.
    news: Mutex<Growth>,
    accepted: AcceptedKeys,
}

impl Latch {
    pub fn new(status: SaleStatus, accepted: &[KeyDigest]) -> Self {
        let latch = Self {
            situation: AtomicU8::new(SELLING),
            opens_at: status.terms.opens_at.unwrap_or(Timestamp::from_millis(i64::MIN)),
            closes_at: status.terms.closes_at.unwrap_or(Timestamp::from_millis(i64::MAX)),
            latest: Latest::new(&status),
            news: Mutex::default(),
            accepted: AcceptedKeys::default(),
        };
        latch.update(status, accepted);
        latch
    }

    /// Takes news of the sale. Old news can't override newer news, in whatever order it comes, but its keys
    /// always count.
    pub fn update(&self, status: SaleStatus, accepted: &[KeyDigest]) {
        let mut growth = self.news.lock();
        // The keys come first: once the latch refuses, it has to know every claim accepted before.
        self.accepted.insert_all(&mut growth, accepted);
        if status.version < self.latest.read_locked(&growth).version {
            return;
        }
        self.latest.write(&status, &growth);
        self.situation.store(situation(&status), Release);
    }

    /// Some(refusal) if a claim with this key is certain to be refused at the time `now`.
    pub fn refuses(&self, key: KeyDigest, now: Timestamp) -> Option<QuickRefusal> {
        let refusal = self.closed_to_new_claims(now)?;
        if self.accepted.may_contain(key) { None } else { Some(refusal) }
    }

    fn closed_to_new_claims(&self, now: Timestamp) -> Option<QuickRefusal> {
        let situation = self.situation.load(Acquire);
        // In the same order as `SaleStatus::state`.
        if situation == CLOSED || now >= self.closes_at {
            Some(QuickRefusal::Closed)
        } else if situation == PAUSED {
            Some(QuickRefusal::Paused)
        } else if now < self.opens_at {
            Some(QuickRefusal::NotOpen)
        } else if situation == SOLD_OUT {
            Some(QuickRefusal::SoldOut)
        } else {
            None
        }
    }

    /// False if no claim with this key was ever accepted. True means only that there may have been one.
    pub fn may_have_accepted(&self, key: KeyDigest) -> bool {
        self.accepted.may_contain(key)
    }

    /// The last durable status that this latch heard of.
    pub fn status(&self) -> SaleStatus {
        self.latest.read().unwrap_or_else(|| self.latest.read_locked(&self.news.lock()))
    }
}

fn situation(status: &SaleStatus) -> u8 {
    if status.closed {
        CLOSED
    } else if status.paused {
        PAUSED
    } else if status.available == 0 {
        SOLD_OUT
    } else {
        SELLING
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use penstock_domain::{SaleId, SaleState, SaleTerms};

    use super::*;

    fn status(version: u64, available: u32) -> SaleStatus {
        let terms = SaleTerms {
            sale: SaleId::from_random(1),
            units: 10,
            limit_per_buyer: 1,
            opens_at: Some(at(100)),
            closes_at: Some(at(200)),
            hold_seconds: 60,
        };
        let held = 10 - available;
        SaleStatus { terms, total: 10, available, held, paid: 0, paused: false, closed: false, version }
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn key(text: &str) -> KeyDigest {
        KeyDigest::of(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_new_claim_is_refused_once_the_sale_is_sold_out() {
        let latch = Latch::new(status(1, 1), &[]);
        assert_eq!(latch.refuses(key("a"), at(150)), None);
        latch.update(status(2, 0), &[key("a")]);
        assert_eq!(latch.refuses(key("b"), at(150)), Some(QuickRefusal::SoldOut));
    }

    #[test]
    fn a_retry_of_an_accepted_claim_goes_to_the_ledger() {
        let latch = Latch::new(status(1, 1), &[]);
        latch.update(status(2, 0), &[key("a")]);
        assert_eq!(latch.refuses(key("a"), at(150)), None);
        assert_eq!(latch.refuses(key("a"), at(250)), None, "even after the end");
        assert!(latch.may_have_accepted(key("a")));
        assert!(!latch.may_have_accepted(key("b")));
    }

    #[test]
    fn returned_units_lift_the_latch() {
        let latch = Latch::new(status(1, 0), &[]);
        assert!(latch.refuses(key("b"), at(150)).is_some());
        latch.update(status(2, 1), &[]);
        assert_eq!(latch.refuses(key("b"), at(150)), None);
    }

    #[test]
    fn old_news_overrides_nothing_and_its_keys_still_count() {
        let latch = Latch::new(status(5, 0), &[]);
        latch.update(status(4, 3), &[key("late")]);
        assert_eq!(latch.status().version, 5);
        assert_eq!(latch.refuses(key("b"), at(150)), Some(QuickRefusal::SoldOut));
        assert_eq!(latch.refuses(key("late"), at(150)), None);
    }

    #[test]
    fn the_latch_refuses_exactly_when_the_state_sells_nothing() {
        for available in [0, 1] {
            for (paused, closed) in [(false, false), (true, false), (false, true), (true, true)] {
                let status = SaleStatus { paused, closed, ..status(1, available) };
                let latch = Latch::new(status, &[]);
                for millis in [0, 99, 100, 150, 199, 200, 300] {
                    let expected = match status.state(at(millis)) {
                        SaleState::Draft | SaleState::Open => None,
                        SaleState::Scheduled => Some(QuickRefusal::NotOpen),
                        SaleState::Paused => Some(QuickRefusal::Paused),
                        SaleState::SoldOut => Some(QuickRefusal::SoldOut),
                        SaleState::Closed => Some(QuickRefusal::Closed),
                    };
                    assert_eq!(latch.refuses(key("b"), at(millis)), expected, "{status:?} at {millis}");
                }
            }
        }
    }

    #[test]
    fn a_reader_who_sees_the_latch_set_sees_the_keys_accepted_before() {
        for _ in 0..200 {
            let latch = Arc::new(Latch::new(status(1, 1), &[]));
            let asker = std::thread::spawn({
                let latch = Arc::clone(&latch);
                move || {
                    while latch.refuses(key("other"), at(150)).is_none() {
                        std::hint::spin_loop();
                    }
                    latch.refuses(key("a"), at(150))
                }
            });
            latch.update(status(2, 0), &[key("a")]);
            assert_eq!(asker.join().unwrap(), None);
        }
    }
}
