//! `durable_orders_per_second`: accepted orders over HTTP, each by a different buyer and each answered after
//! a sync, against MariaDB selling from a hot row and Redis deciding claims by a script.

use anyhow::Context;

use super::selling::{self, Selling, SellingPace, Sold, sell};
use crate::{
    bench::{Bench, BestChoice},
    numbers::{hundredth, median, milliseconds, rounded},
    peers::{
        mariadb::{HotRowForm, PeerMariaDb},
        redis::PeerRedis,
    },
    places::Places,
    report::BenchFigure,
};

const REDIS_CLIENTS: [usize; 3] = [50, 256, 1000];
const TARGET_RATIO: f64 = 10.0;
const PLACES: Places = Places::ANYWHERE;

/// The peers' orders a second, by round.
#[derive(Debug, Default)]
struct Peers {
    hot_row: Vec<f64>,
    redis: Vec<f64>,
}

pub(super) fn measure(bench: &mut Bench<'_>) -> anyhow::Result<BenchFigure> {
    let rounds = bench.options.rounds(3);
    bench.say("looking for the best number of connections");
    let best = selling::search(bench, PLACES)?;
    let mariadb = PeerMariaDb::install(&bench.fresh_folder("mariadb")?)?;
    let redis = PeerRedis::install(&bench.fresh_folder("redis")?)?;
    // Redis may choose its best number of clients, as Penstock does.
    let redis_clients =
        BestChoice::of("clients", &REDIS_CLIENTS, |clients| claim(bench, &redis, clients))?.choice;

    let connections = best.choice;
    // The machine may be faster in the next minute, so there are orders to spare.
    let pace = SellingPace::Closed { expected_per_second: best.per_second * 1.5 };
    bench.say(&format!(
        "{connections} connections against MariaDB with 16 clients and Redis with {redis_clients}"
    ));
    let mut ours: Vec<Sold> = Vec::new();
    let mut peers = Peers::default();
    for _ in 0..rounds {
        let measured = bench.options.measured();
        ours.push(sell(bench, Selling { places: PLACES, connections, pace, measured })?);
        peers.hot_row.push(hot_row(bench, &mariadb, HotRowForm::Procedure)?);
        peers.redis.push(claim(bench, &redis, redis_clients)?);
    }
    let from_client = hot_row(bench, &mariadb, HotRowForm::Statements)?;
    let rates: Vec<f64> = ours.iter().map(|sold| sold.per_second).collect();
    let value = median(&rates);
    let middle = ours.iter().find(|sold| sold.per_second == value).context("no rounds")?;
    Ok(BenchFigure::of(&rates, "orders/s")
        .against("mariadb_hot_row_per_second", median(&peers.hot_row))
        .at_least(TARGET_RATIO)
        .beside("redis_script_per_second", median(&peers.redis))
        .detail("redis_ratio", hundredth(value / median(&peers.redis)))
        .detail("connections", connections)
        .detail("redis_clients", redis_clients)
        .detail("p50_ms", milliseconds(middle.p50))
        .detail("p99_ms", milliseconds(middle.p99))
        .detail("rounds", rounded(&rates))
        .detail("mariadb_rounds", rounded(&peers.hot_row))
        .detail("mariadb_transaction_sent_from_client_per_second", from_client.round())
        .detail("redis_rounds", rounded(&peers.redis))
        .detail("tried", best.tried))
}

pub(super) fn hot_row(bench: &mut Bench<'_>, mariadb: &PeerMariaDb, form: HotRowForm) -> anyhow::Result<f64> {
    bench.undisturbed(PLACES, |bench| {
        let (warm_up, measured) = (bench.options.warm_up(), bench.options.measured());
        let hot_row = mariadb.hot_row(form, PLACES.generator, warm_up, measured)?;
        let name = match form {
            HotRowForm::Procedure => "one call",
            HotRowForm::Statements => "sent statement by statement",
        };
        let (rate, p50) = (hot_row.orders_per_second, hot_row.p50.as_secs_f64() * 1e3);
        Ok((rate, format!("mariadb, the transaction {name}: {rate:.0} orders/s, p50 {p50:.2} ms")))
    })
}

fn claim(bench: &mut Bench<'_>, redis: &PeerRedis, clients: usize) -> anyhow::Result<f64> {
    bench.undisturbed(PLACES, |bench| {
        let claims = redis.claim(clients, PLACES.generator, bench.options.measured())?;
        let (rate, p50) = (claims.accepted_per_second, claims.p50.as_secs_f64() * 1e3);
        Ok((
            rate,
            format!("redis, a script for each claim, {clients} clients: {rate:.0} orders/s, p50 {p50:.2} ms"),
        ))
    })
}
