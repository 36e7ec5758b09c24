//! `many_sales_cost_ratio`: server CPU for an accepted order when a thousand sales are open and orders go to
//! all of them, against the same with one sale.

use std::ops::Range;

use anyhow::{Context, ensure};
use fastrand::Rng;
use penstock_rush::api::SaleOffer;

use crate::{
    bench::Bench,
    cpu::{ORDER_CONNECTIONS, by_turns, order_cpu_us},
    load::{LoadScript, Tape, TapeReader},
    numbers::{hundredths, median},
    places::Apart,
    report::BenchFigure,
    server::{MeasuredServer, Settings},
};

const SALES: usize = 1_000;
const ROUNDS: usize = 5;
/// A machine's speed changes from one second to the next, so the two servers take turns of less than a
/// second.
const TURNS: usize = 6;
const ORDERS_PER_TURN: usize = 20_000;
/// More than all orders together, for each sale.
const UNITS: u32 = 10_000_000;
/// Fixes the order in which sales are chosen.
const SEED: u64 = 7;
const TARGET_RATIO: f64 = 1.2;
/// Settlement is slowed to one decision a second, so that it does no work in the other server's turns.
const SETTINGS: &Settings =
    &[("PENSTOCK_SETTLE__BATCH", "1"), ("PENSTOCK_SETTLE__MAX_DECISIONS_PER_SECOND", "1")];

pub(super) fn measure(bench: &mut Bench<'_>) -> anyhow::Result<BenchFigure> {
    let rounds = bench.options.rounds(ROUNDS);
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
            let [one_us, many_us] =
                by_turns(TURNS, |turn| if turn == 0 { one.sell(apart) } else { many.sell(apart) })?;
            let line = format!("{many_us:.2} µs of CPU an order in {SALES} sales, {one_us:.2} µs in one");
            Ok(((one_us, many_us), line))
        })?);
    }
    for contestant in [one, many] {
        contestant.finish()?;
    }
    let all = |of: fn(&(f64, f64)) -> f64| costs.iter().map(of).collect::<Vec<f64>>();
    let ratios = all(|(one_us, many_us)| many_us / one_us);
    Ok(BenchFigure::of(&ratios, "of one sale")
        .against("one_sale", 1.0)
        .at_most(TARGET_RATIO)
        .detail("sales", SALES)
        .detail("orders_per_turn", ORDERS_PER_TURN)
        .detail("turns", TURNS)
        .detail("connections", ORDER_CONNECTIONS)
        .detail("cpu_us", median(&hundredths(&all(|(_, many_us)| *many_us))))
        .detail("one_sale_cpu_us", median(&hundredths(&all(|(one_us, _)| *one_us))))
        .detail("rounds", hundredths(&ratios)))
}

/// One server; it sells while the other is idle.
struct Contestant {
    server: MeasuredServer,
    sales: Vec<String>,
    sold: usize,
}

impl Contestant {
    fn start(bench: &Bench<'_>, apart: Apart, sales: usize) -> anyhow::Result<Self> {
        let data = bench.fresh_folder(&format!("penstock-{sales}"))?;
        let server = MeasuredServer::start_in(&data, bench, Some(apart.server), SETTINGS)?;
        let offer = SaleOffer { units: UNITS, ..SaleOffer::default() };
        let sales = (0..sales).map(|_| server.api.publish(&offer)).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Self { server, sales, sold: 0 })
    }

    /// Takes one turn. Returns microseconds of CPU for an order.
    fn sell(&mut self, apart: Apart) -> anyhow::Result<f64> {
        let first = self.sales.first().context("no sale")?;
        let tape = self.server.orders(first, self.sold as u64, ORDERS_PER_TURN)?;
        self.sold += ORDERS_PER_TURN;
        let orders = Scattered::new(&tape, &self.sales)?;
        order_cpu_us(&self.server, orders, ORDERS_PER_TURN, apart.generator)
    }

    fn finish(self) -> anyhow::Result<()> {
        verify(&self.server, &self.sales, self.sold as u64)?;
        self.server.stop()
    }
}

/// Fails unless the units gone from all sales together are the accepted units, and the audit is clean.
fn verify(server: &MeasuredServer, sales: &[String], accepted: u64) -> anyhow::Result<()> {
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
    random: Rng,
}

impl<'a> Scattered<'a> {
    /// The orders of `tape` name the first sale. The ids of all sales have the same length.
    fn new(tape: &Tape, sales: &'a [String]) -> anyhow::Result<Self> {
        let name = sales.first().context("no sale")?.as_bytes();
        ensure!(sales.iter().all(|sale| sale.len() == name.len()), "sales' names differ in length");
        let request = tape.request(0).context("an empty tape")?.to_vec();
        let start = request.windows(name.len()).position(|window| window == name);
        let start = start.context("the sale is not named in its order")?;
        let reader = tape.once();
        let place = start..start + name.len();
        Ok(Self { reader, sales, place, request, random: Rng::with_seed(SEED) })
    }
}

impl LoadScript for Scattered<'_> {
    fn next_request(&mut self) -> Option<(u64, &[u8])> {
        let (number, request) = self.reader.next_request()?;
        let sale = self.random.choice(self.sales)?;
        self.request.copy_from_slice(request);
        self.request.get_mut(self.place.clone())?.copy_from_slice(sale.as_bytes());
        Some((number, &self.request))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::load::{BuyerTape, TapeCall, bearers, orders_path};

    #[test]
    fn every_sale_gets_its_share_of_the_orders() {
        let sales: Vec<String> = (0..10).map(|sale| format!("sale-number-{sale}")).collect();
        let address = "127.0.0.1:1".parse().unwrap();
        let identity = &bearers(b"secret");
        let buyers = BuyerTape { address, identity, first_buyer: 0, buyers: u64::MAX, count: 1_000 };
        let tape = buyers.build(&TapeCall::order(&orders_path(&sales[0]))).unwrap();
        let mut script = Scattered::new(&tape, &sales).unwrap();
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
