//! Counts the outcome of each request. Every worker has its own tally, so that counting costs no traffic
//! between cores. Reading the metrics adds them up.

mod outcome;
mod pending;
mod sale;
mod worker;

pub use self::{
    outcome::{ConnectionEnd, Group, OUTCOMES, Outcome},
    pending::{CountedClaim, Pending},
    sale::{SaleTallies, SaleTally},
    worker::{LATENCY_BOUNDS_MICROSECONDS, Latency, Tally},
};
