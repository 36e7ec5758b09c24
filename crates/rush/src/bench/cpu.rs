//! Server CPU for one answer: the server has a core to itself, and the generator another.

use std::{net::SocketAddr, time::Duration};

use super::{Bench, median, places::Apart, server::ensure_only};
use crate::{
    host,
    load::{self, Options, Outcome, Script},
};

pub(super) const CONNECTIONS: usize = 64;
const WARM_UP: Duration = Duration::from_secs(1);
/// CPU time is steadier than rates, and many short rounds say more than a few long ones.
const MAX_MEASURED: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) cpu_us: f64,
    pub(super) per_second: f64,
}

/// One closed-loop run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'a> {
    pub(super) name: &'a str,
    pub(super) address: SocketAddr,
    /// The generator's core.
    pub(super) core: usize,
    pub(super) warm_up: Duration,
    pub(super) measured: Duration,
}

impl Run<'_> {
    /// `script` never runs out of requests; `cpu` returns how much the server has used so far. Also returns a
    /// line about the run.
    pub(super) fn measure<S: Script>(
        &self,
        script: S,
        cpu: &dyn Fn() -> anyhow::Result<f64>,
    ) -> anyhow::Result<(Cost, Outcome<S>, String)> {
        let mut options = Options::new(self.address, CONNECTIONS);
        (options.warm_up, options.measured) = (self.warm_up, self.measured);
        options.cores = vec![self.core];
        let generator = std::process::id();
        let mut readings = Vec::new();
        let outcome = load::run(&options, vec![script], |_| {
            readings.push(cpu().and_then(|server| Ok((server, host::cpu_seconds(generator)?))));
        })?;
        let readings = readings.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        let [(server_before, generator_before), (server_after, generator_after)] = readings[..] else {
            anyhow::bail!("a run has a beginning and an end");
        };
        let answers = outcome.measured.answers as f64;
        let cost = Cost {
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
pub(super) struct Contender<'a, S> {
    pub(super) name: &'a str,
    pub(super) address: SocketAddr,
    /// Endless requests, new for each round.
    pub(super) script: &'a dyn Fn() -> S,
    /// CPU seconds used so far.
    pub(super) cpu: &'a dyn Fn() -> anyhow::Result<f64>,
    /// The status of all its answers.
    pub(super) status: u16,
}

/// The contenders take turns, `rounds` times.
pub(super) fn in_turn<S: Script, const CONTENDERS: usize>(
    bench: &mut Bench<'_>,
    apart: Apart,
    rounds: usize,
    contenders: [Contender<'_, S>; CONTENDERS],
) -> anyhow::Result<[Costs; CONTENDERS]> {
    let measured = bench.options.measured().min(MAX_MEASURED);
    let mut costs = [const { Costs(Vec::new()) }; CONTENDERS];
    for _ in 0..rounds {
        for (contender, costs) in contenders.iter().zip(&mut costs) {
            let Contender { name, address, script, cpu, status } = *contender;
            let run = Run { name, address, core: apart.generator, warm_up: WARM_UP, measured };
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
pub(super) struct Repeated(pub(super) Vec<u8>);

impl Script for Repeated {
    fn next_request(&mut self) -> Option<(u64, &[u8])> {
        Some((0, &self.0))
    }
}

/// The results of one server, by round.
#[derive(Clone, Debug)]
pub(super) struct Costs(Vec<Cost>);

impl Costs {
    pub(super) fn cpu_us(&self) -> Vec<f64> {
        self.0.iter().map(|cost| cost.cpu_us).collect()
    }

    pub(super) fn median_cpu_us(&self) -> f64 {
        median(&self.cpu_us())
    }

    pub(super) fn answers_per_second(&self) -> f64 {
        median(&self.0.iter().map(|cost| cost.per_second).collect::<Vec<_>>()).round()
    }
}

pub(super) fn hundredth(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

pub(super) fn hundredths(values: &[f64]) -> Vec<f64> {
    values.iter().copied().map(hundredth).collect()
}
