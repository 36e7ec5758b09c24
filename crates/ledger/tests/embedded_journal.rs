//! What only the embedded engine promises: its files survive torn writes, failing disks and growth.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use penstock_domain::{
    BookSnapshot, BuyerId, Claim, ClaimRefusal, Cursor, KeyDigest, Order, SaleId, SaleTerms, Timestamp,
};
use penstock_ledger::{
    Feed, Health, Ledger, LedgerError, Listener, Piece, SaleNews, Unavailable,
    embedded::{self, EmbeddedOptions, OpenError, STREAM},
};
use rusqlite::Connection;
use tempfile::TempDir;

struct Deaf;

impl Listener for Deaf {
    fn sales_changed(&self, _news: &[SaleNews]) {}
}

fn try_open(options: EmbeddedOptions) -> Result<Ledger, OpenError> {
    embedded::open(options, Arc::new(|| Timestamp::from_millis(1_700_000_000_000)), Arc::new(Deaf))
}

async fn open(folder: &Path) -> Ledger {
    let ledger = try_open(EmbeddedOptions::new(folder)).unwrap();
    assert_eq!(ledger.recovered().await, Health::Ready);
    ledger
}

fn sale() -> SaleId {
    SaleId::from_random(1)
}

async fn publish(ledger: &Ledger, units: u32) {
    let (opens_at, closes_at) = (None, None);
    let terms = SaleTerms { sale: sale(), units, limit_per_buyer: 1, opens_at, closes_at, hold_seconds: 60 };
    ledger.publish(terms).await.unwrap();
}

async fn claim(ledger: &Ledger, number: u32) -> Result<Order, LedgerError<ClaimRefusal>> {
    let buyer = BuyerId::of_subject(&format!("buyer-{number}")).unwrap();
    let key = KeyDigest::of(format!("key-{number}").as_bytes()).unwrap();
    ledger.claim(Claim { sale: sale(), buyer, quantity: 1, key }).await
}

async fn read_state(folder: &Path) -> Result<BookSnapshot, Unavailable> {
    embedded::read(folder).unwrap().state(STREAM).await
}

fn at(position: u64) -> Cursor {
    Cursor { position, ..Cursor::default() }
}

fn end(feed: &dyn Feed) -> Cursor {
    at(feed.head(STREAM))
}

fn wal(folder: &Path) -> PathBuf {
    folder.join("journal.db-wal")
}

/// A copy of the files, as a crash would leave them.
fn crash_image(folder: &Path) -> TempDir {
    let image = TempDir::new().unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if name != "lock" && name != "journal.db-shm" {
            fs::copy(entry.path(), image.path().join(name)).unwrap();
        }
    }
    image
}

/// Claims `orders` units one after another. Returns the length of the write-ahead log after each.
async fn sell_one_by_one(ledger: &Ledger, folder: &Path, orders: u32) -> Vec<u64> {
    publish(ledger, 1_000).await;
    let mut lengths = Vec::new();
    for number in 0..orders {
        claim(ledger, number).await.unwrap();
        lengths.push(fs::metadata(wal(folder)).unwrap().len());
    }
    lengths
}

async fn held_after_recovery(folder: &Path) -> u32 {
    let ledger = open(folder).await;
    let status = ledger.restock(sale(), 0).await.unwrap();
    let state = ledger.feed().state(STREAM).await.unwrap();
    assert_eq!(state.sales[0].orders.len() as u32, status.held);
    ledger.stop().await;
    status.held
}

#[tokio::test]
async fn a_torn_tail_costs_only_unacknowledged_orders() {
    let folder = TempDir::new().unwrap();
    let ledger = open(folder.path()).await;
    let lengths = sell_one_by_one(&ledger, folder.path(), 6).await;
    let last = lengths[lengths.len() - 2]..=lengths[lengths.len() - 1];
    for length in last.step_by(211).chain([lengths[2] + 7, lengths[3], lengths[5]]) {
        let image = crash_image(folder.path());
        OpenOptions::new().write(true).open(wal(image.path())).unwrap().set_len(length).unwrap();
        let whole = lengths.iter().filter(|end| **end <= length).count() as u32;
        assert_eq!(held_after_recovery(image.path()).await, whole, "cut at {length} of {lengths:?}");
    }
}

#[tokio::test]
async fn a_garbled_tail_is_cut_off() {
    let folder = TempDir::new().unwrap();
    let ledger = open(folder.path()).await;
    let lengths = sell_one_by_one(&ledger, folder.path(), 6).await;
    let (start, end) = (lengths[4], lengths[5]);
    for offset in (start..end).step_by(397) {
        let image = crash_image(folder.path());
        let file = OpenOptions::new().read(true).write(true).open(wal(image.path())).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[!byte[0]], offset).unwrap();
        assert_eq!(held_after_recovery(image.path()).await, 5, "garbled at {offset} of {lengths:?}");
    }
    let image = crash_image(folder.path());
    let file = OpenOptions::new().write(true).open(wal(image.path())).unwrap();
    file.write_all_at(&[0xa5; 9_000], end).unwrap();
    assert_eq!(held_after_recovery(image.path()).await, 6, "bytes after the last record do not matter");
}

#[tokio::test]
async fn a_changed_record_is_noticed() {
    let folder = TempDir::new().unwrap();
    let ledger = open(folder.path()).await;
    sell_one_by_one(&ledger, folder.path(), 3).await;
    ledger.stop().await;
    let connection = Connection::open(folder.path().join("journal.db")).unwrap();
    connection.execute("UPDATE batches SET record = zeroblob(length(record)) WHERE last = 3", []).unwrap();
    drop(connection);
    let ledger = try_open(EmbeddedOptions::new(folder.path())).unwrap();
    let Health::Unavailable(reason) = ledger.recovered().await else {
        panic!("the ledger is ready with a damaged journal")
    };
    assert!(reason.contains("position 3"), "{reason}");
}

fn snapshots(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("snapshot")).collect()
}

fn records_in_journal(folder: &Path) -> i64 {
    let connection = Connection::open(folder.join("journal.db")).unwrap();
    connection.query_row("SELECT count(*) FROM batches", [], |row| row.get(0)).unwrap()
}

async fn snapshot_beyond(folder: &Path, position: u64) {
    for _ in 0..500 {
        let newest =
            snapshots(folder).iter().filter_map(|name| name.strip_prefix("snapshot-")?.parse().ok()).max();
        if newest.is_some_and(|newest: u64| newest > position) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no snapshot beyond {position} in {:?}", snapshots(folder));
}

#[tokio::test]
async fn compaction_keeps_the_state_and_bounds_the_journal() {
    let folder = TempDir::new().unwrap();
    let options = EmbeddedOptions { compact_after_decisions: 50, ..EmbeddedOptions::new(folder.path()) };
    let ledger = try_open(options.clone()).unwrap();
    publish(&ledger, 10_000).await;
    for round in 0..60 {
        join_all((0..10).map(|n| claim(&ledger, round * 10 + n)))
            .await
            .into_iter()
            .for_each(|order| drop(order.unwrap()));
        ledger.feed().settled(STREAM, end(ledger.feed().as_ref()));
    }
    snapshot_beyond(folder.path(), 300).await;
    // The writer deletes records only when it writes.
    for number in 600..640 {
        claim(&ledger, number).await.unwrap();
    }
    let expected = ledger.feed().state(STREAM).await.unwrap();
    assert_eq!(expected.sales[0].orders.len(), 640);
    ledger.stop().await;
    assert_eq!(snapshots(folder.path()).len(), 1, "{:?}", snapshots(folder.path()));
    let records = records_in_journal(folder.path());
    assert!(records < 90, "{records} records are left of 101");
    let ledger = try_open(options).unwrap();
    assert_eq!(ledger.recovered().await, Health::Ready);
    assert_eq!(ledger.feed().state(STREAM).await.unwrap(), expected);
    assert_eq!(claim(&ledger, 3).await.unwrap().id.number, 3, "a retry finds its order in the snapshot");
    let forgotten = ledger.feed().read(STREAM, at(0), 10).await.expect_err("these were settled and are gone");
    assert!(forgotten.to_string().contains("no longer in the journal"), "{forgotten}");
}

#[tokio::test]
async fn compaction_forgets_nothing_unsettled() {
    let folder = TempDir::new().unwrap();
    let options = EmbeddedOptions { compact_after_decisions: 50, ..EmbeddedOptions::new(folder.path()) };
    let ledger = try_open(options).unwrap();
    publish(&ledger, 10_000).await;
    for number in 0..200 {
        claim(&ledger, number).await.unwrap();
        ledger.feed().settled(STREAM, at(20));
    }
    snapshot_beyond(folder.path(), 50).await;
    for number in 200..220 {
        claim(&ledger, number).await.unwrap();
    }
    let unsettled = ledger.feed().read(STREAM, at(20), 1_000).await.unwrap();
    assert_eq!(unsettled.decisions.len(), 201);
    assert!(ledger.feed().read(STREAM, at(0), 1).await.is_err(), "settled decisions were forgotten");
}

#[tokio::test]
async fn a_damaged_snapshot_is_noticed() {
    let folder = TempDir::new().unwrap();
    let options = EmbeddedOptions { compact_after_decisions: 5, ..EmbeddedOptions::new(folder.path()) };
    let ledger = try_open(options).unwrap();
    publish(&ledger, 100).await;
    for number in 0..20 {
        claim(&ledger, number).await.unwrap();
    }
    snapshot_beyond(folder.path(), 1).await;
    ledger.stop().await;
    let path = folder.path().join(&snapshots(folder.path())[0]);
    let whole = fs::read(&path).unwrap();
    for offset in (0..whole.len()).step_by(17) {
        let mut garbled = whole.clone();
        garbled[offset] ^= 0x40;
        fs::write(&path, garbled).unwrap();
        assert!(read_state(folder.path()).await.is_err(), "garbled at {offset}");
        fs::write(&path, &whole[..offset]).unwrap();
        assert!(read_state(folder.path()).await.is_err(), "cut at {offset}");
    }
    fs::write(&path, whole).unwrap();
    assert_eq!(read_state(folder.path()).await.unwrap().sales[0].orders.len(), 20);
}

/// Makes every write to the journal fail, as a broken disk would.
fn break_the_disk(folder: &Path) {
    let connection = Connection::open(folder.join("journal.db")).unwrap();
    let broken = "BEGIN SELECT RAISE(FAIL, 'the disk is broken'); END";
    connection
        .execute_batch(&format!(
            "CREATE TRIGGER broken BEFORE INSERT ON batches {broken};
             CREATE TRIGGER no_room BEFORE INSERT ON probe {broken};"
        ))
        .unwrap();
}

fn repair_the_disk(folder: &Path) {
    let connection = Connection::open(folder.join("journal.db")).unwrap();
    connection.execute_batch("DROP TRIGGER broken; DROP TRIGGER no_room").unwrap();
}

async fn until(ledger: &Ledger, health: Health) {
    for _ in 0..500 {
        if ledger.health() == health {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?} instead of {health:?}", ledger.health());
}

#[tokio::test]
async fn a_failed_write_accepts_nothing_and_the_ledger_comes_back() {
    let folder = TempDir::new().unwrap();
    let ledger = open(folder.path()).await;
    publish(&ledger, 2).await;
    let first = claim(&ledger, 1).await.unwrap();
    let head = ledger.feed().head(STREAM);
    break_the_disk(folder.path());
    let answers = join_all((2..10).map(|number| claim(&ledger, number))).await;
    for answer in answers {
        let Err(LedgerError::Unavailable(reason)) = answer else { panic!("{answer:?} from a broken disk") };
        assert!(reason.contains("the disk is broken"), "{reason}");
    }
    assert!(matches!(ledger.health(), Health::Unavailable(reason) if reason.contains("the disk is broken")));
    assert!(matches!(ledger.find_order(first.id, None).await, Err(LedgerError::Unavailable(_))));
    assert_eq!(ledger.feed().head(STREAM), head);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert!(matches!(ledger.health(), Health::Unavailable(_)), "it is back without room for a probe");
    repair_the_disk(folder.path());
    until(&ledger, Health::Ready).await;
    assert_eq!(claim(&ledger, 1).await, Ok(first));
    // The unit that nobody was promised is still there.
    claim(&ledger, 7).await.unwrap();
    assert_eq!(claim(&ledger, 8).await, Err(LedgerError::Refused(ClaimRefusal::SoldOut)));
    assert_eq!(ledger.feed().read(STREAM, at(head), 10).await.unwrap().decisions.len(), 1);
}

#[tokio::test]
async fn an_unavailable_ledger_can_be_stopped() {
    let folder = TempDir::new().unwrap();
    let ledger = open(folder.path()).await;
    break_the_disk(folder.path());
    publish_fails(&ledger).await;
    ledger.stop().await;
    assert_eq!(ledger.health(), Health::Stopped);
}

async fn publish_fails(ledger: &Ledger) {
    let (opens_at, closes_at) = (None, None);
    let terms =
        SaleTerms { sale: sale(), units: 1, limit_per_buyer: 1, opens_at, closes_at, hold_seconds: 60 };
    assert!(matches!(ledger.publish(terms).await, Err(LedgerError::Unavailable(_))));
}

#[tokio::test]
async fn a_journal_of_version_1_is_taken_over() {
    let folder = TempDir::new().unwrap();
    let ledger = open(folder.path()).await;
    publish(&ledger, 1).await;
    let held = claim(&ledger, 0).await.unwrap();
    ledger.stop().await;
    let connection = Connection::open(folder.path().join("journal.db")).unwrap();
    let version = || connection.query_row("PRAGMA user_version", [], |row| row.get::<_, u32>(0)).unwrap();
    connection.pragma_update(None, "user_version", 1).unwrap();
    let ledger = open(folder.path()).await;
    assert_eq!(version(), 2, "an older program must not read it now");
    let waiter = BuyerId::of_subject("waiter").unwrap();
    assert!(ledger.join_waitlist(sale(), waiter.clone(), 1).await.is_ok());
    ledger.cancel(held.id, None).await.unwrap();
    assert_eq!(ledger.orders_of(waiter, 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_newer_version_is_refused() {
    let folder = TempDir::new().unwrap();
    open(folder.path()).await.stop().await;
    let connection = Connection::open(folder.path().join("journal.db")).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    let refused = try_open(EmbeddedOptions::new(folder.path())).expect_err("version 99 is newer");
    assert!(matches!(refused, OpenError::NewerVersion { found: 99, .. }), "{refused}");
    let refused = embedded::read(folder.path()).map(drop).expect_err("version 99 is newer");
    assert!(matches!(refused, OpenError::NewerVersion { found: 99, .. }), "{refused}");
}

#[tokio::test]
async fn a_folder_in_use_is_refused() {
    let folder = TempDir::new().unwrap();
    let ledger = open(folder.path()).await;
    let refused = try_open(EmbeddedOptions::new(folder.path())).expect_err("it is in use");
    assert!(matches!(refused, OpenError::InUse { .. }), "{refused}");
    ledger.stop().await;
    open(folder.path()).await;
}

#[tokio::test]
async fn a_file_that_is_not_a_journal_is_refused() {
    let folder = TempDir::new().unwrap();
    assert!(matches!(embedded::read(folder.path()).map(drop), Err(OpenError::Unusable { .. })));
    fs::write(
        folder.path().join("journal.db"),
        "a letter to a friend, about the weather and so on".repeat(99),
    )
    .unwrap();
    assert!(matches!(try_open(EmbeddedOptions::new(folder.path())), Err(OpenError::Unusable { .. })));
}

#[tokio::test]
async fn the_state_can_be_read_while_the_ledger_sells() {
    let folder = TempDir::new().unwrap();
    let options = EmbeddedOptions { compact_after_decisions: 20, ..EmbeddedOptions::new(folder.path()) };
    let ledger = try_open(options).unwrap();
    publish(&ledger, 10_000).await;
    let selling = async {
        for number in 0..400 {
            claim(&ledger, number).await.unwrap();
            ledger.feed().settled(STREAM, end(ledger.feed().as_ref()));
        }
    };
    let reading = async {
        for _ in 0..20 {
            let feed = embedded::read(folder.path()).unwrap();
            let state = feed.state(STREAM).await.unwrap();
            assert_eq!(state.sales[0].orders.len() as u64 + 1, state.position);
            assert_eq!(end(&feed), at(state.position));
            assert_eq!(feed.read(STREAM, end(&feed), 10).await, Ok(Piece::nothing_after(end(&feed))));
        }
    };
    tokio::join!(selling, reading);
    ledger.stop().await;
    assert_eq!(read_state(folder.path()).await.unwrap().position, 401);
}
