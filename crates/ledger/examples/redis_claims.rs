//! How many claims a second the ledger on Redis takes through its handle, every answer after a sync of the append-only
//! file, against one script call for each claim on the same server.
//!
//! `cargo run --release -p penstock-ledger --example redis_claims -- [CLAIMS] [TASKS] [BATCH]`

use std::{
    error::Error,
    io::{self, Write as _},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use penstock_domain::{BuyerId, Claim, KeyDigest, SaleId, SaleTerms};
use penstock_ledger::{
    BatcherOptions, Health, Ledger, Listener, SaleNews,
    redis::{self, LedgerOptions, Link, NothingSettled, RedisOptions, Script},
};
use penstock_local::{RedisServer, RedisSettings};
use tokio::task::JoinSet;

type Failure = Box<dyn Error + Send + Sync>;

/// What a shop would write: look for the buyer, take a unit, note the buyer and append the order.
const ONE_CLAIM: &str = "
if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return -1 end
if tonumber(redis.call('GET', KEYS[1])) < 1 then return -2 end
redis.call('DECR', KEYS[1])
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('XADD', KEYS[3], '*', 'buyer', ARGV[1], 'key', ARGV[2])
return 1";

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

async fn sell_one_by_one(link: &Link, claims: u64, tasks: usize) -> Result<Duration, Failure> {
    let script = Script::new(ONE_CLAIM);
    link.learn(&script);
    let mut set = ::redis::cmd("SET");
    set.arg("{one}:stock").arg(claims);
    link.call::<()>("{one}:stock", set).await?;
    buyers(tasks, claims, |number| {
        let (link, mut call) = (link.clone(), script.call());
        call.arg(3).arg("{one}:stock").arg("{one}:buyers").arg("{one}:orders");
        call.arg(format!("customer-{number:012}")).arg(number);
        async move {
            match link.call::<i64>("{one}:stock", call).await? {
                1 => Ok(()),
                refused => Err(format!("refused: {refused}").into()),
            }
        }
    })
    .await
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
    let alone = sell_one_by_one(&link, claims.min(100_000), tasks).await?;
    let batched = sell_in_batches(&ledger, claims, tasks).await?;
    let stats = ledger.stats();
    let (alone, together) =
        (claims.min(100_000) as f64 / alone.as_secs_f64(), claims as f64 / batched.as_secs_f64());
    let mean = stats.commands as f64 / stats.batches as f64;
    let commit = stats.commit_time / u32::try_from(stats.batches)?;
    writeln!(
        io::stdout().lock(),
        "{claims} claims, {tasks} tasks: {together:.0} claims/s in batches of {mean:.0} (commit {commit:?}), \
         {alone:.0} claims/s one call each: {:.1} times",
        together / alone
    )?;
    ledger.stop().await;
    Ok(())
}
