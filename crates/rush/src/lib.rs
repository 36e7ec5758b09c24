//! Simulated buyers: a rehearsal of a sale, and the verdict on it. Speaks only the public API.

pub mod api;
pub mod connection;
pub mod crowd;
pub mod latency;
pub mod rehearsal;
pub mod report;
pub mod scenario;
pub mod steal;
pub mod token;
pub mod verdict;
