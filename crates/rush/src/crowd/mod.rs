//! A crowd of simulated buyers. They come, look, wait for the opening, press the button, and pay or walk
//! away, as their scenario says. The crowd uses only the public API and remembers every promise that it was
//! given.

mod alarm;
mod answers;
mod arrivals;
mod buyer;
mod codes;
mod desk;
mod findings;
mod moment;
mod pool;
mod request;
mod solver;
mod summary;
mod tally;
mod terms;
mod timeline;
mod worker;

use std::{
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow};
use mio::{Poll, Waker};
use parking_lot::Mutex;

use crate::{latency::LatencyHistogram, report::Progress, scenario};

pub use findings::{Doubtful, End, Promised};
pub use summary::CrowdOutcome;
pub use terms::{BuyerAccount, BuyerIdentity, GateSteps};

use arrivals::Schedule;
use codes::CodeCounts;
use desk::{CrowdStock, Desk};
use moment::{CrowdClock, Moment};
use pool::ConnectionPool;
use request::RequestWriter;
use solver::{Outbox, Solvers};
use terms::{CrowdTerms, Who};
use worker::{Seat, Snapshot};

const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// The time between two calls of `watch`.
const WATCH_EVERY: Duration = Duration::from_millis(100);

/// Everything that a crowd has to know for a run.
#[derive(Clone, Debug)]
pub struct CrowdPlan {
    /// Plain HTTP/1.1.
    pub address: SocketAddr,
    /// For the header `Host`.
    pub host: String,
    pub sale: String,
    /// By our clock. If it is in the past, the run counts from its start.
    pub opens_at: Instant,
    /// Units on offer.
    pub units: u64,
    pub hold_seconds: u32,
    pub gate: GateSteps,
    pub identity: BuyerIdentity,
    /// Units that an order asks for.
    pub quantity: u32,
    pub crowd: scenario::Crowd,
    pub arrivals: scenario::Arrivals,
    pub mix: scenario::Mix,
    pub threads: usize,
    /// With the same seed the same people behave in the same way. The seed is part of their keys, too.
    pub seed: u64,
}

impl CrowdPlan {
    fn terms(&self) -> CrowdTerms {
        CrowdTerms {
            gate: self.gate,
            mix: self.mix.clone(),
            hold_seconds: f64::from(self.hold_seconds),
            burst_seconds: self.arrivals.burst_seconds,
            buyers: self.crowd.buyers,
            seed: self.seed,
            key_prefix: format!("rush-{:x}-", self.seed),
            identity: self.identity.clone(),
        }
    }

    /// The connections that the scenario wants, but no more than there are people or the system allows.
    fn connections(&self) -> usize {
        let people = self.crowd.buyers + arrivals::bots_of(&self.crowd);
        let people = usize::try_from(people).unwrap_or(usize::MAX);
        let wanted = if self.crowd.connections == 0 { people } else { self.crowd.connections };
        pool::allowed_connections(wanted.min(MAX_CONNECTIONS)).max(self.threads)
    }
}

/// The most connections of a run: a client has no ports and no memory for more.
const MAX_CONNECTIONS: usize = 60_000;

/// Runs until the last person has left. `watch` is called on this thread, about ten times a second.
pub fn run(plan: &CrowdPlan, mut watch: impl FnMut(&Progress)) -> anyhow::Result<CrowdOutcome> {
    scenario::check_threads(plan.threads)?;
    // Finds out whether there is a server before anybody comes.
    TcpStream::connect_timeout(&plan.address, CONNECT_LIMIT)
        .with_context(|| format!("cannot connect to {}", plan.address))?;
    let (terms, stock) = (plan.terms(), CrowdStock::new(plan.units));
    let clock = CrowdClock::new(plan.opens_at.max(Instant::now()));
    let snapshots: Vec<Mutex<Snapshot>> = (0..plan.threads).map(|_| Mutex::default()).collect();
    thread::scope(|scope| {
        let solvers = plan.gate.challenge.then(|| Solvers::start(scope));
        let shared = CrowdShared { clock, terms: &terms, stock: &stock, solvers };
        let seats = seats(plan, &shared, &snapshots)?;
        // The solvers end once no thread can ask them.
        drop(shared);
        let workers: Vec<_> = seats.into_iter().map(|seat| scope.spawn(move || worker::run(seat))).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            thread::sleep(WATCH_EVERY);
            watch(&progress(plan, clock, &stock, &snapshots));
        }
        let mut done = Vec::with_capacity(workers.len());
        for worker in workers {
            let worker = worker.join().map_err(|_| anyhow!("a thread of the crowd panicked"))?;
            done.push(worker.context("a thread of the crowd failed")?);
        }
        Ok(summary::summarise(plan, done, &stock))
    })
}

/// State that the threads of a run share.
struct CrowdShared<'a> {
    clock: CrowdClock,
    terms: &'a CrowdTerms,
    stock: &'a CrowdStock,
    solvers: Option<Solvers>,
}

/// The seat of each thread. Connections are divided among them.
fn seats<'a>(
    plan: &CrowdPlan,
    shared: &CrowdShared<'a>,
    snapshots: &'a [Mutex<Snapshot>],
) -> anyhow::Result<Vec<Seat<'a>>> {
    let (threads, connections) = (plan.threads, plan.connections());
    let mut first = 0;
    let mut seats = Vec::with_capacity(threads);
    for (index, snapshot) in snapshots.iter().enumerate() {
        let share = connections / threads + usize::from(index < connections % threads);
        let now = shared.clock.now();
        let poll = Poll::new().context("cannot create a poll")?;
        let waker = Waker::new(poll.registry(), worker::WAKER).context("cannot create a waker")?;
        let outbox = Outbox::new(waker);
        let part = (index as u64, threads as u64);
        seats.push(Seat {
            clock: shared.clock,
            terms: shared.terms,
            desk: Desk::new(shared.terms, shared.stock, now),
            pool: ConnectionPool::new(plan.address, first, share, now),
            schedule: Schedule::new(&plan.crowd, &plan.arrivals, -now.seconds(), part),
            writer: RequestWriter::new(&plan.host, &plan.sale, plan.quantity, plan.crowd.forwarded_addresses),
            solver: shared.solvers.as_ref().map(|solvers| solvers.handle(outbox)),
            poll,
            snapshot,
        });
        first += share;
    }
    Ok(seats)
}

fn progress(
    plan: &CrowdPlan,
    clock: CrowdClock,
    stock: &CrowdStock,
    snapshots: &[Mutex<Snapshot>],
) -> Progress {
    let mut progress = Progress {
        since_opening_seconds: clock.now().seconds(),
        buyers: plan.crowd.buyers + arrivals::bots_of(&plan.crowd),
        units: plan.units,
        sold: stock.held(),
        sold_out_after_seconds: stock.gone_at().map(Moment::seconds),
        ..Progress::default()
    };
    let (mut refused, mut latency) = (CodeCounts::default(), LatencyHistogram::default());
    for snapshot in snapshots {
        let snapshot = snapshot.lock();
        progress.came += snapshot.came;
        progress.admitted += snapshot.admitted;
        progress.requests += snapshot.requests;
        progress.under_way += snapshot.under_way;
        progress.waiting += snapshot.waiting;
        refused.add(&snapshot.refused);
        latency.add(&snapshot.order_latency);
    }
    progress.refused = refused.named();
    progress.p50_ms = tally::milliseconds(latency.quantile(0.5));
    progress.p99_ms = tally::milliseconds(latency.quantile(0.99));
    progress
}
