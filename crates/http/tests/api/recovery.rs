//! A shop while its ledger is still recovering.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use penstock_domain::{BookSnapshot, Command, Cursor, Timestamp};
use penstock_http::{JsonScribe, Server, ServerOptions};
use penstock_ledger::{
    BatcherOptions, Committed, Engine, Feed, FeedError, Health, Piece, SaleNews, Unavailable, batcher,
};
use penstock_records::{Records, sqlite_url};
use penstock_shop::{ShopOptions, storefront::Storefront};
use serde_json::json;
use tokio::sync::oneshot;

use crate::support::{Client, START};

/// An engine that recovers when the test tells it to.
struct SlowStart(Option<oneshot::Receiver<()>>);

impl Engine for SlowStart {
    fn commit(
        &mut self,
        _: Vec<Command>,
        _: Timestamp,
    ) -> impl Future<Output = Result<Committed, Unavailable>> + 'static {
        std::future::ready(Err(Unavailable::new("it sells nothing in this test")))
    }

    async fn recover(&mut self) -> Result<Vec<SaleNews>, Unavailable> {
        if let Some(go) = self.0.take() {
            go.await.map_err(Unavailable::new)?;
        }
        Ok(Vec::new())
    }
}

struct EmptyFeed;

impl Feed for EmptyFeed {
    fn streams(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, Unavailable>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn read<'a>(&'a self, _: &'a str, after: Cursor, _: usize) -> BoxFuture<'a, Result<Piece, FeedError>> {
        Box::pin(std::future::ready(Ok(Piece::nothing_after(after))))
    }

    fn head(&self, _: &str) -> u64 {
        0
    }

    fn settled(&self, _: &str, _: Cursor) {}

    fn state<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<BookSnapshot, Unavailable>> {
        Box::pin(std::future::ready(Err(Unavailable::new("it has none"))))
    }
}

#[tokio::test]
async fn a_shop_is_not_ready_until_its_ledger_has_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let (go, told) = oneshot::channel();
    let mut options =
        ServerOptions::new(ShopOptions::new(Arc::new(|| Timestamp::from_millis(START)), [7; 32]));
    options.listen = "127.0.0.1:0".parse().unwrap();
    options.workers = 1;
    let storefront = Storefront::new(JsonScribe);
    let engine = SlowStart(Some(told));
    let clock = options.shop.clock.clone();
    let batcher = BatcherOptions::default();
    let ledger = batcher::start(engine, Arc::new(EmptyFeed), batcher, clock, storefront.clone()).unwrap();
    let records = Records::open(&sqlite_url(&folder.path().join("records.db")), 2).await.unwrap();
    let server = Server::start(options, storefront, ledger.clone(), records).await;
    let server = server.unwrap_or_else(|error| panic!("{error}"));
    let mut client = Client::connect(server.addr());

    let ready = client.get("/readyz");
    assert_eq!((ready.status, &ready.json()["ledger"]), (503, &json!("recovering")));
    assert_eq!(client.get("/healthz").status, 200, "alive, but not ready");

    go.send(()).unwrap();
    assert_eq!(ledger.recovered().await, Health::Ready);
    assert_eq!(client.get("/readyz").status, 200);
}
