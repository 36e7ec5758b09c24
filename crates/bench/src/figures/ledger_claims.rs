//! Claims units through the ledger on a running Redis, without HTTP. Each is answered after a sync of the
//! server's log.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{bail, ensure};
use penstock_domain::{BuyerId, Claim, ClaimRefusal, KeyDigest, SaleId, SaleTerms};
use penstock_ledger::{
    Health, Ledger, LedgerError, Listener, SaleNews,
    redis::{self, LedgerOptions, NothingSettled},
};
use penstock_redis_client::{Link, RedisOptions};
use tokio::{runtime, task::JoinSet};

#[derive(Clone, Copy, Debug)]
pub(super) struct LedgerRun {
    pub(super) per_second: f64,
    pub(super) mean_batch: f64,
    pub(super) commit_ms: f64,
}

struct Deaf;

impl Listener for Deaf {
    fn sales_changed(&self, _news: &[SaleNews]) {}
}

/// Publishes a sale with as many units as `claims`, and lets `tasks` tasks claim one after another until all
/// are gone. Fails unless every claim is accepted and the next one finds the sale sold out.
pub(super) fn claim_all(redis: SocketAddr, claims: u64, tasks: usize) -> anyhow::Result<LedgerRun> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let link = Link::connect(RedisOptions::single(redis.to_string())).await?;
        let options = LedgerOptions::default();
        let ledger = redis::open(options, link, None, Arc::new(Deaf), Arc::new(NothingSettled))?;
        ensure!(ledger.recovered().await == Health::Ready, "the ledger is not ready");
        // Each run has a sale of its own.
        let sale = SaleId::from_random(fastrand::u64(..));
        let units = u32::try_from(claims)?;
        let (limit_per_buyer, hold_seconds) = (1, 900);
        let terms = SaleTerms { sale, units, limit_per_buyer, opens_at: None, closes_at: None, hold_seconds };
        ledger.publish(terms).await?;
        let time = sell(&ledger, sale, claims, tasks).await?;
        let stats = ledger.stats();
        match ledger.claim(claim(sale, claims)?).await {
            Err(LedgerError::Refused(ClaimRefusal::SoldOut)) => {}
            other => bail!("one more claim was answered {other:?}"),
        }
        ledger.stop().await;
        let batches = stats.batches as f64;
        Ok(LedgerRun {
            per_second: claims as f64 / time.as_secs_f64(),
            mean_batch: stats.commands as f64 / batches,
            commit_ms: stats.commit_time.as_secs_f64() * 1e3 / batches,
        })
    })
}

fn claim(sale: SaleId, number: u64) -> anyhow::Result<Claim> {
    let buyer = BuyerId::of_subject(&format!("customer-{number:012}"))?;
    let key = KeyDigest::of(number.to_string().as_bytes())?;
    Ok(Claim { sale, buyer, quantity: 1, key })
}

/// Runs tasks that claim one unit after another until all are gone. Returns how long that took.
async fn sell(ledger: &Ledger, sale: SaleId, claims: u64, tasks: usize) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let mut running = JoinSet::new();
    let next = Arc::new(AtomicU64::new(0));
    for _ in 0..tasks {
        let (ledger, next) = (ledger.clone(), next.clone());
        running.spawn(async move {
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= claims {
                    return anyhow::Ok(());
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
