//! A minimal engine in memory, with marks and a stream per sale. It shows that the suite suits such engines.
//! Tests of feed readers use it to have several streams, and histories that get lost.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use futures_util::future::{BoxFuture, FutureExt, ready};
use penstock_domain::{Book, BookSnapshot, Command, Cursor, Decision, Mark, Order, Reply, SaleId, Timestamp};

use super::Subject;
use crate::{
    BatcherOptions, Clock, Committed, Engine, Feed, FeedError, Ledger, Listener, Piece, SaleNews,
    Unavailable, batcher,
};

/// The decisions of one sale, each with its mark.
pub type History = Vec<(Decision, Mark)>;

/// Every `open` sees the same sales: each is a node of a cluster.
#[derive(Clone, Debug, Default)]
pub struct PerSale {
    shelves: Arc<Mutex<SaleShelves>>,
}

#[derive(Debug, Default)]
struct SaleShelves {
    sales: BTreeMap<SaleId, SaleShelf>,
    batches: u64,
}

#[derive(Debug, Default)]
struct SaleShelf {
    book: Book,
    history: History,
    settled: Cursor,
}

impl Subject for PerSale {
    async fn open(&self, options: BatcherOptions, clock: Clock, listener: Arc<dyn Listener>) -> Ledger {
        batcher::start(self.clone(), Arc::new(self.clone()), options, clock, listener).unwrap()
    }
}

impl PerSale {
    pub fn history(&self, sale: SaleId) -> History {
        self.lock().sales.get(&sale).map(|shelf| shelf.history.clone()).unwrap_or_default()
    }

    /// Replaces the sale's history, like a failover that loses the end of it.
    pub fn put_history(&self, sale: SaleId, history: History) {
        let mut shelves = self.lock();
        let shelf = shelves.sales.entry(sale).or_default();
        shelf.book = Book::default();
        history.iter().for_each(|(decision, _)| shelf.book.apply(decision));
        shelf.history = history;
    }

    /// How far the readers have settled the sale's decisions.
    pub fn settled(&self, sale: SaleId) -> Cursor {
        self.lock().sales.get(&sale).map(|shelf| shelf.settled).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, SaleShelves> {
        self.shelves.lock().unwrap()
    }
}

impl Engine for PerSale {
    fn commit(
        &mut self,
        commands: Vec<Command>,
        now: Timestamp,
    ) -> impl Future<Output = Result<Committed, Unavailable>> + 'static {
        let mut shelves = self.lock();
        let before: BTreeMap<SaleId, usize> =
            shelves.sales.iter().map(|(sale, shelf)| (*sale, shelf.history.len())).collect();
        let replies = commands.into_iter().map(|command| Ok(shelves.execute(command, now))).collect();
        let since = |sale: &SaleId| before.get(sale).copied().unwrap_or(0);
        let changed = shelves.sales.iter().filter(|(sale, shelf)| shelf.history.len() > since(sale));
        let news = changed.map(|(sale, shelf)| shelf.news(since(sale))).collect();
        shelves.batches += 1;
        std::future::ready(Ok(Committed { replies, news }))
    }

    async fn recover(&mut self) -> Result<Vec<SaleNews>, Unavailable> {
        Ok(self.lock().sales.values().map(|shelf| shelf.news(0)).collect())
    }
}

impl SaleShelves {
    fn execute(&mut self, command: Command, now: Timestamp) -> Reply {
        match command {
            Command::Publish(terms) => self.execute_at(terms.sale, command, now),
            Command::Restock { sale, .. }
            | Command::Pause(sale)
            | Command::Resume(sale)
            | Command::Close(sale)
            | Command::Join { sale, .. }
            | Command::Leave { sale, .. }
            | Command::FindPlace { sale, .. } => self.execute_at(sale, command, now),
            Command::Claim(ref claim) | Command::Recall(ref claim) => {
                self.execute_at(claim.sale, command, now)
            }
            Command::ConfirmPayment { order, .. }
            | Command::Cancel { order, .. }
            | Command::FindOrder { order, .. } => self.execute_at(order.sale, command, now),
            Command::ExpireDue { max } => Reply::Expired(self.expire_due(max, now)),
            Command::OrdersOf { ref buyer, max } => {
                let mut orders: Vec<Order> = Vec::new();
                for sale in self.all() {
                    let command = Command::OrdersOf { buyer: buyer.clone(), max };
                    let Reply::Orders(some) = self.execute_at(sale, command, now) else { continue };
                    orders.extend(some);
                }
                orders.sort_by_key(|order| std::cmp::Reverse((order.created_at, order.id)));
                orders.truncate(max as usize);
                Reply::Orders(orders)
            }
        }
    }

    fn expire_due(&mut self, max: u32, now: Timestamp) -> u32 {
        let mut released = 0;
        for sale in self.all() {
            let command = Command::ExpireDue { max: max - released };
            if let Reply::Expired(more) = self.execute_at(sale, command, now) {
                released += more;
            }
        }
        released
    }

    fn all(&self) -> Vec<SaleId> {
        self.sales.keys().copied().collect()
    }

    fn execute_at(&mut self, sale: SaleId, command: Command, now: Timestamp) -> Reply {
        let mut shelf = self.sales.remove(&sale).unwrap_or_default();
        let mut decisions = Vec::new();
        let reply = shelf.book.execute(command, now, &mut decisions);
        let mark = Mark((u128::from(self.batches + 1) << 64 | u128::from(sale.as_u64())).to_be_bytes());
        shelf.history.extend(decisions.into_iter().map(|decision| (decision, mark)));
        // A sale that was not published stays unknown.
        if !shelf.history.is_empty() {
            self.sales.insert(sale, shelf);
        }
        reply
    }
}

impl SaleShelf {
    /// What changed after the first `since` decisions.
    fn news(&self, since: usize) -> SaleNews {
        let new = self.history[since..].iter();
        let accepted = new.filter_map(|(decision, _)| decision.event.claimed_key()).collect();
        let status = self.book.statuses().next().unwrap();
        SaleNews { status, accepted }
    }

    fn read(&self, after: Cursor, max: usize) -> Result<Piece, FeedError> {
        let begin = usize::try_from(after.position).unwrap();
        let mark = match begin {
            0 => Mark::default(),
            _ => self.history.get(begin - 1).ok_or(FeedError::Diverged)?.1,
        };
        if mark != after.mark {
            return Err(FeedError::Diverged);
        }
        let some: History = self.history[begin..].iter().take(max).cloned().collect();
        let mark = some.last().map_or(after.mark, |(_, mark)| *mark);
        Ok(Piece { decisions: some.into_iter().map(|(decision, _)| decision).collect(), mark, epoch: 0 })
    }
}

impl Feed for PerSale {
    fn streams(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, Unavailable>> {
        ready(Ok(self.lock().sales.keys().map(|sale| sale.to_string().into()).collect())).boxed()
    }

    fn read<'a>(
        &'a self,
        stream: &'a str,
        after: Cursor,
        max: usize,
    ) -> BoxFuture<'a, Result<Piece, FeedError>> {
        let piece = self.of(stream, |shelf| shelf.read(after, max));
        ready(piece.unwrap_or_else(|| Ok(Piece::nothing_after(after)))).boxed()
    }

    fn head(&self, stream: &str) -> u64 {
        self.of(stream, |shelf| shelf.book.position()).unwrap_or(0)
    }

    fn settled(&self, stream: &str, cursor: Cursor) {
        self.of(stream, |shelf| shelf.settled = cursor);
    }

    fn state<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, Result<BookSnapshot, Unavailable>> {
        let state = self.of(stream, |shelf| shelf.book.snapshot());
        ready(state.ok_or_else(|| Unavailable::new("there is no such stream"))).boxed()
    }
}

impl PerSale {
    fn of<T>(&self, stream: &str, look: impl FnOnce(&mut SaleShelf) -> T) -> Option<T> {
        self.lock().sales.get_mut(&stream.parse().ok()?).map(look)
    }
}
