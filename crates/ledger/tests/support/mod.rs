//! A Redis server of a test's own, and the ledger on it.
#![allow(dead_code, reason = "every test file takes what it needs")]

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use penstock_domain::SaleId;
use penstock_ledger::{
    BatcherOptions, Clock, Ledger, Listener, Unavailable,
    redis::{self, Adopt, LedgerOptions, Link, RedisOptions},
};
use penstock_local::{RedisServer, RedisSettings};
use tempfile::TempDir;

pub(crate) struct OneServer {
    pub(crate) server: RedisServer,
    _folder: TempDir,
}

struct Nobody;

impl Adopt for Nobody {
    fn adopt(&self, _: SaleId) -> BoxFuture<'_, Result<(), Unavailable>> {
        std::future::ready(Err(Unavailable::new("nobody adopts"))).boxed()
    }
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
        let options = LedgerOptions { batcher, prefix: "test:".into() };
        redis::open(options, self.link().await, clock, listener, Arc::new(Nobody)).unwrap()
    }
}
