//! `latch_propagation_ms`: how long after node A answers for a sale's last unit node B says "sold out" by
//! itself, and how long after a cancelled order B says "open" again.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, ensure};
use penstock_local::RedisKind;
use penstock_rush::{
    api::{SaleOffer, ShopApi},
    connection::HttpAnswer,
    latency::LatencyHistogram,
};

use crate::{
    bench::Bench,
    cluster::Cluster,
    load::{self, LoadOptions, LoadScript, OpenLoop, Tape, TapeCall, TapeReader},
    numbers::{hundredth, hundredths, median, milliseconds},
    places::Places,
    report::BenchFigure,
};

/// Each sale gives two samples: when its unit is sold, and when it comes back.
const SALES: usize = 200;
const QUICK_SALES: usize = 50;
const ROUNDS: usize = 3;
const LIMIT_MS: f64 = 100.0;
/// In the round with load: orders in another sale meanwhile, through nginx. They are far enough apart that
/// the generator does not spin between them.
const LOAD_PER_SECOND: f64 = 500.0;
const LOAD_CONNECTIONS: usize = 256;
const LOAD_UNITS: u32 = 10_000_000;
/// Keeps the buyers of the load apart from the others.
const LOAD_FIRST_BUYER: u64 = 1_000_000_000;
const LOAD_ORDERS: usize = 100_000;
/// The time between two looks at B; it is part of the measured delay.
const LOOK_EVERY: Duration = Duration::from_micros(200);
/// A change that B has not heard of by then was lost.
const LOOK_LIMIT: Duration = Duration::from_secs(10);
const PLACES: Places = Places::ANYWHERE;

/// The delays of one round.
#[derive(Debug, Default)]
struct Delays {
    all: LatencyHistogram,
    sold_out: LatencyHistogram,
    returned: LatencyHistogram,
}

pub(super) fn measure(bench: &mut Bench<'_>) -> anyhow::Result<BenchFigure> {
    let (rounds, sales) = if bench.options.quick { (1, QUICK_SALES) } else { (ROUNDS, SALES) };
    let cluster = Cluster::start(bench, RedisKind::Single, &[])?;
    let mut first_buyer = 0;
    let mut sample = |bench: &mut Bench<'_>, what: &str| {
        bench.undisturbed(PLACES, |_| {
            let delays = Delays::sample(&cluster, sales, first_buyer)?;
            first_buyer += sales as u64;
            let line = delays.line(what);
            Ok((delays, line))
        })
    };
    let mut quiet = Vec::new();
    for _ in 0..rounds {
        quiet.push(sample(bench, "nothing else to do")?);
    }
    let loaded = under_load(&cluster, || sample(bench, "while others buy"))?;
    cluster.api.audit()?;
    cluster.stop()?;
    let all = |of: fn(&Delays) -> Duration| {
        quiet.iter().map(|delays| of(delays).as_secs_f64() * 1e3).collect::<Vec<f64>>()
    };
    let p99 = all(|delays| delays.all.quantile(0.99));
    Ok(BenchFigure::of(&p99, "ms")
        .limit(LIMIT_MS)
        .detail("p50_ms", hundredth(median(&all(|delays| delays.all.quantile(0.5)))))
        .detail("max_ms", hundredths(&all(|delays| delays.all.max())))
        .detail("sold_out_p99_ms", hundredths(&all(|delays| delays.sold_out.quantile(0.99))))
        .detail("returned_p99_ms", hundredths(&all(|delays| delays.returned.quantile(0.99))))
        .detail("under_load_p50_ms", milliseconds(loaded.all.quantile(0.5)))
        .detail("under_load_p99_ms", milliseconds(loaded.all.quantile(0.99)))
        .detail("under_load_orders_per_second", LOAD_PER_SECOND)
        .detail("samples_per_round", sales * 2))
}

/// Does `work` while orders come at a steady pace.
fn under_load<T>(cluster: &Cluster, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let sale = cluster.api.open_sale(LOAD_UNITS)?;
    let tape = cluster.orders(cluster.entrance(), &sale, LOAD_FIRST_BUYER, LOAD_ORDERS)?;
    let open_loop = Some(OpenLoop { per_second: LOAD_PER_SECOND, max_waiting: usize::MAX });
    let options = LoadOptions { open_loop, ..LoadOptions::new(cluster.entrance(), LOAD_CONNECTIONS) };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let load = scope.spawn(|| {
            let reader = tape.once();
            load::run(&options, Until { reader, is_over: &is_over })
        });
        let result = work();
        is_over.store(true, Relaxed);
        let outcome = load.join().map_err(|_| anyhow!("the load panicked"))??;
        ensure!(outcome.total.status(201) > 0, "no order of the load was accepted");
        result
    })
}

/// Orders until it is told to stop.
struct Until<'a> {
    reader: TapeReader,
    is_over: &'a AtomicBool,
}

impl LoadScript for Until<'_> {
    fn next_request(&mut self) -> Option<(u64, &[u8])> {
        if self.is_over.load(Relaxed) { None } else { self.reader.next_request() }
    }
}

impl Delays {
    /// Takes one sale after the other; the nodes take turns.
    fn sample(cluster: &Cluster, sales: usize, first_buyer: u64) -> anyhow::Result<Self> {
        let mut delays = Self::default();
        let nodes = &cluster.nodes;
        for number in 0..sales {
            let node = |place: usize| nodes.get(place % nodes.len().max(1)).context("no nodes");
            let (seller, watched) = (node(number)?, node(number + 1)?);
            let buyer = first_buyer + number as u64;
            let sale = cluster.api.publish(&SaleOffer { units: 1, ..SaleOffer::default() })?;
            until_open(seller, &sale)?;
            let here = seller.address;
            let watch = Watch { address: watched.address, sale: &sale };
            let order = cluster.orders(here, &sale, buyer, 1)?;
            let (delay, answer) = watch.delay(here, &order, "open", "sold_out")?;
            delays.all.record(delay);
            delays.sold_out.record(delay);

            let id = field(&answer, "id").context("an order without an id")?;
            let path = format!("/api/v1/orders/{id}/cancel");
            let cancel = cluster.calls(here, &TapeCall::bare("POST", &path), buyer, 1)?;
            let (delay, _) = watch.delay(here, &cancel, "sold_out", "open")?;
            delays.all.record(delay);
            delays.returned.record(delay);
        }
        Ok(delays)
    }

    fn line(&self, what: &str) -> String {
        let p99 = |latency: &LatencyHistogram| milliseconds(latency.quantile(0.99));
        format!(
            "{what}: {} samples, p50 {} ms, p99 {} ms (sold out {}, returned {}), most {} ms",
            self.all.count(),
            milliseconds(self.all.quantile(0.5)),
            p99(&self.all),
            p99(&self.sold_out),
            p99(&self.returned),
            milliseconds(self.all.max())
        )
    }
}

/// Returns when the node sells the sale as well: news of a new sale reaches each node in its own time.
fn until_open(node: &ShopApi, sale: &str) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !node.sale_state(sale).is_ok_and(|state| state == "open") {
        ensure!(begun.elapsed() < LOOK_LIMIT, "{} never heard of a sale", node.address);
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// A sale as one node shows it.
#[derive(Clone, Copy, Debug)]
struct Watch<'a> {
    address: SocketAddr,
    sale: &'a str,
}

impl Watch<'_> {
    /// The time from the answer of `here` to the first `after` of the watched node, and the answer. Zero if
    /// the node said `after` earlier. The request is sent once the watched node says `before`.
    fn delay(
        self,
        here: SocketAddr,
        request: &Tape,
        before: &str,
        after: &str,
    ) -> anyhow::Result<(Duration, String)> {
        let is_watching = AtomicBool::new(false);
        thread::scope(|scope| {
            let watching = scope.spawn(|| self.look_for(before, after, &is_watching));
            let begun = Instant::now();
            while !is_watching.load(Relaxed) {
                ensure!(begun.elapsed() < LOOK_LIMIT, "{} never said {before}", self.address);
                thread::sleep(LOOK_EVERY);
            }
            let answer = load::ask_once(here, request.request(0).context("an empty tape")?)?;
            ensure!(matches!(answer.status, 200 | 201), "refused: {}", answer.body);
            let seen_at = watching.join().map_err(|_| anyhow!("the watch panicked"))??;
            Ok((seen_at.saturating_duration_since(answer.at), answer.body))
        })
    }

    /// When the node said `after`. Sets `is_watching` once the node has said `before`.
    fn look_for(self, before: &str, after: &str, is_watching: &AtomicBool) -> anyhow::Result<Instant> {
        let Self { address, sale } = self;
        let request = format!("GET /api/v1/sales/{sale} HTTP/1.1\r\nHost: {address}\r\n\r\n").into_bytes();
        let looks = SaleLooks { request, begun: Instant::now(), before, after, is_watching, seen_at: None };
        let looks = load::run(&LoadOptions::new(address, 1), looks)?.script;
        looks.seen_at.with_context(|| format!("{address} did not say {after} within {LOOK_LIMIT:?}"))
    }
}

/// One look after the other at a sale, with a rest between them.
struct SaleLooks<'a> {
    request: Vec<u8>,
    begun: Instant,
    before: &'a str,
    after: &'a str,
    is_watching: &'a AtomicBool,
    seen_at: Option<Instant>,
}

impl LoadScript for SaleLooks<'_> {
    fn next_request(&mut self) -> Option<(u64, &[u8])> {
        if self.seen_at.is_some() || self.begun.elapsed() > LOOK_LIMIT {
            return None;
        }
        thread::sleep(LOOK_EVERY);
        Some((0, &self.request))
    }

    fn answered(&mut self, _number: u64, answer: &HttpAnswer<'_>) {
        let now = Instant::now();
        let state = std::str::from_utf8(answer.body).ok().and_then(|body| field(body, "state"));
        if state == Some(self.before) {
            self.is_watching.store(true, Relaxed);
        } else if state == Some(self.after) && self.is_watching.load(Relaxed) {
            self.seen_at.get_or_insert(now);
        }
    }
}

/// Finds a text in a JSON body by a scan: a parse would take longer than the measured delay.
fn field<'a>(body: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = body.split_once(&format!("\"{name}\":\""))?;
    rest.split_once('"').map(|(text, _)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sold_out_before_open_is_not_counted() {
        let is_watching = AtomicBool::new(false);
        let mut looks = SaleLooks {
            request: Vec::new(),
            begun: Instant::now(),
            before: "open",
            after: "sold_out",
            is_watching: &is_watching,
            seen_at: None,
        };
        let mut say = |body: &str| {
            let body = body.as_bytes();
            let total_bytes = body.len();
            let answer =
                HttpAnswer { status: 200, body, total_bytes, closes: false, retry_after_seconds: None };
            looks.answered(0, &answer);
            (is_watching.load(Relaxed), looks.seen_at.is_some())
        };
        assert_eq!(say(r#"{"id":"1","state":"sold_out"}"#), (false, false));
        assert_eq!(say(r#"{"id":"1","state":"open"}"#), (true, false));
        assert_eq!(say(r#"{"code":"busy"}"#), (true, false));
        assert_eq!(say(r#"{"id":"1","state":"sold_out"}"#), (true, true));
    }
}
