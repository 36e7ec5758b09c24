//! Simulated buyers and benchmarks; speaks only the public API.

pub mod load;
