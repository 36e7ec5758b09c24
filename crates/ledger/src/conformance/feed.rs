//! What a ledger tells: its feed and its news.

use futures_util::future::join_all;
use penstock_domain::{Book, Cursor, Mark};

use super::{HOLD_SECONDS, Stage, Subject, buyer, claim, counts, sale};
use crate::{FeedError, Piece};

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
    for name in ["cem", "dan", "eve"] {
        stage.ledger.join_waitlist(sale(2), buyer(name), 1).await.unwrap();
    }
    stage.ledger.leave_waitlist(sale(2), buyer("dan")).await.unwrap();
    stage.ledger.restock(sale(2), 1).await.unwrap();
    stage.ledger.pause(sale(2)).await.unwrap();
    stage.ledger.resume(sale(2)).await.unwrap();
    stage.ledger.close(sale(2)).await.unwrap();
}

pub async fn the_feed_has_no_gaps_and_rebuilds_the_state(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    some_of_everything(&stage).await;
    let mut sales = 0;
    for stream in stage.streams().await {
        let (decisions, end) = stage.read_all(&stream, 7).await;
        assert_eq!(decisions.len() as u64, stage.ledger.feed().head(&stream));
        let mut book = Book::default();
        for (decision, position) in decisions.iter().zip(1..) {
            assert_eq!(decision.position, position);
            book.apply(decision);
        }
        let (rebuilt, state) = (book.snapshot(), stage.ledger.feed().state(&stream).await.unwrap());
        assert_eq!((rebuilt.position, rebuilt.sales), (state.position, state.sales.clone()));
        for sale in state.sales {
            sales += 1;
            let heard = stage.heard.latest(sale.status.terms.sale);
            assert_eq!(heard.map(counts), Some(counts(sale.status)));
        }
        assert_eq!(stage.read_all(&stream, 1000).await, (decisions, end), "pieces may have any size");
    }
    assert_eq!(sales, 2);
}

pub async fn the_feed_ends_at_its_head(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    let feed = stage.ledger.feed();
    for stream in stage.streams().await {
        assert_eq!((feed.head(&stream), stage.read_all(&stream, 10).await.0), (0, Vec::new()));
    }
    stage.publish(sale(1), 1, 1).await;
    let stream = stage.stream_of(sale(1)).await;
    assert_eq!(feed.head(&stream), 1);
    let (_, first) = stage.read_all(&stream, 10).await;
    stage.claim(&claim(sale(9), "ann", 1, "key")).await.expect_err("an unknown sale");
    assert_eq!(feed.head(&stream), 1, "a refusal is not a decision");
    stage.accepted(sale(1), "ann", 1).await;
    assert_eq!(feed.head(&stream), 2);
    let piece = feed.read(&stream, first, 10).await.unwrap();
    assert_eq!(piece.decisions.len(), 1);
    let end = piece.end().unwrap();
    assert_eq!(feed.read(&stream, end, 10).await, Ok(Piece::nothing_after(end)));
    assert_eq!(feed.read(&stream, first, 0).await, Ok(Piece::nothing_after(first)));
}

pub async fn a_cursor_of_another_history_is_noticed(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    some_of_everything(&stage).await;
    let (feed, stream) = (stage.ledger.feed(), stage.stream_of(sale(1)).await);
    let begin = feed.read(&stream, Cursor::default(), 3).await.unwrap().end().unwrap();
    assert_eq!(begin.position, 3);
    feed.read(&stream, begin, 3).await.expect("this is where it was read before");
    let (_, end) = stage.read_all(&stream, 100).await;
    for cursor in [begin, end] {
        let elsewhere = Cursor { mark: Mark(*b"another history!"), ..cursor };
        assert_eq!(feed.read(&stream, elsewhere, 3).await, Err(FeedError::Diverged));
    }
    let beyond = Cursor { position: end.position + 1, ..end };
    assert_eq!(feed.read(&stream, beyond, 3).await, Err(FeedError::Diverged), "it ends before that");
}

pub async fn settled_decisions_stay_in_the_state(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    some_of_everything(&stage).await;
    let before = stage.states().await;
    for stream in before.keys() {
        let (_, end) = stage.read_all(stream, 1000).await;
        stage.ledger.feed().settled(stream, end);
        assert_eq!(stage.ledger.feed().read(stream, end, 10).await, Ok(Piece::nothing_after(end)));
    }
    assert_eq!(stage.states().await, before);
    let stage = stage.reopen().await;
    assert_eq!(stage.states().await, before);
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
