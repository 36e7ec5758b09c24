//! `cluster_cpu_us`: the CPU that an order through nginx costs each part of a cluster, from the first byte to
//! the last row, and what a "sold out" and a look at a sale cost. It tells how many machines a sale needs.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use anyhow::ensure;
use penstock_local::RedisKind;
use penstock_rush::api::{SaleOffer, text};
use serde_json::{Value, json};

use crate::{
    bench::{Bench, FAR_FUTURE},
    cluster::Cluster,
    host,
    load::{self, LoadOptions, Tape, TapeCall, orders_path},
    numbers::{hundredth, median},
    places::Places,
    report::BenchFigure,
};

const CONNECTIONS: usize = 256;
/// Requests of each kind.
const COUNT: usize = 100_000;
const QUICK_COUNT: usize = 20_000;
const SETTLE_LIMIT: Duration = Duration::from_secs(120);
/// The least share of expected answers: a few requests may be told to come again.
const PURITY: f64 = 0.999;
/// Settlement runs unpaced, so that waiting is not counted as work.
const SETTLE_AT_ONCE: (&str, &str) = ("PENSTOCK_SETTLE__MAX_DECISIONS_PER_SECOND", "1000000");
const PLACES: Places = Places::ANYWHERE;

/// CPU by part of the cluster.
type Costs = BTreeMap<&'static str, f64>;

/// The result of a round.
struct Round {
    look: Costs,
    order: Costs,
    sold_out: Costs,
    /// A ticket for the waiting room of a sale that opens later.
    ticket: Costs,
    /// A look at one's place there.
    place: Costs,
}

pub(super) fn measure(bench: &mut Bench<'_>) -> anyhow::Result<BenchFigure> {
    let (rounds, count) = if bench.options.quick { (1, QUICK_COUNT) } else { (3, COUNT) };
    bench.say("µs of CPU for one request through nginx, on three nodes with one Redis");
    let mut costs = Vec::new();
    for _ in 0..rounds {
        costs.push(bench.undisturbed(PLACES, |bench| sell_out(bench, count))?);
    }
    let totals =
        |of: fn(&Round) -> &Costs| costs.iter().map(|round| of(round).values().sum()).collect::<Vec<f64>>();
    Ok(BenchFigure::of(&totals(|round| &round.order), "µs/order")
        .against("sold_out_us", median(&totals(|round| &round.sold_out)))
        .beside("look_us", median(&totals(|round| &round.look)))
        .without_target()
        .detail("order", medians(&costs, |round| &round.order))
        .detail("sold_out", medians(&costs, |round| &round.sold_out))
        .detail("look", medians(&costs, |round| &round.look))
        .detail("ticket", medians(&costs, |round| &round.ticket))
        .detail("place", medians(&costs, |round| &round.place))
        .detail("requests", count)
        .detail("connections", CONNECTIONS))
}

/// Everybody looks at the sale, then everybody buys, then as many again come too late. As many take a ticket
/// for another sale.
fn sell_out(bench: &mut Bench<'_>, count: usize) -> anyhow::Result<(Round, String)> {
    let cluster = Cluster::start(bench, RedisKind::Single, &[SETTLE_AT_ONCE])?;
    let sale = cluster.api.open_sale(u32::try_from(count)?)?;
    let path = format!("/api/v1/sales/{sale}");
    let orders = orders_path(&sale);
    let tape = |call: &TapeCall<'_>, first| cluster.calls(cluster.entrance(), call, first, count);
    let (look, order) = (TapeCall::bare("GET", &path), TapeCall::order(&orders));
    let gate = Some(json!({"waiting_room": true}));
    let later = cluster.api.publish(&SaleOffer {
        units: 1_000,
        opens_at: Some(FAR_FUTURE.to_owned()),
        gate,
        ..SaleOffer::default()
    })?;
    let tickets = format!("/api/v1/sales/{later}/tickets");
    let ticket = TapeCall::bare("POST", &tickets);
    let units = count as u64;
    let token = cluster.token("buyer-of-one-ticket");
    let mine = cluster.api.ask("POST", &tickets, Some(&token), None)?;
    let place = format!("{tickets}/{}", text(&mine.body, "ticket")?);
    let round = Round {
        look: cost(&cluster, &tape(&look, 0)?, 200)?,
        order: cost(&cluster, &tape(&order, 0)?, 201)?,
        sold_out: cost(&cluster, &tape(&order, units)?, 409)?,
        ticket: cost(&cluster, &tape(&ticket, 0)?, 201)?,
        place: cost(&cluster, &tape(&TapeCall::bare("GET", &place), 0)?, 200)?,
    };
    cluster.verify(&sale, units, units, 0)?;
    cluster.stop()?;
    let line = format!(
        "a look {}; an order {}; a sold out {}; a ticket {}; a look at one's place {}; audit ok",
        in_words(&round.look),
        in_words(&round.order),
        in_words(&round.sold_out),
        in_words(&round.ticket),
        in_words(&round.place)
    );
    Ok((round, line))
}

/// The CPU each part spends on one request of the tape, until everything is settled.
fn cost(cluster: &Cluster, tape: &Tape, status: u16) -> anyhow::Result<Costs> {
    let before = spent(cluster)?;
    let outcome = load::run(&LoadOptions::new(cluster.entrance(), CONNECTIONS), tape.once())?;
    let total = &outcome.total;
    ensure!(
        total.status(status) as f64 >= PURITY * tape.len() as f64 && total.errors == 0,
        "expected {status}; got {}",
        total.in_words()
    );
    wait_until_settled(cluster)?;
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

/// While there is work left, the last settled position changes between two looks.
fn wait_until_settled(cluster: &Cluster) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut before = cluster.settled()?;
    loop {
        thread::sleep(Duration::from_secs(2));
        let settled = cluster.settled()?;
        if settled == before {
            return Ok(());
        }
        ensure!(
            started.elapsed() < SETTLE_LIMIT,
            "settlement is still behind after {} s",
            SETTLE_LIMIT.as_secs()
        );
        before = settled;
    }
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
