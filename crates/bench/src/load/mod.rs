//! An HTTP/1.1 generator that uses as little CPU as possible, because it shares the cores of the measured
//! server. In a closed loop each connection sends when its last answer is in; in an open loop requests are
//! due at fixed times, whatever the answers do. It knows nothing of Penstock: a `LoadScript` hands it ready
//! bytes and sees the answers.

mod once;
mod schedule;
mod slow;
mod tally;
mod tape;
mod worker;

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU8, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow};
use penstock_rush::connection::HttpAnswer;

pub use once::{OnceAnswered, ask_once};
pub use schedule::{ArrivalCounts, OpenLoop};
pub use slow::{SlowOptions, SlowSwarm, SlowTally};
pub use tally::{AnswerTally, Losses};
pub use tape::{BuyerTape, Tape, TapeCall, TapeReader, bearers, orders_path};

/// Supplies requests and receives answers.
pub trait LoadScript: Send {
    /// The next request and its number, or `None` when there are no more.
    fn next_request(&mut self) -> Option<(u64, &[u8])>;

    /// Receives the complete answer to the request of that number.
    fn answered(&mut self, _number: u64, _answer: &HttpAnswer<'_>) {}
}

#[derive(Clone, Debug)]
pub struct LoadOptions {
    pub address: SocketAddr,
    pub connections: usize,
    /// Answers that come during the warm-up count in `LoadOutcome::total` only.
    pub warm_up: Duration,
    /// The run also ends when the script has no more requests.
    pub measured: Duration,
    /// The generator's core; `None`: wherever the scheduler puts it.
    pub core: Option<usize>,
    /// The schedule of requests; `None`: each connection sends when its last answer is in.
    pub open_loop: Option<OpenLoop>,
}

impl LoadOptions {
    pub fn new(address: SocketAddr, connections: usize) -> Self {
        Self {
            address,
            connections,
            warm_up: Duration::ZERO,
            measured: Duration::from_secs(3600),
            core: None,
            open_loop: None,
        }
    }
}

/// The results of a run.
#[derive(Debug)]
pub struct LoadOutcome<S> {
    /// Every answer, from the first request to the last.
    pub total: AnswerTally,
    /// The answers that came between the end of the warm-up and the end of sending.
    pub measured: AnswerTally,
    pub measured_seconds: f64,
    /// Of an open loop: whether each arrival, from the first to the last, was sent.
    pub arrivals: ArrivalCounts,
    /// Those of the measured time.
    pub measured_arrivals: ArrivalCounts,
    pub script: S,
}

impl<S> LoadOutcome<S> {
    pub fn per_second(&self, status: u16) -> f64 {
        self.rate(self.measured.status(status))
    }

    /// `count` events in the measured time, as a rate.
    pub fn rate(&self, count: u64) -> f64 {
        count as f64 / self.measured_seconds.max(f64::MIN_POSITIVE)
    }
}

/// The moments of a run at which outside values (CPU time, steal) are worth reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    WarmUp,
    Measuring,
    /// No new request is sent; the answers under way are still awaited.
    Draining,
}

/// How long the run waits at the end for the answers under way.
const DRAIN_LIMIT: Duration = Duration::from_secs(30);
/// How often a waiting run checks whether its thread ended early.
const TICK: Duration = Duration::from_millis(20);
/// The run ends after this many lost connections: the server is gone.
const MAX_ERRORS: u64 = 100;

/// The phase as the generator's thread sees it.
#[derive(Debug, Default)]
struct SharedPhase(AtomicU8);

impl SharedPhase {
    fn set(&self, phase: Phase) {
        self.0.store(phase as u8, Ordering::Relaxed);
    }

    fn get(&self) -> Phase {
        match self.0.load(Ordering::Relaxed) {
            0 => Phase::WarmUp,
            1 => Phase::Measuring,
            _ => Phase::Draining,
        }
    }
}

pub fn run<S: LoadScript>(options: &LoadOptions, script: S) -> anyhow::Result<LoadOutcome<S>> {
    run_watched(options, script, |_| {})
}

/// Calls `entered` on the calling thread when the run enters `Measuring` and `Draining`.
pub fn run_watched<S: LoadScript>(
    options: &LoadOptions,
    script: S,
    mut entered: impl FnMut(Phase),
) -> anyhow::Result<LoadOutcome<S>> {
    let phase = &SharedPhase::default();
    thread::scope(|scope| {
        let worker = scope.spawn(move || worker::run(options, script, phase));
        let is_busy = || !worker.is_finished();
        wait(options.warm_up, is_busy);
        phase.set(Phase::Measuring);
        entered(Phase::Measuring);
        let started = Instant::now();
        wait(options.measured, is_busy);
        phase.set(Phase::Draining);
        entered(Phase::Draining);
        let took = started.elapsed();
        let done = worker.join().map_err(|_| anyhow!("the generator's thread panicked"))?;
        let (mut outcome, ran_dry_at) = done.context("the generator failed")?;
        // A run that ran out of requests is measured up to its last answer, not up to the tick that noticed
        // it.
        let measured = ran_dry_at.map_or(took, |end| took.min(end.saturating_duration_since(started)));
        outcome.measured_seconds = measured.as_secs_f64();
        Ok(outcome)
    })
}

fn wait(time: Duration, is_busy: impl Fn() -> bool) {
    let started = Instant::now();
    while let Some(left) = time.checked_sub(started.elapsed()) {
        if left.is_zero() || !is_busy() {
            return;
        }
        thread::sleep(left.min(TICK));
    }
}
