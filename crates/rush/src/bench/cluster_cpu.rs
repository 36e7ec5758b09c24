//! `cluster_cpu_us`: what an order through nginx costs each part of a cluster, from the first byte to the last row, and
//! what a "sold out" and a look at a sale cost. From it follows how many machines a sale needs.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use anyhow::ensure;
use penstock_local::RedisKind;
use serde_json::{Value, json};

use super::{Bench, Figure, Report, cluster::Cluster, cpu::hundredth, median, places::Places};
use crate::{
    host,
    load::{self, Call, Options, Tape},
};

const CONNECTIONS: usize = 256;
/// Requests of each kind.
const COUNT: usize = 100_000;
const QUICK_COUNT: usize = 20_000;
const SETTLE_LIMIT: Duration = Duration::from_secs(120);
/// Settlement is not held back, so that its waiting is not counted as work.
const SETTLE_AT_ONCE: (&str, &str) = ("PENSTOCK_SETTLE__MAX_DECISIONS_PER_SECOND", "1000000");
const PLACES: Places = Places::ANYWHERE;

/// CPU by part of the cluster.
type Costs = BTreeMap<&'static str, f64>;

/// What a round came to.
struct Round {
    look: Costs,
    order: Costs,
    sold_out: Costs,
}

pub(super) fn measure(bench: &mut Bench<'_>, report: &mut Report) -> anyhow::Result<()> {
    let (rounds, count) = if bench.options.quick { (1, QUICK_COUNT) } else { (3, COUNT) };
    bench.say("µs of CPU for one request through nginx, on three nodes with one Redis");
    let mut costs = Vec::new();
    for _ in 0..rounds {
        costs.push(bench.undisturbed(PLACES, |bench| sell_out(bench, count))?);
    }
    let totals =
        |of: fn(&Round) -> &Costs| costs.iter().map(|round| of(round).values().sum()).collect::<Vec<f64>>();
    let figure = Figure::of(&totals(|round| &round.order), "µs/order")
        .against("sold_out_us", median(&totals(|round| &round.sold_out)))
        .beside("look_us", median(&totals(|round| &round.look)))
        .without_target()
        .detail("order", medians(&costs, |round| &round.order))
        .detail("sold_out", medians(&costs, |round| &round.sold_out))
        .detail("look", medians(&costs, |round| &round.look))
        .detail("requests", count)
        .detail("connections", CONNECTIONS);
    bench.add(report, "cluster_cpu_us", figure);
    Ok(())
}

/// Everybody looks at the sale, then everybody buys, then as many come too late.
fn sell_out(bench: &mut Bench<'_>, count: usize) -> anyhow::Result<(Round, String)> {
    let cluster = Cluster::start_with(bench, RedisKind::Single, &[SETTLE_AT_ONCE])?;
    let sale = cluster.api.open_sale(u32::try_from(count)?)?;
    let path = format!("/api/v1/sales/{sale}");
    let orders = format!("{path}/orders");
    let tape = |call: &Call<'_>, first| cluster.calls(cluster.entrance(), call, first, count);
    let look = Call { method: "GET", path: &path, headers: "", key_prefix: None, body: "" };
    let order = Call::order(&orders);
    let units = count as u64;
    let round = Round {
        look: cost(&cluster, &tape(&look, 0)?, 200, 0)?,
        order: cost(&cluster, &tape(&order, 0)?, 201, units)?,
        sold_out: cost(&cluster, &tape(&order, units)?, 409, units)?,
    };
    cluster.verify(&sale, units, units, 0)?;
    cluster.stop()?;
    let line = format!(
        "a look {}; an order {}; a sold out {}; audit ok",
        in_words(&round.look),
        in_words(&round.order),
        in_words(&round.sold_out)
    );
    Ok((round, line))
}

/// What each part spends on one request of the tape, until all `orders` so far are settled.
fn cost(cluster: &Cluster, tape: &Tape, status: u16, orders: u64) -> anyhow::Result<Costs> {
    let before = spent(cluster)?;
    let outcome = load::run(&Options::new(cluster.entrance(), CONNECTIONS), tape.readers(1, false), |_| {})?;
    let total = &outcome.total;
    ensure!(
        total.status(status) == tape.len() as u64 && total.errors == 0,
        "expected {status} only; got {:?}, codes {:?}, lost {:?}",
        total.statuses(),
        total.codes(),
        total.losses
    );
    wait_until_settled(cluster, orders)?;
    let after = spent(cluster)?;
    let used = |part| after.get(part).copied().unwrap_or_default();
    Ok(before
        .iter()
        .map(|(part, seconds)| (*part, (used(part) - seconds) * 1e6 / tape.len() as f64))
        .collect())
}

/// CPU seconds so far, by part.
fn spent(cluster: &Cluster) -> anyhow::Result<Costs> {
    let mut seconds = Costs::new();
    for (part, process) in cluster.processes()? {
        *seconds.entry(part).or_default() += host::cpu_seconds(process)?;
    }
    Ok(seconds)
}

/// The publication is a decision, too.
fn wait_until_settled(cluster: &Cluster, orders: u64) -> anyhow::Result<()> {
    let started = Instant::now();
    while cluster.settled()? < orders + 1 {
        ensure!(
            started.elapsed() < SETTLE_LIMIT,
            "settlement is still behind after {} s",
            SETTLE_LIMIT.as_secs()
        );
        thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

fn in_words(costs: &Costs) -> String {
    let parts: Vec<String> = costs.iter().map(|(part, cost)| format!("{part} {cost:.1}")).collect();
    format!("{:.1} ({})", costs.values().sum::<f64>(), parts.join(", "))
}

fn medians(rounds: &[Round], of: fn(&Round) -> &Costs) -> Value {
    let parts = rounds.first().into_iter().flat_map(|round| of(round).keys().copied());
    let median_of = |part| {
        hundredth(median(&rounds.iter().filter_map(|round| of(round).get(part).copied()).collect::<Vec<_>>()))
    };
    json!(parts.map(|part| (part, median_of(part))).collect::<Costs>())
}
