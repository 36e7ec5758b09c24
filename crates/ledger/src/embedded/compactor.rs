//! The compactor: a thread that turns snapshot and journal into a new snapshot, with a `Book` of its own, so
//! that the writer never waits for it. The writer deletes the records that are no longer needed.

use std::{
    io,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use super::{aside::Aside, error::JournalError, replay::replay, shared::EmbeddedState, snapshot};
use crate::{
    niceness::{Precedence, take_precedence},
    rush::Rush,
};

/// More decisions a second than this are a rush: compaction waits for its end.
const RUSH_PER_SECOND: u32 = 5_000;
/// Even in a rush, compaction starts after this many times the usual number of decisions, to keep restarts
/// short.
const MAX_WAIT: u64 = 4;

#[derive(Debug)]
pub(super) struct Compactor {
    shared: Arc<EmbeddedState>,
    compact_after: u64,
    rush: Rush,
    aside: Aside,
}

impl Compactor {
    pub(super) fn start(shared: Arc<EmbeddedState>, compact_after: u64) -> io::Result<Self> {
        let work = {
            let shared = shared.clone();
            move || run(&shared, compact_after)
        };
        let aside = Aside::start("ledger-compactor", || take_precedence(Precedence::Spare), work)?;
        Ok(Self { shared, compact_after, rush: Rush::beyond(RUSH_PER_SECOND), aside })
    }

    /// The writer calls this after each commit. It costs a look at the clock.
    pub(super) fn committed(&mut self, head: u64) {
        let is_rush = self.rush.is_on(head, Instant::now());
        if is_due(head, self.shared.compact_at.load(Relaxed), self.compact_after, is_rush) {
            // Not again until the compactor has set the next position.
            self.shared.compact_at.store(u64::MAX, Relaxed);
            self.aside.wake();
        }
    }
}

impl Drop for Compactor {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Relaxed);
    }
}

fn is_due(head: u64, compact_at: u64, compact_after: u64, is_rush: bool) -> bool {
    let wait = if is_rush { compact_after.saturating_mul(MAX_WAIT - 1) } else { 0 };
    head > compact_at.saturating_add(wait)
}

/// The position beyond which the next snapshot is worth its cost: when there is as much to replay as to read.
pub(super) fn next_compaction(snapshot_position: u64, snapshot_orders: u64, compact_after: u64) -> u64 {
    snapshot_position.saturating_add(compact_after.max(snapshot_orders))
}

/// Compacts until there is too little to replay for another snapshot. It must not rely on being woken again:
/// the writer may have nothing more to commit.
fn run(shared: &EmbeddedState, compact_after: u64) {
    loop {
        let compact_at = match compact(shared) {
            Ok((position, orders)) => {
                tracing::info!(position, orders, "wrote a snapshot of the ledger");
                next_compaction(position, orders, compact_after)
            }
            Err(JournalError::Stopping) => return,
            Err(error) => {
                // The journal still has everything. Try again when it has grown further.
                tracing::error!(%error, "could not write a snapshot of the ledger");
                shared.head.load(Relaxed).saturating_add(compact_after)
            }
        };
        if shared.head.load(Relaxed) <= compact_at {
            shared.compact_at.store(compact_at, Relaxed);
            return;
        }
    }
}

fn compact(shared: &EmbeddedState) -> Result<(u64, u64), JournalError> {
    let book = replay(&shared.folder, &shared.stopping)?.book;
    let whole = book.snapshot();
    drop(book);
    let (position, orders) = (whole.position, whole.sales.iter().map(|sale| sale.orders.len() as u64).sum());
    snapshot::write(&shared.folder, whole)?;
    shared.snapshot.store(position, Relaxed);
    Ok((position, orders))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rush_delays_compaction_but_not_forever() {
        let is_due = |head, is_rush| is_due(head, 1_000, 250, is_rush);
        assert!(!is_due(1_000, false));
        assert!(is_due(1_001, false));
        assert!(!is_due(1_750, true));
        assert!(is_due(1_751, true));
        // A compaction that is under way is not started again.
        assert!(!super::is_due(u64::MAX, u64::MAX, 250, false));
    }
}
