//! `cluster_orders_per_second`: accepted orders through nginx, each by a different buyer, on three nodes that
//! share a Redis, against MariaDB selling from a hot row. Both have all cores of one machine.

use std::time::Duration;

use penstock_local::RedisKind;

use super::{durable, selling::Sold};
use crate::{
    bench::{Bench, BestChoice},
    cluster::Cluster,
    load::{self, LoadOptions},
    numbers::{median, milliseconds, rounded},
    peers::mariadb::{HotRowForm, PeerMariaDb},
    places::Places,
    report::BenchFigure,
    server::ensure_told,
};

const CONNECTIONS: [usize; 3] = [64, 256, 1024];
const QUICK_CONNECTIONS: [usize; 1] = [256];
/// More than any run can sell.
const UNITS: u32 = 50_000_000;
/// A tape has enough requests for this many orders a second.
const MOST_PER_SECOND: f64 = 60_000.0;
const PLACES: Places = Places::ANYWHERE;

pub(super) fn measure(bench: &mut Bench<'_>) -> anyhow::Result<BenchFigure> {
    let rounds = bench.options.rounds(3);
    bench.say("three nodes, two settlement workers, nginx, Redis, MariaDB and the generator share the cores");
    let choices: &[usize] = if bench.options.quick { &QUICK_CONNECTIONS } else { &CONNECTIONS };
    let best = BestChoice::of("connections", choices, |connections| {
        Ok(sell(bench, RedisKind::Single, connections)?.per_second)
    })?;
    let connections = best.choice;
    let mariadb = PeerMariaDb::install(&bench.fresh_folder("mariadb")?)?;
    let (mut single, mut replicated, mut hot_row) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        single.push(sell(bench, RedisKind::Single, connections)?);
        hot_row.push(durable::hot_row(bench, &mariadb, HotRowForm::Procedure)?);
        replicated.push(sell(bench, RedisKind::Cluster, connections)?);
    }
    let rates = |sold: &[Sold]| sold.iter().map(|sold| sold.per_second).collect::<Vec<f64>>();
    let quantile = |sold: &[Sold], of: fn(&Sold) -> Duration| {
        median(&sold.iter().map(|sold| milliseconds(of(sold))).collect::<Vec<f64>>())
    };
    let refused_share = single.iter().chain(&replicated).map(|sold| sold.refused_share).fold(0.0, f64::max);
    Ok(BenchFigure::of(&rates(&single), "orders/s")
        .against("mariadb_hot_row_per_second", median(&hot_row))
        .without_target()
        .detail("connections", connections)
        .detail("p50_ms", quantile(&single, |sold| sold.p50))
        .detail("p99_ms", quantile(&single, |sold| sold.p99))
        .detail("rounds", rounded(&rates(&single)))
        .detail("mariadb_rounds", rounded(&hot_row))
        .detail("redis_cluster_per_second", median(&rates(&replicated)).round())
        .detail("redis_cluster_p50_ms", quantile(&replicated, |sold| sold.p50))
        .detail("redis_cluster_p99_ms", quantile(&replicated, |sold| sold.p99))
        .detail("redis_cluster_rounds", rounded(&rates(&replicated)))
        .detail("refused_share", (refused_share * 1e4).round() / 1e4)
        .detail("tried", best.tried))
}

fn sell(bench: &mut Bench<'_>, redis: RedisKind, connections: usize) -> anyhow::Result<Sold> {
    bench.undisturbed(PLACES, |bench| {
        let cluster = Cluster::start(bench, redis, &[])?;
        let sale = cluster.api.open_sale(UNITS)?;
        let (warm_up, measured) = (bench.options.warm_up(), bench.options.measured());
        let options = LoadOptions { warm_up, measured, ..LoadOptions::new(cluster.entrance(), connections) };
        let orders = (MOST_PER_SECOND * (warm_up + measured).as_secs_f64()) as usize;
        let tape = cluster.orders(cluster.entrance(), &sale, 0, orders)?;
        let outcome = load::run(&options, tape.once())?;
        let total = &outcome.total;
        let unavailable = total.code("unavailable");
        ensure_told(&outcome, 201, &["busy", "unavailable"])?;
        cluster.verify(&sale, UNITS.into(), total.status(201), unavailable)?;
        cluster.stop()?;
        let sold = Sold::of(&outcome);
        Ok((sold, format!("{}: {}; audit ok", name(redis, connections), sold.line())))
    })
}

fn name(redis: RedisKind, connections: usize) -> String {
    let redis = match redis {
        RedisKind::Single => "one Redis",
        RedisKind::Sentinel => "Redis with Sentinel",
        RedisKind::Cluster => "Redis Cluster, confirmed by a replica",
    };
    format!("cluster on {redis}, {connections} connections")
}
