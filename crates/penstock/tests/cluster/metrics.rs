//! The metrics of a node and of a settlement worker pass Prometheus' own checker.

use penstock_local::{RedisKind, free_address};
use penstock_testkit::{Client, OfferTerms, please_promtool};

use crate::trial::{Trial, must_buy};

#[test]
fn promtool_has_no_complaint_about_a_node_and_a_worker_of_a_cluster() {
    let worker = free_address().unwrap();
    let trial = Trial::start_with(RedisKind::Single, |plan| {
        plan.settlers = 1;
        plan.variables.push(("PENSTOCK_SETTLE__LISTEN".to_owned(), worker.to_string()));
    });
    let sale = trial.publish(OfferTerms::default());
    must_buy(trial.node(0), &sale, "ann", 1);
    for address in [trial.node(0), worker] {
        let metrics = Client::new(address).get("/metrics").unwrap();
        assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        assert!(metrics.text().contains("\npenstock_"), "{}", metrics.text());
        please_promtool(&metrics.body).unwrap();
    }
}
