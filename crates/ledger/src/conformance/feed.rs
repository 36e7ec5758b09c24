//! Sentences about what a ledger tells: its feed and its news.

use futures_util::future::join_all;
use penstock_domain::{Book, Decision};

use super::{HOLD_SECONDS, Stage, Subject, claim, counts, sale};
use crate::Feed;

/// A little of everything, so that every kind of event is in the feed.
async fn some_of_everything<S: Subject>(stage: &Stage<S>) {
    stage.publish(sale(1), 30, 2).await;
    stage.publish(sale(2), 1, 1).await;
    let claims: Vec<_> =
        (0..40).map(|n| claim(sale(1), &format!("buyer-{n}"), 1, &format!("key-{n}"))).collect();
    let orders: Vec<_> =
        join_all(claims.iter().map(|claim| stage.claim(claim))).await.into_iter().flatten().collect();
    assert_eq!(orders.len(), 30);
    for order in &orders[..5] {
        stage.ledger.confirm_payment(order.id, None).await.unwrap();
    }
    for order in &orders[5..10] {
        stage.ledger.cancel(order.id, None).await.unwrap();
    }
    stage.pass_seconds(HOLD_SECONDS);
    assert_eq!(stage.ledger.expire_due(100).await, Ok(20));
    stage.ledger.confirm_payment(orders[29].id, None).await.expect("units are left");
    let held = stage.accepted(sale(2), "ann", 1).await;
    stage.pass_seconds(HOLD_SECONDS);
    assert_eq!(stage.ledger.expire_due(100).await, Ok(1));
    stage.accepted(sale(2), "bob", 1).await;
    stage.ledger.confirm_payment(held.id, None).await.expect_err("no unit is left");
    stage.ledger.restock(sale(2), 3).await.unwrap();
    stage.ledger.pause(sale(2)).await.unwrap();
    stage.ledger.resume(sale(2)).await.unwrap();
    stage.ledger.close(sale(2)).await.unwrap();
}

async fn read_all(feed: &dyn Feed, step: usize) -> Vec<Decision> {
    let mut decisions: Vec<Decision> = Vec::new();
    loop {
        let after = decisions.last().map_or(0, |decision| decision.position);
        let more = feed.read(after, step).await.unwrap();
        assert!(more.len() <= step);
        if more.is_empty() {
            return decisions;
        }
        decisions.extend(more);
    }
}

pub async fn the_feed_has_no_gaps_and_rebuilds_the_state(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    some_of_everything(&stage).await;
    let feed = stage.ledger.feed();
    let decisions = read_all(feed.as_ref(), 7).await;
    assert_eq!(decisions.len() as u64, feed.head());
    let mut book = Book::default();
    for (index, decision) in decisions.iter().enumerate() {
        assert_eq!(decision.position, index as u64 + 1);
        book.apply(decision);
    }
    let state = feed.state().await.unwrap();
    assert_eq!(book.snapshot(), state);
    assert_eq!(read_all(feed.as_ref(), 1000).await, decisions, "however it is read");
    assert_eq!(counts(state.sales[0].status), counts(stage.status(sale(1)).await));
}

pub async fn the_feed_ends_at_its_head(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    let feed = stage.ledger.feed();
    assert_eq!((feed.head(), feed.read(0, 10).await), (0, Ok(Vec::new())));
    stage.publish(sale(1), 1, 1).await;
    assert_eq!(feed.head(), 1);
    stage.claim(&claim(sale(9), "ann", 1, "key")).await.expect_err("an unknown sale");
    assert_eq!(feed.head(), 1, "a refusal is no decision of the feed");
    stage.accepted(sale(1), "ann", 1).await;
    assert_eq!(feed.head(), 2);
    assert_eq!(feed.read(1, 10).await.unwrap().len(), 1);
    assert_eq!(feed.read(2, 10).await, Ok(Vec::new()));
    assert_eq!(feed.read(99, 10).await, Ok(Vec::new()));
    assert_eq!(feed.read(0, 0).await, Ok(Vec::new()));
}

pub async fn what_is_settled_is_still_in_the_state(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    some_of_everything(&stage).await;
    let before = stage.ledger.feed().state().await.unwrap();
    stage.ledger.feed().settled(stage.ledger.feed().head());
    assert_eq!(stage.ledger.feed().state().await.unwrap(), before);
    let stage = stage.reopen().await;
    assert_eq!(stage.ledger.feed().state().await.unwrap(), before);
}

pub async fn news_arrives_before_the_answer(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    let published = stage.publish(sale(1), 500, 1).await;
    assert_eq!(stage.heard.latest(sale(1)), Some(published));
    let claims = (0..500).map(|n| claim(sale(1), &format!("buyer-{n}"), 1, &format!("key-{n}")));
    join_all(claims.map(|claim| {
        let stage = &stage;
        async move {
            let before = stage.heard.has(claim.key);
            stage.claim(&claim).await.unwrap();
            assert!(!before && stage.heard.has(claim.key));
        }
    }))
    .await;
    assert_eq!(stage.heard.latest(sale(1)).map(|status| status.available), Some(0));
    let order = stage.ledger.orders_of(super::buyer("buyer-7"), 1).await.unwrap().remove(0);
    stage.ledger.cancel(order.id, None).await.unwrap();
    assert_eq!(stage.heard.latest(sale(1)).map(|status| status.available), Some(1));
}

pub async fn old_news_is_recognised_by_its_version(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    some_of_everything(&stage).await;
    let news = stage.heard.news.lock().unwrap().clone();
    for sale in [sale(1), sale(2)] {
        let versions: Vec<_> =
            news.iter().filter(|n| n.status.terms.sale == sale).map(|n| n.status.version).collect();
        assert!(versions.len() > 1 && versions.is_sorted_by(|one, next| one < next), "{versions:?}");
    }
}
