//! What can go wrong with the journal's files.

use std::{io, path::PathBuf};

use crate::Unavailable;

/// Why a ledger's folder could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the journal in {} is in use by another process", .folder.display())]
    InUse { folder: PathBuf },
    #[error("the journal in {} has version {found}, this program knows {known}: use a newer program", .folder.display())]
    NewerVersion { folder: PathBuf, found: u32, known: u32 },
    #[error("the journal in {} can't be opened: {reason}", .folder.display())]
    Unusable { folder: PathBuf, reason: String },
}

#[derive(Debug, thiserror::Error)]
pub(super) enum JournalError {
    #[error("the journal failed: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("the ledger's files failed: {0}")]
    Io(#[from] io::Error),
    #[error("the journal is damaged: {0}")]
    Damaged(String),
    #[error("version {0} of the journal is newer than this program")]
    NewerVersion(u32),
    #[error("the decisions after position {0} are no longer in the journal")]
    Forgotten(u64),
    #[error("a reader of the journal keeps its recovery from finishing")]
    Contended,
    #[error("the ledger is stopping")]
    Stopping,
}

impl From<JournalError> for Unavailable {
    fn from(error: JournalError) -> Self {
        Self::new(error)
    }
}

impl From<postcard::Error> for JournalError {
    fn from(error: postcard::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}
