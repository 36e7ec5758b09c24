//! The real binary as a cluster: three nodes and two settlement workers behind nginx, on Redis and MariaDB.
//! Everything that can die dies under load, and afterwards nothing is oversold, lost or duplicated.
//!
//! `PENSTOCK_TEST_SEED` repeats a run: the seed decides what fails and when.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod crowd;
mod fault;
mod trial;

mod chaos;
mod front;
mod hanging_master;
mod latch;
mod live;
mod merchant;
mod metrics;
mod nginx;
mod node_faults;
mod redis_faults;
mod refund;
mod selling;
mod settlement_faults;
mod sharing;
mod slow_redis;
mod starting;
mod waiting;
mod waitlist;
