//! `many_sales_cost_ratio`: server CPU for an accepted order while a thousand sales are open and orders go to all of
//! them, against the same with one sale.

use std::{ops::Range, thread, time::Duration};

use anyhow::{Context, ensure};

use super::{
    Bench, Figure, Report,
    cpu::{hundredth, hundredths},
    median,
    places::Apart,
    server::{Server, ensure_only},
};
use crate::{
    api::Offer,
    load::{self, Options, Script, Tape, TapeReader},
};

const SALES: usize = 1_000;
const ORDERS: usize = 300_000;
const QUICK_ORDERS: usize = 60_000;
const CONNECTIONS: usize = 256;
/// More than all orders together, in each sale.
const UNITS: u32 = 1_000_000;
const TARGET_RATIO: f64 = 1.2;

/// How long settlement is watched after the orders.
const SETTLING: Duration = Duration::from_secs(2);

/// What one run came to.
#[derive(Clone, Copy, Debug)]
struct Run {
    cpu_us: f64,
    settling_cpu_us: f64,
    per_second: f64,
    p99_ms: f64,
}

pub(super) fn measure(bench: &mut Bench<'_>, report: &mut Report) -> anyhow::Result<()> {
    let rounds = if bench.options.quick { 1 } else { 3 };
    let orders = if bench.options.quick { QUICK_ORDERS } else { ORDERS };
    bench.say(&format!("{orders} orders in one sale, and in {SALES}"));
    let (mut one, mut many) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        one.push(sell(bench, 1, orders)?);
        many.push(sell(bench, SALES, orders)?);
    }
    let all = |runs: &[Run], of: fn(&Run) -> f64| runs.iter().map(of).collect::<Vec<_>>();
    let middle = |runs: &[Run], of: fn(&Run) -> f64| hundredth(median(&all(runs, of)));
    // Each round against its own neighbour: the machine may change its pace from one to the next.
    let ratios: Vec<f64> = many.iter().zip(&one).map(|(many, one)| many.cpu_us / one.cpu_us).collect();
    let figure = Figure::of(&ratios, "of one sale")
        .against("one_sale", 1.0)
        .at_most(TARGET_RATIO)
        .detail("sales", SALES)
        .detail("orders", orders)
        .detail("connections", CONNECTIONS)
        .detail("cpu_us_rounds", hundredths(&all(&many, |run| run.cpu_us)))
        .detail("one_sale_cpu_us_rounds", hundredths(&all(&one, |run| run.cpu_us)))
        .detail("orders_per_second", middle(&many, |run| run.per_second).round())
        .detail("one_sale_orders_per_second", middle(&one, |run| run.per_second).round())
        .detail("p99_ms", middle(&many, |run| run.p99_ms))
        .detail("one_sale_p99_ms", middle(&one, |run| run.p99_ms))
        .detail("settling_cpu_us", middle(&many, |run| run.settling_cpu_us))
        .detail("one_sale_settling_cpu_us", middle(&one, |run| run.settling_cpu_us))
        .detail("rounds", hundredths(&ratios));
    bench.add(report, "many_sales_cost_ratio", figure);
    Ok(())
}

/// One run on an empty data folder, its outcome checked afterwards.
fn sell(bench: &mut Bench<'_>, sales: usize, orders: usize) -> anyhow::Result<Run> {
    let apart = Apart::look()?;
    bench.undisturbed(apart.places(), |bench| {
        let data = bench.fresh_folder("penstock")?;
        let server = Server::start(&bench.options.server, &data, Some(apart.server))?;
        let offer = Offer { units: UNITS, ..Offer::default() };
        let sales = (0..sales).map(|_| server.api.publish(&offer)).collect::<anyhow::Result<Vec<_>>>()?;
        let first = sales.first().context("no sale")?;
        let scattered = Scattered::new(server.orders(first, 0, orders)?, &sales)?;
        let mut options = Options::new(server.api.address, CONNECTIONS);
        options.cores = vec![apart.generator];
        let before_seconds = server.cpu_seconds()?;
        let outcome = load::run(&options, vec![scattered], |_| {})?;
        let cpu_seconds = server.cpu_seconds()? - before_seconds;
        ensure_only(&outcome, 201)?;
        let run = Run {
            cpu_us: cpu_seconds * 1e6 / orders as f64,
            settling_cpu_us: settle(&server)?,
            per_second: outcome.per_second(201),
            p99_ms: outcome.measured.accepted_latency.quantile(0.99).as_secs_f64() * 1e3,
        };
        verify(&server, &sales, outcome.total.status(201))?;
        server.stop()?;
        let line = format!(
            "{:>4} sales: {:.2} µs of CPU an order at {:.0} orders/s, p99 {:.2} ms; settling {:.2} µs; audit ok",
            sales.len(),
            run.cpu_us,
            run.per_second,
            run.p99_ms,
            run.settling_cpu_us,
        );
        Ok((run, line))
    })
}

/// CPU for settling one decision, while nothing else happens. Settlement is paced, so that most is still to be done.
fn settle(server: &Server) -> anyhow::Result<f64> {
    let (before_settled, before_seconds) = (settled(server)?, server.cpu_seconds()?);
    thread::sleep(SETTLING);
    let cpu_seconds = server.cpu_seconds()? - before_seconds;
    let decisions = settled(server)? - before_settled;
    ensure!(decisions > 0, "nothing was settled in {SETTLING:?}");
    Ok(cpu_seconds * 1e6 / decisions as f64)
}

/// The last settled decision.
fn settled(server: &Server) -> anyhow::Result<u64> {
    let mut metrics =
        ureq::get(format!("http://{}/metrics", server.api.address)).call().context("no metrics")?;
    let text = metrics.body_mut().read_to_string()?;
    let value = text.lines().find_map(|line| line.strip_prefix("penstock_settlement_position "));
    Ok(value.context("no penstock_settlement_position in the metrics")?.trim().parse::<f64>()? as u64)
}

/// Fails unless exactly the accepted units are gone from all sales together and the audit is clean.
fn verify(server: &Server, sales: &[String], accepted: u64) -> anyhow::Result<()> {
    let mut gone = 0;
    for sale in sales {
        gone += u64::from(UNITS).saturating_sub(server.api.available(sale)?);
    }
    ensure!(gone == accepted, "{accepted} units were accepted, but {gone} are gone");
    server.api.audit()
}

/// Orders that go to one sale after the other in no visible order, the same in every run.
struct Scattered<'a> {
    reader: TapeReader,
    sales: &'a [String],
    /// Where the sale stands in a request.
    place: Range<usize>,
    request: Vec<u8>,
}

impl<'a> Scattered<'a> {
    /// The orders of `tape` are for the first sale; all sales have names of the same length.
    fn new(tape: Tape, sales: &'a [String]) -> anyhow::Result<Self> {
        let name = sales.first().context("no sale")?.as_bytes();
        ensure!(sales.iter().all(|sale| sale.len() == name.len()), "sales' names differ in length");
        let request = tape.request(0).context("an empty tape")?.to_vec();
        let start = request.windows(name.len()).position(|window| window == name);
        let start = start.context("the sale is not named in its order")?;
        let reader = tape.readers(1, false).remove(0);
        Ok(Self { reader, sales, place: start..start + name.len(), request })
    }
}

impl Script for Scattered<'_> {
    fn next_request(&mut self) -> Option<(u64, &[u8])> {
        let (number, request) = self.reader.next_request()?;
        let sale = self.sales.get(scatter(number) as usize % self.sales.len())?;
        self.request.copy_from_slice(request);
        self.request.get_mut(self.place.clone())?.copy_from_slice(sale.as_bytes());
        Some((number, &self.request))
    }
}

/// A number that looks drawn by lot (the finaliser of SplitMix64).
fn scatter(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::load::OrderTape;

    #[test]
    fn every_sale_gets_its_share_of_the_orders() {
        let sales: Vec<String> = (0..10).map(|sale| format!("sale-number-{sale}")).collect();
        let address = "127.0.0.1:1".parse().unwrap();
        let tape = OrderTape { address, sale: &sales[0], secret: b"secret", first_buyer: 0, count: 1_000 };
        let mut script = Scattered::new(tape.build().unwrap(), &sales).unwrap();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        while let Some((_, request)) = script.next_request() {
            let text = String::from_utf8_lossy(request).into_owned();
            let sale = text.split('/').nth(4).unwrap().to_owned();
            *counts.entry(sale).or_default() += 1;
        }
        assert_eq!(counts.len(), 10);
        assert!(counts.values().all(|count| (60..=140).contains(count)), "{counts:?}");
    }
}
