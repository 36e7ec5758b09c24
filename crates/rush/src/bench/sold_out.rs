//! `sold_out_cpu_us`: server CPU for one "sold out", against nginx's for a constant of the same size on the same
//! core and the same requests.

use anyhow::{Context, ensure};

use super::{
    Bench, Figure, Report,
    cpu::{CONNECTIONS, Cost, Run, hundredths},
    median,
    server::{Server, ensure_only, two_cores},
};
use crate::{
    host,
    load::{self, Options},
    peers::nginx::{Nginx, answer_size},
};

/// Distinct buyers; a run goes through them again and again.
const BUYERS: usize = 100_000;
const TARGET_RATIO: f64 = 1.0;

pub(super) fn measure(bench: &mut Bench<'_>, report: &mut Report) -> anyhow::Result<()> {
    let rounds = if bench.options.quick { 3 } else { 5 };
    let (server_core, generator_core) = two_cores()?;
    bench.say(&format!("sold_out_cpu_us: servers on core {server_core}, generator on core {generator_core}"));
    let data = bench.fresh_folder("penstock")?;
    let server = Server::start(&bench.options.server, &data, Some(server_core))?;
    let sale = sell_out(&server)?;
    let tape = server.orders(&sale, 1, BUYERS)?;
    let request = tape.request(0).context("an empty tape")?;
    let answer_bytes = answer_size(server.api.address, request)?;
    let nginx = Nginx::start(&bench.fresh_folder("nginx")?, server_core, request, answer_bytes)?;
    bench.say(&format!("  both answer {answer_bytes} bytes, head included"));

    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let run = |bench: &mut Bench<'_>, name, address, cpu: &dyn Fn() -> anyhow::Result<f64>| {
            let (warm_up, measured) = (bench.options.warm_up(), bench.options.measured());
            let run = Run { name, address, tape: &tape, core: generator_core, warm_up, measured };
            bench.undisturbed(|_| {
                let (cost, outcome, line) = run.measure(cpu)?;
                ensure_only(&outcome, 409)?;
                Ok((cost, line))
            })
        };
        ours.push(run(bench, "penstock", server.api.address, &|| server.cpu_seconds())?);
        theirs.push(run(bench, "nginx   ", nginx.address, &|| host::cpu_seconds(nginx.worker))?);
    }
    server.verify(&sale, 1, 1)?;
    server.stop()?;
    let per_second =
        |costs: &[Cost]| median(&costs.iter().map(|cost| cost.per_second).collect::<Vec<_>>()).round();
    let cpu_us = |costs: &[Cost]| costs.iter().map(|cost| cost.cpu_us).collect::<Vec<_>>();
    let figure = Figure::new(median(&cpu_us(&ours)), "µs/answer")
        .against("nginx_constant_cpu_us", median(&cpu_us(&theirs)))
        .at_most(TARGET_RATIO)
        .detail("answer_bytes", answer_bytes)
        .detail("connections", CONNECTIONS)
        .detail("answers_per_second", per_second(&ours))
        .detail("nginx_answers_per_second", per_second(&theirs))
        .detail("rounds", hundredths(&cpu_us(&ours)))
        .detail("nginx_rounds", hundredths(&cpu_us(&theirs)))
        .detail("steal_percent", (bench.take_steal() * 10.0).round() / 10.0);
    report.add("sold_out_cpu_us", figure);
    Ok(())
}

/// A sale of one unit, which buyer 0 has bought.
pub(super) fn sell_out(server: &Server) -> anyhow::Result<String> {
    let sale = server.api.open_sale(1)?;
    let only = server.orders(&sale, 0, 1)?;
    let outcome = load::run(&Options::new(server.api.address, 1), only.readers(1, false), |_| {})?;
    ensure_only(&outcome, 201)?;
    let state = server.api.sale_state(&sale)?;
    ensure!(state == "sold_out", "the sale is {state} after its only unit was sold");
    Ok(sale)
}
