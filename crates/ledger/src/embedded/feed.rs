//! The embedded ledger's feed: the journal, read through a connection of its own.

use std::sync::{
    Arc,
    atomic::{
        AtomicBool,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use futures_util::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;
use penstock_domain::{BookSnapshot, Cursor, Decision, Mark};

use super::{
    STREAM, error::JournalError, journal::JournalReader, record, replay::replay, shared::EmbeddedState,
};
use crate::{Feed, FeedError, Piece, Unavailable};

/// Poll its futures inside a Tokio runtime: files are read on the runtime's blocking threads.
#[derive(Debug)]
pub(super) struct JournalFeed {
    shared: Arc<EmbeddedState>,
    /// Opened on demand; dropped after an error.
    reader: Arc<Mutex<Option<JournalReader>>>,
    /// True if no engine in this process sets the head. It is then the position of the last state that was
    /// read.
    beside: bool,
}

impl JournalFeed {
    pub(super) fn new(shared: Arc<EmbeddedState>) -> Self {
        Self { shared, reader: Arc::default(), beside: false }
    }

    /// The feed of a ledger that another process may be writing.
    pub(super) fn beside(shared: EmbeddedState) -> Self {
        Self { shared: Arc::new(shared), reader: Arc::default(), beside: true }
    }
}

/// There is one stream, whatever name the caller gives, and no marks: records in the journal never change.
impl Feed for JournalFeed {
    fn streams(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, Unavailable>> {
        std::future::ready(Ok(vec![Arc::from(STREAM)])).boxed()
    }

    fn read<'a>(
        &'a self,
        stream: &'a str,
        after: Cursor,
        max: usize,
    ) -> BoxFuture<'a, Result<Piece, FeedError>> {
        let head = self.head(stream);
        if after.position > head || after.mark != Mark::default() {
            return std::future::ready(Err(FeedError::Diverged)).boxed();
        }
        if after.position == head || max == 0 {
            return std::future::ready(Ok(Piece::nothing_after(after))).boxed();
        }
        let (shared, reader) = (self.shared.clone(), self.reader.clone());
        let decisions = blocking(move || read(&shared, &reader, after.position, head, max));
        async { Ok(Piece { decisions: decisions.await?, mark: Mark::default(), epoch: 0 }) }.boxed()
    }

    fn head(&self, _stream: &str) -> u64 {
        self.shared.head.load(Acquire)
    }

    fn settled(&self, stream: &str, cursor: Cursor) {
        self.shared.settled.fetch_max(cursor.position.min(self.head(stream)), Relaxed);
    }

    fn state<'a>(&'a self, _stream: &'a str) -> BoxFuture<'a, Result<BookSnapshot, Unavailable>> {
        let shared = self.shared.clone();
        let beside = self.beside;
        blocking(move || {
            let state = replay(&shared.folder, &AtomicBool::new(false))?.book.snapshot();
            if beside {
                shared.head.store(state.position, Release);
            }
            Ok(state)
        })
    }
}

fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, JournalError> + Send + 'static,
) -> BoxFuture<'static, Result<T, Unavailable>> {
    async move {
        match tokio::task::spawn_blocking(work).await {
            Ok(result) => result.map_err(Unavailable::from),
            Err(error) => Err(Unavailable::new(error)),
        }
    }
    .boxed()
}

fn read(
    shared: &EmbeddedState,
    reader: &Mutex<Option<JournalReader>>,
    after: u64,
    head: u64,
    max: usize,
) -> Result<Vec<Decision>, JournalError> {
    let mut slot = reader.lock();
    let journal = match slot.take() {
        Some(journal) => journal,
        None => JournalReader::open(&shared.folder)?,
    };
    let mut decisions = Vec::new();
    journal.records(after, |last, bytes| {
        let wanted = record::decode(last, bytes)?.filter(|decision| decision.position > after);
        decisions.extend(wanted.take_while(|decision| decision.position <= head).take(max - decisions.len()));
        Ok(decisions.len() < max && last < head)
    })?;
    *slot = Some(journal);
    match decisions.first() {
        Some(first) if first.position == after + 1 => Ok(decisions),
        _ => Err(JournalError::Forgotten(after)),
    }
}
