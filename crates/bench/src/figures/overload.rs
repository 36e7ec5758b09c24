//! `overload_goodput_ratio`: orders accepted a second at ten times the load that the server can take, against
//! its best rate without overload.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    bench::{Bench, BestChoice},
    host,
    load::{self, LoadOptions, LoadOutcome, Losses, OpenLoop, SlowOptions, SlowSwarm, SlowTally, TapeReader},
    numbers::{median, rounded, thousandth, thousandths},
    places::Apart,
    report::BenchFigure,
    server::{MeasuredServer, Settings, ensure_told},
};

/// The ledger is the bottleneck: every order has its own sync, as with a slow disk. Settlement is paced
/// slowly, because the server has only one core here and settlement is not what is measured.
const LEDGER_BOUND: &Settings =
    &[("PENSTOCK_LEDGER__MAX_BATCH", "1"), ("PENSTOCK_SETTLE__MAX_DECISIONS_PER_SECOND", "500")];
/// The server's own core is the bottleneck.
const CPU_BOUND: &Settings = &[];
const BEST_OF: [usize; 3] = [16, 64, 256];
const CPU_BOUND_BEST_OF: [usize; 3] = [64, 256, 1024];
/// More than the server lets in. With fewer, all of them would be served within the target latency and none
/// refused.
const CONNECTIONS: usize = 1_000;
const SLOW_CONNECTIONS: usize = 5_000;
/// The load, as a multiple of the best rate.
const TIMES: f64 = 10.0;
/// More than one generator can send; the report has what it did send.
const MAX_OFFERED_PER_SECOND: f64 = 200_000.0;
/// Answers a second, yes or no, that a server on one core may give in a closed loop. It sets how many
/// requests a run has; a faster server only ends the run a little sooner.
const LEDGER_BOUND_ANSWERS_PER_SECOND: f64 = 60_000.0;
const CPU_BOUND_ANSWERS_PER_SECOND: f64 = 120_000.0;
const UNITS: u32 = 50_000_000;
const TARGET_RATIO: f64 = 0.9;

/// How the server is started and loaded.
#[derive(Clone, Copy, Debug)]
struct Setup {
    settings: &'static Settings,
    answers_per_second: f64,
    apart: Apart,
}

#[derive(Clone, Copy, Debug)]
enum Load {
    Closed { connections: usize },
    Open { per_second: f64, slow_connections: usize },
}

/// The result of one run.
#[derive(Clone, Debug)]
struct OverloadRun {
    accepted_per_second: f64,
    offered_per_second: f64,
    sent_per_second: f64,
    accepted_p50: Duration,
    accepted_p99: Duration,
    accepted_service_p99: Duration,
    busy_p99: Duration,
    busy_service_p99: Duration,
    late_share: f64,
    not_sent_share: f64,
    peak_growth_bytes: u64,
    losses: Losses,
    slow: SlowTally,
}

pub(super) fn measure(bench: &mut Bench<'_>) -> anyhow::Result<BenchFigure> {
    host::raise_open_files()?;
    let answers_per_second = LEDGER_BOUND_ANSWERS_PER_SECOND;
    let setup =
        Setup { settings: LEDGER_BOUND, answers_per_second, apart: Apart::look(&bench.options.folder)? };
    bench.say("a sync for every order");
    let plans = [
        LoadPlan { slow_connections: 0, times_longer: 4 },
        LoadPlan { slow_connections: SLOW_CONNECTIONS, times_longer: 2 },
    ];
    let (best, [plain, besieged]) = rounds(bench, setup, &BEST_OF, plans)?;
    let mut figure = BenchFigure::of(&plain.ratios, "of the best")
        .against("best_rate", 1.0)
        .at_least(TARGET_RATIO)
        .detail("best_per_second", median(&best.per_second).round())
        .detail("best_rounds", rounded(&best.per_second))
        .detail("best_connections", best.connections)
        .detail("tried", best.tried)
        .detail("rounds", thousandths(&plain.ratios))
        .detail("connections", CONNECTIONS)
        .detail("sent_times_best", thousandth(median(&plain.times_sent)))
        .detail("overloaded", summary(&plain.runs))
        .detail("with_slow_connections_ratio", thousandth(median(&besieged.ratios)))
        .detail("with_slow_connections_rounds", thousandths(&besieged.ratios))
        .detail("with_slow_connections", summary(&besieged.runs));
    let answers_per_second = CPU_BOUND_ANSWERS_PER_SECOND;
    for (name, value) in cpu_bound(bench, Setup { settings: CPU_BOUND, answers_per_second, ..setup })? {
        figure = figure.detail(name, value);
    }
    Ok(figure)
}

/// The same when the server's core is the bottleneck, as far as one generator on another core can drive it.
fn cpu_bound(bench: &mut Bench<'_>, setup: Setup) -> anyhow::Result<Vec<(&'static str, Value)>> {
    bench.say("default settings, as much load as the generator can send");
    let plans = [LoadPlan { slow_connections: 0, times_longer: 1 }];
    let (best, [plain]) = rounds(bench, setup, &CPU_BOUND_BEST_OF, plans)?;
    Ok(vec![
        ("cpu_bound_ratio", thousandth(median(&plain.ratios)).into()),
        ("cpu_bound_rounds", thousandths(&plain.ratios).into()),
        ("cpu_bound_best_per_second", median(&best.per_second).round().into()),
        ("cpu_bound_best_connections", best.connections.into()),
        ("cpu_bound_sent_times_best", thousandth(median(&plain.times_sent)).into()),
        ("cpu_bound_tried", best.tried.into()),
        ("cpu_bound_overloaded", summary(&plain.runs)),
    ])
}

/// One of the loaded runs of each round.
#[derive(Clone, Copy, Debug)]
struct LoadPlan {
    slow_connections: usize,
    /// How many times as long as other runs it lasts.
    times_longer: u32,
}

/// The loaded runs of one plan, each against the better of the closed-loop runs before and after it.
#[derive(Debug, Default)]
struct Series {
    runs: Vec<OverloadRun>,
    ratios: Vec<f64>,
    times_sent: Vec<f64>,
}

/// How the server does without overload.
#[derive(Debug)]
struct BestRate {
    connections: usize,
    per_second: Vec<f64>,
    tried: Vec<Value>,
}

/// Every loaded run is between two closed-loop runs, so that a change of the machine's speed or a short
/// disturbance neither lowers nor raises the ratio.
fn rounds<const PLANS: usize>(
    bench: &mut Bench<'_>,
    setup: Setup,
    candidates: &[usize],
    plans: [LoadPlan; PLANS],
) -> anyhow::Result<(BestRate, [Series; PLANS])> {
    let rounds = bench.options.rounds(3);
    let seconds = bench.options.measured();
    let best = BestChoice::of("connections", candidates, |connections| {
        let run = sell(bench, setup, Load::Closed { connections }, Duration::from_secs(2))?;
        Ok(run.accepted_per_second)
    })?;
    let (connections, tried) = (best.choice, best.tried);
    let closed = Load::Closed { connections };
    let mut before = sell(bench, setup, closed, seconds)?.accepted_per_second;
    let mut best = BestRate { connections, per_second: vec![before], tried };
    let mut series = plans.map(|_| Series::default());
    for _ in 0..rounds {
        for (plan, series) in plans.iter().zip(&mut series) {
            let per_second = (TIMES * before).min(MAX_OFFERED_PER_SECOND);
            let load = Load::Open { per_second, slow_connections: plan.slow_connections };
            let run = sell(bench, setup, load, seconds * plan.times_longer)?;
            let after = sell(bench, setup, closed, seconds)?.accepted_per_second;
            series.ratios.push(run.accepted_per_second / before.max(after));
            series.times_sent.push(run.sent_per_second / before.max(after));
            series.runs.push(run);
            best.per_second.push(after);
            before = after;
        }
    }
    Ok((best, series))
}

/// One run on an empty data folder; the outcome is checked afterwards.
fn sell(bench: &mut Bench<'_>, setup: Setup, load: Load, measured: Duration) -> anyhow::Result<OverloadRun> {
    bench.undisturbed(setup.apart.places(), |bench| {
        let server = MeasuredServer::start(bench, Some(setup.apart.server), setup.settings)?;
        let sale = server.api.open_sale(UNITS)?;
        let warm_up = bench.options.warm_up();
        let mut options = load.options(&server);
        (options.warm_up, options.measured) = (warm_up, measured);
        options.core = Some(setup.apart.generator);
        let requests = load.requests_per_second(setup) * (warm_up + measured).as_secs_f64();
        let tape = server.orders(&sale, 0, requests as usize + options.connections)?;
        let swarm = load.swarm(tape.request(0), &server, setup.apart.generator)?;
        let before_bytes = server.resident_bytes()?;
        let outcome = load::run(&options, tape.once())?;
        let peak_growth_bytes = server.peak_resident_bytes()?.saturating_sub(before_bytes);
        let slow = swarm.map_or(Ok(SlowTally::default()), SlowSwarm::stop)?;
        ensure_told(&outcome, 201, &["busy"])?;
        server.verify(&sale, UNITS.into(), outcome.total.status(201))?;
        server.stop()?;
        let run = OverloadRun::of(&outcome, peak_growth_bytes, slow);
        let line = format!("{}: {}", load.name(), run.line());
        Ok((run, line))
    })
}

impl Load {
    fn options(self, server: &MeasuredServer) -> LoadOptions {
        let address = server.api.address;
        match self {
            Self::Closed { connections } => LoadOptions::new(address, connections),
            Self::Open { per_second, .. } => {
                let open_loop = Some(OpenLoop { per_second, max_waiting: CONNECTIONS });
                LoadOptions { open_loop, ..LoadOptions::new(address, CONNECTIONS) }
            }
        }
    }

    /// The requests a second that a run can use up.
    fn requests_per_second(self, setup: Setup) -> f64 {
        match self {
            Self::Closed { .. } => setup.answers_per_second,
            Self::Open { per_second, .. } => per_second,
        }
    }

    fn swarm(
        self,
        request: Option<&[u8]>,
        server: &MeasuredServer,
        core: usize,
    ) -> anyhow::Result<Option<SlowSwarm>> {
        let Self::Open { slow_connections: connections @ 1.., .. } = self else { return Ok(None) };
        let options = SlowOptions {
            address: server.api.address,
            connections,
            request: request.unwrap_or_default().to_vec(),
            core: Some(core),
            max_opened: connections as u64 * 20,
        };
        SlowSwarm::start(options).map(Some)
    }

    fn name(self) -> String {
        match self {
            Self::Closed { connections } => format!("{connections} connections, closed loop"),
            Self::Open { per_second, slow_connections: 0 } => format!("{per_second:.0} requests/s"),
            Self::Open { per_second, slow_connections } => {
                format!("{per_second:.0} requests/s and {slow_connections} slow connections")
            }
        }
    }
}

impl OverloadRun {
    fn of(outcome: &LoadOutcome<TapeReader>, peak_growth_bytes: u64, slow: SlowTally) -> Self {
        let (measured, arrivals) = (&outcome.measured, outcome.measured_arrivals);
        let share = |count: u64, of: u64| count as f64 / of.max(1) as f64;
        // In a closed loop nothing is due before it is sent.
        let sent = if arrivals.due == 0 { measured.answers } else { arrivals.sent };
        Self {
            accepted_per_second: outcome.per_second(201),
            offered_per_second: outcome.rate(arrivals.due.max(sent)),
            sent_per_second: outcome.rate(sent),
            accepted_p50: measured.accepted_latency.quantile(0.5),
            accepted_p99: measured.accepted_latency.quantile(0.99),
            accepted_service_p99: measured.accepted_service.quantile(0.99),
            busy_p99: measured.refused_latency.quantile(0.99),
            busy_service_p99: measured.refused_service.quantile(0.99),
            late_share: share(arrivals.late, sent),
            not_sent_share: share(arrivals.not_sent, arrivals.due),
            peak_growth_bytes,
            losses: outcome.total.losses,
            slow,
        }
    }

    fn line(&self) -> String {
        format!(
            "{:.0} orders/s of {:.0} sent, p99 {:.1} ms, busy p99 {:.1} ms, not sent {:.1} %, {} MiB more; audit ok",
            self.accepted_per_second,
            self.sent_per_second,
            milliseconds(self.accepted_p99),
            milliseconds(self.busy_p99),
            self.not_sent_share * 100.0,
            self.peak_growth_bytes >> 20,
        )
    }
}

/// The median of each value over the rounds, and the losses of all of them.
fn summary(runs: &[OverloadRun]) -> Value {
    let value = |of: fn(&OverloadRun) -> f64| thousandth(middle(runs, of));
    let mut summary = json!({
        "accepted_per_second": value(|run| run.accepted_per_second).round(),
        "offered_per_second": value(|run| run.offered_per_second).round(),
        "sent_per_second": value(|run| run.sent_per_second).round(),
        "accepted_p50_ms": value(|run| milliseconds(run.accepted_p50)),
        "accepted_p99_ms": value(|run| milliseconds(run.accepted_p99)),
        "accepted_p99_ms_since_sent": value(|run| milliseconds(run.accepted_service_p99)),
        "busy_p99_ms": value(|run| milliseconds(run.busy_p99)),
        "busy_p99_ms_since_sent": value(|run| milliseconds(run.busy_service_p99)),
        "late_share": value(|run| run.late_share),
        "not_sent_share": value(|run| run.not_sent_share),
        "peak_growth_mib": value(|run| run.peak_growth_bytes as f64 / 1_048_576.0).round(),
        "resets": runs.iter().map(|run| run.losses.resets).sum::<u64>(),
        "closed": runs.iter().map(|run| run.losses.closed).sum::<u64>(),
        "answers_missing": runs.iter().map(|run| run.losses.missing).sum::<u64>(),
    });
    if let (Some(last), Some(fields)) =
        (runs.last().filter(|run| run.slow.opened > 0), summary.as_object_mut())
    {
        let SlowTally { opened, open, bytes_sent, answered, closed, resets, failed } = last.slow;
        let slow = json!({
            "opened": opened, "open_at_the_end": open, "bytes_sent": bytes_sent, "answered": answered,
            "closed": closed, "resets": resets, "failed": failed,
        });
        fields.insert("slow_connections".to_owned(), slow);
    }
    summary
}

fn middle(runs: &[OverloadRun], of: impl Fn(&OverloadRun) -> f64) -> f64 {
    median(&runs.iter().map(of).collect::<Vec<_>>())
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
