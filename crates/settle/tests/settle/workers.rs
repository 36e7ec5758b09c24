//! Several workers share the streams: one dies, one sleeps, one stops, and each decision is settled once.

use std::time::Duration;

use penstock_settle::SettleOptions;

use crate::{
    market::{Database, Market},
    shop::quick,
};

/// Turns each function into a test on each database.
macro_rules! on_each_database {
    ($($sentence:ident,)+) => {
        mod sqlite {
            $(
                #[tokio::test]
                async fn $sentence() {
                    super::$sentence(super::Database::Sqlite).await;
                }
            )+
        }

        mod mariadb {
            $(
                #[tokio::test]
                async fn $sentence() {
                    super::$sentence(super::Database::MariaDb).await;
                }
            )+
        }
    };
}

on_each_database! {
    two_workers_settle_each_decision_once,
    another_worker_takes_over_from_a_dead_one,
    a_worker_that_slept_through_its_lease_cannot_write,
    an_orderly_stop_leaves_the_streams_to_others_at_once,
    a_stream_whose_end_was_lost_is_retried_without_delaying_others,
    a_history_of_another_epoch_is_not_settled,
    a_worker_with_nothing_to_do_asks_the_database_nothing,
}

async fn two_workers_settle_each_decision_once(database: Database) {
    let market = Market::new(database, 12).await;
    market.sell_everywhere("before", 20).await;
    let (one, two) = (market.worker(quick()).await, market.worker(quick()).await);
    market.sell_everywhere("meanwhile", 20).await;
    let (left, right) = (one.until_settled().await, two.until_settled().await);
    assert_eq!(left.settled.max(one.stats.read().settled) + two.stats.read().settled, market.decisions());
    assert_eq!((left.dead_letters, right.dead_letters), (0, 0));
    one.stop().await;
    two.stop().await;
    let report = market.audit().await;
    assert!(report.ok, "{report:#?}");
    assert_eq!((report.sales, report.orders, report.pending), (12, 480, 0));
    for sale in &market.sales {
        assert_eq!(market.engine.settled(*sale).position, 41, "the feed may forget what is settled");
    }
}

async fn another_worker_takes_over_from_a_dead_one(database: Database) {
    let market = Market::new(database, 3).await;
    market.sell_everywhere("before", 30).await;
    let slow = SettleOptions { batch: 2, max_decisions_per_second: 20, lease_seconds: 1, ..quick() };
    let dying = market.worker(slow).await;
    dying.until(|figures| figures.batches >= 3).await;
    dying.kill().await;
    let heir = market.worker(quick()).await;
    let figures = heir.until_settled().await;
    assert!(figures.takeovers >= 1, "{figures:?}");
    heir.stop().await;
    let report = market.audit().await;
    assert!(report.ok, "{report:#?}");
    assert_eq!((report.orders, report.pending), (90, 0));
}

async fn a_worker_that_slept_through_its_lease_cannot_write(database: Database) {
    let market = Market::new(database, 1).await;
    let lease = SettleOptions { lease_seconds: 1, ..quick() };
    let (sleeper, sleep) = market.sleeper(lease.clone()).await;
    sleeper.until_settled().await;
    sleep.send(true).unwrap();
    market.sell(market.sales[0], "asleep", 5).await;
    let awake = market.worker(lease).await;
    let figures = awake.until_settled().await;
    assert_eq!((figures.settled, figures.takeovers), (5, 1), "{figures:?}");
    sleep.send(false).unwrap();
    let woken = sleeper.until(|figures| figures.lag_decisions == 0).await;
    assert_eq!((woken.settled, woken.dead_letters), (1, 0), "what it had read was settled already");
    market.sell(market.sales[0], "together", 5).await;
    sleeper.until_settled().await;
    awake.until_settled().await;
    let settled = sleeper.stats.read().settled + awake.stats.read().settled;
    assert_eq!(settled, market.decisions(), "each decision was settled once");
    sleeper.stop().await;
    awake.stop().await;
    let report = market.audit().await;
    assert!(report.ok, "{report:#?}");
}

async fn an_orderly_stop_leaves_the_streams_to_others_at_once(database: Database) {
    let market = Market::new(database, 2).await;
    // Longer than a test may take.
    let long = SettleOptions { lease_seconds: 3_600, ..quick() };
    let first = market.worker(long.clone()).await;
    first.until_settled().await;
    first.stop().await;
    market.sell_everywhere("later", 5).await;
    let second = market.worker(long).await;
    let figures = second.until_settled().await;
    assert_eq!((figures.settled, figures.takeovers), (10, 0), "returned leases do not count as takeovers");
    second.stop().await;
}

async fn a_stream_whose_end_was_lost_is_retried_without_delaying_others(database: Database) {
    let market = Market::new(database, 2).await;
    let (lost, other) = (market.sales[0], market.sales[1]);
    market.sell_everywhere("before", 10).await;
    let worker = market.worker(quick()).await;
    worker.until_settled().await;
    let history = market.engine.history(lost);
    market.engine.put_history(lost, history[..5].to_vec());
    market.sell(lost, "instead", 20).await;
    let figures = worker.until(|figures| figures.trouble.is_some() && figures.retries > 3).await;
    assert!(figures.trouble.unwrap().contains("don't belong together"));
    assert_eq!((figures.diverged, figures.settled, figures.dead_letters), (1, 22, 0), "it is counted once");
    market.sell(other, "undisturbed", 5).await;
    worker.until(|figures| figures.settled == 27).await;
    // The ledger has caught up with the records.
    market.engine.put_history(lost, history);
    market.sell(lost, "after", 3).await;
    let figures = worker.until(|figures| figures.lag_decisions == 0 && figures.trouble.is_none()).await;
    assert_eq!(figures.settled, market.decisions());
    worker.stop().await;
    let report = market.audit().await;
    assert!(report.ok, "{report:#?}");
}

async fn a_history_of_another_epoch_is_not_settled(database: Database) {
    let market = Market::new(database, 2).await;
    let (lost, other) = (market.sales[0], market.sales[1]);
    let worker = market.worker(quick()).await;
    worker.until_settled().await;
    let next_epoch =
        format!("UPDATE settlement_cursors SET epoch = 4, fence = fence + 1 WHERE stream = '{lost}'");
    market.tamper(next_epoch).await;
    market.sell(lost, "dead", 5).await;
    market.sell(other, "alive", 5).await;
    let figures = worker.until(|figures| figures.trouble.is_some() && figures.retries > 3).await;
    assert!(figures.trouble.unwrap().contains("epoch 0, but the records are in 4"));
    let figures = worker.until(|figures| figures.settled == 2 + 5).await;
    assert_eq!((figures.diverged, figures.dead_letters), (1, 0), "it is counted once");
    // The ledger has looked into the records: now both are in the same epoch.
    market.tamper(format!("UPDATE settlement_cursors SET epoch = 0 WHERE stream = '{lost}'")).await;
    let figures = worker.until(|figures| figures.lag_decisions == 0 && figures.trouble.is_none()).await;
    assert_eq!(figures.settled, market.decisions());
    worker.stop().await;
    let report = market.audit().await;
    assert!(report.ok, "{report:#?}");
}

async fn a_worker_with_nothing_to_do_asks_the_database_nothing(database: Database) {
    let market = Market::new(database, 3).await;
    let (worker, records) = market.worker_and_records(quick()).await;
    worker.until_settled().await;
    worker.until(|figures| figures.lag_seconds == 0.0).await;
    records.close().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let figures = worker.stats.read();
    assert_eq!((figures.retries, figures.trouble), (0, None));
    worker.kill().await;
}
