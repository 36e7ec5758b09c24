//! `sold_out_cpu_us`: server CPU for one "sold out", against nginx sending a constant of the same size, on
//! the same core with the same requests.

use anyhow::{Context, ensure};

use crate::{
    bench::Bench,
    cpu::{CONNECTIONS, Contender, in_turn},
    host,
    load::{self, LoadOptions},
    numbers::hundredths,
    peers::nginx::{ConstantAnswer, PeerNginx, answer_size},
    places::Apart,
    report::BenchFigure,
    server::{MeasuredServer, ensure_only},
};

/// Distinct buyers. A run goes through them again and again.
const BUYERS: usize = 100_000;
const TARGET_RATIO: f64 = 1.0;

pub(super) fn measure(bench: &mut Bench<'_>) -> anyhow::Result<BenchFigure> {
    let rounds = bench.options.rounds(5);
    let apart = Apart::look(&bench.options.folder)?;
    let server = MeasuredServer::start(bench, Some(apart.server), &[])?;
    let sale = sell_out(&server)?;
    let tape = server.orders(&sale, 1, BUYERS)?;
    let request = tape.request(0).context("an empty tape")?;
    let total_bytes = answer_size(server.api.address, request)?;
    let constant = ConstantAnswer { status: 409, content_type: "application/problem+json", total_bytes };
    let nginx = PeerNginx::start(&bench.fresh_folder("nginx")?, apart.server, request, constant)?;
    bench.say(&format!("both answer {total_bytes} bytes, head included"));

    let script = || tape.endless();
    let contenders = [
        Contender {
            name: "penstock",
            address: server.api.address,
            script: &script,
            cpu: &|| server.cpu_seconds(),
            status: 409,
        },
        Contender {
            name: "nginx   ",
            address: nginx.address,
            script: &script,
            cpu: &|| host::cpu_seconds(nginx.worker),
            status: 409,
        },
    ];
    let [ours, theirs] = in_turn(bench, apart, rounds, contenders)?;
    server.verify(&sale, 1, 1)?;
    server.stop()?;
    Ok(BenchFigure::of(&ours.cpu_us(), "µs/answer")
        .against("nginx_constant_cpu_us", theirs.median_cpu_us())
        .at_most(TARGET_RATIO)
        .detail("answer_bytes", total_bytes)
        .detail("connections", CONNECTIONS)
        .detail("answers_per_second", ours.answers_per_second())
        .detail("nginx_answers_per_second", theirs.answers_per_second())
        .detail("rounds", hundredths(&ours.cpu_us()))
        .detail("nginx_rounds", hundredths(&theirs.cpu_us())))
}

/// A sale of one unit, which buyer 0 has bought.
pub(super) fn sell_out(server: &MeasuredServer) -> anyhow::Result<String> {
    let sale = server.api.open_sale(1)?;
    let only = server.orders(&sale, 0, 1)?;
    let outcome = load::run(&LoadOptions::new(server.api.address, 1), only.once())?;
    ensure_only(&outcome, 201)?;
    let state = server.api.sale_state(&sale)?;
    ensure!(state == "sold_out", "the sale is {state} after its only unit was sold");
    Ok(sale)
}
