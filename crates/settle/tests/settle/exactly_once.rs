//! Each decision is settled exactly once, whatever is killed, and at the requested pace.

use std::time::{Duration, Instant, SystemTime};

use penstock_ledger::embedded::STREAM;
use penstock_settle::SettleOptions;

use crate::shop::{Shop, quick};

/// Small repeatable randomness (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[tokio::test]
async fn whatever_is_killed_each_decision_is_settled_exactly_once() {
    #[expect(clippy::disallowed_methods, reason = "a new seed for each run; it is printed")]
    let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64 | 1;
    eprintln!("seed {seed}");
    let mut dice = Dice(seed);
    let mut shop = Shop::new(1_000, 1_000).await;
    let mut claims = 0;
    for round in 0..15 {
        let running = shop.settlement(quick());
        for _ in 0..dice.below(60) {
            claims += 1;
            let order = shop.claim(&format!("buyer-{}", dice.below(20)), &format!("key-{claims}")).await;
            match dice.below(4) {
                0 => shop.pay(order.id).await,
                1 => drop(shop.ledger.cancel(order.id, None).await.unwrap()),
                2 => shop.wait(1),
                _ => {}
            }
        }
        tokio::time::sleep(Duration::from_micros(dice.below(20_000))).await;
        running.kill().await;
        match round % 3 {
            0 => shop.restart().await,
            1 => shop.restart_records().await,
            _ => {}
        }
        let report = shop.audit().await;
        assert!(report.ok, "seed {seed}, round {round}: {report:#?}");
    }
    let running = shop.settlement(quick());
    running.until_settled().await;
    running.stop().await;
    let report = shop.audit().await;
    assert!(report.ok, "seed {seed}: {report:#?}");
    assert_eq!((report.orders, report.pending, report.dead_letters), (claims, 0, 0), "seed {seed}");
}

#[tokio::test]
async fn settlement_keeps_its_pace_during_a_peak() {
    let shop = Shop::new(1_000, 1_000).await;
    for claim in 0..99 {
        shop.claim("ada", &format!("key-{claim}")).await;
    }
    let begin = Instant::now();
    let running = shop.settlement(SettleOptions { batch: 10, max_decisions_per_second: 200, ..quick() });
    running.until_settled().await;
    assert!(begin.elapsed() >= Duration::from_millis(440), "a hundred at 200 per second take half a second");
    running.stop().await;
}

#[tokio::test]
async fn a_stop_finishes_the_transaction_and_the_next_start_continues_from_there() {
    let shop = Shop::new(1_000, 1_000).await;
    for claim in 0..200 {
        shop.claim("ada", &format!("key-{claim}")).await;
    }
    let running = shop.settlement(SettleOptions { max_decisions_per_second: 500, ..quick() });
    running.until(|figures| figures.position > 20).await;
    let stats = running.stats.clone();
    running.stop().await;
    let stopped_at = stats.read();
    assert_eq!(shop.records.cursor(STREAM).await.unwrap().position, stopped_at.position);
    assert!(stopped_at.lag_decisions > 0, "it did not settle everything first");
    shop.wait(5);
    assert!(stats.read().lag_seconds >= 5.0, "unsettled decisions grow older: {:?}", stats.read());

    let running = shop.settlement(quick());
    let figures = running.until_settled().await;
    assert_eq!(figures.settled, 201 - stopped_at.position);
    running.until(|figures| figures.lag_seconds == 0.0).await;
    running.stop().await;
    assert!(shop.audit().await.ok);
}

#[tokio::test]
async fn the_feed_may_forget_settled_decisions() {
    let shop = Shop::new(1_000, 1_000).await;
    let running = shop.settlement(quick());
    shop.claim("ada", "key").await;
    running.until_settled().await;
    running.stop().await;
    assert_eq!(shop.records.cursor(STREAM).await.unwrap().position, shop.ledger.feed().head(STREAM));
    assert_eq!(shop.records.sale(shop.sale).await.unwrap().unwrap().published_at, Some(shop.now()));
}
