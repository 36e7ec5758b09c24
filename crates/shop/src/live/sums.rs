//! Adds up the nodes' counters and computes how fast they grow. A node whose counters started again, or that
//! has fallen silent, has no rate until it has reported twice.

use std::collections::BTreeMap;

use penstock_domain::SaleId;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    figures::{MAX_SALES, NodeFigures, Refusals, SaleFigures},
    sample::SeenNode,
};
use crate::tally::LATENCY_BOUNDS_MICROSECONDS;

/// Refusals per second, by code; codes without refusals are left out.
pub type RefusalRates = BTreeMap<String, f64>;

/// The growth of one node's counters between its last two reports.
pub struct NodePace<'a> {
    before: &'a NodeFigures,
    now: &'a NodeFigures,
    pub seconds: f64,
}

impl<'a> NodePace<'a> {
    pub fn of(seen: &'a SeenNode) -> Option<Self> {
        let before = seen.before.as_deref().filter(|_| !seen.is_silent())?;
        let milliseconds = seen.now.counted_milliseconds.checked_sub(before.counted_milliseconds)?;
        let seconds = milliseconds as f64 / 1000.0;
        (seconds > 0.0).then_some(Self { before, now: &seen.now, seconds })
    }

    pub fn rate(&self, count: impl Fn(&NodeFigures) -> u64) -> f64 {
        count(self.now).saturating_sub(count(self.before)) as f64 / self.seconds
    }

    pub fn add_refusals(&self, rates: &mut RefusalRates, of: impl Fn(&NodeFigures) -> Option<&Refusals>) {
        let before = of(self.before);
        for (code, count) in of(self.now).into_iter().flatten() {
            let before = before.and_then(|before| before.get(code)).copied().unwrap_or_default();
            let grown = count.saturating_sub(before);
            if grown > 0 {
                *rates.entry(code.clone()).or_default() += grown as f64 / self.seconds;
            }
        }
    }

    /// Whether the growth of this sale's counters is known. If a report had too many sales to include it, it
    /// may have been counted for long before.
    fn knows(&self, sale: SaleId) -> bool {
        self.before.sales.contains_key(&sale) || self.before.sales.len() < MAX_SALES
    }
}

/// The latency of claims that the ledger has decided.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
pub struct LiveLatency {
    /// How many claims were measured.
    pub claims: u64,
    /// The median. This and the next are estimates between the bounds of `/metrics`.
    pub p50_ms: f64,
    /// The 99th percentile. 4,000 stands for anything longer.
    pub p99_ms: f64,
    /// An upper bound for all of them. 4,000 stands for anything longer.
    pub max_ms: f64,
}

/// Since the current nodes started. `claims` is the sum of `accepted`, `repeated`, `gone` and all of
/// `refused`.
#[derive(Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct LiveTotals {
    pub looks: u64,
    pub claims: u64,
    /// Claims that got an order. Each order counts once.
    pub accepted: u64,
    /// Claims that were sent again with the key of an accepted one, and got its answer again.
    #[schema(required = false)]
    pub repeated: u64,
    /// Refused claims, by code.
    #[schema(value_type = std::collections::BTreeMap<String, u64>)]
    pub refused: Refusals,
    /// Claims whose client was gone before the answer.
    pub gone: u64,
    /// Passes given out.
    pub passes: u64,
    /// Tickets of the waiting room.
    pub tickets: u64,
    /// People whose turn has come.
    pub admitted: u64,
}

/// The counters of one sale, over all nodes.
#[derive(Debug, Default)]
pub struct SaleSums {
    pub totals: LiveTotals,
    pub admitted_per_second: f64,
    pub looks_per_second: f64,
    pub claims_per_second: f64,
    pub accepted_per_second: f64,
    pub refusals_per_second: RefusalRates,
}

impl SaleSums {
    pub fn of(sale: SaleId, nodes: &[SeenNode]) -> Self {
        let mut sums = Self::default();
        for seen in nodes {
            if let Some(figures) = seen.now.sales.get(&sale) {
                sums.totals.add(figures);
            }
            if let Some(pace) = NodePace::of(seen).filter(|pace| pace.knows(sale)) {
                sums.add_rates(sale, &pace);
            }
        }
        sums
    }

    fn add_rates(&mut self, sale: SaleId, pace: &NodePace<'_>) {
        let rate = |count: fn(&SaleFigures) -> u64| pace.rate(|node| node.sales.get(&sale).map_or(0, count));
        self.looks_per_second += rate(|figures| figures.looks);
        self.claims_per_second += rate(SaleFigures::claims);
        self.accepted_per_second += rate(|figures| figures.accepted);
        // All nodes share the waiting room, and some learn of changes earlier than others.
        self.admitted_per_second = self.admitted_per_second.max(rate(|figures| figures.admitted));
        pace.add_refusals(&mut self.refusals_per_second, |node| {
            node.sales.get(&sale).map(|figures| &figures.refused)
        });
    }
}

impl LiveTotals {
    fn add(&mut self, figures: &SaleFigures) {
        self.looks += figures.looks;
        self.claims += figures.claims();
        self.accepted += figures.accepted;
        self.repeated += figures.repeated;
        for (code, count) in &figures.refused {
            *self.refused.entry(code.clone()).or_default() += count;
        }
        self.gone += figures.gone;
        self.passes += figures.passes;
        // All nodes share the waiting room.
        self.tickets = self.tickets.max(figures.tickets);
        self.admitted = self.admitted.max(figures.admitted);
    }
}

/// The latency of the claims that all nodes have had decided since their previous report.
pub fn latency(nodes: &[SeenNode]) -> Option<LiveLatency> {
    let mut counts = [0_u64; LATENCY_BOUNDS_MICROSECONDS.len() + 1];
    for pace in nodes.iter().filter_map(NodePace::of) {
        let grown = pace.now.claim_latencies.iter().zip(&pace.before.claim_latencies);
        for (count, (now, before)) in counts.iter_mut().zip(grown) {
            *count += now.saturating_sub(*before);
        }
    }
    let claims = counts.iter().sum();
    let slowest = counts.iter().rposition(|count| *count > 0)?;
    Some(LiveLatency {
        claims,
        p50_ms: quantile_milliseconds(&counts, 0.5),
        p99_ms: quantile_milliseconds(&counts, 0.99),
        max_ms: bound_milliseconds(slowest),
    })
}

/// The upper bound of a bucket; slower claims count as the last bound.
fn bound_milliseconds(bucket: usize) -> f64 {
    let bounds = LATENCY_BOUNDS_MICROSECONDS;
    let bound = bounds.get(bucket).or(bounds.last()).copied().unwrap_or_default();
    bound as f64 / 1000.0
}

/// Computed as Prometheus does: as if the claims of a bucket were spread evenly over it.
fn quantile_milliseconds(counts: &[u64], quantile: f64) -> f64 {
    let rank = quantile * counts.iter().sum::<u64>() as f64;
    let mut below = 0.0;
    for (bucket, count) in counts.iter().enumerate() {
        let count = *count as f64;
        if count > 0.0 && below + count >= rank {
            let from = bucket.checked_sub(1).map_or(0.0, bound_milliseconds);
            return from + (bound_milliseconds(bucket) - from) * (rank - below) / count;
        }
        below += count;
    }
    0.0
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;

    fn sale() -> SaleId {
        SaleId::from_random(7)
    }

    fn figures(counted_milliseconds: u64, requests: u64, accepted: u64, sold_out: u64) -> NodeFigures {
        let refused = Refusals::from([("sold_out".to_owned(), sold_out)]);
        let of_sale =
            SaleFigures { accepted, refused: refused.clone(), tickets: 40, ..SaleFigures::default() };
        NodeFigures {
            ready: true,
            counted_milliseconds,
            requests,
            refusals: refused,
            sales: BTreeMap::from([(sale(), of_sale)]),
            ..NodeFigures::default()
        }
    }

    fn seen(before: Option<NodeFigures>, now: NodeFigures) -> SeenNode {
        SeenNode {
            name: "a".to_owned(),
            age: Duration::ZERO,
            before: before.map(Arc::new),
            now: Arc::new(now),
        }
    }

    #[test]
    fn the_rates_of_nodes_add_up_each_over_its_own_time() {
        let a = seen(Some(figures(1000, 10, 1, 5)), figures(2000, 30, 2, 15));
        let b = seen(Some(figures(500, 0, 0, 0)), figures(1000, 10, 1, 4));
        let sums = SaleSums::of(sale(), &[a, b]);
        assert_eq!((sums.totals.claims, sums.totals.accepted, sums.totals.refused["sold_out"]), (22, 3, 19));
        assert_eq!(sums.totals.tickets, 40, "the nodes share the waiting room");
        assert_eq!((sums.claims_per_second, sums.accepted_per_second), (11.0 + 10.0, 1.0 + 2.0));
        assert_eq!(sums.refusals_per_second, RefusalRates::from([("sold_out".to_owned(), 10.0 + 8.0)]));
    }

    #[test]
    fn a_restarted_node_has_no_rate_and_never_a_negative_one() {
        let anew = seen(Some(figures(60_000, 900, 9, 90)), figures(1000, 3, 1, 1));
        assert!(NodePace::of(&anew).is_none());
        let sums = SaleSums::of(sale(), &[anew]);
        assert_eq!((sums.totals.claims, sums.claims_per_second), (2, 0.0));
        let less = seen(Some(figures(1000, 900, 9, 90)), figures(2000, 3, 1, 1));
        assert_eq!(SaleSums::of(sale(), &[less]).claims_per_second, 0.0);
    }

    #[test]
    fn a_silent_node_counts_in_the_totals_and_not_in_the_rates() {
        let mut silent = seen(Some(figures(1000, 10, 1, 5)), figures(2000, 30, 2, 15));
        silent.age = Duration::from_secs(5);
        let sums = SaleSums::of(sale(), &[silent]);
        assert_eq!((sums.totals.claims, sums.claims_per_second), (17, 0.0));
        assert!(sums.refusals_per_second.is_empty());
    }

    #[test]
    fn a_node_that_reported_once_has_no_rate_yet() {
        assert_eq!(SaleSums::of(sale(), &[seen(None, figures(1000, 10, 1, 5))]).claims_per_second, 0.0);
    }

    #[test]
    fn latencies_cover_only_the_time_between_two_reports() {
        let with = |milliseconds, latencies: &[u64]| NodeFigures {
            claim_latencies: latencies.to_vec(),
            ..figures(milliseconds, 0, 0, 0)
        };
        let zero = [9; 15];
        assert_eq!(latency(&[seen(Some(with(0, &zero)), with(1000, &zero))]), None);
        let mut later = zero;
        // 1 to 2 ms, 4 to 8 ms.
        later[3] += 98;
        later[5] += 2;
        let measured = latency(&[seen(Some(with(0, &zero)), with(1000, &later))]).unwrap();
        assert_eq!((measured.claims, measured.max_ms), (100, 8.0));
        assert!(measured.p50_ms > 1.0 && measured.p50_ms < 2.0, "{measured:?}");
        assert_eq!(measured.p99_ms, 6.0);
        later[14] += 1_000_000;
        let measured = latency(&[seen(Some(with(0, &zero)), with(1000, &later))]).unwrap();
        assert_eq!((measured.p99_ms, measured.max_ms), (4000.0, 4000.0));
    }
}
