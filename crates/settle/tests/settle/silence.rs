//! A settler is cut off from the database in the middle of a transaction, and the server is not told.

use std::time::{Duration, Instant};

use penstock_local::Cut;
use penstock_settle::SettleOptions;
use sqlx::{AnyConnection, Executor};

use crate::{
    market::{Database, Market},
    shop::quick,
};

/// Waits until a writing transaction waits for a row in the sale's stock.
async fn until_somebody_waits(observer: &mut AnyConnection) {
    let waiting = "SELECT trx_id FROM information_schema.innodb_trx \
                   WHERE trx_state = 'LOCK WAIT' AND trx_query LIKE 'UPDATE sale_stock%'";
    let wait = async {
        while observer.fetch_optional(waiting).await.unwrap().is_none() {
            // The server refreshes this table only when nobody has read it for a tenth of a second.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap();
}

#[tokio::test]
async fn the_stream_of_a_settler_cut_off_in_a_transaction_is_taken_over() {
    let market = Market::new(Database::MariaDb, 1).await;
    let as_in_production = SettleOptions { lease_seconds: SettleOptions::default().lease_seconds, ..quick() };
    let (remote, mut proxy) = market.remote_worker(as_in_production.clone()).await;
    remote.until_settled().await;
    // Its next transaction stops half way: it has the stream's row and wants that of the stock.
    let (mut intruder, mut observer) = (market.intruder().await, market.intruder().await);
    intruder.execute("START TRANSACTION").await.unwrap();
    intruder.execute("SELECT * FROM sale_stock FOR UPDATE").await.unwrap();
    market.sell(market.sales[0], "cut", 5).await;
    until_somebody_waits(&mut observer).await;
    proxy.cut(Cut::Silence).unwrap();
    let cut_at = Instant::now();
    intruder.execute("ROLLBACK").await.unwrap();

    let heir = market.worker(as_in_production).await;
    let figures = heir.until_settled().await;
    eprintln!("taken over {:.1} s after the cut", cut_at.elapsed().as_secs_f64());
    assert_eq!((figures.settled, figures.takeovers), (5, 1), "{figures:?}");
    // The worker that was cut off reports it instead of waiting for an answer, and reconnects.
    remote.until(|figures| figures.trouble.is_some()).await;
    proxy.mend().unwrap();
    let figures = remote.until(|figures| figures.lag_decisions == 0 && figures.trouble.is_none()).await;
    assert_eq!(figures.settled, 1, "the other worker settled what this one had read");
    heir.stop().await;
    remote.stop().await;
    let report = market.audit().await;
    assert!(report.ok, "{report:#?}");
}
