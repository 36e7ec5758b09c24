//! Several sales, each with a stream of its own, and several workers that settle them into one database.

use std::sync::{
    Arc, Mutex, PoisonError, Weak,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use futures_util::future::{BoxFuture, FutureExt};
use penstock_domain::{
    BookSnapshot, BuyerId, Claim, Cursor, GateTerms, ItemId, KeyDigest, Money, SaleId, Timestamp,
};
use penstock_ledger::{
    BatcherOptions, Clock, Feed, FeedError, Ledger, Piece, Unavailable, batcher,
    conformance::{PerSale, Subject},
};
use penstock_local::{CutProxy, MariaDb};
use penstock_records::{AuditReport, Item, LedgerForgets, Records, SaleRow, sqlite_url};
use penstock_settle::{SettleOptions, Settlement};
use sqlx::{Connection, Executor};
use tempfile::TempDir;
use tokio::sync::watch;

use crate::shop::{Deaf, Running};

/// Where a market keeps its records.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Database {
    Sqlite,
    MariaDb,
}

/// Where the database is, and the folder or server that it needs.
struct Home {
    url: String,
    _folder: Option<TempDir>,
    server: Option<Arc<Server>>,
}

/// One server for all tests that run at the same time; it ends with the last of them.
struct Server {
    mariadb: MariaDb,
    _folder: TempDir,
}

impl Server {
    fn shared() -> Arc<Self> {
        static RUNNING: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = running.upgrade() {
            return server;
        }
        let folder = tempfile::tempdir().unwrap();
        let mariadb = MariaDb::start(folder.path()).unwrap();
        let server = Arc::new(Self { mariadb, _folder: folder });
        *running = Arc::downgrade(&server);
        server
    }
}

impl Home {
    fn new(database: Database) -> Self {
        static DATABASES: AtomicU32 = AtomicU32::new(0);
        match database {
            Database::Sqlite => {
                let folder = tempfile::tempdir().unwrap();
                let url = sqlite_url(&folder.path().join("records.db"));
                Self { url, _folder: Some(folder), server: None }
            }
            Database::MariaDb => {
                let server = Server::shared();
                let name = format!("market_{}", DATABASES.fetch_add(1, Relaxed));
                let url = server.mariadb.create_database(&name).unwrap();
                Self { url, _folder: None, server: Some(server) }
            }
        }
    }
}

pub(crate) struct Market {
    home: Home,
    pub(crate) engine: PerSale,
    pub(crate) ledger: Ledger,
    pub(crate) records: Records,
    pub(crate) sales: Vec<SaleId>,
}

fn clock() -> Clock {
    Arc::new(|| Timestamp::from_millis(1_700_000_000_000))
}

impl Market {
    pub(crate) async fn new(database: Database, sales: u64) -> Self {
        let home = Home::new(database);
        let engine = PerSale::default();
        let ledger = engine.open(BatcherOptions::default(), clock(), Arc::new(Deaf)).await;
        let records = Records::open(&home.url, 4).await.unwrap();
        let sales: Vec<SaleId> = (1..=sales).map(SaleId::from_random).collect();
        let market = Self { home, engine, ledger, records, sales };
        market.publish().await;
        market
    }

    async fn publish(&self) {
        let (price, created_at) = (Money::parse("19.90", "EUR").unwrap(), clock()());
        let item = Item {
            id: ItemId::from_random(1),
            title: "Lamp".into(),
            description: String::new(),
            picture: None,
            regular_price: price,
            created_at,
        };
        self.records.create_item(&item).await.unwrap();
        for sale in &self.sales {
            let row = SaleRow {
                id: *sale,
                item_id: item.id,
                price,
                units: 10_000,
                limit_per_buyer: 10_000,
                opens_at: None,
                closes_at: None,
                hold_seconds: 60,
                gate: GateTerms::default(),
                published_at: None,
                created_at,
            };
            self.records.create_sale(&row).await.unwrap();
            self.ledger.publish(row.terms()).await.unwrap();
        }
    }

    /// Sells `units` of `sale`, one by one; `round` makes the keys unique.
    pub(crate) async fn sell(&self, sale: SaleId, round: &str, units: u32) {
        let buyer = BuyerId::of_subject("ada").unwrap();
        for unit in 0..units {
            let key = KeyDigest::of(format!("{round}-{unit}").as_bytes()).unwrap();
            let claim = Claim { sale, buyer: buyer.clone(), quantity: 1, key };
            self.ledger.claim(claim).await.unwrap();
        }
    }

    pub(crate) async fn sell_everywhere(&self, round: &str, units: u32) {
        for sale in &self.sales {
            self.sell(*sale, round, units).await;
        }
    }

    pub(crate) fn decisions(&self) -> u64 {
        self.sales.iter().map(|sale| self.engine.head(&sale.to_string())).sum()
    }

    /// A worker with its own connections, like one in a separate process.
    pub(crate) async fn worker(&self, options: SettleOptions) -> Running {
        self.worker_and_records(options).await.0
    }

    pub(crate) async fn worker_and_records(&self, options: SettleOptions) -> (Running, Records) {
        let ledger = self.engine.open(BatcherOptions::default(), clock(), Arc::new(Deaf)).await;
        self.start(ledger, options).await
    }

    /// A worker that can be put to sleep between reading and writing.
    pub(crate) async fn sleeper(&self, options: SettleOptions) -> (Running, watch::Sender<bool>) {
        let (sleep, asleep) = watch::channel(false);
        let feed = Sleeper { feed: self.engine.clone(), asleep };
        let (engine, batcher) = (self.engine.clone(), BatcherOptions::default());
        let ledger = batcher::start(engine, Arc::new(feed), batcher, clock(), Arc::new(Deaf)).unwrap();
        (self.start(ledger, options).await.0, sleep)
    }

    /// A worker whose connection to the database server can be cut.
    pub(crate) async fn remote_worker(&self, options: SettleOptions) -> (Running, CutProxy) {
        let server = self.home.server.as_ref().unwrap().mariadb.address();
        // It has its own runtime, which can't be started inside another one.
        let started = tokio::task::spawn_blocking(move || CutProxy::start(server)).await;
        let proxy = started.unwrap().unwrap();
        let url = self.home.url.replace(&server.to_string(), &proxy.address().to_string());
        let ledger = self.engine.open(BatcherOptions::default(), clock(), Arc::new(Deaf)).await;
        (self.start_at(&url, ledger, options).await.0, proxy)
    }

    /// Another program's connection to the records.
    pub(crate) async fn intruder(&self) -> sqlx::AnyConnection {
        sqlx::AnyConnection::connect(&self.home.url).await.unwrap()
    }

    pub(crate) async fn tamper(&self, statement: String) {
        let statement = sqlx::AssertSqlSafe(statement);
        let changed = self.intruder().await.execute(statement).await.unwrap().rows_affected();
        assert!(changed > 0, "nothing was changed");
    }

    async fn start(&self, ledger: Ledger, options: SettleOptions) -> (Running, Records) {
        self.start_at(&self.home.url, ledger, options).await
    }

    async fn start_at(&self, url: &str, ledger: Ledger, options: SettleOptions) -> (Running, Records) {
        ledger.recovered().await;
        let records = Records::open(url, 4).await.unwrap();
        (Running::start(Settlement::new(ledger, records.clone(), clock(), options)), records)
    }

    pub(crate) async fn audit(&self) -> AuditReport {
        let feed = self.ledger.feed();
        let mut audit = self.records.begin_audit(LedgerForgets::Never).await.unwrap();
        for stream in feed.streams().await.unwrap() {
            let look = audit.look(&stream).await.unwrap();
            let state = feed.state(&stream).await.unwrap();
            let pending = feed.read(&stream, look.cursor(), usize::MAX).await.unwrap();
            audit.compare(look, &state, &pending.decisions).await.unwrap();
        }
        audit.finish()
    }
}

/// A feed whose reader can fall asleep between reading and writing.
struct Sleeper {
    feed: PerSale,
    asleep: watch::Receiver<bool>,
}

impl Feed for Sleeper {
    fn streams(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, Unavailable>> {
        self.feed.streams()
    }

    fn read<'a>(
        &'a self,
        stream: &'a str,
        after: Cursor,
        max: usize,
    ) -> BoxFuture<'a, Result<Piece, FeedError>> {
        async move {
            let piece = self.feed.read(stream, after, max).await;
            drop(self.asleep.clone().wait_for(|asleep| !asleep).await);
            piece
        }
        .boxed()
    }

    fn head(&self, stream: &str) -> u64 {
        self.feed.head(stream)
    }

    fn settled(&self, stream: &str, cursor: Cursor) {
        Feed::settled(&self.feed, stream, cursor);
    }

    fn state<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, Result<BookSnapshot, Unavailable>> {
        self.feed.state(stream)
    }
}
