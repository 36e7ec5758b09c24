//! Whatever is slow or hangs holds up nobody else: a silent server, records that don't answer.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod nodes;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, join3, pending},
};
use nodes::{Node, Sql, claim};
use penstock_domain::{BuyerId, Cursor, NewEpoch, SaleId, SaleTerms, SettledSale};
use penstock_ledger::{
    Health, LedgerError, Unavailable,
    redis::{NothingSettled, Settled},
};
use penstock_local::{RedisCluster, RedisServer, RedisSettings};
use penstock_redis_client::{RedisMode, RedisOptions};
use tempfile::TempDir;

/// Long enough that a caller waiting for a silent server waits for the whole test.
const LONG: Duration = Duration::from_secs(40);

fn terms(sale: SaleId) -> SaleTerms {
    SaleTerms { sale, units: 100, limit_per_buyer: 1, opens_at: None, closes_at: None, hold_seconds: 3_600 }
}

fn buyer(who: &str) -> BuyerId {
    BuyerId::of_subject(who).unwrap()
}

/// Two sales on different masters, which nobody replaces when they are silent. Ann has bought from both.
struct Apart {
    servers: Servers,
    node: Node,
    silent: SaleId,
    sold: SaleId,
}

struct Servers {
    cluster: RedisCluster,
    _folder: TempDir,
}

impl Apart {
    async fn start(timeout: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cluster = RedisCluster::start(folder.path(), 3, 0).unwrap();
        for node in cluster.nodes() {
            node.cli(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]).unwrap();
            node.cli(&["CONFIG", "SET", "cluster-node-timeout", "600000"]).unwrap();
        }
        let servers = Servers { cluster, _folder: folder };
        let silent = SaleId::from_random(1);
        let is_apart = |sale: &SaleId| servers.master_of(*sale) != servers.master_of(silent);
        let sold = (2..100).map(SaleId::from_random).find(is_apart).unwrap();
        let addresses = servers.cluster.addresses().iter().map(ToString::to_string).collect();
        let mode = RedisMode::Cluster { addresses };
        let options = RedisOptions { mode, timeout, ..RedisOptions::default() };
        let node = Node::with(options, Arc::new(Sql::default())).await;
        for sale in [silent, sold] {
            node.publish(sale, 100).await;
            node.insist(sale, "ann").await.unwrap();
        }
        Self { servers, node, silent, sold }
    }
}

impl Servers {
    /// The number of the server that decides this sale.
    fn master_of(&self, sale: SaleId) -> usize {
        self.cluster.master_of(&format!("{{{sale}}}:sale")).unwrap()
    }

    fn of(&mut self, sale: SaleId) -> &mut RedisServer {
        let master = self.master_of(sale);
        self.cluster.node(master).unwrap()
    }
}

#[tokio::test]
async fn a_list_of_orders_delays_no_claims_while_a_master_is_silent() {
    let Apart { mut servers, node, silent, sold } = Apart::start(LONG).await;
    assert_eq!(node.ledger.orders_of(buyer("ann"), 10).await.unwrap().len(), 2);
    let master = servers.of(silent);
    master.pause().unwrap();
    let ledger = node.ledger.clone();
    let looking = tokio::spawn(async move { ledger.orders_of(buyer("ann"), 10).await });
    for number in 0..20 {
        node.claim(sold, &format!("buyer{number}")).await.unwrap();
    }
    assert!(!looking.is_finished(), "a claim waited, or a list lacks orders");
    master.resume().unwrap();
    assert_eq!(looking.await.unwrap().unwrap().len(), 2);
}

#[tokio::test]
async fn many_lists_of_orders_share_a_few_questions_to_redis() {
    const SALES: u64 = 30;
    const LOOKS: u64 = 300;
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), RedisSettings::default()).unwrap();
    let options = RedisOptions { timeout: LONG, ..RedisOptions::single(server.address().to_string()) };
    let node = Node::with(options, Arc::new(Sql::default())).await;
    for number in 0..SALES {
        node.publish(SaleId::from_random(number), 100).await;
    }
    let sold = SaleId::from_random(7);
    node.claim(sold, "buyer0").await.unwrap();
    let asked = || {
        let stats = server.cli(&["INFO", "commandstats"]).unwrap();
        let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_hmget:calls="));
        calls.map_or(0, |calls| calls.split(',').next().unwrap().parse::<u64>().unwrap())
    };
    let before = asked();
    let looks = (0..LOOKS).map(|number| {
        let ledger = node.ledger.clone();
        async move { ledger.orders_of(buyer(&format!("buyer{number}")), 10).await.unwrap().len() }
    });
    let found = futures_util::future::join_all(looks).await;
    assert_eq!((found[0], found.iter().sum::<usize>()), (1, 1), "each sees their own");
    let calls = asked() - before;
    // One round of questions goes at once. The other lists gather while it is under way.
    assert!(calls < SALES * 20, "{calls} calls for {LOOKS} lists of {SALES} sales");
}

#[tokio::test]
async fn a_silent_master_delays_no_claims_to_sales_of_other_masters() {
    let Apart { mut servers, node, silent, sold } = Apart::start(LONG).await;
    assert_ne!(node.ledger.home_of(silent), node.ledger.home_of(sold));
    let master = servers.of(silent);
    master.pause().unwrap();
    // More claims than can be under way at once, one after the other, and a release of holds on both servers.
    let waiting = (0..20).map(|number| {
        let ledger = node.ledger.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(5 * number)).await;
            ledger.claim(claim(silent, &format!("patient{number}"))).await
        })
    });
    let waiting: Vec<_> = waiting.collect();
    let expiring = tokio::spawn({
        let ledger = node.ledger.clone();
        async move { ledger.expire_due(10).await }
    });
    for number in 0..20 {
        node.claim(sold, &format!("buyer{number}")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(waiting.iter().all(|claim| !claim.is_finished()), "a claim did not wait, or another one did");
    master.resume().unwrap();
    for claim in waiting {
        claim.await.unwrap().unwrap();
    }
    expiring.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_master_whose_calls_time_out_stops_no_sales_of_other_masters() {
    let timeout = Duration::from_secs(1);
    let Apart { mut servers, node, silent, sold } = Apart::start(timeout).await;
    let master = servers.of(silent);
    master.pause().unwrap();
    let ledger = node.ledger.clone();
    let waiting = tokio::spawn(async move {
        for number in 0..3 {
            let answer = ledger.claim(claim(silent, &format!("patient{number}"))).await;
            assert!(matches!(answer, Err(LedgerError::Unavailable(_))), "{answer:?}");
        }
    });
    let mut number = 0;
    while !waiting.is_finished() || number < 20 {
        node.claim(sold, &format!("buyer{number}")).await.unwrap();
        assert_eq!(node.ledger.health(), Health::Ready);
        number += 1;
        tokio::time::sleep(timeout / 20).await;
    }
    waiting.await.unwrap();
    master.resume().unwrap();
    node.insist(silent, "patient0").await.unwrap();
}

#[tokio::test]
async fn everyone_is_turned_away_within_one_call_when_redis_is_silent() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = RedisServer::start(folder.path(), RedisSettings::default()).unwrap();
    let timeout = Duration::from_secs(4);
    let options = RedisOptions { timeout, ..RedisOptions::single(server.address().to_string()) };
    let node = Node::with(options, Arc::new(Sql::default())).await;
    let sale = SaleId::from_random(1);
    node.publish(sale, 100).await;
    node.claim(sale, "ann").await.unwrap();
    server.pause().unwrap();
    let started = Instant::now();
    let (claimed, orders, published) = join3(
        node.ledger.claim(claim(sale, "bob")),
        node.ledger.orders_of(buyer("ann"), 10),
        node.ledger.publish(terms(SaleId::from_random(2))),
    )
    .await;
    // One after the other they would take at least twice as long.
    assert!(started.elapsed() < timeout * 7 / 4, "{:?}", started.elapsed());
    assert!(matches!(claimed.unwrap_err(), LedgerError::Unavailable(_)));
    assert!(matches!(orders.unwrap_err(), LedgerError::Unavailable(_)));
    assert!(matches!(published.unwrap_err(), LedgerError::Unavailable(_)));
    server.resume().unwrap();
    node.insist(sale, "bob").await.unwrap();
}

/// Records that accept a question and never answer.
struct Silent;

impl Settled for Silent {
    fn begin_epoch(&self, _: SaleId, _: u64) -> BoxFuture<'_, Result<NewEpoch, Unavailable>> {
        pending().boxed()
    }

    fn sale(&self, _: SaleId, _: u64) -> BoxFuture<'_, Result<Option<SettledSale>, Unavailable>> {
        pending().boxed()
    }

    fn complete_up_to(&self, _: SaleId) -> BoxFuture<'_, Result<Option<Cursor>, Unavailable>> {
        pending().boxed()
    }

    fn open_sales(&self) -> BoxFuture<'_, Result<Vec<SaleId>, Unavailable>> {
        pending().boxed()
    }
}

#[tokio::test]
async fn silent_records_do_not_stop_the_sales_in_redis() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), RedisSettings::default()).unwrap();
    let options = RedisOptions { timeout: LONG, ..RedisOptions::single(server.address().to_string()) };
    let sale = SaleId::from_random(1);
    Node::with(options.clone(), Arc::new(NothingSettled)).await.publish(sale, 100).await;
    // It is ready although the records do not say which sales there should be.
    let node = Node::with(options, Arc::new(Silent)).await;
    let ledger = node.ledger.clone();
    let publishing = tokio::spawn(async move { ledger.publish(terms(SaleId::from_random(2))).await });
    node.claim(sale, "ann").await.unwrap();
    assert!(!publishing.is_finished(), "a claim waited for the records");
    let refused = publishing.await.unwrap().unwrap_err();
    assert!(matches!(refused, LedgerError::Unavailable(_)), "{refused:?}");
    node.claim(sale, "bob").await.unwrap();
}
