//! A small shop for tests: records in a temporary folder, and a `Book` that makes genuine decisions.

use penstock_domain::{
    Book, BuyerId, Claim, Command, Decision, Event, GateTerms, ItemId, KeyDigest, Money, OrderId, Reply,
    SaleId, Timestamp,
};
use penstock_records::{AuditReport, Item, Records, SaleRow, SettleError, sqlite_url};
use sqlx::{Connection, Executor};

pub(crate) const STREAM: &str = "ledger";

pub(crate) struct Shop {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) records: Records,
    pub(crate) book: Book,
    pub(crate) decisions: Vec<Decision>,
    pub(crate) sale: SaleId,
    pub(crate) now: Timestamp,
    keys: u32,
}

pub(crate) fn moment(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + seconds * 1000)
}

pub(crate) fn item(id: u64, created_at: Timestamp) -> Item {
    Item {
        id: ItemId::from_random(id),
        title: "Lamp".into(),
        description: "It glows.".into(),
        picture: None,
        regular_price: Money::parse("49.90", "EUR").unwrap(),
        created_at,
    }
}

pub(crate) fn sale_row(id: SaleId, item: ItemId, units: u32, limit_per_buyer: u32) -> SaleRow {
    SaleRow {
        id,
        item_id: item,
        price: Money::parse("19.90", "EUR").unwrap(),
        units,
        limit_per_buyer,
        opens_at: None,
        closes_at: None,
        hold_seconds: 60,
        gate: GateTerms::default(),
        published_at: None,
        created_at: moment(0),
    }
}

pub(crate) async fn open(folder: &tempfile::TempDir) -> Records {
    Records::open(&sqlite_url(&folder.path().join("records.db")), 4).await.unwrap()
}

impl Shop {
    /// A shop with one published sale that is not settled yet.
    pub(crate) async fn new(units: u32, limit_per_buyer: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let records = open(&folder).await;
        let sale = SaleId::from_random(7);
        records.create_item(&item(1, moment(0))).await.unwrap();
        let row = sale_row(sale, ItemId::from_random(1), units, limit_per_buyer);
        records.create_sale(&row).await.unwrap();
        let mut shop = Self {
            folder,
            records,
            book: Book::default(),
            decisions: Vec::new(),
            sale,
            now: moment(1),
            keys: 0,
        };
        shop.execute(Command::Publish(row.terms()));
        shop
    }

    pub(crate) fn execute(&mut self, command: Command) -> Reply {
        self.book.execute(command, self.now, &mut self.decisions)
    }

    pub(crate) fn wait(&mut self, seconds: u32) {
        self.now = self.now.plus_seconds(seconds);
    }

    pub(crate) fn claim(&mut self, buyer: &str, quantity: u32) -> OrderId {
        self.keys += 1;
        let key = KeyDigest::of(format!("key-{}", self.keys).as_bytes()).unwrap();
        let buyer = BuyerId::of_subject(buyer).unwrap();
        match self.execute(Command::Claim(Claim { sale: self.sale, buyer, quantity, key })) {
            Reply::Verdict(Ok(order)) => order.id,
            other => panic!("the claim was answered {other:?}"),
        }
    }

    pub(crate) fn pay(&mut self, order: OrderId) {
        self.execute(Command::ConfirmPayment { order, buyer: None });
    }

    pub(crate) fn cancel(&mut self, order: OrderId) {
        self.execute(Command::Cancel { order, buyer: None });
    }

    /// Lets every hold run out.
    pub(crate) fn expire(&mut self) {
        self.wait(61);
        self.execute(Command::ExpireDue { max: 1_000_000 });
    }

    /// Settles what is not settled yet, in batches of `batch`.
    pub(crate) async fn settle_in(&self, batch: usize) -> Result<(), SettleError> {
        let cursor = self.records.cursor(STREAM).await.unwrap() as usize;
        for decisions in self.decisions[cursor..].chunks(batch) {
            self.records.settle(STREAM, decisions).await?;
        }
        Ok(())
    }

    pub(crate) async fn settle(&self) {
        self.settle_in(1000).await.unwrap();
    }

    /// Settles everything; what can't be becomes a dead letter at once.
    pub(crate) async fn settle_or_put_aside(&self) {
        loop {
            let cursor = self.records.cursor(STREAM).await.unwrap() as usize;
            let waiting = &self.decisions[cursor..];
            match self.records.settle(STREAM, waiting).await {
                Ok(_) => return,
                Err(SettleError::Poison { position, reason, .. }) => {
                    let before = &waiting[..position as usize - cursor - 1];
                    self.records.settle(STREAM, before).await.unwrap();
                    let poison = &self.decisions[position as usize - 1];
                    self.records.dead_letter(STREAM, poison, &reason, 5, self.now).await.unwrap();
                }
                Err(other) => panic!("{other}"),
            }
        }
    }

    pub(crate) async fn audit(&self) -> AuditReport {
        let audit = self.records.begin_audit(STREAM).await.unwrap();
        let pending = &self.decisions[(audit.cursor() as usize).min(self.decisions.len())..];
        audit.compare(&self.book.snapshot(), pending).await.unwrap()
    }

    /// Changes rows behind the back of the records.
    pub(crate) async fn tamper(&self, statement: &'static str) {
        assert!(self.run(statement).await > 0, "nothing was changed by {statement}");
    }

    pub(crate) async fn run(&self, statement: &'static str) -> u64 {
        let url = sqlite_url(&self.folder.path().join("records.db"));
        let mut connection = sqlx::AnyConnection::connect(&url).await.unwrap();
        connection.execute("PRAGMA foreign_keys = OFF").await.unwrap();
        connection.execute(statement).await.unwrap().rows_affected()
    }

    pub(crate) async fn count(&self, query: &'static str) -> i64 {
        let url = sqlite_url(&self.folder.path().join("records.db"));
        let mut connection = sqlx::AnyConnection::connect(&url).await.unwrap();
        sqlx::query_scalar(query).fetch_one(&mut connection).await.unwrap()
    }

    pub(crate) fn positions_of(&self, wanted: impl Fn(&Event) -> bool) -> Vec<u64> {
        self.decisions.iter().filter(|d| wanted(&d.event)).map(|d| d.position).collect()
    }
}
