//! The loop from the feed to the records. Two kinds of failure are kept apart: a database that is away is
//! retried forever; a decision that can't be applied is tried a few times and put aside.

use std::time::{Duration, Instant};

use penstock_domain::{Cursor, Decision, Mark};
use penstock_ledger::{Health, embedded};
use penstock_records::{Lease, SettleError};
use tokio::sync::watch;

use crate::{Settlement, backoff::Backoff, pace::Pace, pause};

/// What to do after a step.
#[derive(Debug)]
enum Next {
    /// So many decisions were settled.
    Settled(usize),
    /// Nothing is there to settle, or it is not the time for it.
    Idle,
    /// Ask the records again where they are.
    Locate,
    /// Wait and try again.
    Retry,
}

/// Where the loop is.
#[derive(Debug)]
struct Progress {
    lease: Lease,
    position: u64,
    /// A decision that could not be applied: the batch ends before it, then it is tried alone.
    poison: Option<Poison>,
}

#[derive(Debug)]
struct Poison {
    position: u64,
    tries: u32,
}

impl Settlement {
    pub(crate) async fn settle_until(&self, mut stop: watch::Receiver<bool>) {
        let mut backoff = Backoff::new(self.options.backoff_min, self.options.backoff_max);
        let mut pace = Pace::new(self.options.max_decisions_per_second, Instant::now());
        let mut progress: Option<Progress> = None;
        while !*stop.borrow() {
            let next = match &mut progress {
                Some(_) if pace.holds_back(self.ledger.feed().head(embedded::STREAM), Instant::now()) => {
                    Next::Idle
                }
                Some(progress) => self.step(progress).await,
                None => self.locate(&mut progress).await,
            };
            let wait = match next {
                Next::Settled(decisions) => {
                    backoff.reset();
                    pace.after(decisions, Instant::now())
                }
                Next::Idle => self.options.poll_interval,
                Next::Locate => {
                    progress = None;
                    Duration::ZERO
                }
                Next::Retry => backoff.next((self.clock)()),
            };
            if pause(&mut stop, wait).await {
                break;
            }
        }
    }

    /// Finds out where settlement stopped the last time.
    async fn locate(&self, progress: &mut Option<Progress>) -> Next {
        if self.ledger.health() == Health::Recovering {
            return Next::Idle;
        }
        let lease = match self.records.lease(embedded::STREAM, "embedded", 3).await {
            Ok(Some(lease)) => lease,
            Ok(None) => return Next::Retry,
            Err(error) => return self.fail("the settlement cursor could not be read", &error),
        };
        match lease.cursor.position {
            position if position > self.ledger.feed().head(embedded::STREAM) => {
                let head = self.ledger.feed().head(embedded::STREAM);
                let trouble = format!("decision {position} is settled, but the ledger ends with {head}");
                self.fail("the records and the ledger don't belong together", &trouble)
            }
            position => {
                self.stats.began_at(position);
                self.ledger.feed().settled(embedded::STREAM, at(position));
                *progress = Some(Progress { lease, position, poison: None });
                Next::Settled(0)
            }
        }
    }

    async fn step(&self, progress: &mut Progress) -> Next {
        let max = match &progress.poison {
            Some(poison) if poison.position == progress.position + 1 => 1,
            Some(poison) => self.options.batch.min((poison.position - progress.position - 1) as usize),
            None => self.options.batch,
        };
        let decisions = match self.ledger.feed().read(embedded::STREAM, at(progress.position), max).await {
            Ok(piece) => piece.decisions,
            Err(error) => return self.fail("the feed could not be read", &error),
        };
        let Some(first) = decisions.first() else {
            self.stats.waiting(None);
            return Next::Idle;
        };
        self.stats.waiting(Some(first.at));
        if first.position != progress.position + 1 {
            let (settled, oldest) = (progress.position, first.position);
            let trouble = format!("decision {settled} is settled, but the feed begins at {oldest}");
            return self.fail("the records are older than the feed; restore newer ones", &trouble);
        }
        let result = self.records.settle(&progress.lease, &decisions, Mark::default()).await;
        self.conclude(progress, &decisions, result.map(|settled| settled.dead_lettered)).await
    }

    async fn conclude(
        &self,
        progress: &mut Progress,
        decisions: &[Decision],
        result: Result<u64, SettleError>,
    ) -> Next {
        match result {
            Ok(dead_letters) => {
                if dead_letters > 0 {
                    tracing::error!(dead_letters, "decisions that rest on a dead letter joined it");
                }
                self.advance(progress, decisions, dead_letters)
            }
            Err(SettleError::Fenced) => Next::Locate,
            Err(SettleError::Poison { position, reason, .. }) => {
                self.isolate(progress, decisions, position, &reason).await
            }
            Err(SettleError::CursorMoved { position }) => {
                tracing::warn!(
                    position,
                    expected = progress.position,
                    "somebody else settles this stream too"
                );
                Next::Locate
            }
            Err(error @ (SettleError::Gap { .. } | SettleError::Records(_))) => {
                self.fail("decisions could not be settled; trying again", &error)
            }
        }
    }

    /// `position` is poison. What comes before it is settled first; then it is tried alone, and at last put
    /// aside.
    async fn isolate(
        &self,
        progress: &mut Progress,
        decisions: &[Decision],
        position: u64,
        reason: &str,
    ) -> Next {
        let known = progress.poison.take().filter(|poison| poison.position == position);
        let alone = decisions.len() == 1;
        let tries = known.map_or(0, |poison| poison.tries) + u32::from(alone);
        progress.poison = Some(Poison { position, tries });
        if !alone {
            return Next::Settled(0);
        }
        if tries < self.options.max_tries {
            return self.fail("a decision can't be settled; trying again", &reason);
        }
        let Some(decision) = decisions.first() else { return Next::Idle };
        match self
            .records
            .dead_letter(&progress.lease, decision, Mark::default(), reason, tries, (self.clock)())
            .await
        {
            Ok(()) => {
                tracing::error!(position, reason, tries, "a decision became a dead letter");
                self.advance(progress, decisions, 1)
            }
            Err(SettleError::CursorMoved { .. }) => Next::Locate,
            Err(error) => self.fail("a dead letter could not be written; trying again", &error),
        }
    }

    fn advance(&self, progress: &mut Progress, decisions: &[Decision], dead_letters: u64) -> Next {
        let Some(last) = decisions.last() else { return Next::Idle };
        progress.position = last.position;
        progress.poison = progress.poison.take().filter(|poison| poison.position > last.position);
        self.stats.settled(last.position, decisions.len() as u64, dead_letters);
        self.ledger.feed().settled(embedded::STREAM, at(last.position));
        Next::Settled(decisions.len())
    }

    fn fail(&self, what: &str, why: &impl std::fmt::Display) -> Next {
        tracing::warn!(reason = %why, "{what}");
        self.stats.failed(format!("{what}: {why}"));
        Next::Retry
    }
}

fn at(position: u64) -> Cursor {
    Cursor { position, mark: Mark::default() }
}
