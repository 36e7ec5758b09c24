//! A sale whose server was restarted, or has lost the end of its history: the records win, units are
//! conserved, and nobody's order is sold to somebody else.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod nodes;

use std::{fs, path::Path, process::Command, sync::Arc};

use futures_util::future::join_all;
use nodes::{Node, Sql, until};
use penstock_domain::{ClaimRefusal, SaleId, SaleStatus};
use penstock_ledger::{
    FeedError, LedgerError,
    redis::{Reconciled, Settled as _},
};
use penstock_local::{RedisServer, RedisSettings};

const UNITS: u32 = 10;

struct Stage {
    server: RedisServer,
    sql: Arc<Sql>,
    sale: SaleId,
    folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = RedisServer::start(&folder.path().join("data"), RedisSettings::default()).unwrap();
        Self { server, sql: Arc::default(), sale: SaleId::from_random(7), folder }
    }

    async fn node(&self) -> Node {
        Node::on(&self.server, self.sql.clone()).await
    }

    /// Copies the server's data, as an asynchronous replica may have it.
    fn copy(&self) {
        copy(self.server.folder(), &self.folder.path().join("copy"));
    }

    /// The server dies, and its replacement has only what was in the copy.
    fn fail_over_to_copy(&mut self) {
        self.server.kill().unwrap();
        fs::remove_dir_all(self.server.folder()).unwrap();
        copy(&self.folder.path().join("copy"), self.server.folder());
        self.server.restart().unwrap();
    }

    async fn sell(&self, node: &Node, names: &[&str]) {
        for name in names {
            node.claim(self.sale, name).await.unwrap();
        }
    }

    /// Sells the remaining units. Checks that every unit was sold once, and that the records can follow.
    async fn sell_out(&self, node: &Node, owners: &[&str]) {
        let status = node.status(self.sale).await;
        assert_eq!(status.total, status.available + status.held + status.paid);
        for number in 0..status.available {
            node.insist(self.sale, &format!("late{number}")).await.unwrap();
        }
        assert_eq!(node.insist(self.sale, "nobody").await.unwrap_err(), ClaimRefusal::SoldOut);
        let mut numbers = Vec::new();
        for name in owners {
            numbers.push(node.insist(self.sale, name).await.unwrap().id.number);
        }
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), owners.len(), "an order has two owners");
        self.sql.settle(&node.ledger, self.sale).await.unwrap();
        let (known, settled) = (node.status(self.sale).await, self.sql.status(self.sale));
        assert_eq!((known.held, known.available), (UNITS, 0));
        assert_eq!((settled.held, settled.available), (UNITS, 0));
    }
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

#[tokio::test]
async fn a_restart_without_loss_changes_only_the_home() {
    let mut stage = Stage::new();
    let node = stage.node().await;
    node.publish(stage.sale, UNITS).await;
    stage.sell(&node, &["ann", "bob"]).await;
    stage.sql.settle(&node.ledger, stage.sale).await.unwrap();
    stage.sell(&node, &["cid"]).await;
    let before = node.status(stage.sale).await;
    stage.server.kill().unwrap();
    stage.server.restart().unwrap();
    let after = node.status(stage.sale).await;
    assert!(after.version > before.version, "a new home is news");
    assert_eq!(SaleStatus { version: before.version, ..after }, before);
    stage.sell_out(&node, &["ann", "bob", "cid"]).await;
    assert_eq!(stage.sql.reconciliations(), []);
}

#[tokio::test]
async fn settled_decisions_that_were_lost_come_back() {
    let mut stage = Stage::new();
    let node = stage.node().await;
    node.publish(stage.sale, UNITS).await;
    stage.sell(&node, &["ann", "bob"]).await;
    stage.copy();
    stage.sell(&node, &["cid", "dan", "eve"]).await;
    stage.sql.settle(&node.ledger, stage.sale).await.unwrap();
    stage.sell(&node, &["fay"]).await;
    let before = node.status(stage.sale).await;
    stage.fail_over_to_copy();

    let order = node.insist(stage.sale, "eve").await.unwrap();
    assert_eq!(order.id.number, 4, "the first answer");
    let after = node.status(stage.sale).await;
    assert!(after.version > before.version);
    // Decisions that were neither settled nor copied are lost. A replica that confirms prevents that.
    assert_eq!((after.held, after.available), (5, 5));
    let expected = Reconciled { sale: stage.sale, brought_back: 3, given_up: 0 };
    until("the report", || !stage.sql.reconciliations().is_empty()).await;
    assert_eq!(stage.sql.reconciliations(), [expected]);
    assert_eq!(*stage.sql.lost.lock().unwrap(), 1, "fay's order is lost");
    node.heard
        .until("the new version", |heard| heard.status(stage.sale).unwrap().version >= after.version)
        .await;
    stage.sell_out(&node, &["ann", "bob", "cid", "dan", "eve"]).await;
}

#[tokio::test]
async fn a_node_that_starts_after_the_loss_brings_the_sale_back_too() {
    let mut stage = Stage::new();
    let node = stage.node().await;
    node.publish(stage.sale, UNITS).await;
    stage.copy();
    stage.sell(&node, &["ann", "bob"]).await;
    stage.sql.settle(&node.ledger, stage.sale).await.unwrap();
    node.ledger.stop().await;
    stage.fail_over_to_copy();
    let node = stage.node().await;
    stage.sell_out(&node, &["ann", "bob"]).await;
}

#[tokio::test]
async fn a_sale_that_is_gone_comes_back_unasked() {
    let mut stage = Stage::new();
    stage.copy();
    let node = stage.node().await;
    node.publish(stage.sale, UNITS).await;
    stage.sell(&node, &["ann", "bob"]).await;
    stage.sql.settle(&node.ledger, stage.sale).await.unwrap();
    stage.fail_over_to_copy();
    until("the sale", || !stage.sql.reconciliations().is_empty()).await;
    assert_eq!(stage.sql.reconciliations()[0].brought_back, 3);
    stage.sell_out(&node, &["ann", "bob"]).await;

    // It also comes back if no node was there to remember it.
    node.ledger.stop().await;
    stage.fail_over_to_copy();
    let node = stage.node().await;
    stage.sell_out(&node, &["ann", "bob"]).await;
}

#[tokio::test]
async fn publishing_a_lost_sale_again_brings_it_back() {
    let mut stage = Stage::new();
    stage.copy();
    let node = stage.node().await;
    node.publish(stage.sale, UNITS).await;
    stage.sell(&node, &["ann"]).await;
    stage.sql.settle(&node.ledger, stage.sale).await.unwrap();
    node.ledger.stop().await;
    stage.fail_over_to_copy();
    let node = stage.node().await;
    assert_eq!(node.publish(stage.sale, UNITS).await.held, 1);
    stage.sell_out(&node, &["ann"]).await;
}

#[tokio::test]
async fn nodes_that_find_the_loss_at_once_bring_the_sale_back_once() {
    let mut stage = Stage::new();
    let nodes = [stage.node().await, stage.node().await, stage.node().await];
    nodes[0].publish(stage.sale, UNITS).await;
    stage.copy();
    stage.sell(&nodes[0], &["ann", "bob", "cid"]).await;
    stage.sql.settle(&nodes[0].ledger, stage.sale).await.unwrap();
    stage.fail_over_to_copy();
    let claims = nodes.iter().flat_map(|node| ["ann", "bob", "cid"].map(|who| node.insist(stage.sale, who)));
    let numbers: Vec<u32> =
        join_all(claims).await.into_iter().map(|order| order.unwrap().id.number).collect();
    assert_eq!(numbers, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    stage.sell_out(&nodes[1], &["ann", "bob", "cid"]).await;
    assert_eq!(stage.sql.reconciliations().len(), 1, "it was brought back once");
}

#[tokio::test]
async fn a_node_that_dies_while_bringing_a_sale_back_is_replaced() {
    let mut stage = Stage::new();
    let node = stage.node().await;
    node.publish(stage.sale, UNITS).await;
    stage.copy();
    stage.sell(&node, &["ann", "bob"]).await;
    stage.sql.settle(&node.ledger, stage.sale).await.unwrap();
    node.ledger.stop().await;
    stage.fail_over_to_copy();
    // Another node has begun, and has left an order that does not exist.
    let key = |what: &str| format!("{{{}}}:{what}", stage.sale);
    let seconds: u64 = stage.server.cli(&["TIME"]).unwrap().lines().next().unwrap().parse().unwrap();
    let until = (seconds + 2) * 1_000;
    stage
        .server
        .cli(&["HSET", &key("sale"), "token", "somebody", "token_until", &until.to_string()])
        .unwrap();
    stage.server.cli(&["HSET", &key("orders:new"), "99", "half"]).unwrap();
    let node = stage.node().await;
    stage.sell_out(&node, &["ann", "bob"]).await;
    assert_eq!(stage.server.cli(&["EXISTS", &key("orders:new"), &key("buyers:new")]).unwrap(), "0");
}

#[tokio::test]
async fn a_diverged_history_gives_way_to_the_records() {
    let stage = Stage::new();
    let node = stage.node().await;
    node.publish(stage.sale, UNITS).await;
    stage.sell(&node, &["ann", "bob"]).await;
    stage.sql.settle(&node.ledger, stage.sale).await.unwrap();
    stage.sql.change_mark(stage.sale);
    let diverged = stage.sql.settle(&node.ledger, stage.sale).await.unwrap_err();
    assert_eq!(diverged, FeedError::Diverged);
    // Its server was not replaced, but settlement that can't go on makes the ledger look again.
    until("the report", || !stage.sql.reconciliations().is_empty()).await;
    stage.sell_out(&node, &["ann", "bob"]).await;
    assert_eq!(stage.sql.reconciliations(), [Reconciled { sale: stage.sale, brought_back: 0, given_up: 1 }]);
}

#[tokio::test]
async fn a_history_longer_than_the_records_is_never_replaced_by_them() {
    let mut stage = Stage::new();
    let node = stage.node().await;
    node.publish(stage.sale, UNITS).await;
    stage.sell(&node, &["ann"]).await;
    stage.sql.settle(&node.ledger, stage.sale).await.unwrap();
    let older = stage.sql.cursor_of(stage.sale);
    stage.sell(&node, &["bob", "cid"]).await;
    stage.sql.settle(&node.ledger, stage.sale).await.unwrap();
    let newer = stage.sql.cursor_of(stage.sale);
    stage.sell(&node, &["dan"]).await;
    let (name, feed) = (stage.sale.to_string(), format!("{{{}}}:feed", stage.sale));
    node.ledger.feed().settled(&name, newer);
    until("trimming", || stage.server.cli(&["XLEN", &feed]).unwrap() == "2").await;

    // The records come from an older copy, and the ledger no longer has what they lack.
    stage.sql.go_back_to(stage.sale, older);
    stage.server.kill().unwrap();
    stage.server.restart().unwrap();
    for _ in 0..3 {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        assert!(matches!(node.claim(stage.sale, "eve").await, Err(LedgerError::Unavailable(_))));
    }
    let position = stage.server.cli(&["HGET", &format!("{{{name}}}:sale"), "position"]).unwrap();
    assert_eq!((position.as_str(), stage.sql.reconciliations()), ("5", vec![]));
    stage.sql.go_back_to(stage.sale, newer);
    stage.sell_out(&node, &["ann", "bob", "cid", "dan"]).await;
}

#[tokio::test]
async fn an_unused_epoch_does_not_stop_settlement() {
    let stage = Stage::new();
    let node = stage.node().await;
    node.publish(stage.sale, UNITS).await;
    stage.sell(&node, &["ann"]).await;
    // A node that asked the records was killed before it came back to the ledger.
    let begun = stage.sql.begin_epoch(stage.sale, 0).await.unwrap();
    stage.sell_out(&node, &["ann"]).await;
    assert!(stage.sql.epoch_of(stage.sale) > begun.epoch);
    assert_eq!(stage.sql.reconciliations(), []);
}

#[tokio::test]
async fn an_unsettled_sale_that_is_lost_is_counted_as_lost() {
    let stage = Stage::new();
    let node = stage.node().await;
    node.publish(stage.sale, UNITS).await;
    stage.sell(&node, &["ann"]).await;
    stage.server.cli(&["FLUSHALL"]).unwrap();
    until("the loss", || *stage.sql.lost.lock().unwrap() > 0).await;
    assert_eq!(node.insist(stage.sale, "ann").await.unwrap_err(), ClaimRefusal::UnknownSale);
    assert_eq!(*stage.sql.lost.lock().unwrap(), 2, "it is counted once");
}

#[tokio::test]
async fn a_remembered_sale_is_not_published_anew_while_it_comes_back() {
    let stage = Stage::new();
    let node = stage.node().await;
    node.publish(stage.sale, UNITS).await;
    stage.sell(&node, &["ann"]).await;
    stage.sql.settle(&node.ledger, stage.sale).await.unwrap();
    stage.sql.read_slowly();
    stage.server.cli(&["FLUSHALL"]).unwrap();
    let terms = nodes::terms(stage.sale, UNITS);
    let published = loop {
        match node.ledger.publish(terms).await {
            Ok(status) => break status,
            Err(error) => assert!(matches!(error, LedgerError::Unavailable(_)), "{error:?}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert_eq!((published.held, published.available), (1, UNITS - 1));
    stage.sell_out(&node, &["ann"]).await;
}

#[tokio::test]
async fn a_replaced_master_sells_in_an_epoch_that_nobody_settles() {
    let mut stage = Stage::new();
    let here = stage.node().await;
    here.publish(stage.sale, UNITS).await;
    stage.sell(&here, &["ann"]).await;
    stage.sql.settle(&here.ledger, stage.sale).await.unwrap();
    stage.copy();
    // The copy takes over, but this node and its master do not hear of it.
    let promoted = RedisServer::start(&stage.folder.path().join("copy"), RedisSettings::default()).unwrap();
    let there = Node::on(&promoted, stage.sql.clone()).await;
    there.insist(stage.sale, "bob").await.unwrap();
    here.insist(stage.sale, "cid").await.unwrap();
    let (name, cursor) = (stage.sale.to_string(), stage.sql.cursor_of(stage.sale));
    let dead = here.ledger.feed().read(&name, cursor, 10).await.unwrap();
    let alive = there.ledger.feed().read(&name, cursor, 10).await.unwrap();
    let epoch = stage.sql.epoch_of(stage.sale);
    assert_eq!((dead.decisions.len(), alive.decisions.len()), (1, 1));
    assert_eq!((alive.epoch, dead.epoch < epoch), (epoch, true));

    // If the old master starts again, and is taken for a master there, its epoch is still its own.
    stage.server.kill().unwrap();
    stage.server.restart().unwrap();
    let (dead, alive) = (here.status(stage.sale).await, there.status(stage.sale).await);
    assert_ne!(dead.version >> 40, alive.version >> 40);
}

#[tokio::test]
async fn a_large_sale_comes_back_in_steps() {
    let mut stage = Stage::new();
    let node = stage.node().await;
    let (sale, units) = (SaleId::from_random(8), 3_000);
    node.publish(sale, units).await;
    stage.copy();
    let names: Vec<String> = (0..2_500).map(|number| format!("buyer{number}")).collect();
    for names in names.chunks(500) {
        assert!(join_all(names.iter().map(|who| node.claim(sale, who))).await.iter().all(Result::is_ok));
    }
    stage.sql.settle(&node.ledger, sale).await.unwrap();
    let numbers = |orders: Vec<Result<_, _>>| -> Vec<u32> {
        orders.into_iter().map(|order: Result<penstock_domain::Order, _>| order.unwrap().id.number).collect()
    };
    let first = numbers(join_all(names.iter().map(|who| node.insist(sale, who))).await);
    stage.fail_over_to_copy();
    assert_eq!(node.insist(sale, &names[2_499]).await.unwrap().id.number, first[2_499]);
    assert_eq!(numbers(join_all(names.iter().map(|who| node.insist(sale, who))).await), first);
    let status = node.status(sale).await;
    assert_eq!((status.held, status.available), (2_500, 500));
}
