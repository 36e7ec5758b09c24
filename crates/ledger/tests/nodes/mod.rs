//! Nodes on one Redis, what each of them hears, and records that are simply a `Book` for each sale.
#![allow(dead_code, reason = "every test file takes what it needs")]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use penstock_domain::{
    Book, BuyerId, Claim, ClaimRefusal, Cursor, Decision, Event, KeyDigest, LeaveReason, NewEpoch, Order,
    OrderId, SaleId, SaleSnapshot, SaleStatus, SaleTerms, SettledSale, Waiter,
};
use penstock_ledger::{
    FeedError, Health, Ledger, LedgerError, Listener, SaleNews, Unavailable,
    redis::{self, LedgerOptions, Reconciled, Settled},
};
use penstock_local::RedisServer;
use penstock_redis_client::{Link, RedisOptions};

const LIMIT: Duration = Duration::from_secs(60);

/// What a node's storefront has heard. In these tests a sale's decisions are its publishing and orders, so a
/// status at position n may only be told together with n - 1 keys.
#[derive(Default)]
pub(crate) struct Heard(Mutex<BTreeMap<SaleId, HeardOf>>);

/// A sale, and the accepted keys.
type HeardOf = (SaleStatus, BTreeSet<[u64; 2]>);

impl Listener for Heard {
    fn sales_changed(&self, news: &[SaleNews]) {
        let mut heard = self.0.lock().unwrap();
        for news in news {
            let (status, keys) =
                heard.entry(news.status.terms.sale).or_insert_with(|| (news.status, BTreeSet::new()));
            keys.extend(news.accepted.iter().map(|key| key.words()));
            if news.status.version >= status.version {
                *status = news.status;
            }
            let position = status.version & ((1 << 40) - 1);
            // A panic here ends the process, as it should: the latch would refuse retries of accepted orders.
            assert!(
                keys.len() as u64 >= position.saturating_sub(1),
                "heard of position {position} but only of {} keys",
                keys.len()
            );
        }
    }
}

impl Heard {
    pub(crate) fn status(&self, sale: SaleId) -> Option<SaleStatus> {
        self.0.lock().unwrap().get(&sale).map(|(status, _)| *status)
    }

    pub(crate) fn has(&self, sale: SaleId, who: &str) -> bool {
        let key = KeyDigest::of(who.as_bytes()).unwrap().words();
        self.0.lock().unwrap().get(&sale).is_some_and(|(_, keys)| keys.contains(&key))
    }

    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        until(what, || is_so(self)).await;
    }
}

pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let limit = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < limit, "{what} took too long");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) struct Node {
    pub(crate) ledger: Ledger,
    pub(crate) heard: Arc<Heard>,
}

impl Node {
    pub(crate) async fn on(server: &RedisServer, settled: Arc<dyn Settled>) -> Self {
        Self::with(RedisOptions::single(server.address().to_string()), settled).await
    }

    pub(crate) async fn with(options: RedisOptions, settled: Arc<dyn Settled>) -> Self {
        let link = Link::connect(options).await.unwrap();
        let heard = Arc::new(Heard::default());
        let ledger = redis::open(LedgerOptions::default(), link, None, heard.clone(), settled).unwrap();
        assert_eq!(ledger.recovered().await, Health::Ready);
        Self { ledger, heard }
    }

    /// Publishing twice changes nothing, so it is repeated when replicas are slow to confirm.
    pub(crate) async fn publish(&self, sale: SaleId, units: u32) -> SaleStatus {
        let limit = Instant::now() + LIMIT;
        loop {
            match self.ledger.publish(terms(sale, units)).await {
                Ok(status) => return status,
                Err(error) => assert!(Instant::now() < limit, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn claim(&self, sale: SaleId, who: &str) -> Result<Order, LedgerError<ClaimRefusal>> {
        self.ledger.claim(claim(sale, who)).await
    }

    /// The verdict, as a client gets it by repeating the request until there is one.
    pub(crate) async fn insist(&self, sale: SaleId, who: &str) -> Result<Order, ClaimRefusal> {
        let limit = Instant::now() + LIMIT;
        loop {
            match self.claim(sale, who).await {
                Ok(order) => return Ok(order),
                Err(LedgerError::Refused(refusal)) => return Err(refusal),
                Err(error) => assert!(Instant::now() < limit, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The order, as a client finds it by repeating the request until there is an answer.
    pub(crate) async fn find(&self, order: OrderId) -> Option<Order> {
        let limit = Instant::now() + LIMIT;
        loop {
            match self.ledger.find_order(order, None).await {
                Ok(found) => return found,
                Err(error) => assert!(Instant::now() < limit, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The sale's counts, read with a command that changes nothing.
    pub(crate) async fn status(&self, sale: SaleId) -> SaleStatus {
        let limit = Instant::now() + LIMIT;
        loop {
            match self.ledger.restock(sale, 0).await {
                Ok(status) => return status,
                Err(error) => assert!(Instant::now() < limit, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

pub(crate) fn terms(sale: SaleId, units: u32) -> SaleTerms {
    SaleTerms { sale, units, limit_per_buyer: 1, opens_at: None, closes_at: None, hold_seconds: 3_600 }
}

pub(crate) fn claim(sale: SaleId, who: &str) -> Claim {
    let (buyer, key) = (BuyerId::of_subject(who).unwrap(), KeyDigest::of(who.as_bytes()).unwrap());
    Claim { sale, buyer, quantity: 1, key }
}

/// Settles a decision as the records do: a waiter who was made an offer stays on the list until the hold is
/// settled.
fn settle_one(book: &mut Book, decision: &Decision) {
    match &decision.event {
        Event::Left { reason: LeaveReason::Offered, .. } => {
            let before = book.snapshot().sales.remove(0).waiters;
            book.apply(decision);
            change_waiters(book, |waiters| *waiters = before);
        }
        Event::Held { key, .. } if key.offered_to().is_some() => {
            book.apply(decision);
            change_waiters(book, |waiters| waiters.retain(|one| Some(one.number) != key.offered_to()));
        }
        _ => book.apply(decision),
    }
}

/// Changes the waitlist of a book's only sale.
fn change_waiters(book: &mut Book, change: impl FnOnce(&mut Vec<Waiter>)) {
    let mut snapshot = book.snapshot();
    change(&mut snapshot.sales[0].waiters);
    *book = Book::from_snapshot(snapshot);
}

/// The records.
#[derive(Default)]
pub(crate) struct Sql {
    sales: Mutex<BTreeMap<SaleId, (Book, Cursor)>>,
    /// The last epoch that was given out for each sale.
    epochs: Mutex<BTreeMap<SaleId, u64>>,
    pub(crate) reconciled: Mutex<Vec<Reconciled>>,
    pub(crate) lost: Mutex<u64>,
    is_slow: AtomicBool,
}

impl Sql {
    /// Settles everything that the feed has of the sale, as soon as it can be read.
    pub(crate) async fn settle(&self, ledger: &Ledger, sale: SaleId) -> Result<u64, FeedError> {
        let limit = Instant::now() + LIMIT;
        loop {
            let cursor = self.cursor_of(sale);
            let piece = match ledger.feed().read(&sale.to_string(), cursor, 100).await {
                // A settler tries again.
                Err(FeedError::Unavailable(_)) if Instant::now() < limit => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
                read => read?,
            };
            let Some(end) = piece.end() else { return Ok(cursor.position) };
            if piece.epoch != self.epoch_of(sale) && Instant::now() < limit {
                ledger.feed().doubt(&sale.to_string());
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
            let mut sales = self.sales.lock().unwrap();
            let (book, cursor) = sales.entry(sale).or_default();
            piece.decisions.iter().for_each(|decision| settle_one(book, decision));
            *cursor = end;
        }
    }

    /// Settles at most `max` more decisions, wherever that ends.
    pub(crate) async fn settle_some(&self, ledger: &Ledger, sale: SaleId, max: usize) {
        let piece = ledger.feed().read(&sale.to_string(), self.cursor_of(sale), max).await.unwrap();
        let mut sales = self.sales.lock().unwrap();
        let (book, cursor) = sales.entry(sale).or_default();
        piece.decisions.iter().for_each(|decision| settle_one(book, decision));
        *cursor = piece.end().unwrap();
    }

    pub(crate) fn snapshot(&self, sale: SaleId) -> SaleSnapshot {
        let sales = self.sales.lock().unwrap();
        sales.get(&sale).unwrap().0.snapshot().sales.into_iter().next().unwrap()
    }

    pub(crate) fn cursor_of(&self, sale: SaleId) -> Cursor {
        self.sales.lock().unwrap().get(&sale).map_or(Cursor::default(), |(_, cursor)| *cursor)
    }

    pub(crate) fn epoch_of(&self, sale: SaleId) -> u64 {
        self.epochs.lock().unwrap().get(&sale).copied().unwrap_or(0)
    }

    fn begin(&self, sale: SaleId, at_least: u64) -> NewEpoch {
        let epoch = (self.epoch_of(sale) + 1).max(at_least);
        self.epochs.lock().unwrap().insert(sale, epoch);
        NewEpoch { cursor: self.cursor_of(sale), epoch }
    }

    /// From now on it takes a while to read a whole sale.
    pub(crate) fn read_slowly(&self) {
        self.is_slow.store(true, Ordering::Relaxed);
    }

    /// Acts as if the records had been restored from an older copy.
    pub(crate) fn go_back_to(&self, sale: SaleId, cursor: Cursor) {
        self.sales.lock().unwrap().get_mut(&sale).unwrap().1 = cursor;
    }

    pub(crate) fn status(&self, sale: SaleId) -> SaleStatus {
        self.sales.lock().unwrap().get(&sale).unwrap().0.status(sale).unwrap()
    }

    /// Acts as if the last settled decision belonged to another history.
    pub(crate) fn change_mark(&self, sale: SaleId) {
        self.sales.lock().unwrap().get_mut(&sale).unwrap().1.mark.0[0] ^= 1;
    }

    pub(crate) fn reconciliations(&self) -> Vec<Reconciled> {
        self.reconciled.lock().unwrap().clone()
    }
}

impl Settled for Sql {
    fn begin_epoch(&self, sale: SaleId, at_least: u64) -> BoxFuture<'_, Result<NewEpoch, Unavailable>> {
        Box::pin(async move { Ok(self.begin(sale, at_least)) })
    }

    fn sale(&self, sale: SaleId, at_least: u64) -> BoxFuture<'_, Result<Option<SettledSale>, Unavailable>> {
        Box::pin(async move {
            let begun = self.begin(sale, at_least);
            if self.is_slow.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            let sales = self.sales.lock().unwrap();
            let settled = sales.get(&sale).map(|(book, _)| {
                let sale = book.snapshot().sales.into_iter().next().unwrap();
                SettledSale { begun, sale }
            });
            Ok(settled)
        })
    }

    fn complete_up_to(&self, sale: SaleId) -> BoxFuture<'_, Result<Option<Cursor>, Unavailable>> {
        Box::pin(async move { Ok(Some(self.cursor_of(sale))) })
    }

    fn open_sales(&self) -> BoxFuture<'_, Result<Vec<SaleId>, Unavailable>> {
        Box::pin(async move { Ok(self.sales.lock().unwrap().keys().copied().collect()) })
    }

    fn reconciled(&self, reconciled: Reconciled) {
        self.reconciled.lock().unwrap().push(reconciled);
    }

    fn lost(&self, _: SaleId, decisions: u64) {
        *self.lost.lock().unwrap() += decisions;
    }
}
