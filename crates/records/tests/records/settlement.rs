//! Decisions become rows exactly once, or not at all.

use penstock_domain::{Command, Cursor, Decision, Event, KeyDigest, Mark, OrderState, SaleId};
use penstock_records::{RecordsError, SettleError};
use sqlx::Connection;

use super::shop::{Shop, lease, open, settle};

/// Orders in every state, with more than one in some.
fn sell(shop: &mut Shop) {
    for buyer in 0..30 {
        let order = shop.claim(&format!("buyer-{buyer}"), 1 + buyer % 2);
        match buyer % 5 {
            0 => shop.pay(order),
            1 => shop.cancel(order),
            _ => {}
        }
    }
    shop.expire();
    let snapshot = shop.book.snapshot();
    let expired = snapshot.sales[0].orders.iter().filter(|o| o.order.state == OrderState::Expired);
    let expired: Vec<_> = expired.map(|order| order.order.id).take(3).collect();
    for order in expired {
        shop.pay(order);
    }
    shop.execute(Command::Restock { sale: shop.sale, units: 5 });
    shop.execute(Command::Pause(shop.sale));
    shop.execute(Command::Resume(shop.sale));
    shop.claim("late", 1);
    shop.execute(Command::Close(shop.sale));
}

#[tokio::test]
async fn the_rows_do_not_depend_on_how_the_feed_is_split() {
    for batch in [1, 2, 7, 1000] {
        let mut shop = Shop::new(50, 2).await;
        sell(&mut shop);
        shop.settle_in(batch).await.unwrap();
        assert_eq!(shop.settled().await, shop.decisions.len());
        let report = shop.audit().await;
        assert!(report.ok, "in batches of {batch}: {:#?}", report.differences);
        assert_eq!((report.sales, report.orders, report.pending), (1, 31, 0));
    }
}

#[tokio::test]
async fn pending_decisions_are_not_differences() {
    let mut shop = Shop::new(50, 2).await;
    sell(&mut shop);
    for settled in 0..=shop.decisions.len() {
        if settled > 0 {
            settle(&shop.records, &shop.decisions[settled - 1..settled]).await.unwrap();
        }
        let report = shop.audit().await;
        assert!(report.ok, "after {settled}: {:#?}", report.differences);
        assert_eq!(report.pending, (shop.decisions.len() - settled) as u64);
    }
}

#[tokio::test]
async fn a_decision_is_never_settled_twice() {
    let mut shop = Shop::new(10, 2).await;
    shop.claim("ada", 1);
    shop.settle().await;
    let again = settle(&shop.records, &shop.decisions).await;
    assert!(matches!(again, Err(SettleError::CursorMoved { position: 2 })), "{again:?}");
    let another = shop.records.lease("another", "tests", 60).await.unwrap().unwrap();
    let early = shop.records.settle(&another, &shop.decisions[1..], Mark::default()).await;
    assert!(matches!(early, Err(SettleError::CursorMoved { position: 0 })), "{early:?}");
    assert_eq!(shop.count("SELECT COUNT(*) FROM stock_log").await, 2);
}

#[tokio::test]
async fn one_of_two_settlers_wins() {
    let mut shop = Shop::new(100, 100).await;
    for _ in 0..50 {
        shop.claim("ada", 1);
    }
    let other = open(&shop.database).await;
    // Under the same lease, as if one of them had woken up too late.
    let (lease, decisions) = (lease(&shop.records).await, &shop.decisions);
    let (left, right) = tokio::join!(
        shop.records.settle(&lease, decisions, Mark::default()),
        other.settle(&lease, decisions, Mark::default())
    );
    assert!(left.is_ok() != right.is_ok(), "{left:?} {right:?}");
    assert!(shop.audit().await.ok);
}

#[tokio::test]
async fn a_gap_is_refused() {
    let mut shop = Shop::new(10, 2).await;
    shop.claim("ada", 1);
    shop.claim("bob", 1);
    shop.decisions.remove(1);
    let gap = settle(&shop.records, &shop.decisions).await;
    assert!(matches!(gap, Err(SettleError::Gap { after: 1 })), "{gap:?}");
    assert_eq!(shop.settled().await, 0);
}

#[tokio::test]
async fn an_empty_batch_changes_nothing() {
    let shop = Shop::new(10, 2).await;
    assert_eq!(settle(&shop.records, &[]).await.unwrap().cursor, Cursor::default());
}

#[tokio::test]
async fn settlement_marks_a_sale_as_published() {
    let shop = Shop::new(10, 2).await;
    shop.settle().await;
    assert_eq!(shop.records.sale(shop.sale).await.unwrap().unwrap().published_at, Some(shop.now));
}

#[tokio::test]
async fn every_order_event_leaves_a_message_in_the_outbox() {
    let mut shop = Shop::new(50, 2).await;
    sell(&mut shop);
    shop.settle().await;
    assert_eq!(shop.count("SELECT COUNT(*) FROM outbox").await, shop.decisions.len() as i64);
    let paid = shop.positions_of(|event| matches!(event, Event::Paid { .. })).len() as i64;
    assert_eq!(shop.count("SELECT COUNT(*) FROM outbox WHERE kind = 'order.paid'").await, paid);
    assert_eq!(
        shop.count(
            "SELECT COUNT(*) FROM outbox WHERE kind = 'order.held' AND payload LIKE '%\"unit_price\":\"19.90\"%'"
        )
        .await,
        31
    );
}

#[tokio::test]
async fn poison_is_named_and_leaves_nothing_behind() {
    let mut shop = Shop::new(10, 2).await;
    let order = shop.claim("ada", 1);
    shop.claim("bob", 1);
    let position = shop.decisions.len() as u64 + 1;
    let event = Event::Paid { order, quantity: 2, after_expiry: false };
    shop.decisions.push(Decision { position, at: shop.now, event });
    let poison = settle(&shop.records, &shop.decisions).await;
    let Err(SettleError::Poison { position: named, refusal }) = poison else { panic!("{poison:?}") };
    assert_eq!(named, position);
    assert!(refusal.reason.contains("for 2 units, but it has 1"), "{refusal}");
    assert_eq!(shop.settled().await, 0);
    assert_eq!(shop.count("SELECT COUNT(*) FROM orders").await, 0);
}

#[tokio::test]
async fn a_constraint_names_the_decision_it_refuses() {
    let mut shop = Shop::new(10, 5).await;
    shop.claim("ada", 1);
    shop.claim("bob", 1);
    shop.claim("ada", 1);
    // The same key of the same buyer twice: the unique key is the last line of defence.
    for position in [1, 3] {
        if let Event::Held { key, .. } = &mut shop.decisions[position].event {
            *key = KeyDigest::from_words([1, 2]);
        }
    }
    shop.claim("eve", 1);
    let poison = settle(&shop.records, &shop.decisions).await;
    assert!(matches!(poison, Err(SettleError::Poison { position: 4, .. })), "{poison:?}");
    assert_eq!(shop.settled().await, 0);
}

#[tokio::test]
async fn a_hold_in_an_unknown_sale_is_poison() {
    let mut shop = Shop::new(10, 2).await;
    shop.claim("ada", 1);
    if let Event::Held { order, .. } = &mut shop.decisions[1].event {
        order.sale = SaleId::from_random(999);
    }
    let poison = settle(&shop.records, &shop.decisions).await;
    assert!(matches!(poison, Err(SettleError::Poison { position: 2, .. })), "{poison:?}");
}

#[tokio::test]
async fn a_locked_database_is_unavailable_and_not_poison() {
    let mut shop = Shop::new(10, 2).await;
    shop.claim("ada", 1);
    let lease = lease(&shop.records).await;
    let other = shop.database.lock().await;
    let busy = shop.records.settle(&lease, &shop.decisions, Mark::default()).await;
    assert!(matches!(busy, Err(SettleError::Records(RecordsError::Unavailable(_)))), "{busy:?}");
    shop.records.ping().await.unwrap();
    other.close().await.unwrap();
    shop.settle().await;
    assert!(shop.audit().await.ok);
}

#[tokio::test]
async fn settled_decisions_survive_a_restart() {
    let mut shop = Shop::new(50, 2).await;
    sell(&mut shop);
    let (first, rest) = shop.decisions.split_at(20);
    settle(&shop.records, first).await.unwrap();
    shop.records.close().await;
    shop.records = open(&shop.database).await;
    assert_eq!(shop.settled().await, 20);
    settle(&shop.records, rest).await.unwrap();
    assert!(shop.audit().await.ok);
}
