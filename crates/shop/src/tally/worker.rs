//! The counters of one worker.

use std::{
    array,
    num::NonZeroUsize,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use super::outcome::{ConnectionEnd, Group, OUTCOMES, Outcome};

pub const LATENCY_BOUNDS_MICROSECONDS: [u64; 14] = [
    250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 125_000, 250_000, 500_000, 1_000_000,
    4_000_000,
];

#[derive(Debug)]
pub struct Latency {
    pub buckets: [AtomicU64; LATENCY_BOUNDS_MICROSECONDS.len() + 1],
    pub microseconds: AtomicU64,
}

impl Default for Latency {
    fn default() -> Self {
        Self { buckets: array::from_fn(|_| AtomicU64::new(0)), microseconds: AtomicU64::new(0) }
    }
}

impl Latency {
    pub(super) fn add(&self, time: Duration) {
        let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = LATENCY_BOUNDS_MICROSECONDS.partition_point(|bound| *bound < microseconds);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.microseconds.fetch_add(microseconds, Relaxed);
    }
}

/// The counters of one worker.
#[derive(Debug)]
pub struct Tally {
    /// The worker's number.
    pub worker: usize,
    /// The number of workers.
    pub workers: NonZeroUsize,
    pub outcomes: [AtomicU64; OUTCOMES],
    pub latencies: [Latency; Group::ALL.len()],
    pub connections_opened: AtomicU64,
    pub connection_ends: [AtomicU64; ConnectionEnd::ALL.len()],
    /// Memory that waits for clients to read their answers.
    pub unread_bytes: AtomicUsize,
    /// The number of stalls so far: clients that stopped reading.
    pub stalls: AtomicU64,
}

impl Tally {
    pub fn of_worker(worker: usize, workers: usize) -> Self {
        Self {
            worker,
            workers: NonZeroUsize::new(workers).unwrap_or(NonZeroUsize::MIN),
            outcomes: array::from_fn(|_| AtomicU64::new(0)),
            latencies: Default::default(),
            connections_opened: AtomicU64::new(0),
            connection_ends: Default::default(),
            unread_bytes: AtomicUsize::new(0),
            stalls: AtomicU64::new(0),
        }
    }

    pub fn count(&self, outcome: Outcome) {
        self.outcomes[outcome.index()].fetch_add(1, Relaxed);
    }

    pub fn connection_opened(&self) {
        self.connections_opened.fetch_add(1, Relaxed);
    }

    pub fn connection_ended(&self, end: ConnectionEnd) {
        self.connection_ends[end as usize].fetch_add(1, Relaxed);
    }
}
