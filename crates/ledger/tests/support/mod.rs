//! Redis servers of a test's own (one, with sentinels, or a Cluster) and the ledger on them.
#![allow(dead_code, reason = "every test file takes what it needs")]

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use penstock_ledger::{
    BatcherOptions, Clock, Ledger, Listener,
    conformance::Subject,
    redis::{self, LedgerOptions, NothingSettled},
};
use penstock_local::{RedisCluster, RedisSentinel, RedisServer, RedisSettings};
use penstock_redis_client::{Link, RedisMode, RedisOptions};
use tempfile::TempDir;

pub(crate) struct Servers {
    pub(crate) options: RedisOptions,
    _running: Running,
    _folder: TempDir,
}

/// The servers end with this value.
enum Running {
    One(#[allow(dead_code, reason = "it lives here")] RedisServer),
    Sentinel(#[allow(dead_code, reason = "it lives here")] RedisSentinel),
    Cluster(#[allow(dead_code, reason = "it lives here")] RedisCluster),
}

impl Servers {
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.options.mode, RedisMode::Cluster { .. })
    }

    pub(crate) fn one() -> Self {
        let folder = TempDir::new().unwrap();
        let server = RedisServer::start(folder.path(), RedisSettings::default()).unwrap();
        let options =
            RedisOptions { timeout: PATIENCE, ..RedisOptions::single(server.address().to_string()) };
        Self { options, _running: Running::One(server), _folder: folder }
    }

    /// A master and a replica that confirms every batch.
    pub(crate) fn sentinel() -> Self {
        let folder = TempDir::new().unwrap();
        let servers = RedisSentinel::start(folder.path(), 1).unwrap();
        let (addresses, master) = (texts(servers.addresses()), servers.master_name().into());
        let options = confirmed(RedisMode::Sentinel { addresses, master });
        Self { options, _running: Running::Sentinel(servers), _folder: folder }
    }

    /// Three masters, and a replica of each that confirms every batch.
    pub(crate) fn cluster() -> Self {
        let folder = TempDir::new().unwrap();
        let servers = RedisCluster::start(folder.path(), 3, 3).unwrap();
        let options = confirmed(RedisMode::Cluster { addresses: texts(servers.addresses()) });
        Self { options, _running: Running::Cluster(servers), _folder: folder }
    }

    pub(crate) async fn link(&self) -> Link {
        Link::connect(self.options.clone()).await.unwrap()
    }
}

/// No test is about how fast a busy machine answers.
const PATIENCE: Duration = Duration::from_secs(30);

fn confirmed(mode: RedisMode) -> RedisOptions {
    RedisOptions {
        mode,
        wait_replicas: 1,
        wait_milliseconds: 20_000,
        timeout: PATIENCE,
        ..RedisOptions::default()
    }
}

fn texts(addresses: Vec<SocketAddr>) -> Vec<String> {
    addresses.iter().map(SocketAddr::to_string).collect()
}

/// Servers that the tests of one file share, because they take seconds to start. They end when no test needs
/// them.
pub(crate) struct Shared {
    running: Mutex<Weak<Servers>>,
    start: fn() -> Servers,
}

impl Shared {
    pub(crate) const fn new(start: fn() -> Servers) -> Self {
        Self { running: Mutex::new(Weak::new()), start }
    }

    pub(crate) fn take(&self) -> Arc<Servers> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.upgrade().unwrap_or_else(|| {
            let servers = Arc::new((self.start)());
            *running = Arc::downgrade(&servers);
            servers
        })
    }
}

/// A part of the servers that is empty at first, with a key prefix of its own.
pub(crate) struct Corner {
    pub(crate) servers: Arc<Servers>,
    prefix: String,
}

impl Corner {
    pub(crate) fn of(servers: Arc<Servers>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { servers, prefix: format!("corner-{}:", NEXT.fetch_add(1, Relaxed)) }
    }

    pub(crate) async fn open_ledger(
        &self,
        batcher: BatcherOptions,
        clock: Option<Clock>,
        listener: Arc<dyn Listener>,
    ) -> Ledger {
        let options = LedgerOptions { batcher, prefix: self.prefix.clone(), ..LedgerOptions::default() };
        redis::open(options, self.servers.link().await, clock, listener, Arc::new(NothingSettled)).unwrap()
    }
}

impl Subject for Corner {
    async fn open(&self, batcher: BatcherOptions, clock: Clock, listener: Arc<dyn Listener>) -> Ledger {
        self.open_ledger(batcher, Some(clock), listener).await
    }
}
