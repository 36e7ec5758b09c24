//! The live view of a cluster: any node shows the figures of all nodes together, also through nginx.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpStream},
    time::Instant,
};

use penstock_local::RedisKind;
use penstock_testkit::{ADMIN_TOKEN, OfferTerms};
use serde_json::{Value, json};

use crate::trial::{PATIENCE, Trial, buyer, must_buy, patiently};

/// Reads the figures on its own connection.
struct Figures(BufReader<TcpStream>);

impl Figures {
    fn of(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = "GET /api/v1/admin/live HTTP/1.1\r\nhost: shop.example\r\nconnection: close";
        write!(stream, "{head}\r\nauthorization: Bearer {ADMIN_TOKEN}\r\n\r\n").unwrap();
        Self(BufReader::new(stream))
    }

    fn until(&mut self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream ended: {what}");
            let Some(data) = line.strip_prefix("data: ") else { continue };
            let figures: Value = serde_json::from_str(data).unwrap();
            if is_so(&figures) {
                return figures;
            }
            assert!(began.elapsed() < PATIENCE, "this did not happen in time: {what}: {figures}");
        }
    }
}

fn nodes(figures: &Value) -> &Vec<Value> {
    figures["nodes"].as_array().unwrap()
}

fn ready_nodes(figures: &Value) -> usize {
    nodes(figures).iter().filter(|node| node["ready"] == true).count()
}

#[test]
fn the_figures_of_all_nodes_add_up_and_a_killed_node_turns_red_and_leaves() {
    let mut trial = Trial::start(RedisKind::Single);
    let sale = trial.publish(OfferTerms { units: 6, ..OfferTerms::default() });
    let mut at_a_node = Figures::of(trial.node(0));
    let mut at_nginx = Figures::of(trial.front());
    let all = at_a_node.until("three nodes", |figures| ready_nodes(figures) == 3);
    assert!(nodes(&all).iter().all(|node| node["trouble"].is_null()), "{all}");

    for number in 0..6 {
        must_buy(trial.node(number % 3), &sale, &format!("early-{number}"), 1);
    }
    for node in [0, 1, 1, 2, 2, 2] {
        // Until a node has heard that nothing is left, the ledger says so.
        let mut late = buyer(trial.node(node), &format!("late-{node}"));
        let answer = patiently("a refusal", || late.claim(&sale, 1, "late"));
        assert_eq!(answer.code(), "sold_out");
    }
    let has_all = |figures: &Value| {
        let totals = &figures["sales"][0]["totals"];
        // A claim whose first answer was lost was answered again.
        let bought = ["accepted", "repeated"].map(|name| totals[name].as_u64().unwrap_or_default());
        bought.iter().sum::<u64>() >= 6 && totals["refused"]["sold_out"].as_u64() >= Some(6)
    };
    for figures in [at_a_node.until("all claims", has_all), at_nginx.until("all claims", has_all)] {
        let (sold, totals) = (&figures["sales"][0], &figures["sales"][0]["totals"]);
        assert_eq!((&sold["state"], &sold["held"]), (&json!("sold_out"), &json!(6)));
        let refused: u64 = totals["refused"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        let [claims, accepted, repeated, gone] =
            ["claims", "accepted", "repeated", "gone"].map(|name| totals[name].as_u64().unwrap());
        assert_eq!(claims, accepted + repeated + gone + refused, "{totals}");
        assert!(accepted <= 6, "{totals}");
    }
    let settled = at_a_node.until("settlement", |figures| figures["settlement"]["lag_decisions"] == 0);
    assert!(settled["settlement"]["trouble"].is_null(), "{settled}");

    trial.shop.node(2).unwrap().kill().unwrap();
    let killed = at_a_node.until("a node that is not ready", |figures| ready_nodes(figures) == 2);
    let silent = nodes(&killed).iter().find(|node| node["ready"] == false).unwrap();
    assert!(silent["trouble"].is_string() && silent["requests_per_second"].is_null(), "{silent}");
    let left = at_a_node.until("it is gone", |figures| nodes(figures).len() == 2);
    assert!(!has_all(&left), "its counts are gone: {left}");

    trial.shop.node(2).unwrap().start().unwrap();
    let back = at_a_node.until("a new node", |figures| ready_nodes(figures) == 3);
    for rate in ["claims_per_second", "accepted_per_second", "looks_per_second"] {
        assert!(back["sales"][0][rate].as_f64().unwrap() >= 0.0, "{back}");
    }
}
