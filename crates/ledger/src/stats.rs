//! Counters of the writer, for the metrics.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Upper bounds of the batch-size buckets. A last bucket counts larger batches.
pub const BATCH_SIZE_BOUNDS: [usize; 13] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

/// What the writer has done since it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerStats {
    pub batches: u64,
    pub commands: u64,
    /// Commands answered `Unavailable` because their commit failed.
    pub failed_commands: u64,
    /// Time spent in commits: deciding and waiting for durability.
    pub commit_time: Duration,
    /// How many batches had a size up to each bound of `BATCH_SIZE_BOUNDS` (and above the one before it);
    /// the last is for larger ones.
    pub batch_sizes: [u64; BATCH_SIZE_BOUNDS.len() + 1],
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    batches: AtomicU64,
    commands: AtomicU64,
    failed_commands: AtomicU64,
    commit_nanoseconds: AtomicU64,
    batch_sizes: [AtomicU64; BATCH_SIZE_BOUNDS.len() + 1],
}

impl Counters {
    pub(crate) fn committed(&self, commands: usize, time: Duration) {
        let bucket = BATCH_SIZE_BOUNDS.partition_point(|bound| *bound < commands);
        self.batch_sizes[bucket].fetch_add(1, Relaxed);
        self.batches.fetch_add(1, Relaxed);
        self.commands.fetch_add(commands as u64, Relaxed);
        self.commit_nanoseconds.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    pub(crate) fn failed(&self, commands: usize) {
        self.failed_commands.fetch_add(commands as u64, Relaxed);
    }

    pub(crate) fn read(&self) -> LedgerStats {
        LedgerStats {
            batches: self.batches.load(Relaxed),
            commands: self.commands.load(Relaxed),
            failed_commands: self.failed_commands.load(Relaxed),
            commit_time: Duration::from_nanos(self.commit_nanoseconds.load(Relaxed)),
            batch_sizes: std::array::from_fn(|bucket| self.batch_sizes[bucket].load(Relaxed)),
        }
    }
}
