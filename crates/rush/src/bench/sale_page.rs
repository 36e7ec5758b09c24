//! `sale_page_cpu_us`: server CPU for one look at a sale, against nginx sending a constant of the same size,
//! on the same core with the same requests.

use anyhow::Context;

use super::{
    Bench, Figure, Report,
    cpu::{CONNECTIONS, Contender, Repeated, hundredth, hundredths, in_turn},
    places::Apart,
    server::Server,
};
use crate::{
    host,
    peers::nginx::{Constant, Nginx, answer_size},
};

const UNITS: u32 = 1_000;
const TARGET_RATIO: f64 = 1.2;

pub(super) fn measure(bench: &mut Bench<'_>, report: &mut Report) -> anyhow::Result<()> {
    let rounds = if bench.options.quick { 1 } else { 5 };
    let apart = Apart::look(&bench.options.folder)?;
    let data = bench.fresh_folder("penstock")?;
    let server = Server::start(&bench.options.server, &data, Some(apart.server))?;
    let path = format!("/api/v1/sales/{}", server.api.open_sale(UNITS)?);
    let page = request(&server, &path, "");
    let again = request(&server, &path, &format!("If-None-Match: {}\r\n", tag(&server, &path)?));
    let total_bytes = answer_size(server.api.address, &page)?;
    let constant = Constant { status: 200, content_type: "application/json", total_bytes };
    let nginx = Nginx::start(&bench.fresh_folder("nginx")?, apart.server, &page, constant)?;
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
    let figure = Figure::of(&ours.cpu_us(), "µs/answer")
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
        .detail("not_modified_rounds", hundredths(&unchanged.cpu_us()));
    bench.add(report, "sale_page_cpu_us", figure);
    Ok(())
}

/// The request of a browser whose user is not signed in.
fn request(server: &Server, path: &str, further: &str) -> Vec<u8> {
    let host = server.api.address;
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\n\
         User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n{further}\r\n"
    )
    .into_bytes()
}

/// The page's `ETag`.
fn tag(server: &Server, path: &str) -> anyhow::Result<String> {
    let answer = ureq::get(format!("http://{}{path}", server.api.address)).call().context("no sale page")?;
    let tag = answer.headers().get("etag").context("a sale page without an ETag")?;
    Ok(tag.to_str().context("an ETag that is not text")?.to_owned())
}
