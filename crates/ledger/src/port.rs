//! The port: what an engine of the ledger has to do, and what it tells the rest. It depends on no engine and
//! no queue.

use std::{fmt, future::Future, sync::Arc};

use futures_util::future::BoxFuture;
use penstock_domain::{
    BookSnapshot, Command, Cursor, Decision, KeyDigest, Mark, Reply, SaleId, SaleStatus, Timestamp,
};

/// What changed in one sale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaleNews {
    pub status: SaleStatus,
    /// Keys that were accepted since the last news of this sale; all of them after a recovery.
    pub accepted: Vec<KeyDigest>,
}

pub trait Listener: Send + Sync + 'static {
    /// Called after a batch is durable and before any of it is answered; also once, with all sales, after
    /// each recovery. It runs on the writer's thread and has to be quick.
    fn sales_changed(&self, news: &[SaleNews]);

    /// False if it needs no accepted keys. Then nobody reads them for it.
    fn wants_keys(&self) -> bool {
        true
    }
}

/// The answers to a batch, in the order of its commands, and the news it made. If sales are on several
/// servers, only the commands that a server can't decide fail. What became of those is unknown.
#[derive(Debug)]
pub struct Committed {
    pub replies: Vec<Result<Reply, Unavailable>>,
    pub news: Vec<SaleNews>,
}

/// Why the ledger can't make anything durable at the moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unavailable {
    pub reason: String,
}

impl Unavailable {
    pub fn new(reason: impl ToString) -> Self {
        Self { reason: reason.to_string() }
    }
}

/// The server that decides a sale. Only the engine understands the name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Home(pub Arc<str>);

/// Tells the home of a sale, as far as is known now. It may change at any time.
#[derive(Clone)]
pub enum Homes {
    /// All sales are decided in one place.
    One,
    Several(Arc<dyn Fn(SaleId) -> Home + Send + Sync>),
}

impl fmt::Debug for Homes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if matches!(self, Self::One) { "One" } else { "Several" })
    }
}

impl Homes {
    pub fn of(&self, sale: SaleId) -> Home {
        match self {
            Self::One => Home::default(),
            Self::Several(home_of) => home_of(sale),
        }
    }
}

/// Decides commands and makes the decisions durable. One batcher owns it and calls it from one thread.
pub trait Engine: Send + 'static {
    /// Decides the whole batch at the time `now`. The future is ready when everything the answers rest on is
    /// durable. The engine may do any part of the work before the future is polled. After an error nothing is
    /// known to be decided, and nothing more is asked until `recover` succeeds.
    fn commit(
        &mut self,
        commands: Vec<Command>,
        now: Timestamp,
    ) -> impl Future<Output = Result<Committed, Unavailable>> + 'static;

    /// The most commits of one home under way at once. They are decided in the order in which they were
    /// begun.
    fn max_in_flight(&self) -> usize {
        1
    }

    /// Where the sales are decided. Homes never wait for each other.
    fn homes(&self) -> Homes {
        Homes::One
    }

    /// True if the command may take much longer than others, which must not wait for it. It is committed with
    /// its kind, beside and after the others. If that fails, it fails alone.
    fn goes_aside(&self, command: &Command) -> bool {
        let _ = command;
        false
    }

    /// For commands that go aside: true if only one commit of them may be under way at a time. Commands that
    /// come meanwhile go together in the next one, because its cost hardly depends on their number.
    fn gathers(&self, command: &Command) -> bool {
        let _ = command;
        false
    }

    /// Goes back to the last durable state, and returns the news of all sales. Called once at the start, and
    /// after a failure about every second until it succeeds.
    fn recover(&mut self) -> impl Future<Output = Result<Vec<SaleNews>, Unavailable>>;
}

/// Some decisions of a stream, in order and without gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    pub decisions: Vec<Decision>,
    /// The mark at the last decision; if there is none, that of the cursor that was read from.
    pub mark: Mark,
    /// The epoch of their history, as the feed had it before they were read; 0 if there is only one. They may
    /// be settled only if the records have the stream in this epoch.
    pub epoch: u64,
}

impl Piece {
    /// An empty piece: nothing comes after `after` yet.
    pub fn nothing_after(after: Cursor) -> Self {
        Self { decisions: Vec::new(), mark: after.mark, epoch: 0 }
    }

    /// The cursor from which to read on; None if the piece is empty.
    pub fn end(&self) -> Option<Cursor> {
        self.decisions.last().map(|last| Cursor { position: last.position, mark: self.mark })
    }
}

/// Why a piece of a stream could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// The feed can't be read at the moment, or no longer has these decisions because they were settled.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The stream's history is not the one the cursor was taken from, or ends before it.
    #[error("the ledger's history is not the one that was read before")]
    Diverged,
}

/// The ledger's durable decisions. A feed has streams. Each stream has an order of its own: positions 1, 2, …
/// without gaps. All decisions of a sale are in one stream.
pub trait Feed: Send + Sync + 'static {
    /// Every stream that may hold something to settle or that has a state.
    fn streams(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, Unavailable>>;

    /// At most `max` decisions of `stream` that come after `after`; none if there are none yet.
    fn read<'a>(
        &'a self,
        stream: &'a str,
        after: Cursor,
        max: usize,
    ) -> BoxFuture<'a, Result<Piece, FeedError>>;

    /// The last known position of a durable decision in `stream`; 0 if none is known.
    fn head(&self, stream: &str) -> u64;

    /// The reader has taken all decisions up to `cursor` for good: the feed may delete them.
    fn settled(&self, stream: &str, cursor: Cursor);

    /// The reader can't go on, because the records have the stream in another epoch than the piece it has
    /// read. The ledger then compares the stream with the records again. After `Diverged` it does so by
    /// itself.
    fn doubt(&self, stream: &str) {
        let _ = stream;
    }

    /// The state that the decisions of `stream` have led to, at some durable position, for an audit.
    fn state<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, Result<BookSnapshot, Unavailable>>;

    /// Whether the ledger forgets sales that are closed and settled for good. Then only the records have
    /// them.
    fn forgets_closed_sales(&self) -> bool {
        false
    }
}

/// The only source of time for a ledger.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Why a request did not get the answer it asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError<R> {
    #[error("{0}")]
    Refused(R),
    #[error("too many requests are waiting for the ledger")]
    Busy,
    #[error("the ledger is unavailable: {0}")]
    Unavailable(String),
}

/// Whether the ledger decides at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It has just been opened. Requests wait.
    Recovering,
    Ready,
    /// Requests are answered `Unavailable` at once. The ledger comes back by itself.
    Unavailable(String),
    Stopped,
}

/// Decisions that `decisions_between` reads at once.
const READ_AT_ONCE: usize = 10_000;

/// The decisions of `stream` after `after` up to `to`, without gaps: those that settlement has yet to take,
/// for an audit. An error may mean that some were settled and deleted meanwhile; then try again.
pub async fn decisions_between(
    feed: &dyn Feed,
    stream: &str,
    after: Cursor,
    to: u64,
) -> Result<Vec<Decision>, FeedError> {
    let mut decisions: Vec<Decision> = Vec::new();
    let mut reached = after;
    while reached.position < to {
        let piece = feed.read(stream, reached, READ_AT_ONCE).await?;
        let position = reached.position;
        let Some(end) = piece.end() else {
            return Err(Unavailable::new(format!("the feed ends at {position}, before {to}")).into());
        };
        let mut expected = piece.decisions.iter().zip(position + 1..);
        if !expected.all(|(decision, expected)| decision.position == expected) {
            return Err(Unavailable::new(format!("the feed no longer has decision {}", position + 1)).into());
        }
        decisions.extend(piece.decisions.into_iter().take_while(|decision| decision.position <= to));
        reached = end;
    }
    Ok(decisions)
}
