//! Sales: publishing, restocking, pausing, closing, and the clock.

use penstock_domain::{ClaimRefusal, MAX_UNITS, SaleRefusal, SaleState, SaleTerms};

use super::{Stage, Subject, claim, counts, sale, terms};
use crate::LedgerError;

pub async fn publishing_twice_changes_nothing(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    let first = stage.publish(sale(1), 10, 2).await;
    assert_eq!(counts(first), (10, 10, 0, 0));
    stage.accepted(sale(1), "ann", 1).await;
    let again = stage.ledger.publish(terms(sale(1), 99, 9)).await.unwrap();
    assert_eq!(again.terms, first.terms);
    assert_eq!(counts(again), (10, 9, 1, 0));
}

pub async fn impossible_terms_are_refused(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    let good = terms(sale(1), 10, 1);
    for terms in [
        SaleTerms { units: MAX_UNITS + 1, ..good },
        SaleTerms { limit_per_buyer: 0, ..good },
        SaleTerms { hold_seconds: 0, ..good },
    ] {
        let answer = stage.ledger.publish(terms).await;
        assert_eq!(answer, Err(LedgerError::Refused(SaleRefusal::InvalidTerms)));
    }
    let answer = stage.claim(&claim(sale(1), "ann", 1, "key")).await;
    assert_eq!(answer, Err(LedgerError::Refused(ClaimRefusal::UnknownSale)));
}

pub async fn restocked_units_are_sold(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 1, 1).await;
    stage.accepted(sale(1), "ann", 1).await;
    assert_eq!(stage.status(sale(1)).await.state(stage.now()), SaleState::SoldOut);
    let restocked = stage.ledger.restock(sale(1), 2).await.unwrap();
    assert_eq!(counts(restocked), (3, 2, 1, 0));
    stage.accepted(sale(1), "bob", 1).await;
    let too_many = stage.ledger.restock(sale(1), MAX_UNITS).await;
    assert_eq!(too_many, Err(LedgerError::Refused(SaleRefusal::TooManyUnits)));
    assert_eq!(counts(stage.status(sale(1)).await), (3, 1, 2, 0));
}

pub async fn a_paused_sale_sells_nothing_until_it_resumes(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 5, 1).await;
    let held = stage.accepted(sale(1), "ann", 1).await;
    for _ in 0..2 {
        assert!(stage.ledger.pause(sale(1)).await.unwrap().paused);
    }
    let answer = stage.claim(&claim(sale(1), "bob", 1, "bob")).await;
    assert_eq!(answer, Err(LedgerError::Refused(ClaimRefusal::Paused)));
    stage.ledger.confirm_payment(held.id, None).await.expect("a hold can be paid while the sale is paused");
    assert!(!stage.ledger.resume(sale(1)).await.unwrap().paused);
    stage.accepted(sale(1), "bob", 1).await;
}

pub async fn a_closed_sale_stays_closed(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 5, 1).await;
    let held = stage.accepted(sale(1), "ann", 1).await;
    for _ in 0..2 {
        assert!(stage.ledger.close(sale(1)).await.unwrap().closed);
    }
    let answer = stage.claim(&claim(sale(1), "bob", 1, "bob")).await;
    assert_eq!(answer, Err(LedgerError::Refused(ClaimRefusal::Closed)));
    let closed = Err(LedgerError::Refused(SaleRefusal::Closed));
    assert_eq!(stage.ledger.restock(sale(1), 1).await, closed);
    assert_eq!(stage.ledger.pause(sale(1)).await, closed);
    assert_eq!(stage.ledger.resume(sale(1)).await, closed);
    stage.ledger.confirm_payment(held.id, None).await.expect("a hold can be paid after the sale was closed");
}

pub async fn a_sale_opens_and_closes_by_the_clock(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    let (opens_at, closes_at) = (stage.now().plus_seconds(10), stage.now().plus_seconds(20));
    let window = SaleTerms { opens_at: Some(opens_at), closes_at: Some(closes_at), ..terms(sale(1), 5, 1) };
    stage.ledger.publish(window).await.unwrap();
    let early = stage.claim(&claim(sale(1), "ann", 1, "ann")).await;
    assert_eq!(early, Err(LedgerError::Refused(ClaimRefusal::NotOpen)));
    stage.pass_seconds(10);
    stage.accepted(sale(1), "ann", 1).await;
    stage.pass_seconds(10);
    let late = stage.claim(&claim(sale(1), "bob", 1, "bob")).await;
    assert_eq!(late, Err(LedgerError::Refused(ClaimRefusal::Closed)));
    assert_eq!(stage.ledger.restock(sale(1), 1).await, Err(LedgerError::Refused(SaleRefusal::Closed)));
}

pub async fn an_unknown_sale_is_refused(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    let unknown = Err(LedgerError::Refused(SaleRefusal::UnknownSale));
    assert_eq!(stage.ledger.restock(sale(7), 1).await, unknown);
    assert_eq!(stage.ledger.pause(sale(7)).await, unknown);
    assert_eq!(stage.ledger.resume(sale(7)).await, unknown);
    assert_eq!(stage.ledger.close(sale(7)).await, unknown);
}
