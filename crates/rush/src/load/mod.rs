//! An HTTP/1.1 generator that uses as little CPU as possible, because it shares the cores of the measured
//! server. In a closed loop each connection sends when its last answer is in; in an open loop requests are
//! due at fixed times, whatever the answers do. It knows nothing of Penstock: a `Script` hands it ready bytes
//! and sees the answers.

mod answer;
mod connection;
mod schedule;
mod slow;
mod tally;
mod tape;
mod token;
mod worker;

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU8, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow};

pub use answer::Answer;
pub(crate) use connection::Connection;
pub use schedule::{Arrivals, OpenLoop};
pub use slow::{SlowOptions, SlowSwarm, SlowTally};
pub use tally::{Latency, Losses, Tally};
pub use tape::{BuyerTape, Call, OrderTape, Tape, TapeReader};
pub use token::{TokenSigner, token};

/// Supplies requests and receives answers. Each thread of a run owns one.
pub trait Script: Send {
    /// The next request and its number, or `None` when there are no more.
    fn next_request(&mut self) -> Option<(u64, &[u8])>;

    /// Receives the complete answer to the request of that number.
    fn answered(&mut self, _number: u64, _answer: &Answer<'_>) {}
}

#[derive(Clone, Debug)]
pub struct Options {
    pub address: SocketAddr,
    /// All connections, spread over the threads.
    pub connections: usize,
    /// Answers that come during the warm-up count in `Outcome::total` only.
    pub warm_up: Duration,
    /// The run also ends when the scripts have no more requests.
    pub measured: Duration,
    /// The core for each thread, in turn; empty: wherever the scheduler puts it.
    pub cores: Vec<usize>,
    /// The run ends after this many lost connections: the server is gone.
    pub max_errors: u64,
    /// The schedule of requests; `None`: each connection sends when its last answer is in.
    pub open_loop: Option<OpenLoop>,
}

impl Options {
    pub fn new(address: SocketAddr, connections: usize) -> Self {
        Self {
            address,
            connections,
            warm_up: Duration::ZERO,
            measured: Duration::from_secs(3600),
            cores: Vec::new(),
            max_errors: 100,
            open_loop: None,
        }
    }
}

/// The results of a run.
#[derive(Debug)]
pub struct Outcome<S> {
    /// Every answer, from the first request to the last.
    pub total: Tally,
    /// The answers that came between the end of the warm-up and the end of sending.
    pub measured: Tally,
    pub measured_seconds: f64,
    /// Of an open loop: whether each arrival, from the first to the last, was sent.
    pub arrivals: Arrivals,
    /// Those of the measured time.
    pub measured_arrivals: Arrivals,
    pub scripts: Vec<S>,
}

impl<S> Outcome<S> {
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
/// How often a waiting run checks whether its threads ended early.
const TICK: Duration = Duration::from_millis(20);

/// The phase as the threads see it.
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

/// Runs one thread per script. `entered` is called on the calling thread as the run enters `Measuring` and
/// `Draining`.
pub fn run<S: Script>(
    options: &Options,
    scripts: Vec<S>,
    mut entered: impl FnMut(Phase),
) -> anyhow::Result<Outcome<S>> {
    let threads = scripts.len();
    if threads == 0 || options.connections < threads {
        return Err(anyhow!("a run needs at least one thread, and one connection for each"));
    }
    let phase = SharedPhase::default();
    thread::scope(|scope| {
        let mut workers = Vec::with_capacity(threads);
        for (index, script) in scripts.into_iter().enumerate() {
            let seat = worker::Seat { index, threads };
            let phase = &phase;
            workers.push(scope.spawn(move || worker::run(options, seat, script, phase)));
        }
        let busy = || workers.iter().any(|worker| !worker.is_finished());
        wait(options.warm_up, busy);
        phase.set(Phase::Measuring);
        entered(Phase::Measuring);
        let started = Instant::now();
        wait(options.measured, busy);
        phase.set(Phase::Draining);
        entered(Phase::Draining);
        let mut measured_seconds = started.elapsed().as_secs_f64();

        let mut total = Tally::default();
        let mut measured = Tally::default();
        let mut arrivals = Arrivals::default();
        let mut measured_arrivals = Arrivals::default();
        let mut scripts = Vec::with_capacity(threads);
        let mut ran_dry_at = Vec::with_capacity(threads);
        for worker in workers {
            let done = worker.join().map_err(|_| anyhow!("a generator thread panicked"))?;
            let done = done.context("a generator thread failed")?;
            total.add(&done.total);
            measured.add(&done.measured);
            arrivals.add(&done.arrivals);
            measured_arrivals.add(&done.measured_arrivals);
            ran_dry_at.extend(done.ran_dry_at);
            scripts.push(done.script);
        }
        // A run that ran out of requests is measured up to its last answer, not up to the tick that noticed
        // it.
        if let (true, Some(end)) = (ran_dry_at.len() == threads, ran_dry_at.iter().max()) {
            measured_seconds = measured_seconds.min(end.saturating_duration_since(started).as_secs_f64());
        }
        Ok(Outcome { total, measured, measured_seconds, arrivals, measured_arrivals, scripts })
    })
}

fn wait(time: Duration, busy: impl Fn() -> bool) {
    let started = Instant::now();
    while let Some(left) = time.checked_sub(started.elapsed()) {
        if left.is_zero() || !busy() {
            return;
        }
        thread::sleep(left.min(TICK));
    }
}
