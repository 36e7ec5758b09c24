//! Rebuilds a `Book` from files: the newest snapshot, then every record after it.

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::sync_channel,
    },
};

use penstock_domain::{Book, Decision, KeyDigest, SaleId, SnapshotOrder};

use super::{error::JournalError, journal::JournalReader, record, snapshot};
use crate::SaleNews;

/// How often a reader starts again because a compaction overtook it.
const MAX_ATTEMPTS: usize = 5;
/// The most records that are decoded and not yet applied.
const RECORDS_AHEAD: usize = 32;

pub(super) struct Replayed {
    pub(super) book: Book,
    /// The idempotency keys of each sale's accepted claims.
    keys: HashMap<SaleId, Vec<KeyDigest>>,
    pub(super) snapshot_position: u64,
    /// Orders in the snapshot: they determine how long it takes to read.
    pub(super) snapshot_orders: u64,
}

impl Replayed {
    pub(super) fn into_book_and_news(mut self) -> (Book, Vec<SaleNews>) {
        let statuses = self.book.statuses();
        let news = statuses.map(|status| SaleNews {
            status,
            accepted: self.keys.remove(&status.terms.sale).unwrap_or_default(),
        });
        let news = news.collect();
        (self.book, news)
    }
}

/// Rebuilds the state after the last durable decision. Stops early if `stop` becomes true.
pub(super) fn replay(folder: &Path, stop: &AtomicBool) -> Result<Replayed, JournalError> {
    for _ in 0..MAX_ATTEMPTS {
        // The journal comes first, so that a folder without one is refused and not taken for an empty ledger.
        let journal = JournalReader::open(folder)?;
        let mut replayed = from_snapshot(folder)?;
        match apply_records(journal, &mut replayed, stop) {
            // A newer snapshot was written meanwhile, and the records that it replaces were deleted.
            Err(JournalError::Forgotten(position)) if snapshot::newest_position(folder)? > position => {}
            Err(error) => return Err(error),
            Ok(()) => return Ok(replayed),
        }
    }
    Err(JournalError::Contended)
}

fn from_snapshot(folder: &Path) -> Result<Replayed, JournalError> {
    let Some(snapshot) = snapshot::read_newest(folder)? else {
        let book = Book::default();
        return Ok(Replayed { book, keys: HashMap::new(), snapshot_position: 0, snapshot_orders: 0 });
    };
    let is_sent = |key: &KeyDigest| key.offered_to().is_none();
    let keys_of = |orders: &[SnapshotOrder]| orders.iter().map(|order| order.key).filter(is_sent).collect();
    let keys = snapshot.sales.iter().map(|sale| (sale.status.terms.sale, keys_of(&sale.orders)));
    let keys: HashMap<SaleId, Vec<KeyDigest>> = keys.collect();
    let (position, orders) =
        (snapshot.position, snapshot.sales.iter().map(|sale| sale.orders.len() as u64).sum());
    Ok(Replayed {
        book: Book::from_snapshot(snapshot),
        keys,
        snapshot_position: position,
        snapshot_orders: orders,
    })
}

/// One thread reads and decodes, the other applies: each does about half of the work.
fn apply_records(
    journal: JournalReader,
    replayed: &mut Replayed,
    stop: &AtomicBool,
) -> Result<(), JournalError> {
    let after = replayed.book.position();
    let (decoded, records) = sync_channel::<Vec<Decision>>(RECORDS_AHEAD);
    std::thread::scope(|scope| {
        let decoding = scope.spawn(move || {
            journal.records(after, |last, bytes| {
                Ok(decoded.send(record::decode(last, bytes)?.collect()).is_ok())
            })
        });
        for decisions in records {
            apply(&decisions, replayed)?;
            if stop.load(Relaxed) {
                return Err(JournalError::Stopping);
            }
        }
        decoding.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn apply(decisions: &[Decision], Replayed { book, keys, .. }: &mut Replayed) -> Result<(), JournalError> {
    for decision in decisions {
        if decision.position <= book.position() {
            continue;
        }
        if decision.position != book.position() + 1 {
            return Err(JournalError::Forgotten(book.position()));
        }
        if let Some(key) = decision.event.claimed_key() {
            keys.entry(decision.event.sale()).or_default().push(key);
        }
        book.apply(decision);
    }
    Ok(())
}
