//! Nothing is answered before replicas have confirmed it, whichever node asks, and a replica answers nothing.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod nodes;

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use nodes::{Node, Sql, until};
use penstock_domain::{SaleId, SaleTerms};
use penstock_ledger::LedgerError;
use penstock_local::{RedisCluster, RedisServer, RedisSettings};
use penstock_redis_client::{RedisMode, RedisOptions};
use tempfile::TempDir;

/// A master and its replica, which is up to date.
fn pair() -> (RedisServer, RedisServer, [TempDir; 2]) {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let master = RedisServer::start(folders[0].path(), RedisSettings::default()).unwrap();
    let settings = RedisSettings { replica_of: Some(master.address()), ..RedisSettings::default() };
    let mut replica = RedisServer::start(folders[1].path(), settings).unwrap();
    replica.wait_until(is_in_touch).unwrap();
    (master, replica, folders)
}

fn is_in_touch(replica: &RedisServer) -> bool {
    replica.info("master_link_status").is_ok_and(|status| status.trim() == "up")
}

fn confirmed(server: &RedisServer) -> RedisOptions {
    RedisOptions { wait_replicas: 1, ..RedisOptions::single(server.address().to_string()) }
}

/// Publishes ten units, as soon as the replica is quick enough.
async fn published(node: &Node, sale: SaleId) {
    let terms = SaleTerms {
        sale,
        units: 10,
        limit_per_buyer: 1,
        opens_at: None,
        closes_at: None,
        hold_seconds: 3_600,
    };
    for _ in 0..100 {
        if node.ledger.publish(terms).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the sale can't be published");
}

fn clock_of(server: &RedisServer, sale: SaleId) -> u64 {
    server.cli(&["HGET", &format!("{{{sale}}}:sale"), "clock"]).unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn a_retry_elsewhere_is_not_answered_before_replicas_have_the_order() {
    let (master, mut replica, _folders) = pair();
    let sql = Arc::new(Sql::default());
    let first = Node::with(confirmed(&master), sql.clone()).await;
    let second = Node::with(confirmed(&master), sql).await;
    let sale = SaleId::from_random(1);
    published(&first, sale).await;
    second.insist(sale, "ann").await.unwrap();
    replica.pause().unwrap();
    let unconfirmed = first.claim(sale, "bob").await.unwrap_err();
    assert!(matches!(unconfirmed, LedgerError::Unavailable(_)), "{unconfirmed:?}");
    let again = second.claim(sale, "bob").await.unwrap_err();
    assert!(matches!(again, LedgerError::Unavailable(_)), "{again:?}");
    replica.resume().unwrap();
    let order = second.insist(sale, "bob").await.unwrap();
    assert_eq!(first.insist(sale, "bob").await.unwrap(), order);
    assert_eq!(first.status(sale).await.held, 2);
}

/// Newer servers let WAIT pass at once if the connection has written nothing since the last one.
#[tokio::test]
async fn an_answer_without_decisions_writes_something_for_replicas_to_confirm() {
    let (master, _replica, _folders) = pair();
    let node = Node::with(confirmed(&master), Arc::new(Sql::default())).await;
    let sale = SaleId::from_random(2);
    published(&node, sale).await;
    let order = node.insist(sale, "ann").await.unwrap();
    let before = clock_of(&master, sale);
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(node.insist(sale, "ann").await.unwrap(), order);
    assert!(clock_of(&master, sale) > before);
    // Without replicas this is not needed.
    let alone = Node::on(&master, Arc::new(Sql::default())).await;
    let before = clock_of(&master, sale);
    tokio::time::sleep(Duration::from_millis(5)).await;
    alone.insist(sale, "ann").await.unwrap();
    assert_eq!(clock_of(&master, sale), before);
    // A sale that nobody published stays unknown.
    let unknown = SaleId::from_random(3);
    node.insist(unknown, "ann").await.unwrap_err();
    assert_eq!(master.cli(&["EXISTS", &format!("{{{unknown}}}:sale")]).unwrap().trim(), "0");
}

#[tokio::test]
async fn a_master_that_became_a_replica_answers_nothing() {
    let (former, mut next, _folders) = pair();
    let sql = Arc::new(Sql::default());
    let node = Node::on(&former, sql.clone()).await;
    let sale = SaleId::from_random(4);
    published(&node, sale).await;
    node.insist(sale, "ann").await.unwrap();
    next.wait_until(|next| {
        next.cli(&["HGET", &format!("{{{sale}}}:sale"), "position"]).is_ok_and(|text| text.trim() == "2")
    })
    .unwrap();
    next.cli(&["REPLICAOF", "NO", "ONE"]).unwrap();
    let address = next.address();
    former.cli(&["REPLICAOF", &address.ip().to_string(), &address.port().to_string()]).unwrap();
    let other = Node::on(&next, sql).await;
    other.insist(sale, "bob").await.unwrap();
    // The former master hears of everything, including the sale's new home.
    let key = format!("{{{sale}}}:sale");
    let heard = || former.cli(&["HGET", &key, "position"]).is_ok_and(|text| text.trim() == "3");
    until("the replica", heard).await;
    let refused = node.claim(sale, "ann").await.unwrap_err();
    assert!(matches!(refused, LedgerError::Unavailable(_)), "{refused:?}");
}

/// How often the server was asked to wait for replicas.
fn waits(server: &RedisServer) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]).unwrap();
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_wait:calls="));
    calls.map_or(0, |calls| calls.split(',').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn sales_on_one_server_of_a_cluster_are_confirmed_together() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = RedisCluster::start(folder.path(), 1, 1).unwrap();
    let addresses = cluster.addresses().iter().map(ToString::to_string).collect();
    let (mode, timeout) = (RedisMode::Cluster { addresses }, Duration::from_secs(30));
    let options = RedisOptions { wait_milliseconds: 20_000, mode, timeout, ..confirmed(&cluster.nodes()[0]) };
    let node = Node::with(options, Arc::new(Sql::default())).await;
    let sales: Vec<SaleId> = (1..=20).map(SaleId::from_random).collect();
    for sale in &sales {
        published(&node, *sale).await;
    }
    let before = waits(&cluster.nodes()[0]);
    let claimed = join_all(sales.iter().map(|sale| node.claim(*sale, "ann"))).await;
    assert!(claimed.iter().all(Result::is_ok), "{claimed:?}");
    // They are one batch, or a few if the writer was quick.
    let waited = waits(&cluster.nodes()[0]) - before;
    assert!((1..10).contains(&waited), "{waited} times for {} sales", sales.len());
}
