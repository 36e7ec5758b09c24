//! Measures how fast decisions settle, and how fast the same rows are inserted singly. Prints a line of JSON;
//! the benchmark runs it on its own server. Each run needs an empty database.
//!
//! `cargo run --release -p penstock-records --example settle_rate -- [ORDERS] [BATCH] [SALES] [sqlite|mariadb|URL]`

use std::{
    error::Error,
    io::{self, Write as _},
    time::Instant,
};

use penstock_domain::{
    Book, BuyerId, Claim, Command, Decision, Event, GateTerms, ItemId, KeyDigest, Mark, Money, OrderId,
    Reply, SaleId, Timestamp,
};
use penstock_local::{MariaDb, MariaDbSettings};
use penstock_records::{Forgetting, Item, Records, SaleRow, sqlite_url};
use sqlx::{AnyConnection, Connection, Executor};
use tokio::task::JoinSet;

type Failure = Box<dyn Error + Send + Sync>;

const STREAM: &str = "ledger";
/// How many orders to insert singly: it is slow, and this many show how slow.
const SINGLE_ORDERS: usize = 3_000;
/// The connections of an application; their commits share a sync.
const CROWD: usize = 16;

/// Rows and decisions per second.
struct Settled {
    rows: f64,
    decisions: f64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let orders: u32 = arguments.next().map_or(Ok(100_000), |text| text.parse())?;
    let batch: usize = arguments.next().map_or(Ok(500), |text| text.parse())?;
    let sales: u32 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    let (_server, url) = match arguments.next().as_deref() {
        None | Some("sqlite") => (None, sqlite_url(&folder.path().join("records.db"))),
        Some("mariadb") => {
            // Commits reach the disk, as in production, and there is room for all of them.
            let extra = ["--innodb-buffer-pool-size=1G", "--innodb-log-file-size=512M"].map(String::from);
            let server = MariaDb::start_with(folder.path(), MariaDbSettings { extra: extra.into() })?;
            let url = server.url();
            (Some(server), url)
        }
        Some(url) => (None, url.to_owned()),
    };
    let records = Records::open(&url, 2).await?;
    let sales = create_sales(&records, orders, sales).await?;
    let (book, decisions) = sell(&sales, orders)?;
    let is_hold = |decision: &&Decision| matches!(decision.event, Event::Held { .. });
    let holds: Vec<Decision> = decisions.iter().filter(is_hold).take(SINGLE_ORDERS).cloned().collect();
    let alone = insert_singly(&url, &holds, 1, false).await?;
    let single = insert_singly(&url, &holds, 1, true).await?;
    // SQLite has one writer.
    let crowd = if url.starts_with("mysql:") { CROWD } else { 1 };
    let crowd = insert_singly(&url, &holds, crowd, true).await?;
    let Settled { rows, decisions } = settle(&records, &decisions, batch).await?;

    let begin = Instant::now();
    let mut audit = records.begin_audit(Forgetting::Never).await?;
    let look = audit.look(STREAM).await?;
    audit.compare(look, &book.snapshot(), &[]).await?;
    let report = audit.finish();
    let audit_seconds = begin.elapsed().as_secs_f64();
    records.close().await;
    if !report.ok {
        return Err("the audit found differences".into());
    }
    writeln!(
        io::stdout().lock(),
        "{{\"settled_rows_per_second\":{rows:.0},\"decisions_per_second\":{decisions:.0},\
         \"single_rows_per_second\":{single:.0},\"single_rows_from_16_connections_per_second\":{crowd:.0},\
         \"rows_without_transaction_per_second\":{alone:.0},\"audit_seconds\":{audit_seconds:.2}}}"
    )?;
    Ok(())
}

async fn settle(records: &Records, decisions: &[Decision], batch: usize) -> Result<Settled, Failure> {
    let lease = records.lease(STREAM, "settle_rate", 60).await?.ok_or("another settler has the lease")?;
    let begin = Instant::now();
    for decisions in decisions.chunks(batch) {
        records.settle(&lease, decisions, Mark::default()).await?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    // A hold is an order, a movement and a message; most other decisions are a movement and a message.
    let holds = decisions.iter().filter(|decision| matches!(decision.event, Event::Held { .. })).count();
    let rows = decisions.len() * 2 + holds;
    Ok(Settled { rows: rows as f64 / seconds, decisions: decisions.len() as f64 / seconds })
}

/// What a settler without batches would do: insert the rows of one order after the other, singly or the three
/// of an order in one transaction, on several connections. The tables are like ours, and nothing is read
/// first. Returns rows per second, and removes the rows again.
async fn insert_singly(
    url: &str,
    holds: &[Decision],
    connections: usize,
    transactions: bool,
) -> Result<f64, Failure> {
    let mut opened = Vec::new();
    for _ in 0..connections {
        let mut connection = AnyConnection::connect(url).await?;
        if connection.backend_name() == "SQLite" {
            connection.execute("PRAGMA synchronous = FULL").await?;
        }
        opened.push(connection);
    }
    let mut inserting = JoinSet::new();
    let begin = Instant::now();
    for (connection, holds) in opened.into_iter().zip(holds.chunks(holds.len().div_ceil(connections))) {
        inserting.spawn(insert_holds(connection, holds.to_vec(), transactions));
    }
    while let Some(inserted) = inserting.join_next().await {
        inserted??;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let mut connection = AnyConnection::connect(url).await?;
    for statement in ["DELETE FROM outbox", "DELETE FROM stock_log", "DELETE FROM orders"] {
        connection.execute(statement).await?;
    }
    connection.close().await?;
    Ok((holds.len() * 3) as f64 / seconds)
}

async fn insert_holds(
    mut connection: AnyConnection,
    holds: Vec<Decision>,
    transactions: bool,
) -> Result<(), Failure> {
    for decision in &holds {
        if transactions {
            let mut transaction = connection.begin().await?;
            insert_hold(&mut transaction, decision).await?;
            transaction.commit().await?;
        } else {
            insert_hold(&mut connection, decision).await?;
        }
    }
    Ok(())
}

async fn insert_hold(connection: &mut AnyConnection, decision: &Decision) -> Result<(), Failure> {
    let Event::Held { order, buyer, quantity, key } = &decision.event else { return Ok(()) };
    let [key_high, key_low] = key.words();
    let (position, at) = (decision.position as i64, decision.at.as_millis());
    sqlx::query("INSERT INTO orders VALUES (?, ?, ?, ?, 1990, 'EUR', 'held', ?, ?, NULL, 0, ?, ?)")
        .bind(order.sale.as_i64())
        .bind(i64::from(order.number))
        .bind(buyer.as_str())
        .bind(i64::from(*quantity))
        .bind(at)
        .bind(at)
        .bind(key_high as i64)
        .bind(key_low as i64)
        .execute(&mut *connection)
        .await?;
    sqlx::query("INSERT INTO stock_log VALUES (?, ?, ?, ?, 'hold', ?, ?)")
        .bind(STREAM)
        .bind(position)
        .bind(order.sale.as_i64())
        .bind(i64::from(order.number))
        .bind(i64::from(*quantity))
        .bind(at)
        .execute(&mut *connection)
        .await?;
    let payload = serde_json::to_string(decision)?;
    sqlx::query("INSERT INTO outbox VALUES (?, ?, 'order.held', ?, ?, NULL)")
        .bind(STREAM)
        .bind(position)
        .bind(payload)
        .bind(at)
        .execute(&mut *connection)
        .await?;
    Ok(())
}

async fn create_sales(records: &Records, orders: u32, sales: u32) -> Result<Vec<SaleRow>, Failure> {
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
    let mut rows = Vec::new();
    for number in 0..sales.max(1) {
        let sale = SaleRow {
            id: SaleId::from_random(0x1234_5678_9abc_def0 ^ (u64::from(number) << 32)),
            item_id: item.id,
            price,
            units: orders / sales.max(1) + 1,
            limit_per_buyer: 1,
            opens_at: None,
            closes_at: None,
            hold_seconds: 600,
            gate: GateTerms::default(),
            published_at: None,
            created_at,
        };
        records.create_sale(&sale).await?;
        rows.push(sale);
    }
    Ok(rows)
}

/// Holds every order, with the sales taking turns. A while later three in four are paid, and the last one
/// expires.
fn sell(sales: &[SaleRow], orders: u32) -> Result<(Book, Vec<Decision>), Failure> {
    let mut book = Book::default();
    let mut decisions = Vec::new();
    let mut now = Timestamp::from_millis(1_700_000_000_000);
    for sale in sales {
        book.execute(Command::Publish(sale.terms()), now, &mut decisions);
    }
    let mut accepted: Vec<OrderId> = Vec::new();
    for (number, sale) in (0..orders).zip(sales.iter().cycle()) {
        // Twenty claims per millisecond.
        if number % 20 == 0 {
            now = now.plus_millis(1);
        }
        let buyer = BuyerId::of_subject(&format!("buyer-{:08x}", number.wrapping_mul(0x9e37_79b9)))?;
        let key = KeyDigest::of(format!("key-{number}").as_bytes())?;
        let claim = Claim { sale: sale.id, buyer, quantity: 1, key };
        let Reply::Verdict(Ok(placed)) = book.execute(Command::Claim(claim), now, &mut decisions) else {
            return Err("a claim was refused".into());
        };
        accepted.push(placed.order.id);
        if number >= 1000 && number % 4 != 0 {
            let order = accepted[number as usize - 1000];
            book.execute(Command::ConfirmPayment { order, buyer: None }, now, &mut decisions);
        }
    }
    book.execute(Command::ExpireDue { max: orders }, now.plus_seconds(601), &mut decisions);
    Ok((book, decisions))
}
