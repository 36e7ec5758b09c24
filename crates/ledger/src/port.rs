//! The port: what an engine of the ledger has to do, and what it tells the rest. It knows no engine and no
//! queue.

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
    /// Called after a batch is durable and before any of its answers leaves; also once, with all sales, after
    /// each recovery. Called on the writer's thread: it has to be quick.
    fn sales_changed(&self, news: &[SaleNews]);

    /// False: it needs no accepted keys, so nobody has to read them for it.
    fn wants_keys(&self) -> bool {
        true
    }
}

/// The answers to a batch, in the order of its commands, and the news it made. Where sales are on several servers, what
/// one of them can't decide fails alone; of such a command nothing is known.
#[derive(Debug)]
pub struct Committed {
    pub replies: Vec<Result<Reply, Unavailable>>,
    pub news: Vec<SaleNews>,
}

/// The ledger can't make anything durable at the moment, and why.
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

/// The server that decides a sale. The name means nothing to anybody but the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Home(pub Arc<str>);

/// Which home a sale has. It may change at any time; whoever asks hears what is known now.
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

/// What decides and makes durable. One batcher owns it and calls it from one thread.
pub trait Engine: Send + 'static {
    /// Decides the whole batch at the time `now`. The future is ready when everything the answers rest on is durable; how
    /// much of the work is done before it is polled is the engine's affair. After an error nothing is known to be decided,
    /// and nothing more is asked until `recover` succeeds.
    fn commit(
        &mut self,
        commands: Vec<Command>,
        now: Timestamp,
    ) -> impl Future<Output = Result<Committed, Unavailable>> + 'static;

    /// How many commits of one home may be under way at once. They are decided in the order in which they were begun.
    fn max_in_flight(&self) -> usize {
        1
    }

    /// Where the sales are decided. What one home has to decide never waits for another.
    fn homes(&self) -> Homes {
        Homes::One
    }

    /// True: the command may take much longer than others, which must not wait for it. It is committed with its like,
    /// beside and after the others, and if that fails it fails alone.
    fn goes_aside(&self, command: &Command) -> bool {
        let _ = command;
        false
    }

    /// True, of a command that goes aside: however many ask, one commit of them is under way at a time, and those that come
    /// meanwhile go together in the next, because what it costs depends little on how many ask.
    fn gathers(&self, command: &Command) -> bool {
        let _ = command;
        false
    }

    /// Comes back to the last durable state. Called once at the start and then, after a failure, about every
    /// second until it succeeds. It answers the news of all sales.
    fn recover(&mut self) -> impl Future<Output = Result<Vec<SaleNews>, Unavailable>>;
}

/// Some decisions of a stream, in order and without gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    pub decisions: Vec<Decision>,
    /// The mark at the last of them; without any, that of the cursor they were asked after.
    pub mark: Mark,
    /// The epoch of the history they are of, as the feed had it before they were read: 0 where there is only one. They
    /// may be settled only if the records have the stream in this epoch.
    pub epoch: u64,
}

impl Piece {
    /// Nothing comes after `after` yet.
    pub fn nothing_after(after: Cursor) -> Self {
        Self { decisions: Vec::new(), mark: after.mark, epoch: 0 }
    }

    /// Where whoever has read this goes on, if there is anything in it.
    pub fn end(&self) -> Option<Cursor> {
        self.decisions.last().map(|last| Cursor { position: last.position, mark: self.mark })
    }
}

/// Why a piece of a stream could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// The feed can't be read at the moment, or has forgotten what was asked for because it was settled.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The stream's history is not the one the cursor was taken from, or ends before it.
    #[error("the ledger's history is not the one that was read before")]
    Diverged,
}

/// The ledger's durable decisions. A feed has streams, and each stream is an order of its own: positions 1, 2, …
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

    /// The position of the last durable decision of `stream` that was heard of; 0 if none was.
    fn head(&self, stream: &str) -> u64;

    /// The reader has taken all decisions up to `cursor` for good: the feed may forget them.
    fn settled(&self, stream: &str, cursor: Cursor);

    /// The reader can't go on, because the records have the stream in another epoch than the piece it has read: the ledger
    /// compares the stream with the records again. It does so by itself where it answers `Diverged`.
    fn doubt(&self, stream: &str) {
        let _ = stream;
    }

    /// Everything that the decisions of `stream` have led to, at some durable position of it, for an audit.
    fn state<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, Result<BookSnapshot, Unavailable>>;

    /// Whether the ledger forgets sales that are closed and settled for good; then only the records know them.
    fn forgets_closed_sales(&self) -> bool {
        false
    }
}

/// The only way a ledger learns the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Why there is no answer of the kind that was asked for.
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
    /// It has just been opened. What is asked waits.
    Recovering,
    Ready,
    /// What is asked is answered `Unavailable` at once; the ledger comes back by itself.
    Unavailable(String),
    Stopped,
}

/// Decisions read at once on the way through a feed.
const READ_AT_ONCE: usize = 10_000;

/// The decisions of `stream` after `after` up to `to`, without gaps: what settlement has still to take, for an audit. An
/// error may mean that the feed forgot some of them because they were settled meanwhile; then look again.
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
            return Err(Unavailable::new(format!("the feed has forgotten decision {}", position + 1)).into());
        }
        decisions.extend(piece.decisions.into_iter().take_while(|decision| decision.position <= to));
        reached = end;
    }
    Ok(decisions)
}
