//! `redis_claims_per_second`: claims that the ledger on Redis takes through its batcher, against one script
//! call for each claim on the same server by the same rules, and against a bare script that promises less.
//! All are answered after a sync of Redis' log.

use penstock_local::RedisServer;
use serde_json::{Value, json};

use super::{Bench, Figure, Report, cpu::hundredth, median, places::Places, program, rounded};
use crate::peers::redis::{Redis, Rules};

const PROGRAM: &str = "claims_at";
/// The number of buyers who wait for their answers at the same time.
const TASKS: [usize; 3] = [1024, 4096, 8192];
const CLIENTS: [usize; 3] = [50, 256, 1000];
/// They warm the ledger up, and tell how many claims fill the measured time.
const FIRST_CLAIMS: u64 = 50_000;
const TARGET_RATIO: f64 = 5.0;
const PLACES: Places = Places::ANYWHERE;

/// The ledger's result in one run.
#[derive(Clone, Copy, Debug)]
struct Run {
    per_second: f64,
    mean_batch: f64,
    commit_ms: f64,
}

pub(super) fn measure(bench: &mut Bench<'_>, report: &mut Report) -> anyhow::Result<()> {
    let rounds = if bench.options.quick { 1 } else { 5 };
    let redis = Redis::install(&bench.fresh_folder("redis")?)?;
    bench.say("looking for the best number of buyers and of clients");
    let mut server = redis.start()?;
    let (tasks, tasks_tried) = best("tasks", TASKS, |tasks| Ok(batched(bench, &server, tasks)?.per_second))?;
    let (clients, clients_tried) =
        best("clients", CLIENTS, |clients| one_by_one(bench, &redis, &server, Rules::Same, clients))?;
    let (bare_clients, bare_tried) =
        best("bare_clients", CLIENTS, |clients| one_by_one(bench, &redis, &server, Rules::Bare, clients))?;
    server.stop()?;

    let (mut ours, mut theirs, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let mut server = redis.start()?;
        ours.push(batched(bench, &server, tasks)?);
        theirs.push(one_by_one(bench, &redis, &server, Rules::Same, clients)?);
        bare.push(one_by_one(bench, &redis, &server, Rules::Bare, bare_clients)?);
        server.stop()?;
    }
    let all = |of: fn(&Run) -> f64| ours.iter().map(of).collect::<Vec<f64>>();
    let rates = all(|run| run.per_second);
    let figure = Figure::of(&rates, "claims/s")
        .against("redis_script_per_second", median(&theirs))
        .at_least(TARGET_RATIO)
        .beside("bare_script_per_second", median(&bare))
        .detail("tasks", tasks)
        .detail("clients", clients)
        .detail("mean_batch", median(&all(|run| run.mean_batch)).round())
        .detail("commit_ms", hundredth(median(&all(|run| run.commit_ms))))
        .detail("rounds", rounded(&rates))
        .detail("script_rounds", rounded(&theirs))
        .detail("bare_script_rounds", rounded(&bare))
        .detail("bare_clients", bare_clients)
        .detail("tried", [tasks_tried, clients_tried, bare_tried].concat());
    bench.add(report, "redis_claims_per_second", figure);
    Ok(())
}

/// The one of `choices` with the highest rate, and the result of each.
fn best(
    name: &str,
    choices: [usize; 3],
    mut rate: impl FnMut(usize) -> anyhow::Result<f64>,
) -> anyhow::Result<(usize, Vec<Value>)> {
    let (mut best, mut tried) = ((0, 0.0), Vec::new());
    for choice in choices {
        let rate = rate(choice)?;
        tried.push(json!({name: choice, "per_second": rate.round()}));
        if rate > best.1 {
            best = (choice, rate);
        }
    }
    Ok((best.0, tried))
}

/// The ledger's own program checks that every claim was accepted and that the units gone match.
fn batched(bench: &mut Bench<'_>, server: &RedisServer, tasks: usize) -> anyhow::Result<Run> {
    bench.undisturbed(PLACES, |bench| {
        let claim = |claims: u64| -> anyhow::Result<Run> {
            let arguments = [server.address().to_string(), claims.to_string(), tasks.to_string()];
            let told = program::run(&bench.options.server, PROGRAM, &arguments)?;
            Ok(Run {
                per_second: told.number("claims_per_second")?,
                mean_batch: told.number("mean_batch")?,
                commit_ms: told.number("commit_ms")?,
            })
        };
        let first = claim(FIRST_CLAIMS)?;
        let run = claim((first.per_second * bench.options.measured().as_secs_f64()) as u64 + tasks as u64)?;
        let Run { per_second, mean_batch, commit_ms } = run;
        let line = format!(
            "ledger, {tasks} buyers at a time: {per_second:.0} claims/s, {mean_batch:.0} a batch, {commit_ms:.2} ms each"
        );
        Ok((run, line))
    })
}

fn one_by_one(
    bench: &mut Bench<'_>,
    redis: &Redis,
    server: &RedisServer,
    rules: Rules,
    clients: usize,
) -> anyhow::Result<f64> {
    bench.undisturbed(PLACES, |bench| {
        let claims = redis.claim_at(server, rules, clients, bench.options.measured())?;
        let (rate, p50) = (claims.accepted_per_second, claims.p50.as_secs_f64() * 1e3);
        let name = match rules {
            Rules::Bare => "bare script",
            Rules::Same => "script",
        };
        let line =
            format!("redis, a {name} for each claim, {clients} clients: {rate:.0} claims/s, p50 {p50:.2} ms");
        Ok((rate, line))
    })
}
