//! A shop for tests: ledger and records in a temporary folder, and a clock that the test sets.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
    time::Duration,
};

use penstock_domain::{
    BuyerId, Claim, GateTerms, ItemId, KeyDigest, Money, Order, OrderId, SaleId, Timestamp,
};
use penstock_ledger::embedded::STREAM;
use penstock_ledger::{
    Clock, Ledger, Listener, SaleNews,
    embedded::{self, EmbeddedOptions, OpenError},
};
use penstock_records::{AuditReport, Item, LedgerForgets, Records, SaleRow, sqlite_url};
use penstock_settle::{SettleFigures, SettleOptions, SettleStats, Settlement};
use sqlx::{Connection, Executor};
use tokio::{sync::watch, task::JoinHandle};

const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct Deaf;

impl Listener for Deaf {
    fn sales_changed(&self, _: &[SaleNews]) {}
}

pub(crate) struct Shop {
    folder: tempfile::TempDir,
    millis: Arc<AtomicI64>,
    pub(crate) ledger: Ledger,
    pub(crate) records: Records,
    pub(crate) sale: SaleId,
}

/// A running settlement.
pub(crate) struct Running {
    pub(crate) stats: SettleStats,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) fn start(settlement: Settlement) -> Self {
        let (stop, stopped) = watch::channel(false);
        let stats = settlement.stats();
        let task = tokio::spawn(async move { settlement.run(stopped).await });
        Self { stats, stop, task }
    }

    pub(crate) async fn stop(self) {
        self.stop.send(true).unwrap();
        tokio::time::timeout(DEADLINE, self.task).await.unwrap().unwrap();
    }

    /// Ends it without warning, whatever it is doing.
    pub(crate) async fn kill(self) {
        self.task.abort();
        drop(self.task.await);
    }

    pub(crate) async fn until(&self, condition: impl Fn(&SettleFigures) -> bool) -> SettleFigures {
        let wait = async {
            loop {
                let figures = self.stats.read();
                if condition(&figures) {
                    return figures;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let figures = tokio::time::timeout(DEADLINE, wait).await;
        figures.unwrap_or_else(|_| panic!("this never happened: {:?}", self.stats.read()))
    }

    pub(crate) async fn until_settled(&self) -> SettleFigures {
        self.until(|figures| figures.lag_decisions == 0 && figures.position > 0).await
    }
}

pub(crate) fn quick() -> SettleOptions {
    SettleOptions {
        batch: 7,
        max_decisions_per_second: 1_000_000,
        hold_back: true,
        poll_interval: Duration::from_millis(2),
        discover_every: Duration::from_millis(10),
        max_streams: 4,
        lease_seconds: 3,
        owner: None,
        max_tries: 3,
        backoff_min: Duration::from_millis(2),
        backoff_max: Duration::from_millis(20),
        expire_every: Duration::from_millis(5),
        expire_batch: 10,
    }
}

impl Shop {
    pub(crate) async fn new(units: u32, limit_per_buyer: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let millis = Arc::new(AtomicI64::new(1_700_000_000_000));
        let ledger = open_ledger(folder.path().join("journal"), &millis).await;
        let records = open_records(&folder).await;
        let sale = SaleId::from_random(7);
        let shop = Self { folder, millis, ledger, records, sale };
        let price = Money::parse("19.90", "EUR").unwrap();
        let item = Item {
            id: ItemId::from_random(1),
            title: "Lamp".into(),
            description: String::new(),
            picture: None,
            regular_price: price,
            created_at: shop.now(),
        };
        shop.records.create_item(&item).await.unwrap();
        let row = SaleRow {
            id: sale,
            item_id: item.id,
            price,
            units,
            limit_per_buyer,
            opens_at: None,
            closes_at: None,
            hold_seconds: 60,
            gate: GateTerms::default(),
            published_at: None,
            created_at: shop.now(),
        };
        shop.records.create_sale(&row).await.unwrap();
        shop.ledger.publish(row.terms()).await.unwrap();
        shop
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis.load(SeqCst))
    }

    pub(crate) fn wait(&self, seconds: i64) {
        self.millis.fetch_add(seconds * 1000, SeqCst);
    }

    pub(crate) fn settlement(&self, options: SettleOptions) -> Running {
        let clock = clock(&self.millis);
        Running::start(Settlement::new(self.ledger.clone(), self.records.clone(), clock, options))
    }

    pub(crate) async fn claim(&self, buyer: &str, key: &str) -> Order {
        let buyer = BuyerId::of_subject(buyer).unwrap();
        let key = KeyDigest::of(key.as_bytes()).unwrap();
        self.ledger.claim(Claim { sale: self.sale, buyer, quantity: 1, key }).await.unwrap()
    }

    pub(crate) async fn pay(&self, order: OrderId) {
        self.ledger.confirm_payment(order, None).await.unwrap();
    }

    /// Closes ledger and records and opens them again.
    pub(crate) async fn restart(&mut self) {
        self.ledger.stop().await;
        self.ledger = open_ledger(self.folder.path().join("journal"), &self.millis).await;
        self.restart_records().await;
    }

    pub(crate) async fn restart_records(&mut self) {
        self.records.close().await;
        self.records = open_records(&self.folder).await;
    }

    /// A ledger that knows nothing about the settled decisions in the records.
    pub(crate) async fn lose_the_journal(&mut self) {
        self.ledger.stop().await;
        self.ledger = open_ledger(self.folder.path().join("another"), &self.millis).await;
    }

    pub(crate) async fn audit(&self) -> AuditReport {
        let state = self.ledger.feed().state(STREAM).await.unwrap();
        let settled = self.records.cursor(STREAM).await.unwrap();
        let pending = self.ledger.feed().read(STREAM, settled, usize::MAX).await.unwrap();
        let mut audit = self.records.begin_audit(LedgerForgets::Never).await.unwrap();
        let look = audit.look(STREAM).await.unwrap();
        audit.compare(look, &state, &pending.decisions).await.unwrap();
        audit.finish()
    }

    /// Another program's connection to the records.
    pub(crate) async fn intruder(&self) -> sqlx::AnyConnection {
        let url = sqlite_url(&self.folder.path().join("records.db"));
        sqlx::AnyConnection::connect(&url).await.unwrap()
    }

    pub(crate) async fn tamper(&self, statement: &'static str) {
        let changed = self.intruder().await.execute(statement).await.unwrap().rows_affected();
        assert!(changed > 0, "nothing was changed by {statement}");
    }
}

fn clock(millis: &Arc<AtomicI64>) -> Clock {
    let millis = millis.clone();
    Arc::new(move || Timestamp::from_millis(millis.load(SeqCst)))
}

async fn open_records(folder: &tempfile::TempDir) -> Records {
    Records::open(&sqlite_url(&folder.path().join("records.db")), 4).await.unwrap()
}

/// A writer that has just ended may hold the folder for a moment longer.
async fn open_ledger(folder: PathBuf, millis: &Arc<AtomicI64>) -> Ledger {
    let open = async {
        loop {
            match embedded::open(EmbeddedOptions::new(&folder), clock(millis), Arc::new(Deaf)) {
                Ok(ledger) => return ledger,
                Err(OpenError::InUse { .. }) => tokio::time::sleep(Duration::from_millis(5)).await,
                Err(error) => panic!("{error}"),
            }
        }
    };
    let ledger = tokio::time::timeout(DEADLINE, open).await.unwrap();
    ledger.recovered().await;
    ledger
}
