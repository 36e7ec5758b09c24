//! Settles orders into an empty database and audits them, and inserts the same rows without settlement.

use std::time::Instant;

use anyhow::{Context, bail, ensure};
use penstock_domain::{
    Book, BuyerId, Claim, Command, Decision, Event, GateTerms, ItemId, KeyDigest, Mark, Money, OrderId,
    Reply, SaleId, Timestamp,
};
use penstock_records::{Item, LedgerForgets, Records, SaleRow};
use tokio::runtime;

use super::insert_singly::insert_singly;

const STREAM: &str = "ledger";
/// The number of orders that are inserted singly: enough to show how slow that is.
const SINGLE_ORDERS: usize = 3_000;
/// The connections of an application; their commits share a sync.
const CROWD: usize = 16;
/// The time between the orders and their payments, in orders.
const PAID_AFTER: usize = 1_000;

/// Rows a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct SettleRates {
    pub(super) settled: f64,
    /// A transaction for each order.
    pub(super) single: f64,
    /// A transaction for each row.
    pub(super) alone: f64,
    /// The same as `single`, from many connections at once.
    pub(super) crowd: f64,
    pub(super) decisions: f64,
}

/// Measures on the database at `url`, which is empty, with `batch` decisions in a transaction.
pub(super) fn measure(url: &str, orders: u32, batch: usize) -> anyhow::Result<SettleRates> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let records = Records::open(url, 2).await?;
        let sale = create_sale(&records, orders).await?;
        let (book, decisions) = sell(&sale, orders)?;
        let is_hold = |decision: &&Decision| matches!(decision.event, Event::Held { .. });
        let holds: Vec<Decision> = decisions.iter().filter(is_hold).take(SINGLE_ORDERS).cloned().collect();
        let alone = insert_singly(url, &holds, 1, false).await?;
        let single = insert_singly(url, &holds, 1, true).await?;
        let crowd = insert_singly(url, &holds, CROWD, true).await?;
        let (settled, decisions) = settle(&records, &decisions, batch).await?;
        let mut audit = records.begin_audit(LedgerForgets::Never).await?;
        let look = audit.look(STREAM).await?;
        audit.compare(look, &book.snapshot(), &[]).await?;
        let report = audit.finish();
        records.close().await;
        ensure!(report.ok, "the audit found differences");
        Ok(SettleRates { settled, single, alone, crowd, decisions })
    })
}

impl SettleRates {
    pub(super) fn line(self) -> String {
        let Self { settled, single, alone, crowd, decisions } = self;
        format!(
            "settled {settled:.0} rows/s ({decisions:.0} decisions/s); an order at a time {single:.0} rows/s, \
             from 16 connections {crowd:.0}, a row at a time {alone:.0}; audit ok"
        )
    }
}

/// Rows and decisions per second.
async fn settle(records: &Records, decisions: &[Decision], batch: usize) -> anyhow::Result<(f64, f64)> {
    let lease = records.lease(STREAM, "bench", 60).await?.context("another settler has the lease")?;
    let begin = Instant::now();
    for decisions in decisions.chunks(batch) {
        records.settle(&lease, decisions, Mark::default()).await?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    // A hold is an order, a movement and a message; most other decisions are a movement and a message.
    let holds = decisions.iter().filter(|decision| matches!(decision.event, Event::Held { .. })).count();
    let rows = decisions.len() * 2 + holds;
    Ok((rows as f64 / seconds, decisions.len() as f64 / seconds))
}

async fn create_sale(records: &Records, orders: u32) -> anyhow::Result<SaleRow> {
    let price = Money::parse("19.90", "EUR")?;
    let created_at = Timestamp::from_millis(1_700_000_000_000);
    let item = Item {
        id: ItemId::from_random(1),
        title: "Lamp".into(),
        description: String::new(),
        picture: None,
        regular_price: price,
        created_at,
    };
    records.create_item(&item).await?;
    let sale = SaleRow {
        id: SaleId::from_random(0x1234_5678_9abc_def0),
        item_id: item.id,
        price,
        units: orders + 1,
        limit_per_buyer: 1,
        opens_at: None,
        closes_at: None,
        hold_seconds: 600,
        gate: GateTerms::default(),
        published_at: None,
        created_at,
    };
    records.create_sale(&sale).await?;
    Ok(sale)
}

/// Holds every order. A while later three in four are paid, and the last one expires.
fn sell(sale: &SaleRow, orders: u32) -> anyhow::Result<(Book, Vec<Decision>)> {
    let mut book = Book::default();
    let mut decisions = Vec::new();
    let mut now = Timestamp::from_millis(1_700_000_000_000);
    book.execute(Command::Publish(sale.terms()), now, &mut decisions);
    let mut accepted: Vec<OrderId> = Vec::new();
    for number in 0..orders {
        // Twenty claims per millisecond.
        if number % 20 == 0 {
            now = now.plus_millis(1);
        }
        // Buyers come in no order.
        let buyer = BuyerId::of_subject(&format!("buyer-{:08x}", number.wrapping_mul(0x9e37_79b9)))?;
        let key = KeyDigest::of(format!("key-{number}").as_bytes())?;
        let claim = Claim { sale: sale.id, buyer, quantity: 1, key };
        let Reply::Verdict(Ok(placed)) = book.execute(Command::Claim(claim), now, &mut decisions) else {
            bail!("a claim was refused");
        };
        accepted.push(placed.order.id);
        let due = (number as usize).checked_sub(PAID_AFTER).filter(|_| number % 4 != 0);
        if let Some(order) = due.and_then(|due| accepted.get(due).copied()) {
            book.execute(Command::ConfirmPayment { order, buyer: None }, now, &mut decisions);
        }
    }
    book.execute(Command::ExpireDue { max: orders }, now.plus_seconds(601), &mut decisions);
    Ok((book, decisions))
}
