//! Simulated buyers and benchmarks; speaks only the public API.

pub mod api;
pub mod bench;
pub mod crowd;
pub mod host;
pub mod load;
pub mod peers;
pub mod rehearsal;
pub mod report;
pub mod scenario;
pub mod verdict;
