//! Runs that sell: orders of one sale, each by a different buyer, on an empty data folder; the outcome is
//! checked afterwards.

use std::time::Duration;

use crate::{
    bench::{Bench, BestChoice, MAX_STEAL_PERCENT},
    load::{self, LoadOptions, LoadOutcome, OpenLoop, TapeReader},
    numbers::milliseconds,
    places::Places,
    server::{MeasuredServer, ensure_told},
};

/// More than any run can sell.
const UNITS: u32 = 50_000_000;
/// A tape has enough requests for this many orders a second, before there is a measurement to go by.
const FIRST_GUESS_PER_SECOND: f64 = 150_000.0;
const CONNECTIONS: [usize; 3] = [64, 256, 1024];
/// If the host takes a hundredth of the time, the slowest hundredth of the orders shows the host, not the
/// server.
const MAX_STEAL_PERCENT_OF_QUANTILES: f64 = 0.2;

/// The pace of the orders.
#[derive(Clone, Copy, Debug)]
pub(super) enum SellingPace {
    /// Each connection sends its next order when the last is answered; this rate is expected.
    Closed { expected_per_second: f64 },
    /// They are due at fixed times, whatever the answers do.
    Open { per_second: f64 },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Selling {
    pub(super) places: Places,
    pub(super) connections: usize,
    pub(super) pace: SellingPace,
    pub(super) measured: Duration,
}

/// The result of a run. Latencies are those of accepted orders, from the moment they were due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sold {
    pub(super) per_second: f64,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    pub(super) p999: Duration,
    /// In an open loop: the share sent more than a millisecond after they were due.
    pub(super) late_share: f64,
    pub(super) not_sent_share: f64,
    /// Share of all answers that told the buyer to come again.
    pub(super) refused_share: f64,
}

/// Looks for the number of connections at which a closed loop sells most.
pub(super) fn search(bench: &mut Bench<'_>, places: Places) -> anyhow::Result<BestChoice> {
    let measured = bench.options.measured();
    let mut expected_per_second = FIRST_GUESS_PER_SECOND;
    BestChoice::of("connections", &CONNECTIONS, |connections| {
        let pace = SellingPace::Closed { expected_per_second };
        let per_second = sell(bench, Selling { places, connections, pace, measured })?.per_second;
        expected_per_second = expected_per_second.min(per_second * 2.0).max(per_second * 1.5);
        Ok(per_second)
    })
}

pub(super) fn sell(bench: &mut Bench<'_>, selling: Selling) -> anyhow::Result<Sold> {
    bench.undisturbed_below(selling.pace.max_steal_percent(), selling.places, |bench| {
        let server = MeasuredServer::start(bench, selling.places.server, &[])?;
        let sale = server.api.open_sale(UNITS)?;
        let options = selling.options(&server, bench.options.warm_up());
        let seconds = (options.warm_up + options.measured).as_secs_f64();
        let orders = (selling.pace.per_second() * seconds) as usize + selling.connections;
        let tape = server.orders(&sale, 0, orders)?;
        let outcome = load::run(&options, tape.once())?;
        ensure_told(&outcome, 201, &["busy"])?;
        server.verify(&sale, UNITS.into(), outcome.total.status(201))?;
        server.stop()?;
        let sold = Sold::of(&outcome);
        let line = format!("{}: {}; audit ok", selling.name(), sold.line());
        Ok((sold, line))
    })
}

impl SellingPace {
    fn per_second(self) -> f64 {
        match self {
            Self::Closed { expected_per_second } => expected_per_second,
            Self::Open { per_second } => per_second,
        }
    }

    fn max_steal_percent(self) -> f64 {
        match self {
            Self::Closed { .. } => MAX_STEAL_PERCENT,
            Self::Open { .. } => MAX_STEAL_PERCENT_OF_QUANTILES,
        }
    }
}

impl Selling {
    fn options(&self, server: &MeasuredServer, warm_up: Duration) -> LoadOptions {
        let open_loop = match self.pace {
            SellingPace::Closed { .. } => None,
            // Every order waits for a connection, however long it takes: none is left out of the quantiles.
            SellingPace::Open { per_second } => Some(OpenLoop { per_second, max_waiting: usize::MAX }),
        };
        let (measured, core) = (self.measured, self.places.generator);
        LoadOptions {
            warm_up,
            measured,
            core,
            open_loop,
            ..LoadOptions::new(server.api.address, self.connections)
        }
    }

    fn name(&self) -> String {
        let connections = self.connections;
        match self.pace {
            SellingPace::Closed { .. } => format!("penstock, {connections} connections"),
            SellingPace::Open { per_second } => {
                format!("penstock, {per_second:.0} orders/s on {connections} connections")
            }
        }
    }
}

impl Sold {
    pub(super) fn of(outcome: &LoadOutcome<TapeReader>) -> Self {
        let (measured, arrivals) = (&outcome.measured, outcome.measured_arrivals);
        let latency = &measured.accepted_latency;
        let share = |count: u64, of: u64| count as f64 / of.max(1) as f64;
        Self {
            per_second: outcome.per_second(201),
            p50: latency.quantile(0.5),
            p99: latency.quantile(0.99),
            p999: latency.quantile(0.999),
            late_share: share(arrivals.late, arrivals.sent),
            not_sent_share: share(arrivals.not_sent, arrivals.due),
            refused_share: share(measured.answers - measured.status(201), measured.answers),
        }
    }

    pub(super) fn line(&self) -> String {
        let Self { per_second, p50, p99, p999, .. } = *self;
        format!(
            "{per_second:.0} orders/s, p50 {:.2} ms, p99 {:.2} ms, p999 {:.2} ms, late {:.1} %, told to come again {:.2} %",
            milliseconds(p50),
            milliseconds(p99),
            milliseconds(p999),
            self.late_share * 100.0,
            self.refused_share * 100.0,
        )
    }
}
