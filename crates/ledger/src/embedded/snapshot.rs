//! Snapshot files: the whole `Book` at one position, in checksummed pieces of bounded size. A snapshot exists
//! whole or not at all: it is written under another name, synced, and renamed.

use std::{
    fs::{self, File},
    io::{self, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
};

use penstock_domain::{
    BookSnapshot, MAX_WAITERS, SaleSnapshot, SaleStatus, SnapshotOrder, Timestamp, Waiter,
};
use serde::{Deserialize, Serialize};

use super::{error::JournalError, journal::VERSION};

const PREFIX: &str = "snapshot-";
const PARTIAL: &str = "snapshot.partial";
const ORDERS_PER_PIECE: usize = 8_192;
/// The longest a piece may be. A length beyond it means damage; no memory is allocated for it.
const MAX_PIECE_BYTES: u32 = 16 << 20;
const BUFFER_BYTES: usize = 1 << 20;
/// The longest order has a buyer's name and at most 128 bytes of everything else.
const _: () =
    assert!(ORDERS_PER_PIECE * (penstock_domain::MAX_BUYER_BYTES + 128) <= MAX_PIECE_BYTES as usize);
/// All waiters of a sale are in one piece.
const _: () =
    assert!(MAX_WAITERS as usize * (penstock_domain::MAX_BUYER_BYTES + 32) < MAX_PIECE_BYTES as usize);
/// Versions before this one have no waiters.
const WAITERS_SINCE: u32 = 2;

#[derive(Serialize, Deserialize)]
enum SnapshotPiece {
    Head {
        version: u32,
        position: u64,
        clock: Timestamp,
        sales: u64,
    },
    Sale {
        status: SaleStatus,
        orders: u64,
    },
    Orders(Vec<SnapshotOrder>),
    /// Follows the orders of each sale.
    Waiters(Vec<Waiter>),
}

/// Writes `snapshot` durably into `folder` and removes older ones.
pub(super) fn write(folder: &Path, snapshot: BookSnapshot) -> Result<(), JournalError> {
    let position = snapshot.position;
    let partial = folder.join(PARTIAL);
    let written =
        write_file(&partial, snapshot).and_then(|()| Ok(fs::rename(&partial, path(folder, position))?));
    if let Err(error) = written {
        // Half a snapshot would take room that the journal may need. If it can't be removed, the next attempt
        // overwrites it.
        drop(fs::remove_file(&partial));
        return Err(error);
    }
    File::open(folder)?.sync_all()?;
    for older in positions(folder)?.into_iter().filter(|found| *found < position) {
        fs::remove_file(path(folder, older))?;
    }
    Ok(())
}

/// The newest snapshot in `folder`.
pub(super) fn read_newest(folder: &Path) -> Result<Option<BookSnapshot>, JournalError> {
    // An even newer snapshot may replace the newest one before it is opened.
    for _ in 0..3 {
        let Some(newest) = positions(folder)?.into_iter().max() else { return Ok(None) };
        match File::open(path(folder, newest)) {
            Ok(file) => return read_file(file).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(JournalError::Contended)
}

/// The position of the newest snapshot; 0 if there is none.
pub(super) fn newest_position(folder: &Path) -> Result<u64, JournalError> {
    Ok(positions(folder)?.into_iter().max().unwrap_or(0))
}

fn path(folder: &Path, position: u64) -> PathBuf {
    folder.join(format!("{PREFIX}{position:020}"))
}

fn positions(folder: &Path) -> io::Result<Vec<u64>> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name()));
    let names: Vec<_> = names.collect::<io::Result<_>>()?;
    let position = |name: &std::ffi::OsString| name.to_str()?.strip_prefix(PREFIX)?.parse().ok();
    Ok(names.iter().filter_map(position).collect())
}

fn write_file(path: &Path, snapshot: BookSnapshot) -> Result<(), JournalError> {
    let mut file = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
    let mut write = |piece: &SnapshotPiece| -> Result<(), JournalError> {
        let bytes = postcard::to_stdvec(piece)?;
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        assert!(length <= MAX_PIECE_BYTES, "a piece of a snapshot has {length} bytes");
        file.write_all(&length.to_le_bytes())?;
        file.write_all(&crc32fast::hash(&bytes).to_le_bytes())?;
        Ok(file.write_all(&bytes)?)
    };
    let BookSnapshot { position, clock, sales } = snapshot;
    write(&SnapshotPiece::Head { version: VERSION, position, clock, sales: sales.len() as u64 })?;
    for SaleSnapshot { status, orders, waiters } in sales {
        write(&SnapshotPiece::Sale { status, orders: orders.len() as u64 })?;
        let mut orders = orders.into_iter().peekable();
        while orders.peek().is_some() {
            write(&SnapshotPiece::Orders(orders.by_ref().take(ORDERS_PER_PIECE).collect()))?;
        }
        write(&SnapshotPiece::Waiters(waiters))?;
    }
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(file.sync_all()?)
}

fn read_file(file: File) -> Result<BookSnapshot, JournalError> {
    let mut pieces = SnapshotPieces { file: BufReader::with_capacity(BUFFER_BYTES, file), bytes: Vec::new() };
    let SnapshotPiece::Head { version, position, clock, sales: sale_count } = pieces.next()? else {
        return Err(JournalError::Damaged("the snapshot has no head".into()));
    };
    if version > VERSION {
        return Err(JournalError::NewerVersion(version));
    }
    let mut sales = Vec::new();
    for _ in 0..sale_count {
        let SnapshotPiece::Sale { status, orders: order_count } = pieces.next()? else {
            return Err(JournalError::Damaged("a sale of the snapshot is missing".into()));
        };
        let mut orders = Vec::new();
        while (orders.len() as u64) < order_count {
            let SnapshotPiece::Orders(more) = pieces.next()? else {
                return Err(JournalError::Damaged("orders of the snapshot are missing".into()));
            };
            orders.extend(more);
        }
        let waiters = if version < WAITERS_SINCE { Vec::new() } else { pieces.waiters()? };
        sales.push(SaleSnapshot { status, orders, waiters });
    }
    Ok(BookSnapshot { position, clock, sales })
}

struct SnapshotPieces {
    file: BufReader<File>,
    bytes: Vec<u8>,
}

impl SnapshotPieces {
    fn next(&mut self) -> Result<SnapshotPiece, JournalError> {
        let length = self.word()?;
        let checksum = self.word()?;
        if length > MAX_PIECE_BYTES {
            return Err(JournalError::Damaged("a piece of the snapshot is too long".into()));
        }
        self.bytes.resize(length as usize, 0);
        self.file.read_exact(&mut self.bytes).map_err(cut_short)?;
        if crc32fast::hash(&self.bytes) != checksum {
            return Err(JournalError::Damaged("a piece of the snapshot was changed".into()));
        }
        Ok(postcard::from_bytes(&self.bytes)?)
    }

    fn waiters(&mut self) -> Result<Vec<Waiter>, JournalError> {
        match self.next()? {
            SnapshotPiece::Waiters(waiters) => Ok(waiters),
            _ => Err(JournalError::Damaged("the waiters of a sale are missing in the snapshot".into())),
        }
    }

    fn word(&mut self) -> Result<u32, JournalError> {
        let mut word = [0; 4];
        self.file.read_exact(&mut word).map_err(cut_short)?;
        Ok(u32::from_le_bytes(word))
    }
}

fn cut_short(error: io::Error) -> JournalError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => JournalError::Damaged("the snapshot is cut short".into()),
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use penstock_domain::{Book, BuyerId, Claim, Command, KeyDigest, SaleId, SaleTerms};

    use super::*;

    /// A sale whose only unit is held, with one waiter.
    fn some_book() -> Book {
        let (sale, mut book) = (SaleId::from_random(1), Book::default());
        let (opens_at, closes_at) = (None, None);
        let terms = SaleTerms { sale, units: 1, limit_per_buyer: 2, opens_at, closes_at, hold_seconds: 60 };
        let buyer = |who| BuyerId::of_subject(who).unwrap();
        let key = KeyDigest::of(b"key").unwrap();
        for command in [
            Command::Publish(terms),
            Command::Claim(Claim { sale, buyer: buyer("ann"), quantity: 1, key }),
            Command::Join { sale, buyer: buyer("bob"), quantity: 2 },
        ] {
            book.execute(command, Timestamp::from_millis(1_000), &mut Vec::new());
        }
        book
    }

    #[test]
    fn a_snapshot_keeps_the_waiters() {
        let folder = tempfile::tempdir().unwrap();
        let snapshot = some_book().snapshot();
        assert_eq!(snapshot.sales[0].waiters.len(), 1);
        write(folder.path(), snapshot.clone()).unwrap();
        assert_eq!(read_newest(folder.path()).unwrap(), Some(snapshot));
    }

    #[test]
    fn a_snapshot_of_version_1_has_no_waiters() {
        let folder = tempfile::tempdir().unwrap();
        let BookSnapshot { position, clock, mut sales } = some_book().snapshot();
        let sale = &mut sales[0];
        sale.waiters.clear();
        let (status, orders) = (sale.status, sale.orders.clone());
        let pieces = [
            SnapshotPiece::Head { version: 1, position, clock, sales: 1 },
            SnapshotPiece::Sale { status, orders: orders.len() as u64 },
            SnapshotPiece::Orders(orders),
        ];
        let mut bytes = Vec::new();
        for piece in pieces {
            let piece = postcard::to_stdvec(&piece).unwrap();
            bytes.extend_from_slice(&(piece.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&crc32fast::hash(&piece).to_le_bytes());
            bytes.extend_from_slice(&piece);
        }
        fs::write(path(folder.path(), position), bytes).unwrap();
        assert_eq!(read_newest(folder.path()).unwrap(), Some(BookSnapshot { position, clock, sales }));
    }
}
