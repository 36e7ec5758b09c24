//! What the writer, the compactor and the feed of one embedded ledger know in common.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) folder: PathBuf,
    /// The last durable position.
    pub(super) head: AtomicU64,
    /// Up to here settlement has taken the decisions.
    pub(super) settled: AtomicU64,
    /// Up to here a durable snapshot covers them.
    pub(super) snapshot: AtomicU64,
    /// When the head is beyond this, it is time for a snapshot.
    pub(super) compact_at: AtomicU64,
    pub(super) stopping: AtomicBool,
}

impl Shared {
    /// Up to here nobody needs the journal's records any more.
    pub(super) fn forgettable(&self) -> u64 {
        self.settled.load(Relaxed).min(self.snapshot.load(Relaxed))
    }
}
