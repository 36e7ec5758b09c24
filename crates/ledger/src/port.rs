//! The port: what an engine of the ledger has to do, and what it tells the rest. It knows no engine and no
//! queue.

use std::{future::Future, sync::Arc};

use futures_util::future::BoxFuture;
use penstock_domain::{BookSnapshot, Command, Decision, KeyDigest, Reply, SaleStatus, Timestamp};

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
}

/// The answers to a batch, in the order of its commands, and the news it made.
#[derive(Debug)]
pub struct Committed {
    pub replies: Vec<Reply>,
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

/// What decides and makes durable. One batcher owns it and calls it from one thread.
pub trait Engine: Send + 'static {
    /// Decides the whole batch at the time `now`. It returns when everything the answers rest on is durable.
    /// After an error nothing is known to be decided, and nothing more is asked until `recover` succeeds.
    fn commit(
        &mut self,
        commands: Vec<Command>,
        now: Timestamp,
    ) -> impl Future<Output = Result<Committed, Unavailable>>;

    /// Comes back to the last durable state. Called once at the start and then, after a failure, about every
    /// second until it succeeds. It answers the news of all sales.
    fn recover(&mut self) -> impl Future<Output = Result<Vec<SaleNews>, Unavailable>>;
}

/// The ledger's durable decisions, in order.
pub trait Feed: Send + Sync + 'static {
    /// At most `max` decisions that come after the position `after`; none if there are none yet.
    fn read(&self, after: u64, max: usize) -> BoxFuture<'_, Result<Vec<Decision>, Unavailable>>;

    /// The position of the last durable decision.
    fn head(&self) -> u64;

    /// The reader has taken all decisions up to `position` for good: the feed may forget them.
    fn settled(&self, position: u64);

    /// The whole ledger at some durable position, for an audit.
    fn state(&self) -> BoxFuture<'_, Result<BookSnapshot, Unavailable>>;
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

/// The decisions after `after` up to `to`, without gaps: what settlement has still to take, for an audit. An error
/// may mean that the feed forgot some of them because they were settled meanwhile; then look again.
pub async fn decisions_between(feed: &dyn Feed, after: u64, to: u64) -> Result<Vec<Decision>, Unavailable> {
    let mut decisions: Vec<Decision> = Vec::new();
    let mut reached = after;
    while reached < to {
        let read = feed.read(reached, READ_AT_ONCE).await?;
        let Some(last) = read.last().map(|last| last.position) else {
            return Err(Unavailable::new(format!("the feed ends at {reached}, before {to}")));
        };
        let gapless =
            read.iter().zip(reached + 1..).all(|(decision, expected)| decision.position == expected);
        if !gapless {
            return Err(Unavailable::new(format!("the feed has forgotten decision {}", reached + 1)));
        }
        decisions.extend(read.into_iter().take_while(|decision| decision.position <= to));
        reached = last;
    }
    Ok(decisions)
}
