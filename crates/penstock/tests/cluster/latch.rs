//! When one node has sold out a sale, the others refuse orders from their own memory.

use std::time::{Duration, Instant};

use penstock_local::RedisKind;
use penstock_testkit::OfferTerms;

use crate::trial::{A_LONG_SECOND, Trial, buyer, look, must_buy, until};

const SALES: usize = 12;
const COMMANDS: &str = "penstock_ledger_commands_total";

#[test]
fn sold_out_on_one_node_is_answered_from_the_latch_of_another_within_a_second() {
    let trial = Trial::start(RedisKind::Single);
    let mut took: Vec<Duration> = Vec::new();
    for number in 0..SALES {
        let sale = trial.publish(OfferTerms { units: 1, ..OfferTerms::default() });
        let (seller, other) = (number % 3, (number + 1) % 3);
        must_buy(trial.node(seller), &sale, "the-only-one", 1);
        let sold = Instant::now();
        until("the other node hears of it", || {
            (look(trial.node(other), &sale)?["state"] == "sold_out").then_some(())
        });
        took.push(sold.elapsed());
        let before = trial.figure(other, COMMANDS);
        for late in 0..3 {
            let name = format!("late-{late}");
            let answer = buyer(trial.node(other), &name).claim(&sale, 1, &name).unwrap();
            assert_eq!((answer.status, answer.code().as_str()), (409, "sold_out"), "{}", answer.text());
        }
        assert_eq!(
            trial.figure(other, COMMANDS),
            before,
            "the ledger was asked although the node knows the answer"
        );

        // Every node tells the buyer with the unit so, latch or not.
        let again = buyer(trial.node(other), "the-only-one").claim(&sale, 1, "key-of-the-only-one").unwrap();
        assert_eq!(again.status, 201, "{}", again.text());
    }
    took.sort_unstable();
    let (median, slowest) = (took[SALES / 2], took[SALES - 1]);
    eprintln!("sold out on one node, latched on another after {median:?} (slowest of {SALES}: {slowest:?})");
    assert!(median < A_LONG_SECOND, "{took:?}");
}
