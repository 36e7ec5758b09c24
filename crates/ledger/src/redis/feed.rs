//! The feed on Redis: every sale is a stream of its own, named by the sale's id, and its entries are batches.
//! The entry's random mark tells its history from others that were lost.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures_util::future::{BoxFuture, FutureExt};
use hashbrown::{HashMap, HashSet};
use penstock_domain::{BookSnapshot, Cursor, Mark, SaleId, SaleSnapshot, SnapshotOrder, Waiter};
use redis::Value;

use super::{
    batch::text,
    codec::{Damaged, Entry, PAGE, unpack_entry, unpack_order, unpack_waiter},
    keys::Keys,
    link::{Link, Script, answered},
    sales::Sales,
    stored::{SALE_FIELDS, Stored},
};
use crate::{Feed, FeedError, Piece, Unavailable};

/// An entry may hold thousands of decisions or one. Reading begins with a few entries and takes more each
/// time.
const FIRST_ENTRIES: usize = 8;
const MAX_ENTRIES: usize = 512;
/// The shortest time between two trims of a stream.
const TRIM_INTERVAL: Duration = Duration::from_secs(1);
/// A state is read in steps of this many orders and waiters. If the sale changes between two steps, they
/// grow.
const FIRST_STEP: usize = 64 * PAGE;
const MAX_STEP: usize = 2_048 * PAGE;

pub(super) struct RedisFeed {
    link: Link,
    keys: Keys,
    sales: Arc<Sales>,
    state: Script,
    read: Script,
    trimmed: Arc<Mutex<HashMap<SaleId, Trimmed>>>,
}

/// How far a stream may be trimmed, how far it was, whether a trim is due, and when the last one was.
#[derive(Clone, Copy, Debug)]
struct Trimmed {
    settled: u64,
    trimmed: u64,
    is_waiting: bool,
    at: Option<Instant>,
}

impl fmt::Debug for RedisFeed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RedisFeed").field("link", &self.link).finish_non_exhaustive()
    }
}

impl RedisFeed {
    pub(super) fn new(link: Link, keys: Keys, sales: Arc<Sales>) -> Self {
        let state = Script::new(include_str!("scripts/state.lua"));
        let read = Script::new(include_str!("scripts/read.lua"));
        link.learn(&state);
        link.learn(&read);
        Self { link, keys, sales, state, read, trimmed: Arc::default() }
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

    /// Like `read_entries`, with the epoch of the entries.
    async fn read_some(
        &self,
        sale: SaleId,
        position: u64,
        count: usize,
    ) -> Result<(u64, Vec<Entry>), Unavailable> {
        let key = self.keys.sale(sale);
        let mut call = self.read.call();
        call.arg(2).arg(&key).arg(self.keys.feed(sale)).arg(position).arg(count);
        let mut pipeline = redis::pipe();
        pipeline.add_command(call);
        // Settlement must not get ahead of the replicas: a decision that is lost with its master would stay
        // in the records.
        let answer = self.link.run(&key, pipeline, true).await?.pop();
        let (epoch, entries): (u64, Value) = answered(&key, answer)?;
        Ok((epoch, entries_of(sale, Some(entries))?))
    }

    /// A history that differs from the one the records saw has to be compared with them.
    fn check_history(&self, sale: SaleId, after: Cursor, first: Option<&Entry>) -> Result<(), FeedError> {
        let checked = check_history(after, first);
        if checked == Err(FeedError::Diverged) {
            self.sales.doubt(sale);
        }
        checked
    }

    async fn read_state(&self, sale: SaleId) -> Result<BookSnapshot, Unavailable> {
        let mut step = FIRST_STEP;
        while step <= MAX_STEP {
            if let Some(snapshot) = self.read_state_in_steps(sale, step).await? {
                return Ok(snapshot);
            }
            step *= 2;
        }
        Err(Unavailable::new("the sale changes too quickly to be read at one moment"))
    }

    /// None if the sale changed between two steps.
    async fn read_state_in_steps(
        &self,
        sale: SaleId,
        step: usize,
    ) -> Result<Option<BookSnapshot>, Unavailable> {
        let Some((stored, mut orders, mut waiters)) = self.read_step(sale, 0, step).await? else {
            let clock = penstock_domain::Timestamp::from_millis(0);
            return Ok(Some(BookSnapshot { position: 0, clock, sales: Vec::new() }));
        };
        if stored.counts.forgotten {
            // Its orders are gone from Redis: only the records have them.
            let position = stored.counts.position;
            return Ok(Some(BookSnapshot { position, clock: stored.clock, sales: Vec::new() }));
        }
        for first in (step..stored.orders.max(stored.waiting) as usize).step_by(step) {
            match self.read_step(sale, first, step).await? {
                Some((same, more_orders, more_waiters)) if same == stored => {
                    orders.extend(more_orders);
                    waiters.extend(more_waiters);
                }
                _ => return Ok(None),
            }
        }
        if (orders.len(), waiters.len()) != (stored.orders as usize, stored.waiting as usize) {
            return Err(Damaged("a sale's orders or waiters don't match its counts").into());
        }
        let sales = vec![SaleSnapshot { status: stored.status(), orders, waiters }];
        Ok(Some(BookSnapshot { position: stored.counts.position, clock: stored.clock, sales }))
    }

    async fn read_step(
        &self,
        sale: SaleId,
        first: usize,
        step: usize,
    ) -> Result<Option<(Stored, Vec<SnapshotOrder>, Vec<Waiter>)>, Unavailable> {
        let key = self.keys.sale(sale);
        let mut call = self.state.call();
        call.arg(5).arg(&key).arg(self.keys.buyers(sale)).arg(self.keys.orders(sale));
        call.arg(self.keys.waitlist(sale)).arg(self.keys.waiters(sale));
        call.arg(first).arg(step).arg(&SALE_FIELDS);
        let mut pipeline = redis::pipe();
        pipeline.add_command(call);
        let answer = self.link.run(&key, pipeline, true).await?.pop();
        let Some(Value::Array(parts)) = answer else {
            return Err(Unavailable::new(format!("Redis answered {answer:?}")));
        };
        let [Value::Array(fields), Value::Array(orders), Value::Array(waiters)] = parts.as_slice() else {
            return Err(Damaged("a state does not have three parts").into());
        };
        let Some(stored) = Stored::read(sale, fields)? else { return Ok(None) };
        // Only the counts of a forgotten sale are left.
        let orders = if stored.counts.forgotten { &[][..] } else { orders };
        let unpack = |packed: &Value| unpack_order(sale, stored.terms.hold_seconds, text(packed)?);
        let orders = orders.iter().map(unpack).collect::<Result<_, Damaged>>()?;
        let unpack = |pair: &[Value]| match pair {
            [buyer, entry] => unpack_waiter(text(buyer)?, text(entry)?),
            _ => Err(Damaged("a waiter without an entry")),
        };
        let waiters = waiters.chunks(2).map(unpack).collect::<Result<_, Damaged>>()?;
        Ok(Some((stored, orders, waiters)))
    }

    /// Notes how far the sale is settled. True if the caller has to trim the stream.
    fn note_settled(&self, sale: SaleId, position: u64) -> bool {
        let mut trimmed = self.trimmed.lock().unwrap_or_else(PoisonError::into_inner);
        let sale =
            trimmed.entry(sale).or_insert(Trimmed { settled: 0, trimmed: 0, is_waiting: false, at: None });
        sale.settled = sale.settled.max(position);
        let is_new = !sale.is_waiting && sale.settled > sale.trimmed;
        sale.is_waiting |= is_new;
        is_new
    }
}

impl Feed for RedisFeed {
    fn streams(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, Unavailable>> {
        let sales = self.sales.remembered();
        let mut trimmed = self.trimmed.lock().unwrap_or_else(PoisonError::into_inner);
        if trimmed.len() > sales.len() {
            let known: HashSet<SaleId> = sales.iter().copied().collect();
            trimmed.retain(|sale, _| known.contains(sale));
        }
        drop(trimmed);
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
        let counts = sale_of(stream).and_then(|sale| self.sales.counts(sale));
        counts.map_or(0, |counts| counts.position)
    }

    fn settled(&self, stream: &str, cursor: Cursor) {
        let Some(sale) = sale_of(stream).filter(|sale| self.note_settled(*sale, cursor.position)) else {
            return;
        };
        let (link, key, trimmed) = (self.link.clone(), self.keys.feed(sale), self.trimmed.clone());
        self.link.runtime().spawn(async move { trim(&link, &key, sale, &trimmed).await });
    }

    fn doubt(&self, stream: &str) {
        if let Some(sale) = sale_of(stream) {
            self.sales.doubt(sale);
        }
    }

    fn state<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, Result<BookSnapshot, Unavailable>> {
        async move {
            let sale = sale_of(stream).ok_or_else(|| Unavailable::new("no stream has this name"))?;
            self.read_state(sale).await
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

/// The entry that contains `position` and those after it, at most `count`.
pub(super) async fn read_entries(
    link: &Link,
    keys: &Keys,
    sale: SaleId,
    position: u64,
    count: usize,
) -> Result<Vec<Entry>, Unavailable> {
    let key = keys.feed(sale);
    let mut pipeline = redis::pipe();
    pipeline.cmd("XRANGE").arg(&key).arg(format!("{position}-0")).arg("+").arg("COUNT").arg(count);
    let answer = link.run(&key, pipeline, true).await?.pop();
    entries_of(sale, answer)
}

fn entries_of(sale: SaleId, answer: Option<Value>) -> Result<Vec<Entry>, Unavailable> {
    let Some(Value::Array(entries)) = answer else {
        return Err(Unavailable::new(format!("Redis answered {answer:?}")));
    };
    Ok(entries.iter().map(|entry| entry_of(sale, entry)).collect::<Result<_, _>>()?)
}

/// An entry as XRANGE answers it: its id, then its fields `n` (mark) and `d` (decisions).
fn entry_of(sale: SaleId, entry: &Value) -> Result<Entry, Damaged> {
    const FORM: Damaged = Damaged("an entry of the feed has an unknown form");
    let Value::Array(parts) = entry else { return Err(FORM) };
    let [id, Value::Array(fields)] = parts.as_slice() else { return Err(FORM) };
    let [_, mark, _, decisions] = fields.as_slice() else { return Err(FORM) };
    let id = std::str::from_utf8(text(id)?).map_err(|_| FORM)?;
    let last = id.split_once('-').and_then(|(last, _)| last.parse().ok()).ok_or(FORM)?;
    let mark = Mark(text(mark)?.try_into().map_err(|_| FORM)?);
    unpack_entry(sale, last, mark, text(decisions)?)
}

/// `first` is the first entry at or after the cursor's position. It has to belong to the history that the
/// cursor saw.
fn check_history(after: Cursor, first: Option<&Entry>) -> Result<(), FeedError> {
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
fn take(piece: &mut Piece, entries: Vec<Entry>, after: Cursor, max: usize) -> Result<(), FeedError> {
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

/// Deletes the entries before the one that contains the last settled decision. That one stays, because the
/// next reader's cursor is compared with it.
async fn trim(link: &Link, key: &str, sale: SaleId, trimmed: &Mutex<HashMap<SaleId, Trimmed>>) {
    let locked = || trimmed.lock().unwrap_or_else(PoisonError::into_inner);
    let last = locked().get(&sale).and_then(|sale| sale.at);
    if let Some(last) = last {
        tokio::time::sleep(TRIM_INTERVAL.saturating_sub(last.elapsed())).await;
    }
    let settled = match locked().get_mut(&sale) {
        Some(sale) => {
            (sale.is_waiting, sale.at) = (false, Some(Instant::now()));
            sale.settled
        }
        None => return,
    };
    let mut command = redis::cmd("XTRIM");
    command.arg(key).arg("MINID").arg(format!("{settled}-0"));
    match link.call::<u64>(key, command).await {
        Ok(_) => {
            if let Some(sale) = locked().get_mut(&sale) {
                sale.trimmed = sale.trimmed.max(settled);
            }
        }
        // The next settlement trims it.
        Err(error) => tracing::debug!(%sale, %error, "a settled stream was not trimmed"),
    }
}
