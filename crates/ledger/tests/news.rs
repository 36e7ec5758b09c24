//! News between nodes: the others hear what one node sells, and find out what they missed.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod nodes;

use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use nodes::{Node, until};
use penstock_domain::{ClaimRefusal, SaleId, SaleStatus};
use penstock_ledger::{
    Health, Listener, SaleNews,
    redis::{self, LedgerOptions, NothingSettled},
};
use penstock_local::{RedisCluster, RedisServer, RedisSettings};
use penstock_redis_client::{Link, RedisMode, RedisOptions};

fn server() -> (RedisServer, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (RedisServer::start(folder.path(), RedisSettings::default()).unwrap(), folder)
}

async fn node(server: &RedisServer) -> Node {
    Node::on(server, Arc::new(NothingSettled)).await
}

/// Lets nodes tell each other news, or forbids it.
fn allow_messages(server: &RedisServer, allowed: bool) {
    let rule = if allowed { "+publish" } else { "-publish" };
    server.cli(&["ACL", "SETUSER", "default", rule]).unwrap();
}

#[tokio::test]
async fn a_sale_of_one_node_is_heard_on_the_other() {
    let (server, _folder) = server();
    let (here, there) = (node(&server).await, node(&server).await);
    let sale = SaleId::from_random(1);
    here.publish(sale, 2).await;
    there.heard.until("the publishing", |heard| heard.status(sale).is_some()).await;
    here.claim(sale, "ann").await.unwrap();
    there.claim(sale, "bob").await.unwrap();
    for node in [&here, &there] {
        let is_sold_out =
            |heard: &nodes::Heard| heard.status(sale).is_some_and(|status| status.available == 0);
        node.heard.until("the end of the sale", is_sold_out).await;
        assert!(node.heard.has(sale, "ann") && node.heard.has(sale, "bob"));
    }
    let fails = here.insist(sale, "cid").await.unwrap_err();
    assert_eq!(fails, ClaimRefusal::SoldOut);
    assert_eq!(here.insist(sale, "bob").await.unwrap().id, there.insist(sale, "bob").await.unwrap().id);
}

#[tokio::test]
async fn untold_news_is_found_in_the_feed_or_among_the_buyers() {
    let (server, _folder) = server();
    let (here, there) = (node(&server).await, node(&server).await);
    let sale = SaleId::from_random(2);
    allow_messages(&server, false);
    here.publish(sale, 10).await;
    here.claim(sale, "ann").await.unwrap();
    there.heard.until("the order", |heard| heard.has(sale, "ann")).await;
    here.claim(sale, "bob").await.unwrap();
    there.heard.until("the next order", |heard| heard.has(sale, "bob")).await;
    // Settled decisions may be gone from the feed.
    for name in ["cid", "dan", "eve"] {
        here.claim(sale, name).await.unwrap();
        server.cli(&["XTRIM", &format!("{{{sale}}}:feed"), "MAXLEN", "0"]).unwrap();
    }
    there.heard.until("the settled orders", |heard| heard.has(sale, "cid") && heard.has(sale, "eve")).await;
    until("the count", || there.heard.status(sale).unwrap().available == 5).await;
}

#[tokio::test]
async fn a_status_is_never_told_before_the_keys_it_rests_on() {
    let (server, _folder) = server();
    let (here, there) = (node(&server).await, node(&server).await);
    for round in 0..4_u64 {
        let sale = SaleId::from_random(100 + round);
        here.publish(sale, 300).await;
        allow_messages(&server, round % 2 == 0);
        let names: Vec<String> = (0..300).map(|number| format!("buyer{number}")).collect();
        for names in names.chunks(20) {
            let claims = names.iter().enumerate().map(|(place, who)| {
                let node = if place % 3 == 0 { &here } else { &there };
                node.claim(sale, who)
            });
            assert!(join_all(claims).await.iter().all(Result::is_ok));
        }
        allow_messages(&server, true);
        for node in [&here, &there] {
            let is_sold_out =
                |heard: &nodes::Heard| heard.status(sale).is_some_and(|status| status.available == 0);
            node.heard.until("the end of the sale", is_sold_out).await;
            assert!(names.iter().all(|who| node.heard.has(sale, who)));
        }
    }
}

#[tokio::test]
async fn a_lost_list_of_all_sales_is_restored() {
    let (server, _folder) = server();
    let here = node(&server).await;
    let sale = SaleId::from_random(4);
    here.publish(sale, 10).await;
    server.cli(&["DEL", "penstock:sales"]).unwrap();
    until("the list", || server.cli(&["SISMEMBER", "penstock:sales", &sale.to_string()]).unwrap() == "1")
        .await;
}

#[tokio::test]
async fn nodes_hear_of_each_other_again_after_redis_was_restarted() {
    let (mut server, _folder) = server();
    let (here, there) = (node(&server).await, node(&server).await);
    let sale = SaleId::from_random(3);
    here.publish(sale, 10).await;
    here.claim(sale, "ann").await.unwrap();
    server.kill().unwrap();
    server.restart().unwrap();
    assert_eq!(there.insist(sale, "ann").await.unwrap().id.number, 0);
    there.insist(sale, "bob").await.unwrap();
    here.heard.until("the order after the restart", |heard| heard.has(sale, "bob")).await;
    assert_eq!(here.status(sale).await.available, 8);
}

/// Forbids reading all buyers of a sale.
fn forbid_reading_all_buyers(server: &RedisServer) {
    server.cli(&["ACL", "SETUSER", "default", "-hscan"]).unwrap();
}

#[tokio::test]
async fn a_node_keeps_what_it_knows_when_a_sale_has_a_new_epoch() {
    let (server, _folder) = server();
    let (here, there) = (node(&server).await, node(&server).await);
    let sale = SaleId::from_random(5);
    here.publish(sale, 10).await;
    here.claim(sale, "ann").await.unwrap();
    there.heard.until("the first order", |heard| heard.has(sale, "ann")).await;
    forbid_reading_all_buyers(&server);
    allow_messages(&server, false);
    let before = here.status(sale).await.version;
    here.ledger.feed().doubt(&sale.to_string());
    let is_new = |heard: &nodes::Heard| heard.status(sale).is_some_and(|status| status.version > before);
    there.heard.until("the new epoch", is_new).await;
    here.heard.until("the new epoch", is_new).await;
    here.insist(sale, "bob").await.unwrap();
    there.heard.until("the next order", |heard| heard.has(sale, "bob")).await;
    until("the count", || there.heard.status(sale).unwrap().available == 8).await;
}

/// Looks at sales and needs no keys.
struct WantsNoKeys(Mutex<Option<SaleStatus>>);

impl Listener for WantsNoKeys {
    fn sales_changed(&self, news: &[SaleNews]) {
        assert!(news.iter().all(|news| news.accepted.is_empty() || news.status.available < 10));
        *self.0.lock().unwrap() = news.last().map(|news| news.status);
    }

    fn wants_keys(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn nobody_reads_keys_for_a_listener_that_wants_none() {
    let (server, _folder) = server();
    let here = node(&server).await;
    let sale = SaleId::from_random(6);
    here.publish(sale, 10).await;
    here.claim(sale, "ann").await.unwrap();
    forbid_reading_all_buyers(&server);
    let link = Link::connect(RedisOptions::single(server.address().to_string())).await.unwrap();
    let listener = Arc::new(WantsNoKeys(Mutex::default()));
    let (options, settled) = (LedgerOptions::default(), Arc::new(NothingSettled));
    let worker = redis::open(options, link, None, listener.clone(), settled).unwrap();
    assert_eq!(worker.recovered().await, Health::Ready);
    here.ledger.feed().doubt(&sale.to_string());
    let is_new = || listener.0.lock().unwrap().is_some_and(|status| status.version >> 40 > 0);
    until("the new epoch", is_new).await;
}

#[tokio::test]
async fn a_silent_master_does_not_hold_up_news_of_other_masters() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = RedisCluster::start(folder.path(), 3, 0).unwrap();
    let addresses = cluster.addresses().iter().map(ToString::to_string).collect();
    let options = RedisOptions { mode: RedisMode::Cluster { addresses }, ..RedisOptions::default() };
    let here = Node::with(options.clone(), Arc::new(NothingSettled)).await;
    let there = Node::with(options, Arc::new(NothingSettled)).await;
    // This master also has the list of all sales.
    let silent = cluster.master_of("penstock:sales").unwrap();
    let sales = (0..50).map(|number| SaleId::from_random(2_000 + number * 7_919));
    let sale = sales
        .into_iter()
        .find(|sale| cluster.master_of(&format!("{{{sale}}}:sale")).is_ok_and(|master| master != silent))
        .unwrap();
    here.publish(sale, 10).await;
    there.heard.until("the publishing", |heard| heard.status(sale).is_some()).await;
    cluster.nodes().iter().for_each(|server| allow_messages(server, false));
    cluster.node(silent).unwrap().pause().unwrap();
    for name in ["ann", "bob"] {
        here.insist(sale, name).await.unwrap();
        there.heard.until("the order", |heard| heard.has(sale, name)).await;
    }
    cluster.node(silent).unwrap().resume().unwrap();
}

#[tokio::test]
async fn in_a_cluster_sales_of_all_masters_are_heard() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = RedisCluster::start(folder.path(), 3, 0).unwrap();
    let addresses = cluster.addresses().iter().map(ToString::to_string).collect();
    let options = RedisOptions { mode: RedisMode::Cluster { addresses }, ..RedisOptions::default() };
    let here = Node::with(options.clone(), Arc::new(NothingSettled)).await;
    let there = Node::with(options, Arc::new(NothingSettled)).await;
    let sales: Vec<SaleId> = (0..12).map(|number| SaleId::from_random(1_000 + number * 7_919)).collect();
    for sale in &sales {
        here.publish(*sale, 1).await;
        here.claim(*sale, "ann").await.unwrap();
    }
    for sale in &sales {
        there.heard.until("the order", |heard| heard.has(*sale, "ann")).await;
        assert_eq!(there.insist(*sale, "bob").await.unwrap_err(), ClaimRefusal::SoldOut);
    }
}
