//! Claims units through the ledger on a running Redis, each answered after a sync of the server's log, and
//! prints a line of JSON with the rate: the benchmark of the ledger below HTTP.
//!
//! `cargo run --release -p penstock-ledger --example claims_at -- ADDRESS [CLAIMS] [TASKS]`

use std::{
    error::Error,
    io::{self, Write as _},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use penstock_domain::{BuyerId, Claim, ClaimRefusal, KeyDigest, SaleId, SaleTerms};
use penstock_ledger::{
    Health, Ledger, LedgerError, Listener, SaleNews,
    redis::{self, LedgerOptions, NothingSettled},
};
use penstock_redis_client::{Link, RedisOptions};
use tokio::task::JoinSet;

type Failure = Box<dyn Error + Send + Sync>;

struct Deaf;

impl Listener for Deaf {
    fn sales_changed(&self, _news: &[SaleNews]) {}
}

fn claim(sale: SaleId, number: u64) -> Result<Claim, Failure> {
    let buyer = BuyerId::of_subject(&format!("customer-{number:012}"))?;
    let key = KeyDigest::of(number.to_string().as_bytes())?;
    Ok(Claim { sale, buyer, quantity: 1, key })
}

/// Runs tasks that claim one unit after another until all are gone. Returns how long that took.
async fn sell(ledger: &Ledger, sale: SaleId, claims: u64, tasks: usize) -> Result<Duration, Failure> {
    let started = Instant::now();
    let mut running = JoinSet::new();
    let next = Arc::new(AtomicU64::new(0));
    for _ in 0..tasks {
        let (ledger, next) = (ledger.clone(), next.clone());
        running.spawn(async move {
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= claims {
                    return Ok::<(), Failure>(());
                }
                ledger.claim(claim(sale, number)?).await?;
            }
        });
    }
    while let Some(finished) = running.join_next().await {
        finished??;
    }
    Ok(started.elapsed())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().ok_or("which Redis? ADDRESS is missing")?;
    let claims: u64 = arguments.next().map_or(Ok(400_000), |text| text.parse())?;
    let tasks: usize = arguments.next().map_or(Ok(2_048), |text| text.parse())?;
    let link = Link::connect(RedisOptions::single(address)).await?;
    let options = LedgerOptions::default();
    let ledger = redis::open(options, link, None, Arc::new(Deaf), Arc::new(NothingSettled))?;
    if ledger.recovered().await != Health::Ready {
        return Err("the ledger is not ready".into());
    }
    // Each run has a sale of its own.
    let sale = SaleId::from_random(getrandom::u64()?);
    let terms = SaleTerms {
        sale,
        units: u32::try_from(claims)?,
        limit_per_buyer: 1,
        opens_at: None,
        closes_at: None,
        hold_seconds: 900,
    };
    ledger.publish(terms).await?;
    let time = sell(&ledger, sale, claims, tasks).await?;
    let stats = ledger.stats();
    // All claims were accepted. If the next one finds the sale sold out, exactly that many units are gone.
    match ledger.claim(claim(sale, claims)?).await {
        Err(LedgerError::Refused(ClaimRefusal::SoldOut)) => {}
        other => return Err(format!("one more claim was answered {other:?}").into()),
    }
    ledger.stop().await;
    let per_second = claims as f64 / time.as_secs_f64();
    let mean_batch = stats.commands as f64 / stats.batches as f64;
    let commit_ms = stats.commit_time.as_secs_f64() * 1e3 / stats.batches as f64;
    writeln!(
        io::stdout().lock(),
        "{{\"claims_per_second\":{per_second:.0},\"mean_batch\":{mean_batch:.1},\"commit_ms\":{commit_ms:.3}}}"
    )?;
    Ok(())
}
