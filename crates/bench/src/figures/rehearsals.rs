//! `thirty_thousand_seconds` and `ten_million_requests_per_second`: rehearsals with `penstock rush`, as a
//! user would run them, against a Penstock with default settings on an empty data folder.

use std::process::Stdio;

use anyhow::Context;
use penstock_rush::report::{Quantiles, RehearsalReport};

use crate::{
    bench::Bench,
    numbers::{hundredth, hundredths, median},
    places::Places,
    report::BenchFigure,
    server::MeasuredServer,
};

const THIRTY_THOUSAND: &str = "thirty-thousand-for-two-hundred";
const QUICK_THOUSANDS: u64 = 3_000;
const LIMIT_SECONDS: f64 = 1.0;
const P99_LIMIT_MS: f64 = 250.0;
const TEN_MILLION: &str = "ten-million";
const QUICK_MILLION: u64 = 1_000_000;
const GOAL_PER_SECOND: f64 = 100_000.0;
/// Connections and 10,000 orders take some memory; ten million refusals must take none.
const MAX_GROWTH_MIB: f64 = 64.0;
/// The defaults of a user.
const PLACES: Places = Places::ANYWHERE;

/// The report of a rehearsal, and the memory it took from the server.
struct Rehearsal {
    report: RehearsalReport,
    /// The most that the server grew during the run.
    growth_bytes: u64,
}

pub(super) fn thirty_thousand(bench: &mut Bench<'_>) -> anyhow::Result<BenchFigure> {
    let rounds = bench.options.rounds(3);
    let mut rehearsals = Vec::new();
    for _ in 0..rounds {
        rehearsals.push(rehearse(bench, THIRTY_THOUSAND, QUICK_THOUSANDS)?);
    }
    let seconds = rehearsals.iter().map(Rehearsal::over_after_seconds).collect::<anyhow::Result<Vec<_>>>()?;
    let all = |of: fn(&Rehearsal) -> f64| rehearsals.iter().map(of).collect::<Vec<_>>();
    let p99_ms = median(&all(|rehearsal| rehearsal.order_latency().p99_ms));
    let figure = BenchFigure::of(&seconds, "s")
        .limit(LIMIT_SECONDS)
        .only_if(p99_ms < P99_LIMIT_MS, "p99 of orders under 250 ms")
        .only_if(rehearsals.iter().all(Rehearsal::is_clean), "a clean verdict")
        .detail("p99_ms", hundredth(p99_ms))
        .detail("p50_ms", hundredth(median(&all(|rehearsal| rehearsal.order_latency().p50_ms))))
        .detail("max_ms", hundredth(median(&all(|rehearsal| rehearsal.order_latency().max_ms))))
        .detail("p99_rounds", hundredths(&all(|rehearsal| rehearsal.order_latency().p99_ms)))
        .detail("buyers", median(&all(|rehearsal| rehearsal.report.people.buyers as f64)))
        .detail("connections", median(&all(|rehearsal| rehearsal.report.generator.connections as f64)))
        .detail("units", median(&all(|rehearsal| rehearsal.report.units as f64)))
        .detail("server_growth_mib", median(&all(Rehearsal::growth_mib)))
        .detail("rounds", hundredths(&seconds));
    Ok(with_remarks(figure, &rehearsals))
}

pub(super) fn ten_million(bench: &mut Bench<'_>) -> anyhow::Result<BenchFigure> {
    let rehearsals = [rehearse(bench, TEN_MILLION, QUICK_MILLION)?];
    let all = |of: fn(&Rehearsal) -> f64| rehearsals.iter().map(of).collect::<Vec<_>>();
    let per_second = all(|rehearsal| rehearsal.report.order_requests_per_second);
    let growth_mib = median(&all(Rehearsal::growth_mib));
    let figure = BenchFigure::of(&per_second, "requests/s")
        .goal(GOAL_PER_SECOND)
        .only_if(rehearsals.iter().all(Rehearsal::is_clean), "a clean verdict")
        .only_if(growth_mib < MAX_GROWTH_MIB, "memory flat, under 64 MiB more")
        .detail("requests", median(&all(|rehearsal| rehearsal.report.order_requests as f64)))
        .detail("accepted", median(&all(|rehearsal| rehearsal.report.orders.accepted as f64)))
        .detail("p50_ms", hundredth(median(&all(|rehearsal| rehearsal.order_latency().p50_ms))))
        .detail("p99_ms", hundredth(median(&all(|rehearsal| rehearsal.order_latency().p99_ms))))
        .detail("server_growth_mib", growth_mib);
    Ok(with_remarks(figure, &rehearsals))
}

/// Adds the remarks of the rehearsals that qualify the figure.
fn with_remarks(figure: BenchFigure, rehearsals: &[Rehearsal]) -> BenchFigure {
    let findings: Vec<_> =
        rehearsals.iter().flat_map(|rehearsal| &rehearsal.report.verdict.findings).cloned().collect();
    let bottlenecks: Vec<_> =
        rehearsals.iter().filter_map(|rehearsal| rehearsal.report.generator.bottleneck.clone()).collect();
    figure.detail("findings", findings).detail("generator_bottlenecks", bottlenecks)
}

/// Rehearses a built-in scenario, with fewer buyers in a quick bench.
fn rehearse(bench: &mut Bench<'_>, scenario: &str, quick_buyers: u64) -> anyhow::Result<Rehearsal> {
    bench.undisturbed(PLACES, |bench| {
        let server = MeasuredServer::start(bench, PLACES.server, &[])?;
        let before_bytes = server.resident_bytes()?;
        let mut command = penstock_local::command(&bench.options.server, PLACES.generator);
        command.args(["rush", "--json", "--scenario", scenario]);
        command.arg("--url").arg(format!("http://{}", server.api.address));
        if bench.options.quick {
            command.arg("--buyers").arg(quick_buyers.to_string());
        }
        let output = command.envs(MeasuredServer::SECRETS).stdin(Stdio::null()).output();
        let output = output.with_context(|| format!("cannot run {command:?}"))?;
        // It exits with a failure when its verdict is not clean; the report is there all the same.
        let report = serde_json::from_slice(&output.stdout).with_context(|| {
            format!("{command:?}: {}, no report\n{}", output.status, String::from_utf8_lossy(&output.stderr))
        })?;
        let growth_bytes = server.peak_resident_bytes()?.saturating_sub(before_bytes);
        server.stop()?;
        let rehearsal = Rehearsal { report, growth_bytes };
        let line = rehearsal.line();
        Ok((rehearsal, line))
    })
}

impl Rehearsal {
    /// From the opening until nothing is left and everybody has an answer.
    fn over_after_seconds(&self) -> anyhow::Result<f64> {
        let opening = &self.report.opening;
        let gone = opening.stock_gone_after_seconds.context("units were left at the end of the rehearsal")?;
        let answered = opening.everybody_answered_after_seconds.context("somebody was never answered")?;
        Ok(gone.max(answered))
    }

    fn order_latency(&self) -> Quantiles {
        self.report.latency.get("order").copied().unwrap_or_default()
    }

    /// An unknown audit is not clean here: the audit can be run.
    fn is_clean(&self) -> bool {
        self.report.verdict.is_clean() && self.report.verdict.audit == Some(true)
    }

    fn growth_mib(&self) -> f64 {
        (self.growth_bytes as f64 / 1_048_576.0).round()
    }

    fn line(&self) -> String {
        let latency = self.order_latency();
        format!(
            "{} buyers on {} connections for {} units: {:.0} order requests/s, p50 {:.1} ms, p99 {:.1} ms, {} MiB more; verdict {}",
            self.report.people.buyers,
            self.report.generator.connections,
            self.report.units,
            self.report.order_requests_per_second,
            latency.p50_ms,
            latency.p99_ms,
            self.growth_mib(),
            if self.is_clean() { "clean" } else { "NOT clean" },
        )
    }
}
