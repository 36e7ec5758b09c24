//! The embedded engine: `Book` in memory, one writer, and a journal on disk that is compacted by snapshots.
//!
//! A batch is decided in memory, packed into one record and synced; only then is it answered. A start reads
//! the newest snapshot and the records after it. After a failed write the book in memory is ahead of the
//! disk, so it is thrown away and rebuilt from the files. ADR 0002 says why the journal is an SQLite
//! database.

mod aside;
mod checkpointer;
mod compactor;
mod engine;
mod error;
mod feed;
mod journal;
mod record;
mod replay;
mod shared;
mod snapshot;

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    sync::Arc,
};

pub use error::OpenError;

use self::{
    checkpointer::Checkpointer,
    compactor::Compactor,
    engine::Embedded,
    error::JournalError,
    feed::JournalFeed,
    journal::{Journal, JournalReader, LogRoom},
    shared::EmbeddedState,
};
use crate::{BatcherOptions, Clock, Feed, Ledger, Listener, batcher};

/// The process that holds a lock on this file writes the journal.
const LOCK_NAME: &str = "lock";

/// The name of the only stream in the feed. Settlement keeps its place under this name.
pub const STREAM: &str = "ledger";

#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// The journal's folder. It is created if it is missing.
    pub folder: PathBuf,
    pub batcher: BatcherOptions,
    /// A snapshot is made when more decisions than this, and more than the last snapshot has orders, have
    /// been added since.
    pub compact_after_decisions: u64,
    /// The size of the journal's log. Its file is made when the journal is opened, so this much can still be
    /// sold when the disk is full.
    pub log_bytes: usize,
}

impl EmbeddedOptions {
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            batcher: BatcherOptions::default(),
            compact_after_decisions: 250_000,
            log_bytes: 32 << 20,
        }
    }
}

/// Opens the journal in `options.folder` and returns at once. The recovery runs on the writer's thread, and
/// requests wait for it.
pub fn open(
    options: EmbeddedOptions,
    clock: Clock,
    listener: Arc<dyn Listener>,
) -> Result<Ledger, OpenError> {
    let EmbeddedOptions { folder, batcher, compact_after_decisions: compact_after, log_bytes } = options;
    let log_room = LogRoom::of(log_bytes);
    let unusable = |error: std::io::Error| unusable(&folder, error);
    fs::create_dir_all(&folder).map_err(unusable)?;
    let lock = lock(&folder)?;
    // Refuse here what can be refused at once, not later on the writer's thread.
    Journal::open(&folder, log_room).map_err(|error| refused(&folder, error))?;
    let shared = Arc::new(EmbeddedState { folder: folder.clone(), ..EmbeddedState::default() });
    let compactor = Compactor::start(shared.clone(), compact_after).map_err(unusable)?;
    let feed = Arc::new(JournalFeed::new(shared.clone()));
    let checkpointer = Checkpointer::start(folder.clone(), log_room).map_err(unusable)?;
    let engine =
        Embedded { shared, compactor, checkpointer, compact_after, log_room, running: None, _lock: lock };
    batcher::start(engine, feed, batcher, clock, listener).map_err(unusable)
}

/// A read-only feed of the ledger in `folder`. It changes nothing and works while a server runs. It ends
/// where the last `state` that was read ended.
pub fn read(folder: &Path) -> Result<impl Feed + use<>, OpenError> {
    JournalReader::open(folder).map_err(|error| refused(folder, error))?;
    Ok(JournalFeed::beside(EmbeddedState { folder: folder.into(), ..EmbeddedState::default() }))
}

fn lock(folder: &Path) -> Result<File, OpenError> {
    let file = File::create(folder.join(LOCK_NAME)).map_err(|error| unusable(folder, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { folder: folder.into() }),
        Err(TryLockError::Error(error)) => Err(unusable(folder, error)),
    }
}

fn refused(folder: &Path, error: JournalError) -> OpenError {
    match error {
        JournalError::NewerVersion(found) => {
            OpenError::NewerVersion { folder: folder.into(), found, known: journal::VERSION }
        }
        other => unusable(folder, other),
    }
}

fn unusable(folder: &Path, reason: impl ToString) -> OpenError {
    OpenError::Unusable { folder: folder.into(), reason: reason.to_string() }
}
