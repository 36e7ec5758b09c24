//! Server CPU for one answer: the server has a core to itself, and the generator another.

use std::{net::SocketAddr, time::Duration};

use anyhow::ensure;

use crate::{
    bench::Bench,
    host,
    load::{self, LoadOptions, LoadOutcome, LoadScript},
    numbers::{mean, median},
    places::Apart,
    server::{MeasuredServer, ensure_only},
};

pub(crate) const CONNECTIONS: usize = 64;
/// While orders are accepted, which takes a sync: enough for large batches.
pub(crate) const ORDER_CONNECTIONS: usize = 256;
const WARM_UP: Duration = Duration::from_secs(1);
/// CPU time is steadier than rates, and many short rounds say more than a few long ones.
const MAX_MEASURED: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerCost {
    pub(crate) cpu_us: f64,
    pub(crate) per_second: f64,
}

/// One closed-loop run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuRun<'a> {
    pub(crate) name: &'a str,
    pub(crate) address: SocketAddr,
    /// The generator's core.
    pub(crate) core: usize,
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

impl CpuRun<'_> {
    /// `script` never runs out of requests; `cpu` returns how much the server has used so far. Also returns a
    /// line about the run.
    pub(crate) fn measure<S: LoadScript>(
        &self,
        script: S,
        cpu: &dyn Fn() -> anyhow::Result<f64>,
    ) -> anyhow::Result<(AnswerCost, LoadOutcome<S>, String)> {
        let mut options = LoadOptions::new(self.address, CONNECTIONS);
        (options.warm_up, options.measured) = (self.warm_up, self.measured);
        options.core = Some(self.core);
        let generator = std::process::id();
        let mut readings = Vec::new();
        let outcome = load::run_watched(&options, script, |_| {
            readings.push(cpu().and_then(|server| Ok((server, host::cpu_seconds(generator)?))));
        })?;
        let readings = readings.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        let [(server_before, generator_before), (server_after, generator_after)] = readings[..] else {
            anyhow::bail!("a run has a beginning and an end");
        };
        let answers = outcome.measured.answers as f64;
        let cost = AnswerCost {
            cpu_us: (server_after - server_before) * 1e6 / answers,
            per_second: outcome.rate(outcome.measured.answers),
        };
        let line = format!(
            "{}: {:.2} µs of CPU an answer at {:.0} answers/s; the generator takes {:.2} µs",
            self.name,
            cost.cpu_us,
            cost.per_second,
            (generator_after - generator_before) * 1e6 / answers,
        );
        Ok((cost, outcome, line))
    }
}

/// One side of a comparison, and what it answers.
pub(crate) struct Contender<'a, S> {
    pub(crate) name: &'a str,
    pub(crate) address: SocketAddr,
    /// Endless requests, new for each round.
    pub(crate) script: &'a dyn Fn() -> S,
    /// CPU seconds used so far.
    pub(crate) cpu: &'a dyn Fn() -> anyhow::Result<f64>,
    /// The status of all its answers.
    pub(crate) status: u16,
}

/// The contenders take turns, `rounds` times.
pub(crate) fn in_turn<S: LoadScript, const CONTENDERS: usize>(
    bench: &mut Bench<'_>,
    apart: Apart,
    rounds: usize,
    contenders: [Contender<'_, S>; CONTENDERS],
) -> anyhow::Result<[AnswerCosts; CONTENDERS]> {
    let measured = bench.options.measured().min(MAX_MEASURED);
    let mut costs = [const { AnswerCosts(Vec::new()) }; CONTENDERS];
    for _ in 0..rounds {
        for (contender, costs) in contenders.iter().zip(&mut costs) {
            let Contender { name, address, script, cpu, status } = *contender;
            let run = CpuRun { name, address, core: apart.generator, warm_up: WARM_UP, measured };
            costs.0.push(bench.undisturbed(apart.places(), |_| {
                let (cost, outcome, line) = run.measure(script(), cpu)?;
                ensure_only(&outcome, status)?;
                Ok((cost, line))
            })?);
        }
    }
    Ok(costs)
}

/// The same request again and again.
#[derive(Clone, Debug)]
pub(crate) struct Repeated(pub(crate) Vec<u8>);

impl LoadScript for Repeated {
    fn next_request(&mut self) -> Option<(u64, &[u8])> {
        Some((0, &self.0))
    }
}

/// The results of one server, by round.
#[derive(Clone, Debug)]
pub(crate) struct AnswerCosts(Vec<AnswerCost>);

impl AnswerCosts {
    pub(crate) fn cpu_us(&self) -> Vec<f64> {
        self.0.iter().map(|cost| cost.cpu_us).collect()
    }

    pub(crate) fn median_cpu_us(&self) -> f64 {
        median(&self.cpu_us())
    }

    pub(crate) fn answers_per_second(&self) -> f64 {
        median(&self.0.iter().map(|cost| cost.per_second).collect::<Vec<_>>()).round()
    }
}

/// Server CPU in microseconds for one of `orders` orders, all of which are accepted.
pub(crate) fn order_cpu_us<S: LoadScript>(
    server: &MeasuredServer,
    script: S,
    orders: usize,
    generator: usize,
) -> anyhow::Result<f64> {
    let core = Some(generator);
    let options = LoadOptions { core, ..LoadOptions::new(server.api.address, ORDER_CONNECTIONS) };
    let before_seconds = server.cpu_seconds()?;
    let outcome = load::run(&options, script)?;
    let cpu_seconds = server.cpu_seconds()? - before_seconds;
    ensure_only(&outcome, 201)?;
    ensure!(
        outcome.total.answers == orders as u64,
        "{} of {orders} orders were answered",
        outcome.total.answers
    );
    Ok(cpu_seconds * 1e6 / orders as f64)
}

/// The contenders take turns of less than a second, because a machine's speed changes from one second to the
/// next. Returns the mean of each.
pub(crate) fn by_turns<const CONTENDERS: usize>(
    turns: usize,
    mut turn: impl FnMut(usize) -> anyhow::Result<f64>,
) -> anyhow::Result<[f64; CONTENDERS]> {
    let mut costs = [const { Vec::new() }; CONTENDERS];
    for _ in 0..turns {
        for (contender, costs) in costs.iter_mut().enumerate() {
            costs.push(turn(contender)?);
        }
    }
    Ok(costs.map(|costs| mean(&costs)))
}
