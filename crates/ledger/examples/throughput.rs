//! Measures how many claims a second go through the handle, each answered after a sync, and how long a start
//! takes afterwards: first from the journal alone, then from a snapshot.
//!
//! `cargo run --release -p penstock-ledger --example throughput -- [CLAIMS] [TASKS] [FOLDER]`

use std::{
    error::Error,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use penstock_domain::{BuyerId, Claim, KeyDigest, SaleId, SaleTerms, Timestamp};
use penstock_ledger::{
    Health, Ledger, Listener, SaleNews,
    embedded::{self, EmbeddedOptions},
};
use tokio::task::JoinSet;

const THREADS: usize = 2;
type Failure = Box<dyn Error + Send + Sync>;

struct Deaf;

impl Listener for Deaf {
    fn sales_changed(&self, _news: &[SaleNews]) {}
}

fn open(folder: &Path, compact_after: u64) -> Result<Ledger, Failure> {
    let clock = Arc::new(AtomicI64::new(1_700_000_000_000));
    let mut options = EmbeddedOptions::new(folder);
    options.compact_after_decisions = compact_after;
    let clock = Arc::new(move || Timestamp::from_millis(clock.fetch_add(1, Relaxed)));
    Ok(embedded::open(options, clock, Arc::new(Deaf))?)
}

fn sale() -> SaleId {
    SaleId::from_random(0x0123_4567_89ab_cdef)
}

fn claim(number: u64) -> Result<Claim, Failure> {
    let buyer = BuyerId::of_subject(&format!("customer-{number:012}"))?;
    let key = KeyDigest::of(number.to_string().as_bytes())?;
    Ok(Claim { sale: sale(), buyer, quantity: 1, key })
}

/// The buyers on one core: tasks that claim one unit after another.
async fn buyers(
    ledger: Ledger,
    tasks: usize,
    next: Arc<AtomicU64>,
    claims: u64,
) -> Result<Vec<Duration>, Failure> {
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let (ledger, next) = (ledger.clone(), next.clone());
        running.spawn(async move {
            let mut latencies = Vec::new();
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= claims {
                    return Ok::<_, Failure>(latencies);
                }
                let started = Instant::now();
                ledger.claim(claim(number)?).await?;
                latencies.push(started.elapsed());
            }
        });
    }
    let mut latencies = Vec::new();
    while let Some(finished) = running.join_next().await {
        latencies.extend(finished??);
    }
    Ok(latencies)
}

fn current_thread() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn sell(ledger: &Ledger, claims: u64, tasks: usize) -> Result<(Duration, Vec<Duration>), Failure> {
    let next = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (ledger, next) = (ledger.clone(), next.clone());
            std::thread::spawn(move || {
                current_thread()?.block_on(buyers(ledger, tasks / THREADS, next, claims))
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for thread in threads {
        latencies.extend(thread.join().map_err(|_| "a thread of buyers panicked")??);
    }
    latencies.sort();
    Ok((started.elapsed(), latencies))
}

/// Seconds until an opened ledger is ready.
fn start(folder: &Path, compact_after: u64) -> Result<(f64, Ledger), Failure> {
    let started = Instant::now();
    let ledger = open(folder, compact_after)?;
    let health = current_thread()?.block_on(ledger.recovered());
    if health != Health::Ready {
        Err(format!("{health:?}").into())
    } else {
        Ok((started.elapsed().as_secs_f64(), ledger))
    }
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let claims: u64 = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let tasks: usize = arguments.next().map_or(Ok(512), |text| text.parse())?;
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| "target".into())).join("ledger-throughput");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let never = u64::MAX;
    let runtime = current_thread()?;
    let (_, ledger) = start(&folder, never)?;
    let terms = SaleTerms {
        sale: sale(),
        units: u32::try_from(claims)?,
        limit_per_buyer: 1,
        opens_at: None,
        closes_at: None,
        hold_seconds: 900,
    };
    runtime.block_on(ledger.publish(terms))?;
    let (time, latencies) = sell(&ledger, claims, tasks)?;
    let stats = ledger.stats();
    let percentile = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{claims} claims, {tasks} tasks: {:.0} claims/s, mean batch {:.0}, mean commit {:?}, latency p50 {:?} p99 {:?} max {:?}",
        claims as f64 / time.as_secs_f64(),
        stats.commands as f64 / stats.batches as f64,
        stats.commit_time / u32::try_from(stats.batches)?,
        percentile(0.5),
        percentile(0.99),
        percentile(1.0)
    )?;
    runtime.block_on(ledger.stop());
    let (seconds, ledger) = start(&folder, claims / 2)?;
    writeln!(out, "start from the journal: {seconds:.3} s")?;
    // One more decision is enough to wake the compactor.
    runtime.block_on(ledger.restock(sale(), 1))?;
    while !std::fs::read_dir(&folder)?
        .any(|entry| entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("snapshot-")))
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    runtime.block_on(ledger.stop());
    let (seconds, ledger) = start(&folder, never)?;
    writeln!(out, "start from a snapshot: {seconds:.3} s")?;
    runtime.block_on(ledger.stop());
    Ok(std::fs::remove_dir_all(&folder)?)
}
