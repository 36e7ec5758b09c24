//! `penstock-bench`: measures Penstock beside its peers and writes `target/bench/report.json` and `.html`.
fn main() {}
