//! A worker's turn at one stream: from the feed to the records, batch by batch. It keeps two kinds of failure
//! apart: while the database can't be reached it retries forever; a decision that can't be applied is tried a
//! few times and then put aside.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use penstock_domain::Decision;
use penstock_ledger::{FeedError, Piece};
use penstock_records::{Lease, Refusal, SettleError, SettledBatch};
use tokio::sync::watch;

use crate::{Settlement, backoff::Backoff, pace::SharedPace, pause};

/// How long a turn may last if another stream waits for a place.
const LONGEST_TURN: Duration = Duration::from_secs(1);
/// A lease that no batch has renewed for this long is renewed separately.
const RENEW_EVERY: Duration = Duration::from_secs(1);
const OTHER_EPOCH: &str = "the ledger's history is not the one that the records allow to be settled";

/// A stream, and what this worker knows of it between two turns.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) name: Arc<str>,
    /// How far it is settled, as far as is known. None: ask the records.
    pub(crate) settled: Option<u64>,
    /// The last lease this worker had. Even if its time is over, it holds as long as no other worker has
    /// taken the stream over.
    pub(crate) lease: Option<Lease>,
    renewed_at: Instant,
    /// A decision that could not be applied: the batch ends before it, and then it is tried alone.
    poison: Option<Poison>,
    backoff: Backoff,
    /// Its history is not the one that was settled, and that was logged.
    diverged: bool,
    /// How many times in a row the ledger had it in a different epoch than the records.
    other_epochs: u32,
    /// The worker that had its lease before and did not give it back.
    pub(crate) left_by: Option<String>,
    /// No turn before this.
    pub(crate) rests_until: Instant,
}

#[derive(Debug)]
struct Poison {
    position: u64,
    tries: u32,
}

impl Stream {
    pub(crate) fn new(name: Arc<str>, backoff: Backoff, now: Instant) -> Self {
        Self {
            name,
            settled: None,
            lease: None,
            renewed_at: now,
            poison: None,
            backoff,
            diverged: false,
            other_epochs: 0,
            left_by: None,
            rests_until: now,
        }
    }

    /// Another worker settles it now: forget everything that could be outdated.
    fn lose(&mut self) {
        self.lease = None;
        self.settled = None;
        self.poison = None;
        self.left_by = None;
    }
}

/// Decisions that are settled together, and the lease under which that happens.
struct Batch {
    lease: Lease,
    piece: Piece,
}

/// What to do after a step.
#[derive(Debug)]
enum Next {
    /// This many decisions were settled.
    SettledBatch(usize),
    /// Nothing is left to settle.
    Drained,
    /// Another worker has the lease.
    Lost,
    /// Wait and try again.
    Retry,
}

impl Settlement {
    /// Settles `stream` until nothing is left, the turn is over, something fails, or it is time to stop.
    pub(crate) async fn turn(
        &self,
        mut stream: Stream,
        pace: SharedPace,
        mut stop: watch::Receiver<bool>,
    ) -> Stream {
        let begun = Instant::now();
        while !*stop.borrow() {
            let wait = match self.step(&mut stream).await {
                Next::SettledBatch(decisions) => {
                    stream.backoff.reset();
                    pace.after(decisions, Instant::now())
                }
                Next::Drained => break,
                Next::Lost => {
                    stream.lose();
                    break;
                }
                Next::Retry => {
                    stream.rests_until = Instant::now() + self.wait_after_failure(&mut stream);
                    break;
                }
            };
            let over = self.rest(&mut stream, wait, &mut stop).await;
            let head = self.ledger.feed().head(&stream.name);
            if over || begun.elapsed() >= LONGEST_TURN || pace.holds_back(head, Instant::now()) {
                break;
            }
        }
        stream
    }

    /// Trying a decision again and again does not renew the lease; so these waits end before the lease does.
    fn wait_after_failure(&self, stream: &mut Stream) -> Duration {
        let wait = stream.backoff.next((self.clock)());
        if stream.poison.is_some() { wait.min(RENEW_EVERY) } else { wait }
    }

    /// Waits, and renews the lease meanwhile. True: the turn is over.
    async fn rest(&self, stream: &mut Stream, wait: Duration, stop: &mut watch::Receiver<bool>) -> bool {
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if pause(stop, left.min(RENEW_EVERY)).await {
                return true;
            }
            if left <= RENEW_EVERY {
                return false;
            }
            if !self.keep(stream).await {
                stream.lose();
                return true;
            }
        }
    }

    /// Renews the lease if it is time. False: another worker has it. If the database can't be reached, the
    /// next batch finds out.
    async fn keep(&self, stream: &mut Stream) -> bool {
        let Some(lease) = stream.lease.as_ref().filter(|_| stream.renewed_at.elapsed() >= RENEW_EVERY) else {
            return true;
        };
        let kept = self.records.renew(lease).await;
        stream.renewed_at = Instant::now();
        kept.unwrap_or(true)
    }

    async fn step(&self, stream: &mut Stream) -> Next {
        if stream.poison.is_some() && !self.keep(stream).await {
            return Next::Lost;
        }
        let (lease, is_new) = match stream.lease.clone() {
            Some(lease) => (lease, false),
            None => match self.records.lease(&stream.name, &self.owner, self.options.lease_seconds).await {
                Ok(Some(lease)) => (lease, true),
                Ok(None) => return Next::Lost,
                Err(error) => return self.fail(stream, "a stream's lease could not be taken", &error),
            },
        };
        let settled = lease.cursor.position;
        if is_new {
            self.taken(stream, settled);
        }
        let max = match &stream.poison {
            Some(poison) if poison.position == settled + 1 => 1,
            Some(poison) => self.options.batch.min((poison.position - settled - 1) as usize),
            None => self.options.batch,
        };
        let piece = match self.ledger.feed().read(&stream.name, lease.cursor, max).await {
            Ok(piece) => piece,
            Err(FeedError::Unavailable(error)) => {
                return self.fail(stream, "the feed could not be read", &error);
            }
            Err(FeedError::Diverged) => return self.diverge(stream, settled),
        };
        if !piece.decisions.is_empty() && piece.epoch != lease.epoch {
            return self.differ(stream, is_new, piece.epoch, lease.epoch);
        }
        (stream.diverged, stream.other_epochs) = (false, 0);
        if is_new && settled > 0 {
            self.ledger.feed().settled(&stream.name, lease.cursor);
        }
        (stream.settled, stream.lease) = (Some(settled), Some(lease.clone()));
        self.settle(stream, &Batch { lease, piece }).await
    }

    /// A lease was taken; the stream is settled up to `settled`.
    fn taken(&self, stream: &mut Stream, settled: u64) {
        stream.renewed_at = Instant::now();
        self.stats.located(&stream.name, settled);
        if let Some(left_by) = stream.left_by.take() {
            tracing::info!(stream = &*stream.name, left_by, "took a stream over");
            self.stats.count(|figures| figures.takeovers += 1);
        }
    }

    async fn settle(&self, stream: &mut Stream, batch: &Batch) -> Next {
        let Batch { lease, piece } = batch;
        let oldest = piece.decisions.first();
        self.stats.waiting(&stream.name, oldest.map(|first| first.at));
        let Some(first) = oldest else {
            self.stats.well(&stream.name);
            return Next::Drained;
        };
        let settled = lease.cursor.position;
        if first.position != settled + 1 {
            let trouble = format!("decision {settled} is settled, but the feed begins at {}", first.position);
            return self.fail(stream, "the records are older than the feed; restore newer ones", &trouble);
        }
        let result = self.records.settle(lease, &piece.decisions, piece.mark).await;
        self.conclude(stream, batch, result).await
    }

    async fn conclude(
        &self,
        stream: &mut Stream,
        batch: &Batch,
        result: Result<SettledBatch, SettleError>,
    ) -> Next {
        match result {
            Ok(SettledBatch { dead_lettered: dead_letters, .. }) => {
                if dead_letters > 0 {
                    tracing::error!(
                        dead_letters,
                        "decisions that depend on a dead letter became dead letters, too"
                    );
                }
                self.advance(stream, &batch.piece, dead_letters)
            }
            Err(SettleError::Poison { position, refusal }) => {
                self.isolate(stream, batch, position, &refusal).await
            }
            Err(SettleError::Fenced) => {
                tracing::debug!(stream = &*stream.name, "another worker settles this stream now");
                Next::Lost
            }
            Err(SettleError::CursorMoved { position }) => {
                let expected = batch.lease.cursor.position;
                tracing::warn!(
                    stream = &*stream.name,
                    position,
                    expected,
                    "another worker settles this stream, too"
                );
                Next::Lost
            }
            Err(error @ (SettleError::Gap { .. } | SettleError::Records(_))) => {
                self.fail(stream, "decisions could not be settled; trying again", &error)
            }
        }
    }

    /// A decision is poison. What comes before it is settled first; then it is tried alone, and finally put
    /// aside.
    async fn isolate(&self, stream: &mut Stream, batch: &Batch, position: u64, refusal: &Refusal) -> Next {
        let known = stream.poison.take().filter(|poison| poison.position == position);
        if known.is_none() && refusal.cause.is_violation() {
            let Refusal { cause, reason } = refusal;
            self.stats.count(|figures| figures.violations += 1);
            tracing::error!(stream = &*stream.name, position, %cause, reason, "the ledger broke a promise");
        }
        let [decision] = batch.piece.decisions.as_slice() else {
            stream.poison = Some(Poison { position, tries: known.map_or(0, |poison| poison.tries) });
            return Next::SettledBatch(0);
        };
        let tries = known.map_or(0, |poison| poison.tries) + 1;
        stream.poison = Some(Poison { position, tries });
        if tries < self.options.max_tries {
            return self.fail(stream, "a decision can't be settled; trying again", refusal);
        }
        self.put_aside(stream, batch, decision, refusal, tries).await
    }

    async fn put_aside(
        &self,
        stream: &mut Stream,
        Batch { lease, piece }: &Batch,
        decision: &Decision,
        refusal: &Refusal,
        tries: u32,
    ) -> Next {
        let now = (self.clock)();
        match self.records.dead_letter(lease, decision, piece.mark, refusal, tries, now).await {
            Ok(()) => {
                let position = decision.position;
                tracing::error!(
                    stream = &*stream.name,
                    position,
                    cause = %refusal.cause,
                    reason = refusal.reason,
                    tries,
                    "a decision became a dead letter"
                );
                self.advance(stream, piece, 1)
            }
            Err(SettleError::Fenced | SettleError::CursorMoved { .. }) => Next::Lost,
            Err(error) => self.fail(stream, "a dead letter could not be written; trying again", &error),
        }
    }

    fn advance(&self, stream: &mut Stream, piece: &Piece, dead_letters: u64) -> Next {
        let Some(end) = piece.end() else { return Next::Drained };
        if let Some(lease) = &mut stream.lease {
            lease.cursor = end;
        }
        stream.settled = Some(end.position);
        stream.renewed_at = Instant::now();
        stream.poison = stream.poison.take().filter(|poison| poison.position > end.position);
        self.stats.settled(&stream.name, end.position, piece.decisions.len() as u64, dead_letters);
        self.ledger.feed().settled(&stream.name, end);
        Next::SettledBatch(piece.decisions.len())
    }

    /// The ledger has lost decisions that are settled, and is bringing them back from the records; or the
    /// records belong to another ledger.
    fn diverge(&self, stream: &mut Stream, position: u64) -> Next {
        let what = "the records and the ledger don't belong together";
        let trouble = format!("decision {position} is settled, but the ledger's history is another");
        stream.lose();
        if stream.diverged {
            return self.fail_quietly(stream, what, &trouble);
        }
        stream.diverged = true;
        self.stats.count(|figures| figures.diverged += 1);
        self.fail(stream, what, &trouble)
    }

    /// The piece is of another epoch than the one that may be settled. Either the lease is from before the
    /// ledger looked into the records, or the ledger is doing so now. If the ledger stays behind, nobody uses
    /// it, or its look was interrupted.
    fn differ(&self, stream: &mut Stream, is_new: bool, in_ledger: u64, in_records: u64) -> Next {
        stream.lose();
        if !is_new {
            return Next::Lost;
        }
        stream.other_epochs = stream.other_epochs.saturating_add(1);
        let trouble = format!("it is in epoch {in_ledger}, but the records are in {in_records}");
        if stream.other_epochs > 1 {
            self.ledger.feed().doubt(&stream.name);
        }
        if stream.other_epochs == 2 {
            self.stats.count(|figures| figures.diverged += 1);
            return self.fail(stream, OTHER_EPOCH, &trouble);
        }
        self.fail_quietly(stream, OTHER_EPOCH, &trouble)
    }

    fn fail(&self, stream: &Stream, what: &str, why: &impl std::fmt::Display) -> Next {
        tracing::warn!(stream = &*stream.name, reason = %why, "{what}");
        self.fail_quietly(stream, what, why)
    }

    /// For a failure that was logged before.
    fn fail_quietly(&self, stream: &Stream, what: &str, why: &impl std::fmt::Display) -> Next {
        self.stats.failed(&stream.name, format!("{what}: {why}"));
        Next::Retry
    }
}
