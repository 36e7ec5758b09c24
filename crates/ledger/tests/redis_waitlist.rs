//! A waitlist on a Redis that is wiped: the records bring it back, and the settled history may end anywhere.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod nodes;

use std::sync::Arc;

use nodes::{Sql, claim, terms, until};
use penstock_domain::{BuyerId, JoinRefusal, MAX_WAITERS, Order, OrderState, SaleId, SaleStatus};
use penstock_ledger::{
    Health, Ledger, LedgerError, Listener, SaleNews,
    redis::{self, LedgerOptions},
};
use penstock_local::{RedisServer, RedisSettings};
use penstock_redis_client::{Link, RedisOptions};

struct Deaf;

impl Listener for Deaf {
    fn sales_changed(&self, _: &[SaleNews]) {}
}

/// A sale of one unit, which ann holds, with the waiters bob, cem and dan.
struct Stage {
    server: RedisServer,
    sql: Arc<Sql>,
    sale: SaleId,
    ledger: Ledger,
    anns: Order,
    _folder: tempfile::TempDir,
}

impl Stage {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = RedisServer::start(folder.path(), RedisSettings::default()).unwrap();
        let link = Link::connect(RedisOptions::single(server.address().to_string())).await.unwrap();
        let (sql, sale) = (Arc::<Sql>::default(), SaleId::from_random(7));
        let ledger = redis::open(LedgerOptions::default(), link, None, Arc::new(Deaf), sql.clone()).unwrap();
        assert_eq!(ledger.recovered().await, Health::Ready);
        ledger.publish(terms(sale, 1)).await.unwrap();
        let anns = ledger.claim(claim(sale, "ann")).await.unwrap();
        let stage = Self { server, sql, sale, ledger, anns, _folder: folder };
        for (who, position) in [("bob", 1), ("cem", 2), ("dan", 3)] {
            assert_eq!(stage.join(who).await, Ok(position));
        }
        stage
    }

    async fn join(&self, who: &str) -> Result<u32, JoinRefusal> {
        let place = self.ledger.join_waitlist(self.sale, buyer(who), 1).await;
        place.map(|place| place.position).map_err(|error| match error {
            LedgerError::Refused(refusal) => refusal,
            other => panic!("{other}"),
        })
    }

    async fn position(&self, who: &str) -> Option<u32> {
        let place = self.ledger.place_on_waitlist(self.sale, buyer(who)).await.unwrap();
        place.map(|place| place.position)
    }

    async fn orders(&self, who: &str) -> Vec<OrderState> {
        let orders = self.ledger.orders_of(buyer(who), 9).await.unwrap();
        orders.into_iter().map(|order| order.state).collect()
    }

    /// Cancels the buyer's newest order, which holds the unit.
    async fn cancel_order_of(&self, who: &str) {
        let orders = self.ledger.orders_of(buyer(who), 9).await.unwrap();
        self.ledger.cancel(orders[0].id, None).await.unwrap();
    }

    /// Wipes Redis, and waits until the sale has come back from the records.
    async fn wipe(&self) -> SaleStatus {
        self.server.cli(&["FLUSHALL"]).unwrap();
        until("the sale", || !self.sql.reconciliations().is_empty()).await;
        loop {
            // Requests fail while the sale comes back.
            if let Ok(status) = self.ledger.restock(self.sale, 0).await {
                return status;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    /// Settles the rest. The records then have the same as the ledger.
    async fn compare_with_records(&self) {
        self.sql.settle(&self.ledger, self.sale).await.unwrap();
        let state = self.ledger.feed().state(&self.sale.to_string()).await.unwrap();
        let settled = self.sql.snapshot(self.sale);
        let sale = state.sales.into_iter().next().unwrap();
        assert_eq!((sale.orders, sale.waiters), (settled.orders, settled.waiters));
    }
}

fn buyer(who: &str) -> BuyerId {
    BuyerId::of_subject(who).unwrap()
}

#[tokio::test]
async fn a_lost_waitlist_comes_back_in_its_order() {
    let stage = Stage::new().await;
    stage.ledger.cancel(stage.anns.id, None).await.unwrap();
    assert!(stage.ledger.leave_waitlist(stage.sale, buyer("cem")).await.unwrap());
    assert_eq!(stage.join("eve").await, Ok(2));
    stage.sql.settle(&stage.ledger, stage.sale).await.unwrap();
    assert_eq!(stage.wipe().await.available, 0);
    assert_eq!((stage.position("dan").await, stage.position("eve").await), (Some(1), Some(2)));
    assert_eq!((stage.position("bob").await, stage.position("cem").await), (None, None));
    assert_eq!(stage.join("cem").await, Ok(3));
    for (from, to) in [("bob", "dan"), ("dan", "eve"), ("eve", "cem")] {
        stage.cancel_order_of(from).await;
        assert_eq!(stage.orders(to).await, [OrderState::Held]);
    }
    // The key of an offer is made of a waiter's number, and no two offers have the same.
    assert_eq!(stage.join("bob").await, Ok(1));
    stage.cancel_order_of("cem").await;
    assert_eq!(stage.orders("bob").await, [OrderState::Held, OrderState::Cancelled]);
    stage.compare_with_records().await;
}

#[tokio::test]
async fn a_release_whose_offer_was_lost_is_offered_again() {
    let stage = Stage::new().await;
    stage.sql.settle(&stage.ledger, stage.sale).await.unwrap();
    stage.ledger.cancel(stage.anns.id, None).await.unwrap();
    stage.sql.settle_some(&stage.ledger, stage.sale, 1).await;
    assert_eq!(stage.sql.status(stage.sale).available, 1, "the release is settled and the offer is not");
    let status = stage.wipe().await;
    assert_eq!((status.available, status.held), (0, 1), "it is never on sale");
    assert_eq!(stage.orders("bob").await, [OrderState::Held]);
    assert_eq!(stage.position("cem").await, Some(1));
    stage.compare_with_records().await;
}

#[tokio::test]
async fn a_waiter_taken_off_before_the_hold_was_settled_gets_it_all_the_same() {
    let stage = Stage::new().await;
    stage.sql.settle(&stage.ledger, stage.sale).await.unwrap();
    stage.ledger.cancel(stage.anns.id, None).await.unwrap();
    stage.sql.settle_some(&stage.ledger, stage.sale, 2).await;
    assert_eq!(stage.sql.status(stage.sale).available, 1, "the hold is not settled");
    let status = stage.wipe().await;
    assert_eq!((status.available, status.held), (0, 1));
    assert_eq!(stage.orders("bob").await, [OrderState::Held], "bob kept a place in the records");
    assert_eq!((stage.position("bob").await, stage.position("cem").await), (None, Some(1)));
    stage.cancel_order_of("bob").await;
    assert_eq!(stage.orders("cem").await, [OrderState::Held]);
    stage.compare_with_records().await;
}

#[tokio::test]
async fn the_length_of_a_waitlist_is_limited() {
    let stage = Stage::new().await;
    let set = |waiting: u32| {
        let (key, waiting) = (format!("{{{}}}:sale", stage.sale), waiting.to_string());
        stage.server.cli(&["HSET", &key, "waiting", &waiting]).unwrap();
    };
    set(MAX_WAITERS);
    assert_eq!(stage.join("eve").await, Err(JoinRefusal::WaitlistFull));
    assert_eq!(stage.join("dan").await, Ok(3), "those on it stay on it");
    set(MAX_WAITERS - 1);
    assert_eq!(stage.join("eve").await, Ok(MAX_WAITERS));
}
