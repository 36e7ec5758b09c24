//! The journal on disk: an SQLite database in WAL mode with one row per group commit (ADR 0002). To the
//! journal, a record is just bytes.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, OpenFlags};

use super::error::JournalError;

/// Grows when an older program could misread the journal. Version 2 added waitlists: decisions about them,
/// and the waiters in a snapshot.
pub(super) const VERSION: u32 = 2;
const FILE_NAME: &str = "journal.db";
const PAGE_BYTES: usize = 4_096;
/// The memory that SQLite uses as a cache by default.
const CACHED_BYTES: usize = 2_000 << 10;
/// A commit changes the last page of the table, the first page of the database, and sometimes another one.
const PAGES_PER_COMMIT: usize = 3;
/// Records deleted along with one insertion: more than one, so that the journal shrinks during the sale; few,
/// so that no answer waits long.
const FORGOTTEN_PER_COMMIT: u32 = 4;
const _: () = assert!(FORGOTTEN_PER_COMMIT > 1);
/// The longest time a recovery waits for readers to finish.
const PATIENCE: Duration = Duration::from_secs(2);
/// Records that a reader fetches at once. Few, so that it never holds back the write-ahead log for long.
const ROWS_PER_READ: u32 = 64;

/// The size of the write-ahead log.
///
/// The file has this size from the start. Writing to a part of a file that was never written also takes work
/// from a kernel thread, and on a busy machine each commit would wait for that thread until the next clock
/// tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogRoom {
    bytes: usize,
}

impl LogRoom {
    pub(super) fn of(bytes: usize) -> Self {
        Self { bytes }
    }

    fn pages(self) -> usize {
        self.bytes / PAGE_BYTES
    }

    /// At about this many pages the checkpointer copies the log into the database.
    fn long(self) -> usize {
        self.pages() / 8 * 7
    }

    /// At this many pages the commit that exceeds them copies the log, and its callers wait.
    fn too_long(self) -> usize {
        self.pages() * 4
    }
}

/// The writer's side.
#[derive(Debug)]
pub(super) struct Journal {
    connection: Connection,
    room: LogRoom,
    /// All records up to this position are deleted.
    forgotten: u64,
    /// Roughly how many pages were written to the log since it was last copied.
    log_pages: usize,
}

impl Journal {
    /// Opens or creates the journal in `folder`.
    pub(super) fn open(folder: &Path, room: LogRoom) -> Result<Self, JournalError> {
        let connection = Connection::open(folder.join(FILE_NAME))?;
        connection.busy_timeout(PATIENCE)?;
        let version = version(&connection)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "wal_autocheckpoint", room.too_long() as u32)?;
        if version == 0 {
            connection.execute_batch(&format!(
                "BEGIN;
                 CREATE TABLE batches (last INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, record BLOB NOT NULL);
                 CREATE TABLE probe (room BLOB NOT NULL);
                 PRAGMA user_version = {VERSION};
                 COMMIT;"
            ))?;
        } else if version < VERSION {
            // Older records read as before. An older program must not read the ones written from now on.
            connection.pragma_update(None, "user_version", VERSION)?;
        }
        Ok(Self { connection, room, forgotten: 0, log_pages: 0 })
    }

    /// Makes sure that everything a reader sees is on the disk, and that there is room to go on.
    ///
    /// After a failed sync the kernel may treat pages as clean that never reached the disk. So nothing that
    /// was only in the write-ahead log can be trusted: it is written to the database again and synced there,
    /// and the log starts over.
    pub(super) fn settle_after_failure(&self) -> Result<(), JournalError> {
        let busy =
            self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0))?;
        if busy {
            return Err(JournalError::Contended);
        }
        self.make_room()
    }

    /// Makes the log's file as long as it will ever need to be.
    fn make_room(&self) -> Result<(), JournalError> {
        // A transaction that is rolled back never reaches the database. But whatever exceeds SQLite's cache
        // is written to the log, and the rollback leaves the file that long.
        let unused = self.connection.unchecked_transaction()?;
        unused
            .execute("INSERT INTO probe VALUES (zeroblob(?1))", [(self.room.bytes + CACHED_BYTES) as i64])?;
        unused.rollback()?;
        // A commit syncs the whole file.
        self.connection.execute("INSERT INTO probe VALUES ('')", [])?;
        self.connection.execute("DELETE FROM probe", [])?;
        Ok(())
    }

    /// Appends a record and returns when it is durable. Records up to `forget` may be deleted.
    pub(super) fn append(&mut self, last: u64, record: &[u8], forget: u64) -> Result<(), JournalError> {
        self.log_pages += record.len() / PAGE_BYTES + PAGES_PER_COMMIT;
        if forget <= self.forgotten {
            return insert(&self.connection, last, record);
        }
        let transaction = self.connection.transaction()?;
        insert(&transaction, last, record)?;
        let deleted = transaction
            .prepare_cached(
                "DELETE FROM batches WHERE last IN (SELECT last FROM batches WHERE last <= ?1 ORDER BY last LIMIT ?2)",
            )?
            .execute((forget as i64, FORGOTTEN_PER_COMMIT))?;
        transaction.commit()?;
        if deleted < FORGOTTEN_PER_COMMIT as usize {
            self.forgotten = forget;
        }
        Ok(())
    }

    pub(super) fn is_log_long(&self) -> bool {
        self.log_pages >= self.room.long()
    }

    /// Copies the part of the log that the database lacks. If no reader needs the log, the next commit writes
    /// at its beginning.
    pub(super) fn begin_log_afresh(&mut self) -> Result<(), JournalError> {
        self.log_pages = 0;
        // If another copy is running or a reader is in the way, that is not an error: there is a next time.
        self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
        Ok(())
    }
}

fn insert(connection: &Connection, last: u64, record: &[u8]) -> Result<(), JournalError> {
    let mut insert = connection.prepare_cached("INSERT INTO batches VALUES (?1, ?2, ?3)")?;
    insert.execute((last as i64, crc32fast::hash(record), record))?;
    Ok(())
}

fn version(connection: &Connection) -> Result<u32, JournalError> {
    let version = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version > VERSION { Err(JournalError::NewerVersion(version)) } else { Ok(version) }
}

/// The readers' side. A reader sees only what is durable: SQLite shows a commit once it is synced.
#[derive(Debug)]
pub(super) struct JournalReader {
    connection: Connection,
}

impl JournalReader {
    pub(super) fn open(folder: &Path) -> Result<Self, JournalError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(folder.join(FILE_NAME), flags)?;
        connection.busy_timeout(PATIENCE)?;
        if version(&connection)? == 0 {
            return Err(JournalError::Damaged("it is not a journal".into()));
        }
        Ok(Self { connection })
    }

    /// Passes the records with decisions after `after` to `each`, in order, until there are none left or
    /// `each` returns false.
    pub(super) fn records(
        &self,
        after: u64,
        mut each: impl FnMut(u64, &[u8]) -> Result<bool, JournalError>,
    ) -> Result<(), JournalError> {
        let select = "SELECT last, checksum, record FROM batches WHERE last > ?1 ORDER BY last LIMIT ?2";
        let mut statement = self.connection.prepare_cached(select)?;
        let mut after = after;
        loop {
            let mut rows = statement.query((after as i64, ROWS_PER_READ))?;
            let mut found = 0;
            while let Some(row) = rows.next()? {
                let last = row.get::<_, i64>(0)? as u64;
                let record = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
                if crc32fast::hash(record) != row.get::<_, u32>(1)? {
                    return Err(JournalError::Damaged(format!(
                        "the record up to position {last} was changed"
                    )));
                }
                if !each(last, record)? {
                    return Ok(());
                }
                after = last;
                found += 1;
            }
            if found < ROWS_PER_READ {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_its_full_size_from_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let room = LogRoom::of(8 << 20);
        let log_bytes = || std::fs::metadata(folder.path().join("journal.db-wal")).unwrap().len() as usize;
        let mut journal = Journal::open(folder.path(), room).unwrap();
        journal.settle_after_failure().unwrap();
        let at_start = log_bytes();
        assert!(at_start > room.long() * PAGE_BYTES, "{at_start}");
        let mut position = 0;
        while !journal.is_log_long() {
            position += 1;
            journal.append(position, &[7; 10_000], 0).unwrap();
        }
        assert_eq!(log_bytes(), at_start);
        let database = std::fs::metadata(folder.path().join(FILE_NAME)).unwrap().len();
        assert!(database < 1 << 20, "reserving the log also took {database} bytes in the database");
    }
}
