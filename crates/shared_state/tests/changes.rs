//! Changes and the shared cache on a real Redis, with lost messages, a cut stream, and a Redis that goes
//! away.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _, stream::BoxStream};
use penstock_domain::{AccountId, ItemId, SaleId, Timestamp};
use penstock_local::{Cut, CutProxy, RedisServer, RedisSettings};
use penstock_redis_client::{Link, RedisOptions};
use penstock_shared_state::{Changes, RedisCache};
use penstock_shop::ports::{Change, Kept, Neighbours as _, NodePart as _, SharedCache as _};
use tempfile::TempDir;
use tokio::time::timeout;

/// Ample. A timeout is a failure, not a measurement.
const SOON: Duration = Duration::from_secs(20);

struct Stage {
    server: RedisServer,
    _folder: TempDir,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = RedisServer::start(folder.path(), RedisSettings::default()).unwrap();
        Self { server, _folder: folder }
    }

    async fn link(&self) -> Link {
        Link::connect(RedisOptions::single(self.server.address().to_string())).await.unwrap()
    }

    async fn node(&self) -> Changes {
        Changes::join(self.link().await, "").await
    }

    fn cli(&self, arguments: &[&str]) -> String {
        self.server.cli(arguments).unwrap()
    }
}

async fn next(changes: &mut BoxStream<'static, Change>) -> Change {
    timeout(SOON, changes.next()).await.unwrap().unwrap()
}

async fn until_heard(changes: &mut BoxStream<'static, Change>, wanted: Change) {
    while next(changes).await != wanted {}
}

fn item(number: u64) -> Change {
    Change::Item(ItemId::from_random(number))
}

#[tokio::test]
async fn every_node_hears_every_change_in_the_order_it_was_told() {
    let stage = Stage::new();
    let (first, second) = (stage.node().await, stage.node().await);
    let (mut by_first, mut by_second) = (first.changes(), second.changes());
    let told = [
        Change::NewItem(ItemId::from_random(1)),
        item(1),
        Change::Sale(SaleId::from_random(2)),
        Change::Room(SaleId::from_random(2)),
        Change::SessionEnded { session: "abc".into(), expires_at: Timestamp::from_millis(7) },
        Change::SessionsEnded { account: AccountId::from_random(3), since: Timestamp::from_millis(8) },
        Change::Everything,
    ];
    for change in &told {
        first.tell(change.clone()).await;
    }
    for change in &told {
        assert_eq!(next(&mut by_first).await, *change, "the teller hears it, too");
        assert_eq!(next(&mut by_second).await, *change);
    }
    assert!(by_second.next().now_or_never().is_none(), "nothing is heard twice");
    assert_eq!(second.trouble(), None);
}

#[tokio::test]
async fn a_change_without_its_message_is_found_by_looking() {
    let stage = Stage::new();
    let node = stage.node().await;
    let mut changes = node.changes();
    let text = serde_json::to_string(&item(1)).unwrap();
    // As if a node had died between writing and publishing, or the message had been lost.
    stage.cli(&["XADD", "penstock:changes", "*", "change", &text]);
    assert_eq!(next(&mut changes).await, item(1));
    stage.cli(&["XADD", "penstock:changes", "*", "change", "\"of a newer version\""]);
    assert_eq!(next(&mut changes).await, Change::Everything, "an unknown change may be anything");
}

#[tokio::test]
async fn a_node_that_was_cut_off_catches_up_with_each_change() {
    let stage = Stage::new();
    let address = stage.server.address();
    // The proxy has a runtime of its own.
    let mut way = tokio::task::spawn_blocking(move || CutProxy::start(address)).await.unwrap().unwrap();
    let link = Link::connect(RedisOptions::single(way.address().to_string())).await.unwrap();
    let (far, near) = (Changes::join(link, "").await, stage.node().await);
    let mut changes = far.changes();
    near.tell(item(1)).await;
    assert_eq!(next(&mut changes).await, item(1));
    way.cut(Cut::Silence).unwrap();
    for number in 2..50 {
        near.tell(item(number)).await;
    }
    way.mend().unwrap();
    for number in 2..50 {
        assert_eq!(next(&mut changes).await, item(number));
    }
}

#[tokio::test]
async fn a_node_whose_place_in_the_stream_is_gone_reads_everything_anew() {
    let stage = Stage::new();
    let node = stage.node().await;
    let mut changes = node.changes();
    node.tell(item(1)).await;
    assert_eq!(next(&mut changes).await, item(1));
    stage.cli(&["DEL", "penstock:changes"]);
    assert_eq!(next(&mut changes).await, Change::Everything);
    node.tell(item(2)).await;
    assert_eq!(next(&mut changes).await, item(2), "and it goes on from there");
    stage.cli(&["XADD", "penstock:changes", "MAXLEN", "1", "*", "joined", ""]);
    until_heard(&mut changes, Change::Everything).await;
}

#[tokio::test]
async fn changes_made_while_redis_is_away_are_told_when_it_is_back() {
    let mut stage = Stage::new();
    let (teller, hearer) = (stage.node().await, stage.node().await);
    let mut changes = hearer.changes();
    stage.server.kill().unwrap();
    let telling = timeout(SOON, teller.tell(item(1))).await;
    assert!(telling.is_ok(), "the teller is not held up for good");
    stage.server.restart().unwrap();
    until_heard(&mut changes, item(1)).await;
}

#[tokio::test]
async fn a_node_that_stops_tells_its_pending_changes() {
    let mut stage = Stage::new();
    let (teller, hearer) = (stage.node().await, stage.node().await);
    let mut changes = hearer.changes();
    stage.server.kill().unwrap();
    // The caller gives up waiting.
    assert!(timeout(Duration::from_millis(100), teller.tell(item(1))).await.is_err());
    stage.server.restart().unwrap();
    teller.all_told().await;
    drop(teller);
    until_heard(&mut changes, item(1)).await;
}

#[tokio::test]
async fn a_change_that_no_replica_confirms_is_told_once() {
    let stage = Stage::new();
    let mut options = RedisOptions::single(stage.server.address().to_string());
    (options.wait_replicas, options.wait_milliseconds) = (1, 10);
    let teller = Changes::join(Link::connect(options).await.unwrap(), "").await;
    let mut changes = teller.changes();
    for number in 1..=20 {
        teller.tell(item(number)).await;
    }
    for number in 1..=20 {
        assert_eq!(next(&mut changes).await, item(number), "it is heard all the same, and once");
    }
    assert_eq!(stage.cli(&["XLEN", "penstock:changes"]).trim(), "21", "with the entry of the joining node");
}

#[tokio::test]
async fn a_stale_read_can_not_put_a_removed_value_back() {
    let stage = Stage::new();
    let cache = RedisCache::new(stage.link().await, "");
    let long = Duration::from_secs(60);
    assert_eq!(cache.get("item:1").await.unwrap(), Kept::Nothing);
    cache.put("item:1", b"old".to_vec(), long).await.unwrap();
    assert_eq!(cache.get("item:1").await.unwrap(), Kept::Value(b"old".to_vec()));
    cache.remove("item:1", long).await.unwrap();
    assert_eq!(cache.get("item:1").await.unwrap(), Kept::Removed);
    cache.put("item:1", b"old".to_vec(), long).await.unwrap();
    assert_eq!(cache.get("item:1").await.unwrap(), Kept::Removed);
    // As if the time were over.
    stage.cli(&["DEL", "penstock:cache:item:1"]);
    cache.put("item:1", b"new".to_vec(), long).await.unwrap();
    assert_eq!(cache.get("item:1").await.unwrap(), Kept::Value(b"new".to_vec()));
    assert!(stage.cli(&["PTTL", "penstock:cache:item:1"]).trim().parse::<i64>().unwrap() > 0);
}

#[tokio::test]
async fn an_unreachable_cache_returns_errors_and_comes_back() {
    let mut stage = Stage::new();
    let cache = RedisCache::new(stage.link().await, "mine:");
    stage.server.kill().unwrap();
    assert!(cache.get("item:1").await.is_err());
    stage.server.restart().unwrap();
    while cache.put("item:1", b"kettle".to_vec(), SOON).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(cache.get("item:1").await.unwrap(), Kept::Value(b"kettle".to_vec()));
    assert_eq!(stage.cli(&["EXISTS", "mine:penstock:cache:item:1"]).trim(), "1");
}
