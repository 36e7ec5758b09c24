//! A Redis whose syncs take long: three nodes send it more claims at a time instead of telling people to come
//! back, and are as quick as before when its syncs are quick again.

use std::time::Duration;

use penstock_local::RedisKind;
use penstock_testkit::{OfferTerms, SlowSync, sell_behind_slow_syncs};

use crate::trial::Trial;

/// With it, a claim takes longer than the target latency of the limit on claims in flight.
const SYNC: Duration = Duration::from_millis(45);
/// More than are ever sold.
const UNITS: u32 = 400_000;

#[test]
fn a_slow_redis_makes_people_wait_a_moment_and_turns_hardly_anybody_away() {
    let folder = tempfile::tempdir().unwrap();
    let slow = SlowSync::compile(folder.path(), SYNC).unwrap();
    let trial = Trial::start_with(RedisKind::Single, |plan| {
        plan.redis_variables.extend(slow.variables());
        plan.variables.push(("PENSTOCK_GATE__LIMITS__IN_FLIGHT_MIN".into(), "4".into()));
    });
    let sale = trial.publish(OfferTerms { units: UNITS, ..OfferTerms::default() });
    let sold = sell_behind_slow_syncs(&slow, &trial.nodes(), &sale) as u64;
    assert_eq!(trial.ledger(&sale), [UNITS.into(), u64::from(UNITS) - sold, sold, 0]);
}
