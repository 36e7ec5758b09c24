//! `redis_claims_per_second`: claims that the ledger on Redis takes through its batcher, against one script
//! call for each claim on the same server by the same rules, and against a bare script that promises less.
//! All are answered after a sync of Redis' log.

use penstock_local::RedisServer;

use super::ledger_claims::{self, LedgerRun};
use crate::{
    bench::{Bench, BestChoice},
    numbers::{hundredth, median, rounded},
    peers::redis::{ClaimRules, PeerRedis},
    places::Places,
    report::BenchFigure,
};

/// The number of buyers who wait for their answers at the same time.
const TASKS: [usize; 3] = [1024, 4096, 8192];
const CLIENTS: [usize; 3] = [50, 256, 1000];
/// The claims of a first run, which warms the ledger up. Its rate tells how many claims fill the measured
/// time.
const FIRST_CLAIMS: u64 = 50_000;
const TARGET_RATIO: f64 = 5.0;
const PLACES: Places = Places::ANYWHERE;

pub(super) fn measure(bench: &mut Bench<'_>) -> anyhow::Result<BenchFigure> {
    let rounds = bench.options.rounds(5);
    let redis = PeerRedis::install(&bench.fresh_folder("redis")?)?;
    bench.say("looking for the best number of buyers and of clients");
    let mut server = redis.start()?;
    let tasks = BestChoice::of("tasks", &TASKS, |tasks| Ok(batched(bench, &server, tasks)?.per_second))?;
    let mut best_clients = |name, rules| {
        BestChoice::of(name, &CLIENTS, |clients| one_by_one(bench, &redis, &server, rules, clients))
    };
    let clients = best_clients("clients", ClaimRules::Same)?;
    let bare_clients = best_clients("bare_clients", ClaimRules::Bare)?;
    server.stop()?;

    let (mut ours, mut theirs, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let mut server = redis.start()?;
        ours.push(batched(bench, &server, tasks.choice)?);
        theirs.push(one_by_one(bench, &redis, &server, ClaimRules::Same, clients.choice)?);
        bare.push(one_by_one(bench, &redis, &server, ClaimRules::Bare, bare_clients.choice)?);
        server.stop()?;
    }
    let all = |of: fn(&LedgerRun) -> f64| ours.iter().map(of).collect::<Vec<f64>>();
    let rates = all(|run| run.per_second);
    Ok(BenchFigure::of(&rates, "claims/s")
        .against("redis_script_per_second", median(&theirs))
        .at_least(TARGET_RATIO)
        .beside("bare_script_per_second", median(&bare))
        .detail("tasks", tasks.choice)
        .detail("clients", clients.choice)
        .detail("mean_batch", median(&all(|run| run.mean_batch)).round())
        .detail("commit_ms", hundredth(median(&all(|run| run.commit_ms))))
        .detail("rounds", rounded(&rates))
        .detail("script_rounds", rounded(&theirs))
        .detail("bare_script_rounds", rounded(&bare))
        .detail("bare_clients", bare_clients.choice)
        .detail("tried", [tasks.tried, clients.tried, bare_clients.tried].concat()))
}

/// Claims units through the ledger, by `tasks` buyers at a time.
fn batched(bench: &mut Bench<'_>, server: &RedisServer, tasks: usize) -> anyhow::Result<LedgerRun> {
    bench.undisturbed(PLACES, |bench| {
        let claim = |claims: u64| ledger_claims::claim_all(server.address(), claims, tasks);
        let first = claim(FIRST_CLAIMS)?;
        let run = claim((first.per_second * bench.options.measured().as_secs_f64()) as u64 + tasks as u64)?;
        let LedgerRun { per_second, mean_batch, commit_ms } = run;
        let line = format!(
            "ledger, {tasks} buyers at a time: {per_second:.0} claims/s, {mean_batch:.0} a batch, {commit_ms:.2} ms each"
        );
        Ok((run, line))
    })
}

fn one_by_one(
    bench: &mut Bench<'_>,
    redis: &PeerRedis,
    server: &RedisServer,
    rules: ClaimRules,
    clients: usize,
) -> anyhow::Result<f64> {
    bench.undisturbed(PLACES, |bench| {
        let claims = redis.claim_at(server, rules, clients, bench.options.measured())?;
        let (rate, p50) = (claims.accepted_per_second, claims.p50.as_secs_f64() * 1e3);
        let name = match rules {
            ClaimRules::Bare => "bare script",
            ClaimRules::Same => "script",
        };
        let line =
            format!("redis, a {name} for each claim, {clients} clients: {rate:.0} claims/s, p50 {p50:.2} ms");
        Ok((rate, line))
    })
}
