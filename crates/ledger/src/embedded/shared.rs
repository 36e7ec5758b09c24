//! State that the writer, the compactor and the feed of one embedded ledger share.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

#[derive(Debug, Default)]
pub(super) struct EmbeddedState {
    pub(super) folder: PathBuf,
    /// The last durable position.
    pub(super) head: AtomicU64,
    /// Settlement has taken the decisions up to here.
    pub(super) settled: AtomicU64,
    /// A durable snapshot covers the decisions up to here.
    pub(super) snapshot: AtomicU64,
    /// A snapshot is due when the head is beyond this.
    pub(super) compact_at: AtomicU64,
    pub(super) stopping: AtomicBool,
}

impl EmbeddedState {
    /// Records up to here are no longer needed.
    pub(super) fn forgettable(&self) -> u64 {
        self.settled.load(Relaxed).min(self.snapshot.load(Relaxed))
    }
}
