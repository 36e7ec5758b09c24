//! A whole sale through nginx, without failures.

use std::process::Stdio;

use penstock_local::RedisKind;
use penstock_testkit::Client;
use serde_json::Value;

use crate::trial::{Trial, bare_command, until};

const BUYERS: u64 = 20_000;
const UNITS: u64 = 500;
/// Each is published on one node and asked for on another a moment later.
const REHEARSALS: u64 = 6;

/// Sends a crowd of `penstock rush` to nginx and returns its report; every promise has to be kept.
fn rehearse(trial: &Trial, arguments: &str) -> Value {
    let url = format!("http://{}", trial.front());
    let mut rush = bare_command();
    rush.args(["rush", "--json", "--quiet", "--url", &url]).args(arguments.split_whitespace());
    rush.arg("--config").arg(trial.shop.configuration());
    let output = rush.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{said}", String::from_utf8_lossy(&output.stdout)));
    let verdict = &report["verdict"];
    for count in ["oversold", "lost", "duplicated", "over_limit", "unanswered"] {
        assert_eq!(verdict[count], 0, "{count}: {verdict:#}");
    }
    assert_eq!(verdict["audit"], true, "{verdict:#}");
    assert!(output.status.success(), "{verdict:#}\n{said}");
    report
}

fn number(report: &Value, pointer: &str) -> u64 {
    report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {report:#}"))
}

#[test]
fn three_nodes_sell_exactly_what_there_is() {
    let trial = Trial::start(RedisKind::Single);
    let report = rehearse(
        &trial,
        &format!(
            "--buyers {BUYERS} --units {UNITS} --connections 500 --opens-in 3 \
             --mix pays=0.7,cancels=0,double_clicks=0.2"
        ),
    );
    assert_eq!(number(&report, "/people/came"), BUYERS);
    assert_eq!(number(&report, "/orders/units"), UNITS, "{report:#}");
    let sale = report["sale"].as_str().unwrap();
    let [total, available, held, paid] = trial.ledger(sale);
    assert_eq!([total, available, held + paid], [UNITS, 0, UNITS], "what Redis itself says");
    let sold = trial.shop.mariadb.sql("SELECT COALESCE(SUM(quantity), 0) FROM orders").unwrap();
    assert_eq!(sold, UNITS.to_string(), "what MariaDB itself says");
    let audit = trial.run(&["audit", "--json"]).unwrap();
    assert!(audit.status.success(), "{}{}", audit.stdout, audit.stderr);
    let answered = number(&report, "/latency/order/count");
    let took = &report["opening"]["stock_gone_after_seconds"];
    eprintln!("{UNITS} of {UNITS} units sold to {BUYERS} buyers, gone after {took} s, {answered} answers");
    for (number, node) in trial.shop.nodes().iter().enumerate() {
        let decided = trial.figure(number, "penstock_ledger_commands_total");
        assert!(decided > 0.0, "{} sold nothing", node.name());
    }
}

#[test]
fn a_rehearsal_waits_for_nodes_that_have_not_heard_of_its_sale() {
    let trial = Trial::start(RedisKind::Cluster);
    for seed in 0..REHEARSALS {
        let arguments =
            format!("--buyers 60 --units 20 --connections 20 --opens-in 1 --seed {seed} --mix cancels=0");
        let report = rehearse(&trial, &arguments);
        assert_eq!(number(&report, "/orders/units"), 20, "{report:#}");
    }
    for node in trial.nodes() {
        until("every rehearsed sale is closed", || {
            let sales =
                Client::new(node).get("/api/v1/sales").unwrap().json()["data"].as_array().unwrap().clone();
            let closed = sales.iter().filter(|sale| sale["state"] == "closed").count() as u64;
            (closed == REHEARSALS).then_some(())
        });
    }
}
