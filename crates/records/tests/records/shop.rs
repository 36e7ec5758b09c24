//! A small shop for tests: records in their own database, and a `Book` that makes real decisions.

use penstock_domain::{
    Book, BookSnapshot, BuyerId, Claim, Command, Decision, Event, GateTerms, ItemId, KeyDigest, Mark, Money,
    OrderId, Reply, SaleId, Timestamp,
};
use penstock_records::{
    AuditReport, Item, Lease, LedgerForgets, Records, SaleRow, SettleError, SettledBatch,
};
use sqlx::Executor;

use super::Database;

pub(crate) const STREAM: &str = "ledger";

pub(crate) struct Shop {
    pub(crate) database: Database,
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

pub(crate) async fn open(database: &Database) -> Records {
    Records::open(&database.url(), 4).await.unwrap()
}

impl Shop {
    /// A shop with one published sale that is not settled yet.
    pub(crate) async fn new(units: u32, limit_per_buyer: u32) -> Self {
        let database = Database::new();
        let records = open(&database).await;
        let sale = SaleId::from_random(7);
        records.create_item(&item(1, moment(0))).await.unwrap();
        let row = sale_row(sale, ItemId::from_random(1), units, limit_per_buyer);
        records.create_sale(&row).await.unwrap();
        let mut shop = Self {
            database,
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
        self.claim_in(self.sale, buyer, quantity)
    }

    pub(crate) fn claim_in(&mut self, sale: SaleId, buyer: &str, quantity: u32) -> OrderId {
        self.keys += 1;
        let key = KeyDigest::of(format!("key-{}", self.keys).as_bytes()).unwrap();
        let buyer = BuyerId::of_subject(buyer).unwrap();
        match self.execute(Command::Claim(Claim { sale, buyer, quantity, key })) {
            Reply::Verdict(Ok(accepted)) => accepted.order.id,
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

    /// How many decisions are settled.
    pub(crate) async fn settled(&self) -> usize {
        self.records.cursor(STREAM).await.unwrap().position as usize
    }

    /// Settles what is not settled yet, in batches of `batch`.
    pub(crate) async fn settle_in(&self, batch: usize) -> Result<(), SettleError> {
        let lease = lease(&self.records).await;
        for decisions in self.decisions[lease.cursor.position as usize..].chunks(batch) {
            self.records.settle(&lease, decisions, Mark::default()).await?;
        }
        Ok(())
    }

    pub(crate) async fn settle(&self) {
        self.settle_in(1000).await.unwrap();
    }

    /// Settles everything; decisions that can't be settled become dead letters at once.
    pub(crate) async fn settle_or_put_aside(&self) {
        let lease = lease(&self.records).await;
        loop {
            let cursor = self.settled().await;
            let waiting = &self.decisions[cursor..];
            match self.records.settle(&lease, waiting, Mark::default()).await {
                Ok(_) => return,
                Err(SettleError::Poison { position, refusal }) => {
                    let before = &waiting[..position as usize - cursor - 1];
                    self.records.settle(&lease, before, Mark::default()).await.unwrap();
                    let poison = &self.decisions[position as usize - 1];
                    let put_aside =
                        self.records.dead_letter(&lease, poison, Mark::default(), &refusal, 5, self.now);
                    put_aside.await.unwrap();
                }
                Err(other) => panic!("{other}"),
            }
        }
    }

    pub(crate) async fn audit(&self) -> AuditReport {
        let settled = self.records.cursor(STREAM).await.unwrap().position as usize;
        let pending = &self.decisions[settled.min(self.decisions.len())..];
        audit(&self.records, &self.book.snapshot(), pending).await
    }

    /// Changes rows behind the records' back.
    pub(crate) async fn tamper(&self, statement: &'static str) {
        assert!(self.run(statement).await > 0, "nothing was changed by {statement}");
    }

    pub(crate) async fn run(&self, statement: &'static str) -> u64 {
        let mut connection = self.database.connect().await;
        connection.execute(statement).await.unwrap().rows_affected()
    }

    pub(crate) async fn count(&self, query: &'static str) -> i64 {
        let mut connection = self.database.connect().await;
        sqlx::query_scalar(query).fetch_one(&mut connection).await.unwrap()
    }

    pub(crate) fn positions_of(&self, wanted: impl Fn(&Event) -> bool) -> Vec<u64> {
        self.decisions.iter().filter(|d| wanted(&d.event)).map(|d| d.position).collect()
    }
}

pub(crate) async fn lease(records: &Records) -> Lease {
    records.lease(STREAM, "tests", 60).await.unwrap().unwrap()
}

/// Settles `decisions` under a new lease.
pub(crate) async fn settle(records: &Records, decisions: &[Decision]) -> Result<SettledBatch, SettleError> {
    let lease = lease(records).await;
    records.settle(&lease, decisions, Mark::default()).await
}

/// Audits a ledger with one stream in one step, while nothing is being settled. `pending` are the decisions
/// after the settlement cursor up to the ledger's position; earlier ones are ignored.
pub(crate) async fn audit(records: &Records, ledger: &BookSnapshot, pending: &[Decision]) -> AuditReport {
    let mut audit = records.begin_audit(LedgerForgets::Never).await.unwrap();
    let look = audit.look(STREAM).await.unwrap();
    audit.compare(look, ledger, pending).await.unwrap();
    audit.finish()
}
