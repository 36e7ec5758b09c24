//! The steps of an adoption one by one, for nodes that are slow, are killed, or are overtaken by others.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod nodes;

use std::sync::Arc;

use nodes::Node;
use penstock_domain::SaleId;
use penstock_ledger::redis::NothingSettled;
use penstock_local::{RedisServer, RedisSettings};
use penstock_redis_client::{Link, RedisOptions, Script};
use redis::{Cmd, Value, cmd};

/// Word, position, epoch and replication id.
type Answer = (String, u64, u64, String);

/// A sale of five units with three orders, and no running node.
struct Stage {
    server: RedisServer,
    sale: SaleId,
    link: Link,
    script: Script,
    _folder: tempfile::TempDir,
}

impl Stage {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = RedisServer::start(folder.path(), RedisSettings::default()).unwrap();
        let (node, sale) = (Node::on(&server, Arc::new(NothingSettled)).await, SaleId::from_random(7));
        node.publish(sale, 5).await;
        for name in ["ann", "bob", "cid"] {
            node.claim(sale, name).await.unwrap();
        }
        node.ledger.stop().await;
        let link = Link::connect(RedisOptions::single(server.address().to_string())).await.unwrap();
        let script = Script::new(include_str!("../src/redis/scripts/adopt.lua"));
        link.learn(&script);
        Self { server, sale, link, script, _folder: folder }
    }

    fn key(&self, what: &str) -> String {
        format!("{{{}}}:{what}", self.sale)
    }

    /// Restarts the server: it gets another replication id, and no sale is at home on it.
    async fn restart(&mut self) -> String {
        self.server.kill().unwrap();
        self.server.restart().unwrap();
        let (word, _, _, home) = self.step("look", "", 0, |_| {}).await;
        assert_eq!(word, "unhomed");
        home
    }

    async fn value(&self, step: &str, home: &str, epoch: u64, add: impl FnOnce(&mut Cmd)) -> Value {
        let mut call = self.script.call();
        let old = ["sale", "buyers", "orders", "feed", "waitlist", "waiters"];
        let new = ["buyers:new", "orders:new", "waitlist:new", "waiters:new"];
        call.arg(old.len() + new.len());
        for what in old.into_iter().chain(new) {
            call.arg(self.key(what));
        }
        call.arg(step).arg(home).arg(epoch);
        add(&mut call);
        let mut pipeline = redis::pipe();
        pipeline.add_command(call);
        for _ in 0..100 {
            // A server that has just been started has to be found again.
            if let Ok(mut values) = self.link.run(&self.key("sale"), pipeline.clone(), false).await {
                return values.pop().unwrap();
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("Redis does not answer");
    }

    async fn step(&self, step: &str, home: &str, epoch: u64, add: impl FnOnce(&mut Cmd)) -> Answer {
        redis::from_redis_value(self.value(step, home, epoch, add).await).unwrap()
    }

    async fn word(&self, step: &str, home: &str, epoch: u64, add: impl FnOnce(&mut Cmd)) -> String {
        self.step(step, home, epoch, add).await.0
    }

    /// The mark of the entry that ends with `position`.
    async fn mark(&self, position: u64) -> Vec<u8> {
        let (feed, id) = (self.key("feed"), format!("{position}-0"));
        let mut range = cmd("XRANGE");
        range.arg(&feed).arg(&id).arg(&id);
        let entries: Vec<(String, Vec<Vec<u8>>)> = self.link.call(&feed, range).await.unwrap();
        entries[0].1[1].clone()
    }

    /// Begins a rebuild; the records have settled the feed up to `position`, with this mark.
    async fn begin(&self, home: &str, epoch: u64, position: u64, mark: &[u8]) -> String {
        self.word("begin", home, epoch, |call| {
            call.arg(position).arg(mark);
        })
        .await
    }

    async fn keep(&self, home: &str, epoch: u64, position: u64, mark: &[u8]) -> String {
        self.word("keep", home, epoch, |call| {
            call.arg(position).arg(mark);
        })
        .await
    }
}

/// A sale of five units, one of which is held. It says that it has `buyers` buyers.
fn whole_sale(call: &mut Cmd, buyers: u32) {
    call.arg(2).arg(&[7_u8; 16]).arg(&[0_u8; 29]).arg(&[5, 4, 1, 0]).arg(0).arg(0).arg(1).arg(0);
    call.arg("").arg(0).arg(buyers).arg(0).arg(0);
}

#[tokio::test]
async fn a_trimmed_feed_is_not_taken_for_a_lost_one() {
    let mut stage = Stage::new().await;
    let (second, third, fourth) = (stage.mark(2).await, stage.mark(3).await, stage.mark(4).await);
    stage.server.cli(&["XTRIM", &stage.key("feed"), "MINID", "3-0"]).unwrap();
    let home = stage.restart().await;
    assert_eq!(stage.keep(&home, 1, 2, &second).await, "trimmed", "the records are older");
    assert_eq!(stage.keep(&home, 1, 3, &fourth).await, "lost", "it is there, but of another history");
    assert_eq!(stage.keep(&home, 1, 5, &fourth).await, "lost", "the records have more");
    assert_eq!(stage.keep(&home, 1, 3, &third).await, "home");
    assert_eq!(stage.word("look", "", 0, |_| {}).await, "home");
}

#[tokio::test]
async fn a_missing_feed_is_not_replaced_if_the_sale_went_on() {
    let mut stage = Stage::new().await;
    let third = stage.mark(3).await;
    stage.server.cli(&["DEL", &stage.key("feed")]).unwrap();
    let home = stage.restart().await;
    assert_eq!(stage.keep(&home, 1, 3, &third).await, "trimmed");
    assert_eq!(stage.keep(&home, 1, 4, &third).await, "lost", "it has nothing that the records lack");
}

#[tokio::test]
async fn a_node_that_looked_at_another_server_changes_nothing() {
    let mut stage = Stage::new().await;
    let former = stage.step("look", "", 0, |_| {}).await.3;
    let third = stage.mark(3).await;
    let home = stage.restart().await;
    assert_ne!(former, home);
    assert_eq!(stage.keep(&former, 1, 3, &third).await, "gone");
    assert_eq!(stage.begin(&former, 1, 9, &[7; 16]).await, "gone");
    assert_eq!(stage.word("look", "", 0, |_| {}).await, "unhomed");

    // A rebuild that began on one server does not continue on the next.
    assert_eq!(stage.begin(&home, 1, 9, &[7; 16]).await, "begun");
    let next = stage.restart().await;
    let put = |call: &mut Cmd| {
        call.arg(1).arg(0).arg(0).arg("ann").arg("entry");
    };
    assert_eq!(stage.word("put", &home, 1, put).await, "gone");
    assert_eq!(stage.word("finish", &home, 1, |call| whole_sale(call, 1)).await, "gone");
    assert_eq!(stage.keep(&next, 2, 3, &third).await, "home");
}

#[tokio::test]
async fn a_rebuilt_sale_that_lacks_buyers_is_refused() {
    let mut stage = Stage::new().await;
    let home = stage.restart().await;
    assert_eq!(stage.begin(&home, 1, 9, &[7; 16]).await, "begun");
    let orders = |call: &mut Cmd| {
        call.arg(0).arg(1).arg(0).arg(0).arg(b"\x03ann");
    };
    assert_eq!(stage.word("put", &home, 1, orders).await, "put");
    let refused = stage.value("finish", &home, 1, |call| whole_sale(call, 1)).await;
    assert!(matches!(refused, Value::ServerError(_)), "{refused:?}");
    assert_eq!(stage.word("look", "", 0, |_| {}).await, "unhomed", "the sale as it was is still there");
    let buyers = |call: &mut Cmd| {
        call.arg(1).arg(0).arg(0).arg("ann").arg("entry");
    };
    assert_eq!(stage.word("put", &home, 1, buyers).await, "put");
    assert_eq!(stage.word("finish", &home, 1, |call| whole_sale(call, 1)).await, "home");
}

#[tokio::test]
async fn a_node_that_asked_the_records_earlier_gives_way() {
    let mut stage = Stage::new().await;
    let third = stage.mark(3).await;
    let home = stage.restart().await;
    assert_eq!(stage.keep(&home, 5, 3, &third).await, "home");
    assert_eq!(stage.keep(&home, 4, 3, &third).await, "home", "the other node has done it");
    assert_eq!(stage.step("look", "", 0, |_| {}).await.2, 5, "in the later epoch");
    assert_eq!(stage.keep(&home, 6, 3, &third).await, "home");
    assert_eq!(stage.step("look", "", 0, |_| {}).await.2, 6);

    assert_eq!(stage.begin(&home, 8, 9, &[7; 16]).await, "begun");
    assert_eq!(stage.word("look", "", 0, |_| {}).await, "unhomed", "nothing is decided meanwhile");
    assert_eq!(stage.begin(&home, 7, 9, &[7; 16]).await, "gone");
    assert_eq!(stage.begin(&home, 9, 9, &[7; 16]).await, "busy");
}

#[tokio::test]
async fn the_remains_of_an_abandoned_rebuild_are_removed() {
    let mut stage = Stage::new().await;
    let third = stage.mark(3).await;
    let home = stage.restart().await;
    assert_eq!(stage.begin(&home, 1, 9, &[7; 16]).await, "begun");
    let buyers = |call: &mut Cmd| {
        call.arg(1).arg(0).arg(0).arg("ann").arg("entry");
    };
    assert_eq!(stage.word("put", &home, 1, buyers).await, "put");
    assert_eq!(stage.keep(&home, 2, 3, &third).await, "home");
    assert_eq!(stage.server.cli(&["EXISTS", &stage.key("buyers:new")]).unwrap(), "0");
    assert_eq!(stage.word("put", &home, 1, buyers).await, "home");
}

#[tokio::test]
async fn a_sale_is_not_brought_back_twice() {
    let mut stage = Stage::new().await;
    let home = stage.restart().await;
    // Both find it lost; one finishes before the other begins.
    assert_eq!(stage.keep(&home, 1, 9, &[7; 16]).await, "lost");
    assert_eq!(stage.keep(&home, 2, 9, &[7; 16]).await, "lost");
    assert_eq!(stage.begin(&home, 1, 9, &[7; 16]).await, "begun");
    let all = |call: &mut Cmd| {
        call.arg(1).arg(1).arg(0).arg("ann").arg("entry").arg(0).arg(b"\x03ann");
    };
    assert_eq!(stage.word("put", &home, 1, all).await, "put");
    let nine = |call: &mut Cmd| {
        call.arg(9).arg(&[7_u8; 16]).arg(&[0_u8; 29]).arg(&[5, 4, 1, 0]).arg(0).arg(0).arg(1).arg(0);
        call.arg("").arg(0).arg(1).arg(0).arg(0);
    };
    assert_eq!(stage.word("finish", &home, 1, nine).await, "home");
    assert_eq!(stage.begin(&home, 2, 9, &[7; 16]).await, "gone", "it may have sold since");
    assert_eq!(stage.word("look", "", 0, |_| {}).await, "home");
}
