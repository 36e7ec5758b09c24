//! The writer: it takes the requests that arrived during the last commit, has the engine decide them, tells
//! the news, then answers. It works for any engine. For engines with several commits under way see `overlap`.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{runtime, sync::watch};

mod overlap;

use crate::{
    handle::Ledger,
    niceness::{Precedence, take_precedence},
    port::{Clock, Committed, Engine, Feed, Health, Listener, SaleNews, Unavailable},
    queue::{Asker, Batch, Failure, Queue, deliver, refuse},
    stats::Counters,
};

/// How long the writer waits before it first tries to recover its engine: a short failure should not cost a
/// second. The wait doubles with every failure …
const FIRST_RECOVERY_AFTER: Duration = Duration::from_millis(50);
/// … up to this.
const RECOVERY_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest time between the starts of two commits, while several callers ask. A sync takes a fraction of
/// it. Without the pause, batches would be so small that their syncs and wakes cost more than the decisions.
const COMMIT_INTERVAL: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatcherOptions {
    /// Requests that may wait. Further ones are answered `Busy`.
    pub max_queued: usize,
    /// The most commands that are decided and made durable together.
    pub max_batch: usize,
}

impl Default for BatcherOptions {
    fn default() -> Self {
        Self { max_queued: 65_536, max_batch: 4_096 }
    }
}

/// Starts the writer on a thread of its own and returns the handle to it at once.
///
/// The thread ends after `Ledger::stop`, or when the last handle is gone.
pub fn start<E: Engine>(
    engine: E,
    feed: Arc<dyn Feed>,
    options: BatcherOptions,
    clock: Clock,
    listener: Arc<dyn Listener>,
) -> io::Result<Ledger> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let queue = Arc::new(Queue::new(options.max_queued.max(1), options.max_batch.max(1)));
    let counters = Arc::new(Counters::default());
    let (health, health_seen) = watch::channel(Health::Recovering);
    let homes = engine.homes();
    let writer = Writer { engine, queue: queue.clone(), counters: counters.clone(), health, clock, listener };
    std::thread::Builder::new().name("ledger-writer".into()).spawn(move || {
        take_precedence(Precedence::Writing);
        or_abort("the ledger's writer", || runtime.block_on(writer.run()));
    })?;
    Ok(Ledger::new(queue, homes, feed, counters, health_seen))
}

/// Runs `work`. If it panics, an invariant is broken, and the process ends rather than sell on or hang.
pub(crate) fn or_abort(who: &str, work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        tracing::error!(who, "panicked: an invariant of the ledger is broken; the process ends");
        std::process::abort();
    }
}

struct Writer<E> {
    engine: E,
    queue: Arc<Queue>,
    counters: Arc<Counters>,
    health: watch::Sender<Health>,
    clock: Clock,
    listener: Arc<dyn Listener>,
}

impl<E: Engine> Writer<E> {
    async fn run(mut self) {
        let opened = self.engine.recover().await;
        let serving = self.back_or_shut(opened);
        match self.engine.max_in_flight() {
            0 | 1 => self.commit_in_turn(serving).await,
            most => self.commit_overlapping(serving, most).await,
        }
        let Self { engine, health, .. } = self;
        // After `Stopped` the ledger may be opened again, so first release what the engine holds.
        drop(engine);
        health.send_replace(Health::Stopped);
    }

    /// Runs one commit after the other, until the ledger is stopped.
    async fn commit_in_turn(&mut self, mut serving: bool) {
        let mut rest_until = None;
        loop {
            if !serving && !self.recover().await {
                break;
            }
            let Some(batch) = self.queue.take(rest_until).await else { break };
            // After a command that came alone there is no pause.
            rest_until = (batch.commands.len() > 1).then(|| Instant::now() + COMMIT_INTERVAL);
            let Batch { commands, askers } = batch;
            let started = Instant::now();
            let committed = self.engine.commit(commands, (self.clock)()).await;
            serving = match self.land(askers, started, committed) {
                Ok(()) => true,
                Err((askers, unavailable)) => {
                    let reason = self.shut(unavailable);
                    refuse(askers, &reason);
                    false
                }
            };
        }
    }

    /// Tells the news of a batch and answers the askers. After a failed commit, returns them: they still need
    /// an answer.
    fn land(
        &self,
        askers: Vec<Asker>,
        started: Instant,
        committed: Result<Committed, Unavailable>,
    ) -> Result<(), (Vec<Asker>, Unavailable)> {
        match committed {
            Ok(Committed { replies, news }) => {
                assert_eq!(replies.len(), askers.len(), "an engine answers every command");
                self.counters.committed(askers.len(), started.elapsed());
                if !news.is_empty() {
                    self.listener.sales_changed(&news);
                }
                self.counters.failed(replies.iter().filter(|reply| reply.is_err()).count());
                let unavailable = |Unavailable { reason }| Failure::Unavailable(reason.into());
                deliver(askers, replies.into_iter().map(|reply| reply.map_err(unavailable)));
                Ok(())
            }
            Err(unavailable) => {
                self.counters.failed(askers.len());
                Err((askers, unavailable))
            }
        }
    }

    /// Tries until the engine is back. False if the ledger was stopped meanwhile.
    async fn recover(&mut self) -> bool {
        let mut wait = FIRST_RECOVERY_AFTER;
        loop {
            let retry_at = tokio::time::Instant::now() + wait;
            wait = (2 * wait).min(RECOVERY_INTERVAL);
            while let Ok(()) = tokio::time::timeout_at(retry_at, self.queue.woken()).await {
                if self.queue.is_stopping() {
                    return false;
                }
            }
            if self.queue.is_stopping() {
                return false;
            }
            match self.engine.recover().await {
                Ok(news) => {
                    self.back(&news);
                    return true;
                }
                // The failure was logged when it happened. What keeps the engine from recovering may be
                // something else.
                Err(Unavailable { reason }) => drop(self.health.send_replace(Health::Unavailable(reason))),
            }
        }
    }

    fn back_or_shut(&mut self, recovered: Result<Vec<SaleNews>, Unavailable>) -> bool {
        match recovered {
            Ok(news) => {
                self.back(&news);
                true
            }
            Err(unavailable) => {
                self.shut(unavailable);
                false
            }
        }
    }

    fn back(&self, news: &[SaleNews]) {
        self.listener.sales_changed(news);
        // Open the queue first: a caller that sees `Ready` must be let in.
        self.queue.open();
        self.health.send_replace(Health::Ready);
        tracing::info!(sales = news.len(), "the ledger is ready");
    }

    fn shut(&self, Unavailable { reason }: Unavailable) -> Arc<str> {
        tracing::error!(reason, "the ledger is unavailable; it accepts nothing until it is back");
        self.health.send_replace(Health::Unavailable(reason.clone()));
        let reason: Arc<str> = reason.into();
        self.queue.shut(&reason);
        reason
    }
}
