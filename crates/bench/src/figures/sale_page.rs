//! `sale_page_cpu_us`: server CPU for one look at a sale, against nginx sending a constant of the same size,
//! on the same core with the same requests.

use anyhow::Context;

use crate::{
    bench::Bench,
    cpu::{CONNECTIONS, Contender, Repeated, in_turn},
    host,
    numbers::{hundredth, hundredths},
    peers::nginx::{ConstantAnswer, PeerNginx, answer_size},
    places::Apart,
    report::BenchFigure,
    server::MeasuredServer,
};

const UNITS: u32 = 1_000;
const TARGET_RATIO: f64 = 1.2;

pub(super) fn measure(bench: &mut Bench<'_>) -> anyhow::Result<BenchFigure> {
    let rounds = bench.options.rounds(5);
    let apart = Apart::look(&bench.options.folder)?;
    let server = MeasuredServer::start(bench, Some(apart.server), &[])?;
    let path = format!("/api/v1/sales/{}", server.api.open_sale(UNITS)?);
    let page = request(&server, &path, "");
    let again = request(&server, &path, &format!("If-None-Match: {}\r\n", tag(&server, &path)?));
    let total_bytes = answer_size(server.api.address, &page)?;
    let constant = ConstantAnswer { status: 200, content_type: "application/json", total_bytes };
    let nginx = PeerNginx::start(&bench.fresh_folder("nginx")?, apart.server, &page, constant)?;
    bench.say(&format!("both answer {total_bytes} bytes, head included"));

    let (page, again) = (Repeated(page), Repeated(again));
    let (look, look_again) = (|| page.clone(), || again.clone());
    let (our_cpu, their_cpu) = (|| server.cpu_seconds(), || host::cpu_seconds(nginx.worker));
    let ours = Contender {
        name: "penstock, the page      ",
        address: server.api.address,
        script: &look,
        cpu: &our_cpu,
        status: 200,
    };
    let unchanged = Contender { name: "penstock, if it changed ", script: &look_again, status: 304, ..ours };
    let theirs =
        Contender { name: "nginx                   ", address: nginx.address, cpu: &their_cpu, ..ours };
    let [ours, theirs, unchanged] = in_turn(bench, apart, rounds, [ours, theirs, unchanged])?;
    server.stop()?;
    Ok(BenchFigure::of(&ours.cpu_us(), "µs/answer")
        .against("nginx_constant_cpu_us", theirs.median_cpu_us())
        .at_most(TARGET_RATIO)
        .detail("answer_bytes", total_bytes)
        .detail("connections", CONNECTIONS)
        .detail("answers_per_second", ours.answers_per_second())
        .detail("nginx_answers_per_second", theirs.answers_per_second())
        .detail("not_modified_cpu_us", hundredth(unchanged.median_cpu_us()))
        .detail("not_modified_answers_per_second", unchanged.answers_per_second())
        .detail("rounds", hundredths(&ours.cpu_us()))
        .detail("nginx_rounds", hundredths(&theirs.cpu_us()))
        .detail("not_modified_rounds", hundredths(&unchanged.cpu_us())))
}

/// The request of a browser whose user is not signed in.
fn request(server: &MeasuredServer, path: &str, further: &str) -> Vec<u8> {
    let host = server.api.address;
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\n\
         User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n{further}\r\n"
    )
    .into_bytes()
}

/// The page's `ETag`.
fn tag(server: &MeasuredServer, path: &str) -> anyhow::Result<String> {
    let answer = ureq::get(format!("http://{}{path}", server.api.address)).call().context("no sale page")?;
    let tag = answer.headers().get("etag").context("a sale page without an ETag")?;
    Ok(tag.to_str().context("an ETag that is not text")?.to_owned())
}
