//! The ledger's `Feed`, for settlement and audits.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use penstock_domain::{BookSnapshot, Cursor, SaleId};
use penstock_redis_client::Script;
use redis::Value;

use super::{entries::entries_of, state::StateReader, trimming::Trimming};
use crate::{
    Feed, FeedError, Piece, Unavailable,
    redis::{layout::FeedEntry, store::Store},
};

/// An entry may hold thousands of decisions or one. Reading begins with a few entries and takes more each
/// time.
const FIRST_ENTRIES: usize = 8;
const MAX_ENTRIES: usize = 512;

pub(crate) struct RedisFeed {
    state: StateReader,
    trimming: Arc<Trimming>,
    script: Script,
    store: Store,
}

impl RedisFeed {
    pub(crate) fn new(store: Store) -> Self {
        let script = Script::new(include_str!("../scripts/read.lua"));
        store.link.learn(&script);
        Self { state: StateReader::new(store.clone()), trimming: Trimming::new(store.clone()), script, store }
    }

    async fn read_after(&self, stream: &str, after: Cursor, max: usize) -> Result<Piece, FeedError> {
        let Some(sale) = sale_of(stream) else { return Ok(Piece::nothing_after(after)) };
        let mut piece = Piece::nothing_after(after);
        let (mut next, mut count, mut is_first) = (after.position, FIRST_ENTRIES, true);
        while piece.decisions.len() < max {
            let (epoch, entries) = self.read_some(sale, next, count).await?;
            if is_first {
                self.check_history(sale, after, entries.first())?;
                piece.epoch = epoch;
            } else if piece.epoch != epoch {
                // The rest may belong to another history.
                break;
            }
            let Some(last) = entries.last().map(|entry| entry.last) else { break };
            let is_end = entries.len() < count;
            take(&mut piece, entries, after, max)?;
            if is_end {
                break;
            }
            (next, count, is_first) = (last + 1, (count * 4).min(MAX_ENTRIES), false);
        }
        Ok(piece)
    }

    /// The entry that contains `position` and those after it, at most `count`, with their epoch.
    async fn read_some(
        &self,
        sale: SaleId,
        position: u64,
        count: usize,
    ) -> Result<(u64, Vec<FeedEntry>), Unavailable> {
        let key = self.store.keys.sale(sale);
        let mut call = self.script.call();
        call.arg(2).arg(&key).arg(self.store.keys.feed(sale)).arg(position).arg(count);
        // Settlement must not get ahead of the replicas: a decision that is lost with its master would stay
        // in the records.
        let (epoch, entries): (u64, Vec<Value>) = self.store.link.call_confirmed(&key, call).await?;
        Ok((epoch, entries_of(sale, &entries)?))
    }

    /// A history that differs from the one the records saw has to be compared with them.
    fn check_history(&self, sale: SaleId, after: Cursor, first: Option<&FeedEntry>) -> Result<(), FeedError> {
        let checked = check_history(after, first);
        if checked == Err(FeedError::Diverged) {
            self.store.sales.doubt(sale);
        }
        checked
    }
}

impl Feed for RedisFeed {
    fn streams(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, Unavailable>> {
        let sales = self.store.sales.remembered();
        self.trimming.keep(&sales);
        let streams = sales.into_iter().map(|sale| sale.to_string().into()).collect();
        std::future::ready(Ok(streams)).boxed()
    }

    fn read<'a>(
        &'a self,
        stream: &'a str,
        after: Cursor,
        max: usize,
    ) -> BoxFuture<'a, Result<Piece, FeedError>> {
        self.read_after(stream, after, max).boxed()
    }

    fn head(&self, stream: &str) -> u64 {
        let known = sale_of(stream).and_then(|sale| self.store.sales.get(sale));
        known.map_or(0, |known| known.position())
    }

    fn settled(&self, stream: &str, cursor: Cursor) {
        if let Some(sale) = sale_of(stream) {
            self.trimming.settled(sale, cursor.position);
        }
    }

    fn doubt(&self, stream: &str) {
        if let Some(sale) = sale_of(stream) {
            self.store.sales.doubt(sale);
        }
    }

    fn state<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, Result<BookSnapshot, Unavailable>> {
        async move {
            let sale = sale_of(stream).ok_or_else(|| Unavailable::new("no stream has this name"))?;
            self.state.read(sale).await
        }
        .boxed()
    }

    fn forgets_closed_sales(&self) -> bool {
        true
    }
}

fn sale_of(stream: &str) -> Option<SaleId> {
    stream.parse().ok()
}

/// `first` is the first entry at or after the cursor's position. It has to belong to the history that the
/// cursor saw.
fn check_history(after: Cursor, first: Option<&FeedEntry>) -> Result<(), FeedError> {
    match first {
        None if after.position == 0 => Ok(()),
        None => Err(FeedError::Diverged),
        Some(entry) if entry.first > after.position + 1 => Err(forgotten(after.position + 1)),
        // Before the first decision there is no history.
        Some(_) if after.position == 0 => Ok(()),
        // The entry that contained the position is gone, but the one after it is there.
        Some(entry) if entry.first == after.position + 1 && entry.last > after.position => {
            Err(forgotten(after.position))
        }
        Some(entry) if entry.mark == after.mark => Ok(()),
        Some(_) => Err(FeedError::Diverged),
    }
}

fn forgotten(position: u64) -> FeedError {
    Unavailable::new(format!("the feed no longer has decision {position}")).into()
}

/// Adds the decisions after `after` to the piece, at most `max` in all.
fn take(piece: &mut Piece, entries: Vec<FeedEntry>, after: Cursor, max: usize) -> Result<(), FeedError> {
    for entry in entries {
        for decision in entry.decisions.into_iter().filter(|decision| decision.position > after.position) {
            if piece.decisions.len() == max {
                return Ok(());
            }
            let expected = piece.decisions.last().map_or(after.position, |last| last.position) + 1;
            if decision.position != expected {
                return Err(forgotten(expected));
            }
            piece.decisions.push(decision);
            piece.mark = entry.mark;
        }
    }
    Ok(())
}
