//! `many_sales_cost_ratio`: server CPU for an accepted order when a thousand sales are open and orders go to
//! all of them, against the same with one sale.

use std::ops::Range;

use anyhow::{Context, ensure};

use super::{
    Bench, Figure, Report,
    cpu::hundredths,
    median,
    places::Apart,
    server::{Server, ensure_only},
};
use crate::{
    api::Offer,
    load::{self, Options, Script, Tape, TapeReader},
};

const SALES: usize = 1_000;
const CONNECTIONS: usize = 256;
const ROUNDS: usize = 5;
/// A machine's speed changes from one second to the next, so the two servers take turns of less than a
/// second.
const TURNS: usize = 6;
const ORDERS_PER_TURN: usize = 20_000;
/// More than all orders together, for each sale.
const UNITS: u32 = 10_000_000;
const TARGET_RATIO: f64 = 1.2;
/// Settlement is slowed to one decision a second, so that it does no work in the other server's turns.
const SETTINGS: &[(&str, &str)] =
    &[("PENSTOCK_SETTLE__BATCH", "1"), ("PENSTOCK_SETTLE__MAX_DECISIONS_PER_SECOND", "1")];

pub(super) fn measure(bench: &mut Bench<'_>, report: &mut Report) -> anyhow::Result<()> {
    let rounds = if bench.options.quick { 1 } else { ROUNDS };
    let apart = Apart::look(&bench.options.folder)?;
    bench.say(&format!("{ORDERS_PER_TURN} orders in one sale, then in {SALES}, {TURNS} times a round"));
    let mut one = Contestant::start(bench, apart, 1)?;
    let mut many = Contestant::start(bench, apart, SALES)?;
    // A first turn takes the one-time costs; it is not counted.
    for contestant in [&mut one, &mut many] {
        contestant.sell(apart)?;
    }
    let mut costs = Vec::new();
    for _ in 0..rounds {
        costs.push(bench.undisturbed(apart.places(), |_| {
            let (mut one_us, mut many_us) = (Vec::new(), Vec::new());
            for _ in 0..TURNS {
                one_us.push(one.sell(apart)?);
                many_us.push(many.sell(apart)?);
            }
            let (one_us, many_us) = (mean(&one_us), mean(&many_us));
            let line = format!("{many_us:.2} µs of CPU an order in {SALES} sales, {one_us:.2} µs in one");
            Ok(((one_us, many_us), line))
        })?);
    }
    for contestant in [one, many] {
        contestant.finish()?;
    }
    let all = |of: fn(&(f64, f64)) -> f64| costs.iter().map(of).collect::<Vec<f64>>();
    let ratios = all(|(one_us, many_us)| many_us / one_us);
    let figure = Figure::of(&ratios, "of one sale")
        .against("one_sale", 1.0)
        .at_most(TARGET_RATIO)
        .detail("sales", SALES)
        .detail("orders_per_turn", ORDERS_PER_TURN)
        .detail("turns", TURNS)
        .detail("connections", CONNECTIONS)
        .detail("cpu_us", median(&hundredths(&all(|(_, many_us)| *many_us))))
        .detail("one_sale_cpu_us", median(&hundredths(&all(|(one_us, _)| *one_us))))
        .detail("rounds", hundredths(&ratios));
    bench.add(report, "many_sales_cost_ratio", figure);
    Ok(())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// One server; it sells while the other is idle.
struct Contestant {
    server: Server,
    sales: Vec<String>,
    sold: usize,
}

impl Contestant {
    fn start(bench: &Bench<'_>, apart: Apart, sales: usize) -> anyhow::Result<Self> {
        let data = bench.fresh_folder(&format!("penstock-{sales}"))?;
        let server = Server::start_with(&bench.options.server, &data, Some(apart.server), SETTINGS)?;
        let offer = Offer { units: UNITS, ..Offer::default() };
        let sales = (0..sales).map(|_| server.api.publish(&offer)).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Self { server, sales, sold: 0 })
    }

    /// Takes one turn. Returns microseconds of CPU for an order.
    fn sell(&mut self, apart: Apart) -> anyhow::Result<f64> {
        let first = self.sales.first().context("no sale")?;
        let tape = self.server.orders(first, self.sold as u64, ORDERS_PER_TURN)?;
        let mut options = Options::new(self.server.api.address, CONNECTIONS);
        options.cores = vec![apart.generator];
        let before_seconds = self.server.cpu_seconds()?;
        let outcome = load::run(&options, vec![Scattered::new(tape, &self.sales)?], |_| {})?;
        let cpu_seconds = self.server.cpu_seconds()? - before_seconds;
        ensure_only(&outcome, 201)?;
        self.sold += ORDERS_PER_TURN;
        Ok(cpu_seconds * 1e6 / ORDERS_PER_TURN as f64)
    }

    fn finish(self) -> anyhow::Result<()> {
        verify(&self.server, &self.sales, self.sold as u64)?;
        self.server.stop()
    }
}

/// Fails unless the units gone from all sales together are the accepted units, and the audit is clean.
fn verify(server: &Server, sales: &[String], accepted: u64) -> anyhow::Result<()> {
    let mut gone = 0;
    for sale in sales {
        gone += u64::from(UNITS).saturating_sub(server.api.available(sale)?);
    }
    ensure!(gone == accepted, "{accepted} units were accepted, but {gone} are gone");
    server.api.audit()
}

/// Orders that go to the sales in a scattered order, the same in every run.
struct Scattered<'a> {
    reader: TapeReader,
    sales: &'a [String],
    /// Where the sale's id is in a request.
    place: Range<usize>,
    request: Vec<u8>,
}

impl<'a> Scattered<'a> {
    /// The orders of `tape` name the first sale. The ids of all sales have the same length.
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

/// Looks random (the finaliser of SplitMix64).
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
