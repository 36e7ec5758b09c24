//! How many claims a second the ledger on Redis takes through its handle, every answer after a sync of the append-only
//! file, against one script call for each claim on the same server.
//!
//! `cargo run --release -p penstock-ledger --example redis_claims -- [CLAIMS] [TASKS] [BATCH]`

use std::{
    error::Error,
    io::{self, Write as _},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use penstock_domain::{BuyerId, Claim, KeyDigest, SaleId, SaleTerms};
use penstock_ledger::{
    BatcherOptions, Health, Ledger, Listener, SaleNews,
    redis::{self, LedgerOptions, Link, NothingSettled, RedisOptions},
};
use penstock_local::{RedisServer, RedisSettings};
use tokio::task::JoinSet;

type Failure = Box<dyn Error + Send + Sync>;

/// What a shop would write: look for the buyer, take a unit, note the buyer and append the order.
const ONE_CLAIM: &str = "
if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return 0 end
if tonumber(redis.call('GET', KEYS[1])) < 1 then return -1 end
redis.call('DECR', KEYS[1])
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('XADD', KEYS[3], '*', 'buyer', ARGV[1], 'quantity', '1')
return 1";
/// Connections of a shop's pool, each with one call at a time.
const POOL: &str = "64";
const CALLS: u64 = 100_000;

struct Deaf;

impl Listener for Deaf {
    fn sales_changed(&self, _news: &[SaleNews]) {}
}

fn sale() -> SaleId {
    SaleId::from_random(0x0123_4567_89ab_cdef)
}

fn claim(number: u64) -> Result<Claim, Failure> {
    let buyer = BuyerId::of_subject(&format!("customer-{number:012}"))?;
    let key = KeyDigest::of(number.to_string().as_bytes())?;
    Ok(Claim { sale: sale(), buyer, quantity: 1, key })
}

/// Tasks that claim one unit after another; answers how long it took them in all.
async fn buyers<F>(tasks: usize, claims: u64, one: impl Fn(u64) -> F) -> Result<Duration, Failure>
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let started = Instant::now();
    let mut running = JoinSet::new();
    let next = AtomicU64::new(0);
    for _ in 0..tasks {
        running.spawn(one(next.fetch_add(1, Relaxed)));
    }
    while let Some(finished) = running.join_next().await {
        finished??;
        let number = next.fetch_add(1, Relaxed);
        if number < claims {
            running.spawn(one(number));
        }
    }
    Ok(started.elapsed())
}

async fn sell_in_batches(ledger: &Ledger, claims: u64, tasks: usize) -> Result<Duration, Failure> {
    let terms = SaleTerms {
        sale: sale(),
        units: u32::try_from(claims)?,
        limit_per_buyer: 1,
        opens_at: None,
        closes_at: None,
        hold_seconds: 900,
    };
    ledger.publish(terms).await?;
    buyers(tasks, claims, |number| {
        let ledger = ledger.clone();
        async move {
            ledger.claim(claim(number)?).await?;
            Ok(())
        }
    })
    .await
}

/// The time and, of it, what Redis computed.
struct Cost {
    per_second: f64,
    redis_microseconds: f64,
}

fn redis_seconds(server: &RedisServer) -> Result<f64, Failure> {
    let user: f64 = server.info("used_cpu_user_main_thread")?.trim().parse()?;
    let system: f64 = server.info("used_cpu_sys_main_thread")?.trim().parse()?;
    Ok(user + system)
}

fn cost(claims: u64, time: Duration, redis_seconds: f64) -> Cost {
    let claims = claims as f64;
    Cost { per_second: claims / time.as_secs_f64(), redis_microseconds: redis_seconds * 1e6 / claims }
}

/// redis-benchmark is the cheapest client there is.
fn sell_one_by_one(server: &RedisServer) -> Result<Cost, Failure> {
    let script = server.cli(&["SCRIPT", "LOAD", ONE_CLAIM])?;
    server.cli(&["SET", "stock", "100000000"])?;
    let port = server.address().port().to_string();
    let (before, started) = (redis_seconds(server)?, Instant::now());
    let output = Command::new("redis-benchmark")
        .args(["-p", &port, "-c", POOL, "-n", &CALLS.to_string(), "-r", "2000000000", "-q"])
        .args(["EVALSHA", script.trim(), "3", "stock", "buyers", "orders", "buyer-__rand_int__"])
        .output()?;
    if !output.status.success() {
        return Err("redis-benchmark failed".into());
    }
    Ok(cost(CALLS, started.elapsed(), redis_seconds(server)? - before))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let claims: u64 = arguments.next().map_or(Ok(400_000), |text| text.parse())?;
    let tasks: usize = arguments.next().map_or(Ok(2_048), |text| text.parse())?;
    let max_batch: usize = arguments.next().map_or(Ok(4_096), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    let server = RedisServer::start(folder.path(), RedisSettings::default())?;
    let link = Link::connect(RedisOptions::single(server.address().to_string())).await?;
    let batcher = BatcherOptions { max_batch, ..BatcherOptions::default() };
    let options = LedgerOptions { batcher, ..LedgerOptions::default() };
    let ledger = redis::open(options, link.clone(), None, Arc::new(Deaf), Arc::new(NothingSettled))?;
    if ledger.recovered().await != Health::Ready {
        return Err("the ledger is not ready".into());
    }
    let alone = sell_one_by_one(&server)?;
    let before = redis_seconds(&server)?;
    let time = sell_in_batches(&ledger, claims, tasks).await?;
    let together = cost(claims, time, redis_seconds(&server)? - before);
    let stats = ledger.stats();
    let mean = stats.commands as f64 / stats.batches as f64;
    let commit = stats.commit_time / u32::try_from(stats.batches)?;
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{claims} claims, {tasks} tasks: {:.0} claims/s, {:.1} µs of Redis each, mean batch {mean:.0}, mean commit \
         {commit:?}",
        together.per_second, together.redis_microseconds
    )?;
    writeln!(
        out,
        "one call each, {POOL} connections: {:.0} claims/s, {:.1} µs of Redis each; in batches {:.1} times as many",
        alone.per_second,
        alone.redis_microseconds,
        together.per_second / alone.per_second
    )?;
    drop(out);
    ledger.stop().await;
    Ok(())
}
