//! A Redis server of a test's own, and the ledger on it.
#![allow(dead_code, reason = "every test file takes what it needs")]

use std::sync::Arc;

use penstock_ledger::{
    BatcherOptions, Clock, Ledger, Listener,
    redis::{self, LedgerOptions, Link, NothingSettled, RedisOptions},
};
use penstock_local::{RedisServer, RedisSettings};
use tempfile::TempDir;

pub(crate) struct OneServer {
    pub(crate) server: RedisServer,
    _folder: TempDir,
}

impl OneServer {
    pub(crate) fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let server = RedisServer::start(folder.path(), RedisSettings::default()).unwrap();
        Self { server, _folder: folder }
    }

    pub(crate) async fn link(&self) -> Link {
        Link::connect(RedisOptions::single(self.server.address().to_string())).await.unwrap()
    }

    pub(crate) async fn open_ledger(
        &self,
        batcher: BatcherOptions,
        clock: Option<Clock>,
        listener: Arc<dyn Listener>,
    ) -> Ledger {
        self.open_under("test:", batcher, clock, listener).await
    }

    pub(crate) async fn open_under(
        &self,
        prefix: &str,
        batcher: BatcherOptions,
        clock: Option<Clock>,
        listener: Arc<dyn Listener>,
    ) -> Ledger {
        let options = LedgerOptions { batcher, prefix: prefix.into(), ..LedgerOptions::default() };
        redis::open(options, self.link().await, clock, listener, Arc::new(NothingSettled)).unwrap()
    }
}
