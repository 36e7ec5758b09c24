//! Counts the outcome of each request. Every worker has its own tally, so that counting costs no traffic
//! between cores. Reading the metrics adds them up.

use std::{
    array,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use penstock_domain::Accepted;

use crate::{
    problem::Code,
    sale_tally::{CountedClaim, SaleTally},
};

/// The outcome of a request. Every request has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ok,
    /// An order was accepted.
    Accepted,
    /// A claim that had been accepted was sent again, and got its first answer.
    Repeated,
    NotModified,
    /// The connection was gone before the answer.
    ClientGone,
    Refused(Code),
}

const PLAIN_OUTCOMES: [&str; 5] = ["ok", "accepted", "repeated", "not_modified", "client_gone"];
pub(crate) const OUTCOMES: usize = PLAIN_OUTCOMES.len() + Code::ALL.len();

impl Outcome {
    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Ok => 0,
            Self::Accepted => 1,
            Self::Repeated => 2,
            Self::NotModified => 3,
            Self::ClientGone => 4,
            Self::Refused(code) => PLAIN_OUTCOMES.len() + code as usize,
        }
    }

    pub(crate) const fn of_accepted(accepted: &Accepted) -> Self {
        if accepted.is_repeated { Self::Repeated } else { Self::Accepted }
    }

    pub(crate) fn name(index: usize) -> &'static str {
        PLAIN_OUTCOMES.get(index).copied().unwrap_or_else(|| Code::ALL[index - PLAIN_OUTCOMES.len()].as_str())
    }
}

/// How a connection ended. Every connection that was accepted ends in exactly one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// The client ended it, or asked us to.
    Client,
    /// No request for a long time.
    Idle,
    /// No request for some time, and a newcomer needed the place.
    Displaced,
    /// The client did not read our answers, for too long or while the memory for unread answers was full.
    Unread,
    /// A request did not arrive in time.
    Slow,
    /// The client sent bytes that are not a request.
    Malformed,
    /// Its address has too many connections.
    Refused,
    /// The server is stopping.
    Drained,
    /// The server is stopping and could not wait any longer.
    Cut,
}

impl ConnectionEnd {
    pub(crate) const ALL: [Self; 9] = [
        Self::Client,
        Self::Idle,
        Self::Displaced,
        Self::Unread,
        Self::Slow,
        Self::Malformed,
        Self::Refused,
        Self::Drained,
        Self::Cut,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Idle => "idle",
            Self::Displaced => "displaced",
            Self::Unread => "unread",
            Self::Slow => "slow",
            Self::Malformed => "malformed",
            Self::Refused => "refused",
            Self::Drained => "drained",
            Self::Cut => "cut",
        }
    }
}

/// Calls whose latencies are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Claims that went to the ledger. Claims refused before that take microseconds and are not timed.
    Claim,
    Sales,
    Orders,
    Admin,
    Other,
}

impl Group {
    pub(crate) const ALL: [Self; 5] = [Self::Claim, Self::Sales, Self::Orders, Self::Admin, Self::Other];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Sales => "sales",
            Self::Orders => "orders",
            Self::Admin => "admin",
            Self::Other => "other",
        }
    }

    pub(crate) fn of_path(path: &str) -> Self {
        match path.strip_prefix("/api/v1/") {
            Some(call) if call.starts_with("sales") => Self::Sales,
            Some(call) if call.starts_with("orders") => Self::Orders,
            Some(call) if call.starts_with("admin") => Self::Admin,
            _ => Self::Other,
        }
    }
}

pub(crate) const LATENCY_BOUNDS_MICROSECONDS: [u64; 14] = [
    250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 125_000, 250_000, 500_000, 1_000_000,
    4_000_000,
];

#[derive(Debug)]
pub(crate) struct Latency {
    pub(crate) buckets: [AtomicU64; LATENCY_BOUNDS_MICROSECONDS.len() + 1],
    pub(crate) microseconds: AtomicU64,
}

impl Default for Latency {
    fn default() -> Self {
        Self { buckets: array::from_fn(|_| AtomicU64::new(0)), microseconds: AtomicU64::new(0) }
    }
}

impl Latency {
    fn add(&self, time: Duration) {
        let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = LATENCY_BOUNDS_MICROSECONDS.partition_point(|bound| *bound < microseconds);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.microseconds.fetch_add(microseconds, Relaxed);
    }
}

/// The counters of one worker.
#[derive(Debug)]
pub(crate) struct Tally {
    /// The worker's number.
    pub(crate) worker: usize,
    /// The number of workers.
    pub(crate) workers: NonZeroUsize,
    pub(crate) outcomes: [AtomicU64; OUTCOMES],
    pub(crate) latencies: [Latency; Group::ALL.len()],
    pub(crate) connections_opened: AtomicU64,
    pub(crate) connection_ends: [AtomicU64; ConnectionEnd::ALL.len()],
    /// Memory that waits for clients to read their answers.
    pub(crate) unread_bytes: AtomicUsize,
    /// The number of stalls so far: clients that stopped reading.
    pub(crate) stalls: AtomicU64,
}

impl Tally {
    pub(crate) fn of_worker(worker: usize, workers: usize) -> Self {
        Self {
            worker,
            workers: NonZeroUsize::new(workers).unwrap_or(NonZeroUsize::MIN),
            outcomes: array::from_fn(|_| AtomicU64::new(0)),
            latencies: Default::default(),
            connections_opened: AtomicU64::new(0),
            connection_ends: Default::default(),
            unread_bytes: AtomicUsize::new(0),
            stalls: AtomicU64::new(0),
        }
    }

    pub(crate) fn count(&self, outcome: Outcome) {
        self.outcomes[outcome.index()].fetch_add(1, Relaxed);
    }

    pub(crate) fn connection_opened(&self) {
        self.connections_opened.fetch_add(1, Relaxed);
    }

    pub(crate) fn connection_ended(&self, end: ConnectionEnd) {
        self.connection_ends[end as usize].fetch_add(1, Relaxed);
    }
}

/// A request that has begun. If it is dropped without an answer, it counts as `client_gone`.
#[derive(Debug)]
pub(crate) struct Pending {
    tally: Arc<Tally>,
    group: Group,
    began: Instant,
    answered: bool,
    /// Its sale's count, if it is a claim.
    claim: CountedClaim,
}

impl Pending {
    pub(crate) fn new(tally: &Arc<Tally>, group: Group) -> Self {
        Self::begin(tally, group, CountedClaim::default())
    }

    /// A claim. Its sale counts it, too, if the sale exists.
    pub(crate) fn of_claim(tally: &Arc<Tally>, sale: Option<Arc<SaleTally>>) -> Self {
        Self::begin(tally, Group::Claim, CountedClaim::new(sale))
    }

    fn begin(tally: &Arc<Tally>, group: Group, claim: CountedClaim) -> Self {
        Self { tally: Arc::clone(tally), group, began: Instant::now(), answered: false, claim }
    }

    pub(crate) fn answered(mut self, outcome: Outcome) {
        self.answered = true;
        self.tally.count(outcome);
        std::mem::take(&mut self.claim).answered(outcome);
        self.tally.latencies[self.group as usize].add(self.began.elapsed());
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.answered {
            self.tally.count(Outcome::ClientGone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_own_counter() {
        let mut indices: Vec<usize> = Code::ALL.iter().map(|code| Outcome::Refused(*code).index()).collect();
        indices.extend(
            [Outcome::Ok, Outcome::Accepted, Outcome::Repeated, Outcome::NotModified, Outcome::ClientGone]
                .map(Outcome::index),
        );
        indices.sort_unstable();
        assert_eq!(indices, (0..OUTCOMES).collect::<Vec<_>>());
        assert_eq!(Outcome::name(Outcome::Refused(Code::SoldOut).index()), "sold_out");
    }

    #[test]
    fn a_dropped_request_is_counted() {
        let tally = Arc::new(Tally::of_worker(0, 1));
        drop(Pending::new(&tally, Group::Claim));
        Pending::new(&tally, Group::Other).answered(Outcome::Ok);
        let count = |outcome: Outcome| tally.outcomes[outcome.index()].load(Relaxed);
        assert_eq!((count(Outcome::ClientGone), count(Outcome::Ok)), (1, 1));
    }
}
