//! Claims: limits, idempotency, and never one unit too many.

use futures_util::future::join_all;
use penstock_domain::{ClaimRefusal, MAX_ORDERS_PER_BUYER, OrderState};

use super::{HOLD_SECONDS, Stage, Subject, claim, counts, sale};
use crate::LedgerError;

pub async fn a_retry_gets_the_first_answer(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 2, 1).await;
    let first = stage.accepted(sale(1), "ann", 1).await;
    assert_eq!(first.state, OrderState::Held);
    assert_eq!(first.pay_before, stage.now().plus_seconds(HOLD_SECONDS));
    assert_eq!(stage.accepted(sale(1), "ann", 1).await, first);
    stage.accepted(sale(1), "bob", 1).await;
    assert_eq!(stage.accepted(sale(1), "ann", 1).await, first, "although it is sold out now");
    stage.ledger.confirm_payment(first.id, None).await.unwrap();
    stage.ledger.close(sale(1)).await.unwrap();
    assert_eq!(stage.accepted(sale(1), "ann", 1).await, first, "although it is paid and closed now");
    assert_eq!(counts(stage.ledger.close(sale(1)).await.unwrap()), (2, 0, 1, 1));
}

pub async fn a_recall_gets_the_first_answer_and_makes_no_order(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 2, 2).await;
    let recall =
        async |stage: &Stage<_>, quantity| stage.ledger.recall(claim(sale(1), "ann", quantity, "ann")).await;
    let not_accepted = Err(LedgerError::Refused(ClaimRefusal::NotAccepted));
    assert_eq!(recall(&stage, 1).await, not_accepted);
    assert_eq!(counts(stage.status(sale(1)).await), (2, 2, 0, 0));
    let first = stage.accepted(sale(1), "ann", 1).await;
    assert_eq!(recall(&stage, 1).await, Ok(first.clone()));
    assert_eq!(recall(&stage, 2).await, Err(LedgerError::Refused(ClaimRefusal::KeyReused)));
    let foreign = stage.ledger.recall(claim(sale(1), "bob", 1, "ann")).await;
    assert_eq!(foreign, not_accepted, "a key belongs to its buyer");
    let unknown = stage.ledger.recall(claim(sale(2), "ann", 1, "ann")).await;
    assert_eq!(unknown, Err(LedgerError::Refused(ClaimRefusal::UnknownSale)));
    stage.ledger.cancel(first.id, None).await.unwrap();
    stage.ledger.close(sale(1)).await.unwrap();
    let stage = stage.reopen().await;
    assert_eq!(recall(&stage, 1).await, Ok(first), "although it is cancelled and closed now");
    assert_eq!(stage.snapshot(sale(1)).await.orders.len(), 1);
}

pub async fn a_key_with_another_quantity_is_refused(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 9, 9).await;
    stage.accepted(sale(1), "ann", 1).await;
    let other = stage.claim(&claim(sale(1), "ann", 2, "ann")).await;
    assert_eq!(other, Err(LedgerError::Refused(ClaimRefusal::KeyReused)));
    assert_eq!(counts(stage.status(sale(1)).await), (9, 8, 1, 0));
}

pub async fn a_key_counts_per_buyer_and_per_sale(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 9, 9).await;
    stage.publish(sale(2), 9, 9).await;
    let ann = stage.claim(&claim(sale(1), "ann", 1, "key")).await.unwrap();
    let bob = stage.claim(&claim(sale(1), "bob", 1, "key")).await.unwrap();
    let elsewhere = stage.claim(&claim(sale(2), "ann", 2, "key")).await.unwrap();
    assert_eq!((ann.id.number, bob.id.number, elsewhere.id.number), (0, 1, 0));
    assert_eq!(counts(stage.status(sale(1)).await), (9, 7, 2, 0));
}

pub async fn a_buyer_never_exceeds_the_limit(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 100, 5).await;
    let tries = (0..20).map(|number| claim(sale(1), "ann", 2, &format!("key {number}").replace(' ', "-")));
    let tries: Vec<_> = tries.collect();
    let answers = join_all(tries.iter().map(|claim| stage.claim(claim))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 2);
    let refused = answers.into_iter().filter_map(Result::err);
    assert!(refused.into_iter().all(|error| error == LedgerError::Refused(ClaimRefusal::LimitReached)));
    stage.claim(&claim(sale(1), "ann", 1, "the-last")).await.unwrap();
    let more = stage.claim(&claim(sale(1), "ann", 1, "one-too-many")).await;
    assert_eq!(more, Err(LedgerError::Refused(ClaimRefusal::LimitReached)));
    assert_eq!(counts(stage.status(sale(1)).await), (100, 95, 5, 0));
}

pub async fn nobody_has_more_orders_than_an_entry_can_hold(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 1_000, 1_000).await;
    let tries: Vec<_> =
        (0..=MAX_ORDERS_PER_BUYER).map(|number| claim(sale(1), "ann", 1, &format!("key-{number}"))).collect();
    let answers = join_all(tries.iter().map(|claim| stage.claim(claim))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), MAX_ORDERS_PER_BUYER);
    // Cancelling makes no room, but existing orders are still found by their keys.
    let first = answers.into_iter().flatten().next().unwrap();
    stage.ledger.cancel(first.id, None).await.unwrap();
    let more = stage.claim(&claim(sale(1), "ann", 1, "one-too-many")).await;
    assert_eq!(more, Err(LedgerError::Refused(ClaimRefusal::LimitReached)));
    assert_eq!(stage.claim(&tries[0]).await.unwrap(), first);
    stage.claim(&claim(sale(1), "bob", 1, "key")).await.unwrap();
}

pub async fn a_refused_claim_does_not_use_up_its_key(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 1, 2).await;
    let refused = stage.claim(&claim(sale(1), "ann", 2, "key")).await;
    assert_eq!(refused, Err(LedgerError::Refused(ClaimRefusal::SoldOut)));
    stage.ledger.restock(sale(1), 1).await.unwrap();
    let order = stage.claim(&claim(sale(1), "ann", 2, "key")).await.unwrap();
    assert_eq!((order.id.number, order.quantity), (0, 2));
}

pub async fn an_impossible_claim_is_refused(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 5, 3).await;
    for (quantity, refusal) in [
        (0, ClaimRefusal::InvalidQuantity),
        (4, ClaimRefusal::LimitReached),
        (u32::MAX, ClaimRefusal::LimitReached),
    ] {
        let answer = stage.claim(&claim(sale(1), "ann", quantity, "key")).await;
        assert_eq!(answer, Err(LedgerError::Refused(refusal)), "{quantity}");
    }
    let answer = stage.claim(&claim(sale(2), "ann", 1, "key")).await;
    assert_eq!(answer, Err(LedgerError::Refused(ClaimRefusal::UnknownSale)));
    assert_eq!(counts(stage.status(sale(1)).await), (5, 5, 0, 0));
}

pub async fn it_never_oversells_under_concurrency(subject: impl Subject) {
    const BUYERS: usize = 5_000;
    const UNITS: usize = 200;
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), UNITS as u32, 1).await;
    let claims: Vec<_> = (0..BUYERS)
        .map(|number| claim(sale(1), &format!("buyer-{number}"), 1, &format!("key-{number}")))
        .collect();
    // Every claim is sent three times, all at once.
    let answers = join_all((0..3).flat_map(|_| &claims).map(|claim| stage.claim(claim))).await;
    let mut orders = Vec::new();
    for answer in &answers {
        match answer {
            Ok(order) => orders.push(order.id),
            Err(error) => assert_eq!(*error, LedgerError::Refused(ClaimRefusal::SoldOut)),
        }
    }
    orders.sort_unstable();
    orders.dedup();
    assert_eq!(orders.len(), UNITS);
    for number in 0..BUYERS {
        let (first, rest) = (&answers[number], [&answers[number + BUYERS], &answers[number + 2 * BUYERS]]);
        assert!(rest.iter().all(|retry| *retry == first), "a retry of buyer {number} got another answer");
    }
    assert_eq!(counts(stage.status(sale(1)).await), (UNITS as u32, 0, UNITS as u32, 0));
}

pub async fn units_are_conserved_when_everything_happens_at_once(subject: impl Subject) {
    const BUYERS: usize = 300;
    const UNITS: u32 = 400;
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), UNITS, 5).await;
    for round in 0..4 {
        let buyers = (0..BUYERS).map(|number| one_purchase(&stage, number, round));
        let expiries = (0..20).map(|_| async { stage.ledger.expire_due(10).await.map(drop).unwrap() });
        tokio::join!(join_all(buyers), join_all(expiries));
        stage.pass_seconds(HOLD_SECONDS / 2 + 1);
        let status = stage.status(sale(1)).await;
        assert_eq!(status.total, status.available + status.held + status.paid);
    }
    let sale = stage.snapshot(sale(1)).await;
    let mut owned = std::collections::HashMap::new();
    for order in sale.orders.iter().map(|order| &order.order) {
        if matches!(order.state, OrderState::Held | OrderState::Paid) {
            *owned.entry(order.buyer.clone()).or_insert(0) += order.quantity;
        }
    }
    assert!(owned.values().all(|units| *units <= 5), "a buyer has more than the limit");
    let status = sale.status;
    assert_eq!(owned.values().sum::<u32>(), status.held + status.paid);
    assert_eq!(UNITS, status.available + status.held + status.paid);
}

async fn one_purchase<S: Subject>(stage: &Stage<S>, number: usize, round: usize) {
    let who = format!("buyer-{number}");
    let claim = claim(sale(1), &who, 1 + (number % 5) as u32, &format!("{who}-{round}"));
    let (first, retry) = tokio::join!(stage.claim(&claim), stage.claim(&claim));
    let Ok(order) = first else { return };
    assert_eq!(retry.as_ref(), Ok(&order));
    match number % 3 {
        0 => drop(stage.ledger.confirm_payment(order.id, Some(order.buyer)).await),
        1 => drop(stage.ledger.cancel(order.id, Some(order.buyer)).await),
        _ => {}
    }
}
