//! The counters that a node shows the others, and those of a settlement worker. Counters only grow while a
//! process lives; a reader who compares two readings knows what happened in between.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use penstock_domain::{SaleId, SaleState, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    code::Code,
    options::SettlementView,
    shop::Shop,
    storefront::Shelf,
    tally::{ConnectionEnd, Group, LATENCY_BOUNDS_MICROSECONDS, OUTCOMES, Outcome},
};

/// The most sales that the live view lists.
pub const MAX_LISTED_SALES: usize = 50;
/// The most sales a node reports, so that what it writes each second stays small.
pub(super) const MAX_SALES: usize = 100;
const _: () = assert!(MAX_SALES >= MAX_LISTED_SALES);

/// How often something was refused, by code; codes without refusals are left out.
pub(super) type Refusals = BTreeMap<String, u64>;

/// The figures that a process shows the others.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToldFigures {
    Node(NodeFigures),
    Worker(SettlementFigures),
}

impl ToldFigures {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// None if they come from a version that writes something else.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

/// How far settlement has come, according to the worker that settles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SettlementFigures {
    /// Decisions that are known to be settled.
    pub position: u64,
    pub lag_decisions: u64,
    pub lag_seconds: f64,
    pub trouble: Option<String>,
}

impl From<SettlementView> for SettlementFigures {
    fn from(view: SettlementView) -> Self {
        let SettlementView { position, lag_decisions, lag_seconds, trouble, .. } = view;
        Self { position, lag_decisions, lag_seconds, trouble }
    }
}

/// The counters of a node since it started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeFigures {
    pub ready: bool,
    pub trouble: Option<String>,
    /// How long it has been counting.
    pub counted_milliseconds: u64,
    pub requests: u64,
    pub refusals: Refusals,
    /// Claims that the ledger decided, by their latency: one count for each bound, and one for slower ones.
    pub claim_latencies: Vec<u64>,
    pub in_flight: u64,
    pub in_flight_limit: u64,
    pub queue_depth: u64,
    pub connections: u64,
    pub sales: BTreeMap<SaleId, SaleFigures>,
}

/// The counters of a node for one sale.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SaleFigures {
    pub looks: u64,
    pub accepted: u64,
    /// Claims that had been accepted before and got their first answer again.
    pub repeated: u64,
    pub refused: Refusals,
    /// Claims whose client was gone before the answer.
    pub gone: u64,
    /// Passes that this node has given out.
    pub passes: u64,
    /// Of the waiting room, which all nodes share.
    pub tickets: u64,
    pub admitted: u64,
}

impl NodeFigures {
    pub fn take(shop: &Shop, counting_since: Instant) -> Self {
        let now = shop.now();
        let outcomes = outcomes(shop);
        let sales = counted_sales(shop, now);
        let sales = sales.iter().map(|shelf| (shelf.id, SaleFigures::of(shelf, now)));
        let trouble = shop.trouble();
        let counted_milliseconds = counting_since.elapsed().as_millis();
        Self {
            ready: trouble.is_none(),
            trouble: trouble.or_else(|| parts_trouble(shop)),
            counted_milliseconds: u64::try_from(counted_milliseconds).unwrap_or(u64::MAX),
            requests: outcomes.iter().sum(),
            refusals: refusals(&outcomes),
            claim_latencies: claim_latencies(shop),
            in_flight: shop.gate.in_flight.count(),
            in_flight_limit: shop.gate.in_flight.limit(),
            queue_depth: shop.ledger.queue_depth() as u64,
            connections: connections(shop),
            sales: sales.collect(),
        }
    }
}

impl SaleFigures {
    pub fn claims(&self) -> u64 {
        self.accepted + self.repeated + self.gone + self.refused.values().sum::<u64>()
    }

    fn of(shelf: &Shelf, now: Timestamp) -> Self {
        let sums = shelf.tallies.sums();
        let count = |outcome: Outcome| sums[outcome.index()];
        let gate = shelf.gate_figures(now);
        Self {
            looks: count(Outcome::Ok) + count(Outcome::NotModified),
            accepted: count(Outcome::Accepted),
            repeated: count(Outcome::Repeated),
            refused: refusals(&sums),
            gone: count(Outcome::ClientGone),
            passes: gate.passes_issued,
            tickets: gate.tickets,
            admitted: gate.let_in,
        }
    }
}

/// The sales that somebody has requested from this node, or that have a waiting room. Sales that are not over
/// come first, the newest of them first.
fn counted_sales(shop: &Shop, now: Timestamp) -> Vec<Arc<Shelf>> {
    let place = |shelf: &Arc<Shelf>| {
        let is_over = shelf.status().is_none_or(|status| status.state(now) == SaleState::Closed);
        let created_at = shelf.details().map(|details| details.row.created_at);
        (is_over, Reverse((created_at, shelf.id)))
    };
    let mut sales = shop.storefront.all();
    sales.retain(|shelf| shelf.tallies.are_used() || shelf.gate.get().is_some());
    sales.sort_by_cached_key(place);
    sales.truncate(MAX_SALES);
    sales
}

fn outcomes(shop: &Shop) -> [u64; OUTCOMES] {
    std::array::from_fn(|outcome| {
        shop.tallies.iter().map(|tally| tally.outcomes[outcome].load(Relaxed)).sum()
    })
}

fn refusals(outcomes: &[u64; OUTCOMES]) -> Refusals {
    let refused = Code::ALL.iter().map(|code| (code, outcomes[Outcome::Refused(*code).index()]));
    refused.filter(|(_, count)| *count > 0).map(|(code, count)| (code.as_str().to_owned(), count)).collect()
}

fn claim_latencies(shop: &Shop) -> Vec<u64> {
    let latencies = || shop.tallies.iter().map(|tally| &tally.latencies[Group::Claim as usize]);
    let buckets = 0..LATENCY_BOUNDS_MICROSECONDS.len() + 1;
    buckets.map(|bucket| latencies().map(|latency| latency.buckets[bucket].load(Relaxed)).sum()).collect()
}

fn connections(shop: &Shop) -> u64 {
    let ends = ConnectionEnd::ALL.into_iter();
    let ended = |end| shop.tallies.iter().map(move |tally| tally.connection_ends[end as usize].load(Relaxed));
    // The ends first, so that connections that open meanwhile can't make the difference negative.
    let ended: u64 = ends.flat_map(ended).sum();
    let opened: u64 = shop.tallies.iter().map(|tally| tally.connections_opened.load(Relaxed)).sum();
    opened.saturating_sub(ended)
}

/// Problems of parts that selling does not depend on.
fn parts_trouble(shop: &Shop) -> Option<String> {
    shop.options
        .parts
        .iter()
        .find_map(|part| part.trouble().map(|trouble| format!("{}: {trouble}", part.name())))
}
