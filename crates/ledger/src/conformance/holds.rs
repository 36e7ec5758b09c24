//! Holds and orders: expiry, payment, cancelling, and who may see what.

use penstock_domain::{CancelRefusal, ClaimRefusal, OrderState, PaymentRefusal};

use super::{HOLD_SECONDS, Stage, Subject, buyer, claim, counts, order, sale};
use crate::LedgerError;

pub async fn an_expired_hold_returns_its_units(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 2, 2).await;
    let held = stage.accepted(sale(1), "ann", 2).await;
    stage.pass_seconds(HOLD_SECONDS - 1);
    assert_eq!(stage.ledger.expire_due(10).await, Ok(0));
    stage.pass_seconds(1);
    assert_eq!(stage.ledger.expire_due(10).await, Ok(1));
    assert_eq!(stage.ledger.expire_due(10).await, Ok(0));
    let found = stage.ledger.find_order(held.id, None).await.unwrap().unwrap();
    assert_eq!((found.state, found.refund_due), (OrderState::Expired, false));
    assert_eq!(counts(stage.status(sale(1)).await), (2, 2, 0, 0));
    stage
        .claim(&claim(sale(1), "ann", 2, "again"))
        .await
        .expect("an expired hold does not count for the limit");
}

pub async fn expiry_releases_no_more_than_asked(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 9, 1).await;
    for name in ["ann", "bob", "cem"] {
        stage.accepted(sale(1), name, 1).await;
    }
    stage.ledger.confirm_payment(order(sale(1), 1), None).await.unwrap();
    stage.pass_seconds(HOLD_SECONDS);
    assert_eq!(stage.ledger.expire_due(1).await, Ok(1));
    assert_eq!(counts(stage.status(sale(1)).await), (9, 7, 1, 1));
    assert_eq!(stage.ledger.expire_due(5).await, Ok(1));
    assert_eq!(counts(stage.status(sale(1)).await), (9, 8, 0, 1));
}

pub async fn a_payment_in_time_makes_a_sale(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 3, 3).await;
    let held = stage.accepted(sale(1), "ann", 3).await;
    stage.pass_seconds(1);
    let paid = stage.ledger.confirm_payment(held.id, Some(buyer("ann"))).await.unwrap();
    assert_eq!((paid.state, paid.paid_at), (OrderState::Paid, Some(stage.now())));
    stage.pass_seconds(HOLD_SECONDS);
    assert_eq!(stage.ledger.expire_due(10).await, Ok(0));
    assert_eq!(stage.ledger.confirm_payment(held.id, None).await, Ok(paid), "paying twice changes nothing");
    assert_eq!(counts(stage.status(sale(1)).await), (3, 0, 0, 3));
}

pub async fn a_late_payment_gets_a_unit_if_there_is_one(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 1, 1).await;
    let held = stage.accepted(sale(1), "ann", 1).await;
    stage.pass_seconds(HOLD_SECONDS);
    assert_eq!(stage.ledger.expire_due(10).await, Ok(1));
    let paid = stage.ledger.confirm_payment(held.id, None).await.unwrap();
    assert_eq!(paid.state, OrderState::Paid);
    assert_eq!(counts(stage.status(sale(1)).await), (1, 0, 0, 1));
    let other = stage.claim(&claim(sale(1), "bob", 1, "bob")).await;
    assert_eq!(other, Err(LedgerError::Refused(ClaimRefusal::SoldOut)));
}

pub async fn a_late_payment_without_a_unit_is_refunded_for_good(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 1, 1).await;
    let held = stage.accepted(sale(1), "ann", 1).await;
    stage.pass_seconds(HOLD_SECONDS);
    assert_eq!(stage.ledger.expire_due(10).await, Ok(1));
    stage.accepted(sale(1), "bob", 1).await;
    let refund = Err(LedgerError::Refused(PaymentRefusal::RefundDue));
    assert_eq!(stage.ledger.confirm_payment(held.id, None).await, refund);
    stage.ledger.restock(sale(1), 5).await.unwrap();
    assert_eq!(stage.ledger.confirm_payment(held.id, None).await, refund, "although there are units now");
    let found = stage.ledger.find_order(held.id, None).await.unwrap().unwrap();
    assert_eq!((found.state, found.refund_due), (OrderState::Expired, true));
    assert_eq!(counts(stage.status(sale(1)).await), (6, 5, 1, 0));
}

pub async fn a_late_payment_gets_its_unit_even_if_the_sale_is_closed(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 1, 1).await;
    let held = stage.accepted(sale(1), "ann", 1).await;
    stage.pass_seconds(HOLD_SECONDS);
    assert_eq!(stage.ledger.expire_due(10).await, Ok(1));
    stage.ledger.close(sale(1)).await.unwrap();
    let paid = stage.ledger.confirm_payment(held.id, None).await.unwrap();
    assert_eq!(paid.state, OrderState::Paid);
    assert_eq!(counts(stage.ledger.close(sale(1)).await.unwrap()), (1, 0, 0, 1));
}

pub async fn cancelling_returns_the_units_once(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 4, 3).await;
    let held = stage.accepted(sale(1), "ann", 3).await;
    let cancelled = stage.ledger.cancel(held.id, Some(buyer("ann"))).await.unwrap();
    assert_eq!(cancelled.state, OrderState::Cancelled);
    assert_eq!(stage.ledger.cancel(held.id, None).await, Ok(cancelled));
    assert_eq!(counts(stage.status(sale(1)).await), (4, 4, 0, 0));
    stage
        .claim(&claim(sale(1), "ann", 3, "again"))
        .await
        .expect("a cancelled hold does not count for the limit");
}

pub async fn only_a_hold_can_be_cancelled(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 9, 1).await;
    let paid = stage.accepted(sale(1), "ann", 1).await;
    let expired = stage.accepted(sale(1), "bob", 1).await;
    let cancelled = stage.accepted(sale(1), "cem", 1).await;
    stage.ledger.confirm_payment(paid.id, None).await.unwrap();
    stage.ledger.cancel(cancelled.id, None).await.unwrap();
    stage.pass_seconds(HOLD_SECONDS);
    assert_eq!(stage.ledger.expire_due(10).await, Ok(1));
    let answer = stage.ledger.cancel(paid.id, None).await;
    assert_eq!(answer, Err(LedgerError::Refused(CancelRefusal::AlreadyPaid)));
    let answer = stage.ledger.cancel(expired.id, None).await;
    assert_eq!(answer, Err(LedgerError::Refused(CancelRefusal::HoldExpired)));
    let answer = stage.ledger.confirm_payment(cancelled.id, None).await;
    assert_eq!(answer, Err(LedgerError::Refused(PaymentRefusal::HoldExpired)));
    assert_eq!(counts(stage.status(sale(1)).await), (9, 8, 0, 1));
}

pub async fn a_foreign_buyer_finds_nothing(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 9, 1).await;
    let anns = stage.accepted(sale(1), "ann", 1).await;
    let bob = Some(buyer("bob"));
    assert_eq!(stage.ledger.find_order(anns.id, bob.clone()).await, Ok(None));
    let payment = stage.ledger.confirm_payment(anns.id, bob.clone()).await;
    assert_eq!(payment, Err(LedgerError::Refused(PaymentRefusal::UnknownOrder)));
    let cancelled = stage.ledger.cancel(anns.id, bob).await;
    assert_eq!(cancelled, Err(LedgerError::Refused(CancelRefusal::UnknownOrder)));
    assert_eq!(stage.ledger.orders_of(buyer("bob"), 10).await, Ok(Vec::new()));
    for missing in [order(sale(1), 1), order(sale(2), 0)] {
        assert_eq!(stage.ledger.find_order(missing, None).await, Ok(None));
    }
    assert_eq!(stage.ledger.find_order(anns.id, Some(buyer("ann"))).await, Ok(Some(anns)));
}

pub async fn a_buyer_sees_own_orders_newest_first(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 9, 9).await;
    stage.publish(sale(2), 9, 9).await;
    let mut expected = Vec::new();
    for (sale, key) in [(sale(1), "a"), (sale(2), "b"), (sale(1), "c")] {
        expected.push(stage.claim(&claim(sale, "ann", 1, key)).await.unwrap());
        stage.accepted(sale, &format!("other-{key}"), 1).await;
        stage.pass_seconds(1);
    }
    expected.reverse();
    assert_eq!(stage.ledger.orders_of(buyer("ann"), 10).await.as_ref(), Ok(&expected));
    assert_eq!(stage.ledger.orders_of(buyer("ann"), 2).await.as_deref(), Ok(&expected[..2]));
}
