//! A worker that decides nothing else releases holds by Redis' own clock.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use penstock_domain::{BuyerId, Claim, KeyDigest, OrderState, SaleId, SaleTerms};
use penstock_ledger::{
    Health, Ledger, Listener, SaleNews,
    redis::{self, LedgerOptions, NothingSettled},
};
use penstock_local::{RedisServer, RedisSettings};
use penstock_redis_client::{Link, RedisOptions};

const LIMIT: Duration = Duration::from_secs(60);

struct Deaf;

impl Listener for Deaf {
    fn sales_changed(&self, _: &[SaleNews]) {}
}

async fn open(server: &RedisServer) -> Ledger {
    let link = Link::connect(RedisOptions::single(server.address().to_string())).await.unwrap();
    let settled = Arc::new(NothingSettled);
    let ledger = redis::open(LedgerOptions::default(), link, None, Arc::new(Deaf), settled).unwrap();
    assert_eq!(ledger.recovered().await, Health::Ready);
    ledger
}

#[tokio::test]
async fn a_worker_that_started_before_the_first_sale_releases_its_holds() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), RedisSettings::default()).unwrap();
    let (worker, node) = (open(&server).await, open(&server).await);
    let sale = SaleId::from_random(1);
    let terms =
        SaleTerms { sale, units: 1, limit_per_buyer: 1, opens_at: None, closes_at: None, hold_seconds: 1 };
    node.publish(terms).await.unwrap();
    let (buyer, key) = (BuyerId::of_subject("ann").unwrap(), KeyDigest::of(b"ann").unwrap());
    let order = node.claim(Claim { sale, buyer, quantity: 1, key }).await.unwrap();
    let limit = Instant::now() + LIMIT;
    while worker.expire_due(10).await.unwrap() == 0 {
        assert!(Instant::now() < limit, "the hold is never released");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let found = node.find_order(order.id, None).await.unwrap().unwrap();
    assert_eq!(found.state, OrderState::Expired);
}
