//! How fast decisions settle and how long an audit takes:
//! `cargo run --release -p penstock-records --example settle_rate -- [ORDERS] [BATCH]`.

use std::{error::Error, time::Instant};

use penstock_domain::{
    Book, BuyerId, Claim, Command, Decision, GateTerms, ItemId, KeyDigest, Mark, Money, Reply, SaleId,
    Timestamp,
};
use penstock_records::{Item, Records, SaleRow, sqlite_url};

const STREAM: &str = "ledger";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let orders: u32 = arguments.next().map_or(Ok(100_000), |text| text.parse())?;
    let batch: usize = arguments.next().map_or(Ok(500), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    let records = Records::open(&sqlite_url(&folder.path().join("records.db")), 2).await?;
    let sale = create_sale(&records, orders).await?;
    let (book, decisions) = sell(&sale, orders)?;

    let lease = records.lease(STREAM, "settle_rate", 60).await?.ok_or("somebody else settles")?;
    let begin = Instant::now();
    for decisions in decisions.chunks(batch) {
        records.settle(&lease, decisions, Mark::default()).await?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let rate = decisions.len() as f64 / seconds;
    eprintln!("settled {} decisions in {seconds:.2} s: {rate:.0}/s, {batch} at a time", decisions.len());

    let snapshot = book.snapshot();
    let begin = Instant::now();
    let report = records.audit(STREAM, &snapshot, &[]).await?;
    let seconds = begin.elapsed().as_secs_f64();
    eprintln!(
        "audited {} orders in {seconds:.2} s: {}",
        report.orders,
        if report.ok { "ok" } else { "not ok" }
    );
    Ok(())
}

async fn create_sale(records: &Records, units: u32) -> Result<SaleRow, Box<dyn Error>> {
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
        units,
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

/// Each order is held; a while later three of four are paid, the last expires.
fn sell(sale: &SaleRow, orders: u32) -> Result<(Book, Vec<Decision>), Box<dyn Error>> {
    let mut book = Book::default();
    let mut decisions = Vec::new();
    let mut now = sale.created_at;
    book.execute(Command::Publish(sale.terms()), now, &mut decisions);
    for number in 0..orders {
        // Twenty claims a millisecond.
        if number % 20 == 0 {
            now = now.plus_millis(1);
        }
        let buyer = BuyerId::of_subject(&format!("buyer-{:08x}", number.wrapping_mul(0x9e37_79b9)))?;
        let key = KeyDigest::of(format!("key-{number}").as_bytes())?;
        let claim = Claim { sale: sale.id, buyer, quantity: 1, key };
        let Reply::Verdict(Ok(order)) = book.execute(Command::Claim(claim), now, &mut decisions) else {
            return Err("a claim was refused".into());
        };
        assert_eq!(order.id.number, number);
        if number >= 1000 && number % 4 != 0 {
            let order = penstock_domain::OrderId { sale: sale.id, number: number - 1000 };
            book.execute(Command::ConfirmPayment { order, buyer: None }, now, &mut decisions);
        }
    }
    book.execute(Command::ExpireDue { max: orders }, now.plus_seconds(601), &mut decisions);
    Ok((book, decisions))
}
