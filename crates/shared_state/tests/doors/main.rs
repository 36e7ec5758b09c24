//! The doors of three nodes on one Redis: tickets, turns, challenges and passes that hold across all of them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod faults;
mod numbers;
mod passes;
mod redis_cluster;
mod rooms;

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::future::{BoxFuture, join_all, ready};
use penstock_domain::{BuyerId, SaleId, SaleStatus, SaleTerms, Timestamp};
use penstock_gate::{HeadGateOptions, RoomOptions, WaitingRoom};
use penstock_ledger::Clock;
use penstock_local::{RedisServer, RedisSettings};
use penstock_redis_client::{Link, RedisOptions};
use penstock_shared_state::{SharedDoors, SharedDoorsOptions};
use penstock_shop::gate::{Applicant, Door, DoorOptions, Doors as _, RoomArchive, StoredRoom};
use tokio::{runtime::Handle, time::Instant};

const START_MILLIS: i64 = 1_800_000_000_000;
const OPENS_AT: Timestamp = Timestamp::from_millis(START_MILLIS + 60_000);
const PASS_SECONDS: u32 = 60;
const OPTIONS: DoorOptions = DoorOptions {
    head: HeadGateOptions { factor: 3, pass_seconds: PASS_SECONDS, max_live: 100_000 },
    room: RoomOptions {
        turn_seconds: 30,
        uptake_seconds: 6,
        pass_seconds: PASS_SECONDS,
        admissions_per_second: 1_000,
    },
    challenge_seconds: 120,
    max_used_challenges: 100_000,
};

fn sale() -> SaleId {
    SaleId::from_random(42)
}

fn status(available: u32) -> SaleStatus {
    let terms = SaleTerms {
        sale: sale(),
        units: 1_000,
        limit_per_buyer: 1,
        opens_at: Some(OPENS_AT),
        closes_at: None,
        hold_seconds: 60,
    };
    let held = 1_000 - available;
    SaleStatus { terms, total: 1_000, available, held, paid: 0, paused: false, closed: false, version: 1 }
}

fn applicant(buyer: &str, available: u32, now: Timestamp) -> Applicant {
    Applicant {
        buyer: BuyerId::from_stored(buyer),
        number: None,
        turn_until: None,
        challenge: None,
        available,
        now,
    }
}

/// One Redis, and a clock that all nodes use.
struct Shop {
    redis: RedisServer,
    millis: Arc<AtomicI64>,
    _folder: tempfile::TempDir,
}

impl Shop {
    fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = RedisSettings { appendfsync: "no", ..RedisSettings::default() };
        let redis = RedisServer::start(folder.path(), settings).unwrap();
        Self { redis, millis: Arc::new(AtomicI64::new(START_MILLIS)), _folder: folder }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis.load(Relaxed))
    }

    fn set(&self, now: Timestamp) {
        self.millis.store(now.as_millis(), Relaxed);
    }

    fn pass_millis(&self, millis: i64) {
        self.millis.fetch_add(millis, Relaxed);
    }

    async fn node(&self, name: &str) -> Arc<dyn Door> {
        node_on(RedisOptions::single(self.redis.address().to_string()), name, &self.millis).await
    }

    async fn nodes(&self) -> Vec<Arc<dyn Door>> {
        join_all(["a", "b", "c"].map(|name| self.node(name))).await
    }

    /// The live passes in Redis.
    fn live_passes(&self) -> u64 {
        self.redis.cli(&["ZCARD", &key("passes")]).unwrap().parse().unwrap()
    }

    /// The number of script calls so far.
    fn calls(&self) -> u64 {
        let stats = self.redis.cli(&["INFO", "commandstats"]).unwrap();
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    }
}

/// Stands in for the records: it knows the room.
#[derive(Default)]
struct Archive(Mutex<Option<StoredRoom>>);

impl RoomArchive for Archive {
    fn known_or(&self, _: SaleId, seed: [u8; 32]) -> BoxFuture<'_, io::Result<StoredRoom>> {
        let new = StoredRoom { seed, issued: 0, early: None };
        Box::pin(ready(Ok(*self.0.lock().unwrap().get_or_insert(new))))
    }
}

async fn node_on(servers: RedisOptions, name: &str, millis: &Arc<AtomicI64>) -> Arc<dyn Door> {
    let link = Link::connect(servers).await.unwrap();
    let millis = Arc::clone(millis);
    let clock: Clock = Arc::new(move || Timestamp::from_millis(millis.load(Relaxed)));
    let (node, prefix) = (name.to_owned(), "shop:".to_owned());
    let options = SharedDoorsOptions { node, prefix, moment: Some(clock) };
    SharedDoors::new(link, Handle::current(), options).door(sale(), OPTIONS)
}

/// The key with this name at the sale's door.
fn key(name: &str) -> String {
    format!("shop:{{{}}}:{name}", sale())
}

async fn open_rooms(nodes: &[Arc<dyn Door>]) -> Vec<Arc<WaitingRoom>> {
    open_rooms_by(&Archive::default(), nodes).await
}

async fn open_rooms_by(archive: &Archive, nodes: &[Arc<dyn Door>]) -> Vec<Arc<WaitingRoom>> {
    join_all(nodes.iter().map(|node| async {
        for _ in 0..100 {
            if let Ok(room) = node.open_room(Some(OPENS_AT), archive).await {
                return room;
            }
            // A replica on a busy machine may take a while to confirm.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the room did not open")
    }))
    .await
}

/// Lets all nodes see the room before anybody comes. A node that comes later waits until it has heard of the
/// people who are there.
async fn look_first(nodes: &[Arc<dyn Door>], now: Timestamp) {
    for _ in 0..8 {
        tick(nodes, status(0), now);
        join_all(nodes.iter().map(|node| node.catch_up())).await;
    }
}

fn tick(nodes: &[Arc<dyn Door>], status: SaleStatus, now: Timestamp) {
    for node in nodes {
        // This helper does not check whether people see a change.
        let _ = node.tick(&|| Some(status), now);
    }
}

/// Looks until there is something to see. A timeout is a failure, not a measurement.
async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "timed out waiting for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
