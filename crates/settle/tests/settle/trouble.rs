//! The database can't be reached, a decision is poison, holds run out: the sale goes on.

use penstock_domain::OrderState;
use penstock_ledger::embedded::STREAM;
use penstock_settle::SettleOptions;
use sqlx::Executor;

use crate::shop::{Shop, quick};

#[tokio::test]
async fn while_the_database_is_down_orders_are_accepted_and_settle_when_it_is_back() {
    let shop = Shop::new(100, 100).await;
    let running = shop.settlement(quick());
    running.until_settled().await;
    let mut intruder = shop.intruder().await;
    intruder.execute("BEGIN EXCLUSIVE").await.unwrap();
    let mut orders = Vec::new();
    for claim in 0..20 {
        orders.push(shop.claim("ada", &format!("key-{claim}")).await.id);
    }
    shop.pay(orders[3]).await;
    let figures = running.until(|figures| figures.trouble.is_some()).await;
    assert_eq!((figures.position, figures.dead_letters), (1, 0), "an outage is never poison");
    shop.claim("ada", "still-selling").await;
    intruder.execute("ROLLBACK").await.unwrap();
    let figures = running.until_settled().await;
    assert_eq!((figures.trouble, figures.dead_letters), (None, 0));
    running.stop().await;
    assert_eq!(shop.records.order(orders[3]).await.unwrap().unwrap().order.state, OrderState::Paid);
    let report = shop.audit().await;
    assert!(report.ok, "{report:#?}");
}

#[tokio::test]
async fn poison_is_put_aside_after_its_tries_and_settles_once_its_cause_is_gone() {
    let shop = Shop::new(100, 100).await;
    let running = shop.settlement(SettleOptions { batch: 50, ..quick() });
    let spoilt = shop.claim("ada", "spoilt").await.id;
    running.until_settled().await;
    running.stop().await;

    shop.tamper("UPDATE orders SET state = 'cancelled'").await;
    let mut others = Vec::new();
    for claim in 0..10 {
        others.push(shop.claim("bob", &format!("before-{claim}")).await.id);
    }
    shop.pay(spoilt).await;
    for other in &others {
        shop.pay(*other).await;
    }
    let running = shop.settlement(SettleOptions { batch: 50, ..quick() });
    let figures = running.until_settled().await;
    assert_eq!((figures.dead_letters, figures.retries), (1, 2), "it is put aside after three tries");
    for other in others {
        assert_eq!(shop.records.order(other).await.unwrap().unwrap().order.state, OrderState::Paid);
    }
    let letters = shop.records.dead_letters(None, 10).await.unwrap();
    assert_eq!((letters.len(), letters[0].tries, letters[0].order()), (1, 3, Some(spoilt)));
    let report = shop.audit().await;
    assert_eq!((report.ok, report.dead_letters), (false, 1));

    shop.tamper("UPDATE orders SET state = 'held' WHERE state = 'cancelled'").await;
    shop.records.retry_dead_letter(letters[0].id, shop.now()).await.unwrap();
    running.stop().await;
    let report = shop.audit().await;
    assert!(report.ok, "{report:#?}");
}

#[tokio::test]
async fn a_unit_that_is_not_there_is_put_aside_and_counted_loudly() {
    let shop = Shop::new(100, 100).await;
    let running = shop.settlement(quick());
    shop.claim("ada", "first").await;
    running.until_settled().await;
    shop.tamper("UPDATE sale_stock SET remaining = 0, total = 1").await;
    shop.claim("bob", "one-too-many").await;
    let figures = running.until_settled().await;
    assert_eq!((figures.violations, figures.dead_letters, figures.retries), (1, 1, 2), "it is counted once");
    running.stop().await;
    assert!(shop.records.dead_letters(None, 10).await.unwrap()[0].decision.position == 3);
}

#[tokio::test]
async fn a_sale_that_the_records_do_not_know_delays_others_only_briefly() {
    let shop = Shop::new(100, 100).await;
    shop.tamper("UPDATE sales SET id = 8").await;
    for claim in 0..50 {
        let order = shop.claim("ada", &format!("key-{claim}")).await;
        shop.pay(order.id).await;
    }
    let running = shop.settlement(quick());
    let figures = running.until_settled().await;
    assert_eq!((figures.dead_letters, figures.retries), (101, 2), "only the first decision is tried again");
    shop.tamper("UPDATE sales SET id = 7").await;
    for letter in shop.records.dead_letters(None, 1_000).await.unwrap() {
        shop.records.retry_dead_letter(letter.id, shop.now()).await.unwrap();
    }
    running.stop().await;
    let report = shop.audit().await;
    assert!(report.ok, "{report:#?}");
}

#[tokio::test]
async fn a_hold_that_runs_out_gives_its_units_back() {
    let shop = Shop::new(25, 25).await;
    let running = shop.settlement(quick());
    for claim in 0..25 {
        shop.claim("ada", &format!("key-{claim}")).await;
    }
    shop.wait(59);
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert_eq!(running.stats.read().expired, 0, "no hold is released a second early");
    shop.wait(1);
    running.until(|figures| figures.expired == 25).await;
    let again = shop.claim("bob", "again").await;
    running.until_settled().await;
    running.stop().await;
    assert_eq!(again.state, OrderState::Held);
    let report = shop.audit().await;
    assert!(report.ok, "{report:#?}");
    assert_eq!((report.units.available, report.units.held), (24, 1));
}

#[tokio::test]
async fn records_of_another_ledger_are_left_alone() {
    let mut shop = Shop::new(100, 100).await;
    let running = shop.settlement(quick());
    for claim in 0..10 {
        shop.claim("ada", &format!("key-{claim}")).await;
    }
    running.until_settled().await;
    running.stop().await;
    shop.lose_the_journal().await;
    let terms = shop.records.sale(shop.sale).await.unwrap().unwrap().terms();
    shop.ledger.publish(terms).await.unwrap();
    let running = shop.settlement(quick());
    let figures = running.until(|figures| figures.trouble.is_some()).await;
    assert!(figures.trouble.unwrap().contains("don't belong together"));
    running.stop().await;
    assert_eq!(shop.records.cursor(STREAM).await.unwrap().position, 11);
}
