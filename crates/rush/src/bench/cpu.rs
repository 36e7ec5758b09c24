//! Server CPU for one answer: the server has a core for itself, the generator another.

use std::{net::SocketAddr, time::Duration};

use crate::{
    host,
    load::{self, Options, Outcome, Tape, TapeReader},
};

pub(super) const CONNECTIONS: usize = 64;

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
    /// Read again and again.
    pub(super) tape: &'a Tape,
    /// The generator's.
    pub(super) core: usize,
    pub(super) warm_up: Duration,
    pub(super) measured: Duration,
}

impl Run<'_> {
    /// `cpu` tells how much the server has used so far. Also gives a line that says how it went.
    pub(super) fn measure(
        &self,
        cpu: &dyn Fn() -> anyhow::Result<f64>,
    ) -> anyhow::Result<(Cost, Outcome<TapeReader>, String)> {
        let mut options = Options::new(self.address, CONNECTIONS);
        (options.warm_up, options.measured) = (self.warm_up, self.measured);
        options.cores = vec![self.core];
        let generator = std::process::id();
        let mut readings = Vec::new();
        let outcome = load::run(&options, self.tape.readers(1, true), |_| {
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

pub(super) fn hundredths(values: &[f64]) -> Vec<f64> {
    values.iter().map(|value| (value * 100.0).round() / 100.0).collect()
}
