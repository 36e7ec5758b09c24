//! The compactor: a thread that turns snapshot and journal into a new snapshot, with a `Book` of its own, so that
//! the writer never waits for it. The writer deletes the records that nobody needs any more.

use std::{
    io,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use super::{aside::Aside, error::JournalError, replay::replay, shared::Shared, snapshot};
use crate::{
    niceness::{Turn, take_turn},
    rush::Rush,
};

/// So many decisions a second are a rush, and compaction waits for its end …
const RUSH_PER_SECOND: u32 = 5_000;
/// … unless so many times as much has come as pays: a start must not take long.
const MAX_WAIT: u64 = 4;

#[derive(Debug)]
pub(super) struct Compactor {
    shared: Arc<Shared>,
    compact_after: u64,
    rush: Rush,
    aside: Aside,
}

impl Compactor {
    pub(super) fn start(shared: Arc<Shared>, compact_after: u64) -> io::Result<Self> {
        let work = {
            let shared = shared.clone();
            move || run(&shared, compact_after)
        };
        let aside = Aside::start("ledger-compactor", || take_turn(Turn::Spare), work)?;
        Ok(Self { shared, compact_after, rush: Rush::beyond(RUSH_PER_SECOND), aside })
    }

    /// Called by the writer after each commit; it costs a look at the clock.
    pub(super) fn committed(&mut self, head: u64) {
        let is_rush = self.rush.is_on(head, Instant::now());
        if is_due(head, self.shared.compact_at.load(Relaxed), self.compact_after, is_rush) {
            // Not again until the compactor has said when.
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

/// The position beyond which the next snapshot pays: when there is as much to replay as to read.
pub(super) fn next_compaction(snapshot_position: u64, snapshot_orders: u64, compact_after: u64) -> u64 {
    snapshot_position.saturating_add(compact_after.max(snapshot_orders))
}

/// Compacts until there is less to replay than pays: the writer may have nothing more to commit, and so nothing that would
/// wake us again.
fn run(shared: &Shared, compact_after: u64) {
    loop {
        let compact_at = match compact(shared) {
            Ok((position, orders)) => {
                tracing::info!(position, orders, "wrote a snapshot of the ledger");
                next_compaction(position, orders, compact_after)
            }
            Err(JournalError::Stopping) => return,
            Err(error) => {
                // The journal still has everything; try again when it has grown further.
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

fn compact(shared: &Shared) -> Result<(u64, u64), JournalError> {
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
    fn a_rush_puts_it_off_but_not_for_ever() {
        let is_due = |head, is_rush| is_due(head, 1_000, 250, is_rush);
        assert!(!is_due(1_000, false));
        assert!(is_due(1_001, false));
        assert!(!is_due(1_750, true));
        assert!(is_due(1_751, true));
        // One that is under way is not begun again.
        assert!(!super::is_due(u64::MAX, u64::MAX, 250, false));
    }
}
