//! The metrics of a real server pass Prometheus' own checker.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use penstock_testkit::{Merchant, OfferTerms, Penstock, please_promtool};

const BINARY: &str = env!("CARGO_BIN_EXE_penstock");

#[test]
fn promtool_has_no_complaint_about_the_metrics() {
    let mut penstock = Penstock::new(BINARY);
    penstock.start().unwrap();
    Merchant::of(&penstock).publish(OfferTerms::default());
    let metrics = penstock.client().get("/metrics").unwrap();
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    please_promtool(&metrics.body).unwrap();
}
