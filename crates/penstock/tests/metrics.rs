//! The metrics of a real server please Prometheus' own checker.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use penstock_local as local;
use penstock_testkit::{Merchant, Offer, Penstock};

const BINARY: &str = env!("CARGO_BIN_EXE_penstock");

/// It exits 0 only if it has nothing to complain of, neither of the format nor of names, units and help.
#[test]
fn promtool_has_no_complaint_about_the_metrics() {
    let promtool = local::require("promtool", "prometheus").unwrap();
    let mut penstock = Penstock::new(BINARY);
    penstock.start().unwrap();
    Merchant::of(&penstock).publish(Offer::default());
    let metrics = penstock.client().get("/metrics").unwrap();
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let mut check = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    check.stdin.take().unwrap().write_all(&metrics.body).unwrap();
    let said = check.wait_with_output().unwrap();
    let complaints = [said.stdout, said.stderr].concat();
    assert!(said.status.success() && complaints.is_empty(), "{}", String::from_utf8_lossy(&complaints));
}
