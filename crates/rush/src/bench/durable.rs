//! `durable_orders_per_second`: accepted orders over HTTP, each by another buyer and each answered after a sync,
//! against MariaDB selling from a hot row.

use std::time::Duration;

use serde_json::json;

use super::{
    Bench, Figure, Report, median,
    server::{Server, ensure_only},
};
use crate::{
    load::{self, Options},
    peers::mariadb::{Form, MariaDb},
};

const CONNECTIONS: [usize; 3] = [64, 256, 1024];
/// More than any run can sell.
const UNITS: u32 = 50_000_000;
/// How many orders a second a tape has to last for, before there is a measurement to go by.
const FIRST_GUESS_PER_SECOND: f64 = 150_000.0;
const TARGET_RATIO: f64 = 10.0;

#[derive(Clone, Debug)]
struct Run {
    connections: usize,
    per_second: f64,
    p50: Duration,
    p99: Duration,
}

pub(super) fn measure(bench: &mut Bench<'_>, report: &mut Report) -> anyhow::Result<()> {
    let rounds = if bench.options.quick { 1 } else { 3 };
    let (warm_up, measured) = (bench.options.warm_up(), bench.options.measured());
    bench.say("durable_orders_per_second: looking for the best number of connections");
    let mut guess = FIRST_GUESS_PER_SECOND;
    let mut best: Option<Run> = None;
    let mut tried = Vec::new();
    for connections in CONNECTIONS {
        let run = sell(bench, connections, warm_up, measured, guess)?;
        guess = guess.min(run.per_second * 2.0).max(run.per_second * 1.5);
        tried.push(json!({"connections": connections, "per_second": run.per_second.round()}));
        if best.as_ref().is_none_or(|best| run.per_second > best.per_second) {
            best = Some(run);
        }
    }
    let connections = best.map_or(CONNECTIONS[0], |best| best.connections);

    bench.say(&format!(
        "durable_orders_per_second: {connections} connections against MariaDB with 16 clients"
    ));
    let mariadb = MariaDb::install(&bench.fresh_folder("mariadb")?)?;
    let (mut ours, mut theirs, mut from_client) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours.push(sell(bench, connections, warm_up, measured, guess)?);
        theirs.push(hot_row(bench, &mariadb, Form::Procedure)?);
        from_client.push(hot_row(bench, &mariadb, Form::Statements)?);
    }
    let value = median(&ours.iter().map(|run| run.per_second).collect::<Vec<_>>());
    let steal = bench.take_steal();
    let Some(middle) = ours.iter().find(|run| run.per_second == value) else { return Ok(()) };
    let figure = Figure::new(value, "orders/s")
        .against("mariadb_hot_row_per_second", median(&theirs))
        .at_least(TARGET_RATIO)
        .detail("connections", connections)
        .detail("p50_ms", milliseconds(middle.p50))
        .detail("p99_ms", milliseconds(middle.p99))
        .detail("rounds", rounded(ours.iter().map(|run| run.per_second)))
        .detail("mariadb_rounds", rounded(theirs.iter().copied()))
        .detail("mariadb_transaction_sent_from_client_per_second", median(&from_client).round())
        .detail("tried", tried)
        .detail("steal_percent", (steal * 10.0).round() / 10.0);
    report.add("durable_orders_per_second", figure);
    Ok(())
}

/// One run on an empty data folder, its outcome checked afterwards.
fn sell(
    bench: &mut Bench<'_>,
    connections: usize,
    warm_up: Duration,
    measured: Duration,
    guess_per_second: f64,
) -> anyhow::Result<Run> {
    bench.undisturbed(|bench| {
        let data = bench.fresh_folder("penstock")?;
        let server = Server::start(&bench.options.server, &data, None)?;
        let sale = server.api.open_sale(UNITS)?;
        let seconds = (warm_up + measured).as_secs_f64();
        let tape = server.orders(&sale, 0, (guess_per_second * seconds) as usize + connections)?;
        let mut options = Options::new(server.api.address, connections);
        (options.warm_up, options.measured) = (warm_up, measured);
        let outcome = load::run(&options, tape.readers(1, false), |_| {})?;
        ensure_only(&outcome, 201)?;
        server.verify(&sale, UNITS.into(), outcome.total.status(201))?;
        server.stop()?;
        let latency = outcome.measured.latency();
        let run = Run {
            connections,
            per_second: outcome.per_second(201),
            p50: latency.quantile(0.5),
            p99: latency.quantile(0.99),
        };
        let line = format!(
            "penstock, {connections} connections: {:.0} orders/s, p50 {:.2} ms, p99 {:.2} ms; {} orders, audit ok",
            run.per_second,
            run.p50.as_secs_f64() * 1e3,
            run.p99.as_secs_f64() * 1e3,
            outcome.total.status(201),
        );
        Ok((run, line))
    })
}

fn hot_row(bench: &mut Bench<'_>, mariadb: &MariaDb, form: Form) -> anyhow::Result<f64> {
    bench.undisturbed(|bench| {
        let hot_row = mariadb.hot_row(form, bench.options.warm_up(), bench.options.measured())?;
        let name = match form {
            Form::Procedure => "one call",
            Form::Statements => "sent statement by statement",
        };
        let (rate, p50) = (hot_row.orders_per_second, hot_row.p50.as_secs_f64() * 1e3);
        Ok((rate, format!("mariadb, the transaction {name}: {rate:.0} orders/s, p50 {p50:.2} ms")))
    })
}

fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e5).round() / 100.0
}

fn rounded(values: impl Iterator<Item = f64>) -> Vec<f64> {
    values.map(f64::round).collect()
}
