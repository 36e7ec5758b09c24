//! A master dies while several nodes sell: every order that was given is kept, nobody gets one that does not
//! exist, and the sale goes on without help.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod nodes;

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::future::join_all;
use nodes::{Node, Sql};
use penstock_domain::{ClaimRefusal, Order, SaleId};
use penstock_ledger::LedgerError;
use penstock_local::{Cut, CutProxy, RedisCluster, RedisSentinel, RedisServer, RedisSettings};
use penstock_redis_client::{RedisMode, RedisOptions};

const UNITS: u32 = 300;
const BUYERS: usize = 600;
const AT_ONCE: usize = 20;

fn texts(addresses: Vec<SocketAddr>) -> Vec<String> {
    addresses.iter().map(SocketAddr::to_string).collect()
}

fn options(mode: RedisMode) -> RedisOptions {
    RedisOptions { mode, wait_replicas: 1, wait_milliseconds: 300, ..RedisOptions::default() }
}

/// All buyers ask until they get an answer, `AT_ONCE` at a time, spread over the nodes. After a third of them
/// `disaster` happens.
async fn rush(
    nodes: &[Node],
    sale: SaleId,
    disaster: impl FnOnce() + Send + 'static,
) -> Vec<Result<Order, ClaimRefusal>> {
    let (next, half_way) = (AtomicUsize::new(0), tokio::sync::Notify::new());
    let buyers = (0..AT_ONCE).map(|_| async {
        let mut answers = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number == BUYERS / 3 {
                half_way.notify_one();
            }
            if number >= BUYERS {
                return answers;
            }
            let node = &nodes[number % nodes.len()];
            answers.push(node.insist(sale, &format!("buyer{number}")).await);
        }
    });
    let disaster = async {
        half_way.notified().await;
        tokio::task::spawn_blocking(disaster).await.unwrap();
    };
    let (answers, ()) = tokio::join!(join_all(buyers), disaster);
    answers.into_iter().flatten().collect()
}

async fn check(nodes: &[Node], sql: &Sql, sale: SaleId, answers: &[Result<Order, ClaimRefusal>]) {
    let orders: Vec<&Order> = answers.iter().flatten().collect();
    assert_eq!(orders.len(), UNITS as usize);
    assert!(
        answers.iter().all(|answer| !matches!(answer, Err(refusal) if *refusal != ClaimRefusal::SoldOut))
    );
    let numbers: BTreeSet<u32> = orders.iter().map(|order| order.id.number).collect();
    assert_eq!(numbers.len(), UNITS as usize, "an order has two owners");
    for node in nodes {
        let status = node.status(sale).await;
        assert_eq!((status.total, status.available, status.held), (UNITS, 0, UNITS));
        let is_heard = |heard: &nodes::Heard| heard.status(sale).is_some_and(|heard| heard.available == 0);
        node.heard.until("the end of the sale", is_heard).await;
    }
    for order in orders {
        let found = nodes[0].find(order.id).await;
        assert_eq!(found.as_ref(), Some(order), "an order was lost");
    }
    sql.settle(&nodes[0].ledger, sale).await.unwrap();
    assert_eq!((sql.status(sale).held, sql.status(sale).available), (UNITS, 0));
}

/// Three nodes sell with sentinels and two replicas while `disaster` happens to the master.
async fn sell_with_sentinels(disaster: impl FnOnce(&mut RedisSentinel, usize) + Send + 'static) {
    let folder = tempfile::tempdir().unwrap();
    let mut sentinels = RedisSentinel::start(folder.path(), 2).unwrap();
    let (addresses, master) = (texts(sentinels.addresses()), sentinels.master_name().into());
    let options = options(RedisMode::Sentinel { addresses, master });
    let sql = Arc::new(Sql::default());
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(Node::with(options.clone(), sql.clone()).await);
    }
    let sale = SaleId::from_random(1);
    nodes[0].publish(sale, UNITS).await;
    let former = sentinels.master().unwrap();
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let answers = rush(&nodes, sale, move || {
        disaster(&mut sentinels, former);
        sender.send(sentinels).unwrap();
    });
    let answers = answers.await;
    let sentinels = receiver.recv().unwrap();
    check(&nodes, &sql, sale, &answers).await;
    assert_ne!(sentinels.master(), Some(former));
}

#[tokio::test]
async fn the_sentinels_replace_a_master_that_died() {
    sell_with_sentinels(|sentinels, master| sentinels.server(master).unwrap().kill().unwrap()).await;
}

#[tokio::test]
async fn a_master_that_wakes_after_it_was_replaced_sells_nothing() {
    sell_with_sentinels(|sentinels, master| {
        sentinels.server(master).unwrap().pause().unwrap();
        sentinels.wait_for_failover(master).unwrap();
        sentinels.server(master).unwrap().resume().unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_node_that_is_cut_off_refuses_while_the_others_sell() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), RedisSettings::default()).unwrap();
    let address = server.address();
    let mut way = tokio::task::spawn_blocking(move || CutProxy::start(address).unwrap()).await.unwrap();
    let sql = Arc::new(Sql::default());
    let others = Node::on(&server, sql.clone()).await;
    let cut_off = Node::with(RedisOptions::single(way.address().to_string()), sql).await;
    let sale = SaleId::from_random(3);
    others.publish(sale, UNITS).await;
    for (number, kind) in [Cut::Reset, Cut::Silence].into_iter().enumerate() {
        let name = |who: &str| format!("{who}{number}");
        cut_off.insist(sale, &name("ann")).await.unwrap();
        way.cut(kind).unwrap();
        for buyer in ["bob", "cid"] {
            let refused = cut_off.claim(sale, &name(buyer)).await.unwrap_err();
            assert!(matches!(refused, LedgerError::Unavailable(_)), "{refused:?}");
        }
        others.claim(sale, &name("dan")).await.unwrap();
        way.mend().unwrap();
        cut_off.insist(sale, &name("bob")).await.unwrap();
        cut_off.heard.until("the others' order", |heard| heard.has(sale, &name("dan"))).await;
    }
}

#[tokio::test]
async fn a_cluster_replaces_a_master_that_died() {
    let folder = tempfile::tempdir().unwrap();
    // Three masters with two replicas each: when one replica becomes master, the other can confirm.
    let mut cluster = RedisCluster::start(folder.path(), 3, 6).unwrap();
    let options = options(RedisMode::Cluster { addresses: texts(cluster.addresses()) });
    let sql = Arc::new(Sql::default());
    let nodes = [Node::with(options.clone(), sql.clone()).await, Node::with(options, sql.clone()).await];
    let sale = SaleId::from_random(2);
    nodes[0].publish(sale, UNITS).await;
    let former = cluster.master_of(&format!("{{{sale}}}:sale")).unwrap();
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let answers = rush(&nodes, sale, move || {
        cluster.node(former).unwrap().kill().unwrap();
        sender.send(cluster).unwrap();
    });
    let answers = answers.await;
    let _cluster = receiver.recv().unwrap();
    check(&nodes, &sql, sale, &answers).await;
}

#[tokio::test]
async fn a_master_without_its_replicas_takes_no_sale_from_the_records() {
    let folder = tempfile::tempdir().unwrap();
    let master = RedisServer::start(&folder.path().join("master"), RedisSettings::default()).unwrap();
    let settings = RedisSettings { replica_of: Some(master.address()), ..RedisSettings::default() };
    let mut replica = RedisServer::start(&folder.path().join("replica"), settings).unwrap();
    let is_up = |replica: &RedisServer| replica.info("master_link_status").is_ok_and(|up| up.trim() == "up");
    replica.wait_until(is_up).unwrap();
    let (sql, sale) = (Arc::new(Sql::default()), SaleId::from_random(4));
    let options = RedisOptions { wait_replicas: 1, ..RedisOptions::single(master.address().to_string()) };
    let node = Node::with(options, sql.clone()).await;
    node.publish(sale, UNITS).await;
    node.insist(sale, "ann").await.unwrap();
    let before = sql.epoch_of(sale);
    replica.pause().unwrap();
    // Settlement from this master is stopped by the records, and makes it compare the sale with them.
    node.ledger.feed().doubt(&sale.to_string());
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(sql.epoch_of(sale), before, "another master may have the sale by now");
    replica.resume().unwrap();
    nodes::until("the comparison", || sql.epoch_of(sale) > before).await;
    node.insist(sale, "bob").await.unwrap();
}
