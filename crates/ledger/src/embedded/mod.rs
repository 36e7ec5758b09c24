//! The embedded engine: `Book` in memory, one writer, a journal on disk.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::future::{BoxFuture, FutureExt};
use penstock_domain::{Book, BookSnapshot, Command, Decision, Event, KeyDigest, Timestamp};

use crate::{
    BatcherOptions, Clock, Committed, Engine, Feed, Ledger, Listener, SaleNews, Unavailable, batcher,
};

#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// The journal's folder; it is created if it is missing.
    pub folder: PathBuf,
    pub batcher: BatcherOptions,
    /// A snapshot is made when the decisions since the last one exceed this and the orders in that one.
    pub compact_after_decisions: u64,
}

impl EmbeddedOptions {
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), batcher: BatcherOptions::default(), compact_after_decisions: 200_000 }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the journal in {} is in use by another process", .folder.display())]
    InUse { folder: PathBuf },
    #[error("the journal in {} has version {found}, this program knows version {known}: use a newer program",
        .folder.display())]
    NewerVersion { folder: PathBuf, found: u32, known: u32 },
    #[error("the journal in {} can't be opened: {reason}", .folder.display())]
    Unusable { folder: PathBuf, reason: String },
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Opens the journal in `options.folder`. The recovery runs on the writer's thread: requests wait for it.
pub fn open(
    options: EmbeddedOptions,
    clock: Clock,
    listener: Arc<dyn Listener>,
) -> Result<Ledger, OpenError> {
    let feed = Arc::new(MemoryFeed::default());
    let engine = Memory { book: Book::default(), feed: feed.clone() };
    Ok(batcher::start(engine, feed, options.batcher, clock, listener)?)
}

/// The whole ledger in `folder` and its feed, read-only, also while a server runs.
pub fn read_state(folder: &Path) -> Result<(BookSnapshot, impl Feed + use<>), OpenError> {
    let _ = folder;
    Ok((Book::default().snapshot(), MemoryFeed::default()))
}

struct Memory {
    book: Book,
    feed: Arc<MemoryFeed>,
}

#[derive(Default)]
struct MemoryFeed {
    decisions: Mutex<Vec<Decision>>,
}

impl Engine for Memory {
    async fn commit(&mut self, commands: Vec<Command>, now: Timestamp) -> Result<Committed, Unavailable> {
        let mut decisions = Vec::new();
        let replies = commands.into_iter().map(|c| self.book.execute(c, now, &mut decisions)).collect();
        let mut news: Vec<SaleNews> = Vec::new();
        for decision in &decisions {
            let sale = decision.event.sale();
            let Some(status) = self.book.status(sale) else { continue };
            let accepted: Option<KeyDigest> = match &decision.event {
                Event::Held { key, .. } => Some(*key),
                _ => None,
            };
            match news.iter_mut().find(|news| news.status.terms.sale == sale) {
                Some(news) => news.accepted.extend(accepted),
                None => news.push(SaleNews { status, accepted: accepted.into_iter().collect() }),
            }
        }
        self.feed.decisions.lock().unwrap_or_else(PoisonError::into_inner).extend(decisions);
        Ok(Committed { replies, news })
    }

    async fn recover(&mut self) -> Result<Vec<SaleNews>, Unavailable> {
        Ok(Vec::new())
    }
}

impl Feed for MemoryFeed {
    fn read(&self, after: u64, max: usize) -> BoxFuture<'_, Result<Vec<Decision>, Unavailable>> {
        let decisions = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        let found = decisions.iter().skip(after as usize).take(max).cloned().collect();
        std::future::ready(Ok(found)).boxed()
    }

    fn head(&self) -> u64 {
        self.decisions.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    fn settled(&self, _position: u64) {}

    fn state(&self) -> BoxFuture<'_, Result<BookSnapshot, Unavailable>> {
        let mut book = Book::default();
        self.decisions.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|d| book.apply(d));
        std::future::ready(Ok(book.snapshot())).boxed()
    }
}
