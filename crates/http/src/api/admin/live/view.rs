//! The live view as the API shows it. Unknown figures stay empty.

use penstock_domain::Timestamp;
use penstock_shop::{
    housekeeping::waitlists::may_wait,
    live::{LiveLatency, LiveTotals, NodePace, RefusalRates, SaleSums, Sample, SeenNode, latency},
    storefront::Shelf,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::contract::{wire::Rfc3339, words::SaleStateWord};

/// The shop at one moment: sums over all nodes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LiveFigures {
    #[schema(value_type = String, format = DateTime)]
    at: Rfc3339,
    /// The time over which the rates are measured; 0 if there is nothing to compare with yet.
    seconds: f64,
    settlement: LiveSettlement,
    /// Of the claims that the ledger decided in this time; empty if there were none.
    latency: Option<LiveLatency>,
    requests_per_second: f64,
    /// All refused requests, by code.
    #[schema(value_type = std::collections::BTreeMap<String, f64>)]
    refusals_per_second: RefusalRates,
    /// The node that answers comes first. A node that is gone is shown as not ready for some seconds.
    nodes: Vec<LiveNode>,
    /// The requested sale; without one, the sales that are not over, newest first, at most 50.
    sales: Vec<LiveSale>,
}

/// How far settlement is behind. Unknown figures are empty.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LiveSettlement {
    /// Decisions that are not settled yet.
    lag_decisions: Option<u64>,
    /// Age of the oldest of them.
    lag_seconds: Option<f64>,
    /// Decisions that were put aside and wait for a merchant.
    dead_letters: Option<u64>,
    /// Why something can't be settled at the moment.
    trouble: Option<String>,
}

/// A node as the answering node sees it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LiveNode {
    name: String,
    /// Whether it can sell.
    ready: bool,
    /// What is wrong, even if it can still sell.
    trouble: Option<String>,
    /// How long ago it last reported.
    seen_seconds_ago: f64,
    /// Empty until it has reported twice, and when it has fallen silent.
    requests_per_second: Option<f64>,
    /// Claims that are being decided.
    in_flight: u64,
    /// The most claims that may be decided at once.
    in_flight_limit: u64,
    /// Requests that wait for the ledger's writer.
    queue_depth: u64,
    connections: u64,
}

/// A sale: its stock, the demand for it, and the answers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LiveSale {
    id: String,
    title: String,
    #[schema(value_type = SaleStateWord)]
    state: &'static str,
    total: u32,
    available: u32,
    held: u32,
    paid: u32,
    /// People in the waiting room who are present and whose turn has not come.
    waiting: u64,
    /// People on the waitlist, as far as it is settled; empty while the records are unavailable.
    waitlist: Option<u64>,
    /// Passes that buyers hold: neither used nor expired.
    passes_live: u64,
    admitted_per_second: f64,
    /// Reads of the sale that reached a node; a cache in front of the nodes answers most of them.
    looks_per_second: f64,
    claims_per_second: f64,
    accepted_per_second: f64,
    /// Refused claims, by code.
    #[schema(value_type = std::collections::BTreeMap<String, f64>)]
    refusals_per_second: RefusalRates,
    totals: LiveTotals,
}

impl LiveFigures {
    pub(super) fn new(sample: &Sample, sales: Vec<LiveSale>, at: Timestamp) -> Self {
        let mut refusals_per_second = RefusalRates::new();
        let mut requests_per_second = 0.0;
        for pace in sample.nodes.iter().filter_map(NodePace::of) {
            requests_per_second += pace.rate(|node| node.requests);
            pace.add_refusals(&mut refusals_per_second, |node| Some(&node.refusals));
        }
        Self {
            at: Rfc3339(at),
            seconds: sample.nodes.first().and_then(NodePace::of).map_or(0.0, |pace| pace.seconds),
            settlement: LiveSettlement::new(sample),
            latency: latency(&sample.nodes),
            requests_per_second,
            refusals_per_second,
            nodes: sample.nodes.iter().map(LiveNode::new).collect(),
            sales,
        }
    }
}

impl LiveSettlement {
    fn new(sample: &Sample) -> Self {
        let settlement = sample.settlement.as_ref();
        Self {
            lag_decisions: settlement.map(|settlement| settlement.lag_decisions),
            lag_seconds: settlement.map(|settlement| settlement.lag_seconds),
            dead_letters: sample.dead_letters,
            trouble: match settlement {
                Some(settlement) => settlement.trouble.clone(),
                None => Some("no settlement worker reports".to_owned()),
            },
        }
    }
}

impl LiveNode {
    fn new(seen: &SeenNode) -> Self {
        let node = &seen.now;
        let silent = seen.is_silent().then(|| format!("not heard from for {} seconds", seen.age.as_secs()));
        Self {
            name: seen.name.clone(),
            ready: node.ready && silent.is_none(),
            trouble: silent.or_else(|| node.trouble.clone()),
            seen_seconds_ago: seen.age.as_secs_f64(),
            requests_per_second: NodePace::of(seen).map(|pace| pace.rate(|node| node.requests)),
            in_flight: node.in_flight,
            in_flight_limit: node.in_flight_limit,
            queue_depth: node.queue_depth,
            connections: node.connections,
        }
    }
}

impl LiveSale {
    /// None if the ledger has not announced the sale, or its details are not loaded.
    pub(super) fn new(shelf: &Shelf, sample: &Sample, now: Timestamp) -> Option<Self> {
        let (status, details) = (shelf.status()?, shelf.details()?);
        let gate = shelf.gate_figures(now);
        let sums = SaleSums::of(shelf.id, &sample.nodes);
        let state = status.state(now);
        Some(Self {
            id: shelf.id.to_string(),
            title: details.item.title.clone(),
            state: state.as_str(),
            total: status.total,
            available: status.available,
            held: status.held,
            paid: status.paid,
            waiting: gate.waiting,
            waitlist: if may_wait(state) { shelf.waitlist() } else { Some(0) },
            passes_live: gate.passes_live,
            admitted_per_second: sums.admitted_per_second,
            looks_per_second: sums.looks_per_second,
            claims_per_second: sums.claims_per_second,
            accepted_per_second: sums.accepted_per_second,
            refusals_per_second: sums.refusals_per_second,
            totals: sums.totals,
        })
    }
}
