//! The findings of a rehearsal, as data: the live progress and the final report. Sibling modules show them.

mod chart;
mod html;
mod live;
pub mod page;
mod plots;
mod text;
mod timeline;
mod words;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use html::html;
pub use live::{LiveDisplay, View};
pub use text::text;
pub use words::sentence;
pub(crate) use words::{printable, thousands};

/// A snapshot of a run under way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Seconds since the opening; negative before it.
    pub since_opening_seconds: f64,
    /// Buyers and bots expected in all.
    pub buyers: u64,
    /// Buyers and bots who have come so far.
    pub came: u64,
    /// Got a pass, or were let into the sale by the waiting room.
    pub admitted: u64,
    pub units: u64,
    /// Units that buyers hold or have paid, as far as their own answers tell.
    pub sold: u64,
    /// Refusals of orders by problem code.
    pub refused: BTreeMap<String, u64>,
    pub requests: u64,
    /// Latency of order requests, from when they were due.
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub sold_out_after_seconds: Option<f64>,
    /// Requests under way, and buyers who wait for a free connection.
    pub under_way: u64,
    pub waiting: u64,
}

/// The whole result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RehearsalReport {
    pub scenario: String,
    pub about: String,
    pub url: String,
    pub sale: String,
    pub started_at: String,
    pub seed: u64,
    pub units: u64,
    pub limit_per_buyer: u64,
    pub people: PeopleCounts,
    /// From the first request to the last answer.
    pub seconds: f64,
    pub requests: u64,
    pub requests_per_second: f64,
    /// Order requests that were answered, and how many of them a second, from the first one to the last
    /// answer.
    pub order_requests: u64,
    pub order_requests_per_second: f64,
    pub opening: Opening,
    pub orders: Orders,
    /// Refusals of order requests, by problem code.
    pub refused: BTreeMap<String, u64>,
    /// Refusals of payments and cancellations, except those that came too late.
    #[serde(default)]
    pub pay_refused: BTreeMap<String, u64>,
    #[serde(default)]
    pub cancel_refused: BTreeMap<String, u64>,
    /// Refusals of bots' orders and of their attempts to cheat a pass.
    pub bots_refused: BTreeMap<String, u64>,
    /// By kind of request: `page`, `sign_in`, `ticket`, `challenge`, `pass`, `order`, `pay`, `cancel`.
    pub latency: BTreeMap<String, Quantiles>,
    pub histogram: Vec<HistogramBar>,
    pub slice_ms: u64,
    pub timeline: Vec<ReportSlice>,
    pub generator: Generator,
    pub verdict: RehearsalVerdict,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PeopleCounts {
    pub buyers: u64,
    pub bots: u64,
    /// Buyers who really came within the time.
    pub came: u64,
    /// Buyers who were let in: where there are passes, those who got one.
    pub admitted: u64,
    /// People (not bots) who got at least one unit, and bots who did.
    pub served: u64,
    pub bots_served: u64,
    /// Bots among them that never got a pass honestly; at a gate with a challenge there should be none.
    #[serde(default)]
    pub bots_served_without_challenge: u64,
    /// Gave up without a yes or a no: heard "busy" or "too many requests" too often, or waited too long.
    pub gave_up: u64,
}

/// The course of the sale, counted from the opening.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Opening {
    /// When the answer that sold the last unit came; `None` if units were left.
    pub stock_gone_after_seconds: Option<f64>,
    /// When everybody had a first yes or no to their order.
    pub everybody_answered_after_seconds: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Orders {
    pub accepted: u64,
    pub units: u64,
    pub paid: u64,
    pub paid_late: u64,
    /// Paid after the hold was over and nothing was left: the money goes back.
    pub refunds: u64,
    pub cancelled: u64,
    pub walked_away: u64,
    /// Accepted, but then the server refused to let the buyer pay or cancel.
    #[serde(default)]
    pub refused: u64,
    /// No answer told whether they were paid or cancelled.
    #[serde(default)]
    pub unknown: u64,
    /// Requests that were sent again with the same key, for any reason.
    pub repeated: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    pub count: u64,
    pub p50_ms: f64,
    pub p90_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
}

/// Order requests that took longer than the bar before, and at most this long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistogramBar {
    pub up_to_ms: f64,
    pub count: u64,
}

/// One slice of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportSlice {
    /// Its start, counted from the opening; negative before it.
    pub at_ms: i64,
    /// People who came, and bots.
    pub came: u64,
    pub requests: u64,
    /// Order requests that were due in this slice.
    pub orders_due: u64,
    /// Units accepted.
    pub sold: u64,
    pub admitted: u64,
    /// Refusals of orders, by code.
    pub refused: BTreeMap<String, u64>,
    /// Latency of the orders answered in this slice.
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

/// How the generator itself did: a measuring tool has to be measured, too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    pub threads: u64,
    pub connections: u64,
    /// The busiest thread in its busiest second, as a share of a core.
    pub busy_percent: f64,
    /// Orders of people sent more than 5 ms after they could have been, although a connection was free.
    pub late_percent: f64,
    /// Orders of people that had to wait for a free connection.
    pub waited_for_connection_percent: f64,
    pub connections_lost: u64,
    /// Seconds that proofs of work waited for the generator's CPU.
    pub solving_waited_seconds: f64,
    /// The share of the machine that its host took.
    pub steal_percent: Option<f64>,
    /// Why the figures say more about the generator than about the server; `None` if they don't.
    pub bottleneck: Option<String>,
}

/// Numbers that must all be 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RehearsalVerdict {
    pub oversold: u64,
    pub lost: u64,
    pub duplicated: u64,
    pub over_limit: u64,
    pub unanswered: u64,
    /// The result of the server's own audit; `None` if it could not be run.
    pub audit: Option<bool>,
    /// Why not everything could be checked, if that is so. Unchecked is not clean.
    pub unchecked: Option<String>,
    /// One sentence for each fault.
    pub findings: Vec<String>,
    /// The comparisons that were made, in words.
    pub checked: Vec<String>,
}

impl RehearsalVerdict {
    pub fn is_clean(&self) -> bool {
        let counts = [self.oversold, self.lost, self.duplicated, self.over_limit, self.unanswered];
        counts.iter().all(|count| *count == 0) && self.audit != Some(false) && self.unchecked.is_none()
    }
}
