//! The embedded engine itself: it decides in memory, makes the decisions durable and answers.

use std::{
    fs::File,
    future::{Future, ready},
    sync::{
        Arc,
        atomic::Ordering::{Relaxed, Release},
    },
};

use hashbrown::HashMap;
use penstock_domain::{Book, Command, Decision, SaleId, Timestamp};

use super::{
    checkpointer::Checkpointer,
    compactor::{Compactor, next_compaction},
    error::JournalError,
    journal::{Journal, LogRoom},
    record,
    replay::replay,
    shared::EmbeddedState,
};
use crate::{Committed, Engine, SaleNews, Unavailable};

/// A buffer up to this size is kept from commit to commit.
const MAX_KEPT_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Embedded {
    pub(super) shared: Arc<EmbeddedState>,
    pub(super) compactor: Compactor,
    pub(super) checkpointer: Checkpointer,
    pub(super) compact_after: u64,
    pub(super) log_room: LogRoom,
    /// None until the first recovery, and again after a failure.
    pub(super) running: Option<JournaledBook>,
    /// Held for as long as the engine lives, so that no other process writes the same journal.
    pub(super) _lock: File,
}

/// A book, and the journal that has everything the book has.
#[derive(Debug)]
pub(super) struct JournaledBook {
    book: Book,
    journal: Journal,
    bytes: Vec<u8>,
}

impl Engine for Embedded {
    fn commit(
        &mut self,
        commands: Vec<Command>,
        now: Timestamp,
    ) -> impl Future<Output = Result<Committed, Unavailable>> + 'static {
        ready(self.commit_now(commands, now))
    }

    async fn recover(&mut self) -> Result<Vec<SaleNews>, Unavailable> {
        self.running = None;
        let (running, news) = self.reopen()?;
        self.running = Some(running);
        Ok(news)
    }
}

impl Embedded {
    fn commit_now(&mut self, commands: Vec<Command>, now: Timestamp) -> Result<Committed, Unavailable> {
        // If the journal fails, the book is ahead of the disk: `running` stays None and the book is dropped.
        let Some(mut running) = self.running.take() else {
            return Err(Unavailable::new("the journal is not open"));
        };
        let committed = running.commit(commands, now, &self.shared)?;
        self.compactor.committed(running.book.position());
        self.checkpointer.committed(&mut running.journal);
        self.running = Some(running);
        Ok(committed)
    }

    fn reopen(&self) -> Result<(JournaledBook, Vec<SaleNews>), JournalError> {
        let shared = &self.shared;
        let journal = Journal::open(&shared.folder, self.log_room)?;
        journal.settle_after_failure()?;
        let replayed = replay(&shared.folder, &shared.stopping)?;
        let (snapshot_position, snapshot_orders) = (replayed.snapshot_position, replayed.snapshot_orders);
        let (book, news) = replayed.into_book_and_news();
        shared.head.store(book.position(), Release);
        shared.snapshot.store(snapshot_position, Relaxed);
        let compact_at = next_compaction(snapshot_position, snapshot_orders, self.compact_after);
        shared.compact_at.store(compact_at, Relaxed);
        Ok((JournaledBook { book, journal, bytes: Vec::new() }, news))
    }
}

impl JournaledBook {
    fn commit(
        &mut self,
        commands: Vec<Command>,
        now: Timestamp,
        shared: &EmbeddedState,
    ) -> Result<Committed, JournalError> {
        let mut decisions = Vec::with_capacity(commands.len());
        let book = &mut self.book;
        let replies =
            commands.into_iter().map(|command| Ok(book.execute(command, now, &mut decisions))).collect();
        if !decisions.is_empty() {
            let bytes = record::encode(&decisions, std::mem::take(&mut self.bytes))?;
            self.journal.append(self.book.position(), &bytes, shared.forgettable())?;
            shared.head.store(self.book.position(), Release);
            self.bytes = bytes;
            self.bytes.clear();
            self.bytes.shrink_to(MAX_KEPT_BYTES);
        }
        Ok(Committed { replies, news: self.news_of(&decisions) })
    }

    fn news_of(&self, decisions: &[Decision]) -> Vec<SaleNews> {
        let mut news: Vec<SaleNews> = Vec::new();
        let mut places: HashMap<SaleId, usize> = HashMap::with_capacity(decisions.len());
        for decision in decisions {
            let sale = decision.event.sale();
            let place = *places.entry(sale).or_insert(news.len());
            if place == news.len()
                && let Some(status) = self.book.status(sale)
            {
                news.push(SaleNews { status, accepted: Vec::new() });
            }
            if let (Some(key), Some(news)) = (decision.event.claimed_key(), news.get_mut(place)) {
                news.accepted.push(key);
            }
        }
        news
    }
}
