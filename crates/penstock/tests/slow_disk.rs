//! A disk whose syncs take long: the server decides more claims in each commit instead of telling people to
//! come back, and is as quick as before when the disk is quick again.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use penstock_testkit::{Merchant, OfferTerms, Penstock, SlowSync, sell_behind_slow_syncs};

const BINARY: &str = env!("CARGO_BIN_EXE_penstock");

/// Twice the target latency of the limit on claims in flight.
const SYNC: Duration = Duration::from_millis(100);

#[test]
fn a_slow_disk_makes_people_wait_a_moment_and_turns_hardly_anybody_away() {
    let folder = tempfile::tempdir().unwrap();
    let slow = SlowSync::compile(folder.path(), SYNC).unwrap();
    let mut penstock = Penstock::new(BINARY).with("PENSTOCK_GATE__LIMITS__IN_FLIGHT_MIN", 4);
    for (name, value) in slow.variables() {
        penstock = penstock.with(&name, value);
    }
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(OfferTerms { units: 400_000, ..OfferTerms::default() });
    sell_behind_slow_syncs(&slow, &[penstock.address()], &sale);
}
