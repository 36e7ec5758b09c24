//! The checkpointer: a thread that copies the journal's write-ahead log into its database while the writer
//! goes on. The writer only copies what was added meanwhile; after that the log starts over.
//!
//! A commit that copies the whole log by itself keeps all others waiting until the disk has written several
//! megabytes.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{
            AtomicU8,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

use super::{
    aside::Aside,
    error::JournalError,
    journal::{Journal, LogRoom},
};
use crate::niceness::{Precedence, take_precedence};

/// The second round copies what was added during the first, so that little is left for the writer.
const ROUNDS: usize = 2;

const RESTING: u8 = 0;
const COPYING: u8 = 1;
/// The writer copies the rest.
const COPIED: u8 = 2;

#[derive(Debug)]
pub(super) struct Checkpointer {
    state: Arc<AtomicU8>,
    aside: Aside,
}

impl Checkpointer {
    pub(super) fn start(folder: PathBuf, room: LogRoom) -> io::Result<Self> {
        let state = Arc::new(AtomicU8::new(RESTING));
        let seen = Arc::clone(&state);
        let work = move || {
            if let Err(error) = copy(&folder, room) {
                // The writer then copies the whole log. If that fails too, the log still has everything.
                tracing::warn!(%error, "the journal's log could not be copied in the background");
            }
            seen.store(COPIED, Release);
        };
        Ok(Self { state, aside: Aside::start("ledger-log", || take_precedence(Precedence::Spare), work)? })
    }

    /// The writer calls this after each commit. It nearly always costs only an atomic load.
    pub(super) fn committed(&self, journal: &mut Journal) {
        match self.state.load(Acquire) {
            RESTING if journal.is_log_long() => {
                self.state.store(COPYING, Relaxed);
                self.aside.wake();
            }
            COPIED => {
                if let Err(error) = journal.begin_log_afresh() {
                    tracing::warn!(%error, "the rest of the journal's log could not be copied");
                }
                self.state.store(RESTING, Relaxed);
            }
            _ => {}
        }
    }
}

fn copy(folder: &Path, room: LogRoom) -> Result<(), JournalError> {
    // Opened each time: that is cheap compared with the copying, and no state survives a failure.
    let mut journal = Journal::open(folder, room)?;
    (0..ROUNDS).try_for_each(|_| journal.begin_log_afresh())
}

#[cfg(test)]
mod tests {
    use std::{fs, thread, time::Duration};

    use super::*;

    #[test]
    fn the_log_restarts_while_the_writer_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let room = LogRoom::of(4 << 20);
        let mut journal = Journal::open(folder.path(), room).unwrap();
        let checkpointer = Checkpointer::start(folder.path().to_owned(), room).unwrap();
        let record = vec![7; 100_000];
        let mut position = 0;
        let mut commit = |journal: &mut Journal| {
            position += 1;
            journal.append(position, &record, 0).unwrap();
            checkpointer.committed(journal);
        };
        while !journal.is_log_long() {
            commit(&mut journal);
        }
        while checkpointer.state.load(Acquire) != COPIED {
            thread::sleep(Duration::from_millis(1));
        }
        let log = || fs::metadata(folder.path().join("journal.db-wal")).unwrap().len();
        // This commit finds the log copied; later ones overwrite it from its beginning.
        commit(&mut journal);
        let length = log();
        for _ in 0..10 {
            commit(&mut journal);
        }
        assert_eq!(log(), length);
        assert_eq!(checkpointer.state.load(Acquire), RESTING);
    }
}
