//! The gate of the real binary: people wait, are drawn, solve, buy; the process is killed in between; and two
//! programs that share no code check the draw of the finished sale.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    collections::BTreeSet,
    io::Write as _,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use penstock_testkit::{Auditor, Client, ClientAnswer, Merchant, OfferTerms, Penstock, buyer_token};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const BINARY: &str = env!("CARGO_BIN_EXE_penstock");
/// Nothing takes this long; a timeout is a failure, not a measurement.
const PATIENCE: Duration = Duration::from_secs(90);

/// A sale with a waiting room and a proof of work that opens in `opens_in_seconds`.
fn publish(penstock: &Penstock, units: u32, opens_in_seconds: i64) -> String {
    let opens_at = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(opens_in_seconds);
    Merchant::of(penstock).publish_with(OfferTerms { units, ..OfferTerms::default() }, |sale| {
        sale["opens_at"] = opens_at.to_string().into();
        sale["gate"] = json!({ "challenge": "pow", "waiting_room": true });
    })
}

fn take_ticket(penstock: &Penstock, sale: &str, buyer: &str) -> Value {
    let mut client = penstock.client().with_token(&buyer_token(buyer));
    let answer = client.post_nothing(&format!("/api/v1/sales/{sale}/tickets")).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}"))
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(began.elapsed() < PATIENCE, "this did not happen in time: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Follows the documentation of the challenge, and shares no code with the server.
fn solve(challenge: &Value) -> String {
    let salt = text(&challenge["salt"]);
    let difficulty = challenge["difficulty"].as_u64().unwrap() as u32;
    let leading_zeros = |answer: &String| {
        let digest = Sha256::digest(format!("{salt}{answer}").as_bytes());
        u64::from_be_bytes(digest[..8].try_into().unwrap()).leading_zeros()
    };
    (0u64..).map(|number| number.to_string()).find(|answer| leading_zeros(answer) >= difficulty).unwrap()
}

/// Waits for the turn, then solves the challenge, takes the pass and orders. None: everything is sold.
fn buy(mut client: Client, sale: &str, buyer: &str, ticket: &str) -> Option<(String, ClientAnswer)> {
    let at = |call: &str| format!("/api/v1/sales/{sale}/{call}");
    let state = until("a turn or the end", || {
        let seen = client.get(&at(&format!("tickets/{ticket}"))).unwrap().json();
        Some(text(&seen["state"]).to_owned()).filter(|state| state != "waiting")
    });
    if state == "gone" {
        return None;
    }
    let challenge = client.post_nothing(&at("challenge")).unwrap();
    if challenge.code() == "sold_out" {
        return None;
    }
    let challenge = challenge.json();
    let answer = solve(&challenge);
    let request = json!({ "challenge": challenge["id"], "answer": answer, "ticket": ticket });
    let pass = client.post(&at("pass"), &request).unwrap();
    assert_eq!(pass.status, 201, "{buyer} was admitted: {}", pass.text());
    let key = format!("key-{buyer}");
    let (pass, body) = (pass.json(), br#"{"quantity":1}"#.as_slice());
    let headers = [("idempotency-key", key.as_str()), ("penstock-pass", text(&pass["pass"]))];
    Some((key.clone(), client.send("POST", &at("orders"), &headers, Some(body)).unwrap()))
}

#[test]
fn people_wait_are_drawn_and_buy_and_anybody_can_check_the_draw() {
    const UNITS: u32 = 12;
    const EARLY: usize = 40;
    let mut penstock = Penstock::new(BINARY).with("PENSTOCK_GATE__TURN_SECONDS", 5);
    penstock.start().unwrap();
    let sale = publish(&penstock, UNITS, 6);
    let before = Merchant::of(&penstock).sale(&sale)["draw"].clone();
    assert!(before["seed"].is_null(), "the seed is secret until the opening: {before}");

    // Half of them before the process is killed, half after: no number is given twice.
    let mut tickets: Vec<(String, Value)> = Vec::new();
    for number in 0..EARLY {
        if number == EARLY / 2 {
            penstock.kill().unwrap();
            penstock.start().unwrap();
        }
        let buyer = format!("buyer-{number}");
        let ticket = take_ticket(&penstock, &sale, &buyer);
        tickets.push((buyer, ticket));
    }
    let numbers: BTreeSet<u64> =
        tickets.iter().map(|(_, ticket)| ticket["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers.len(), EARLY);

    let draw = until("the draw", || {
        let draw = Merchant::of(&penstock).sale(&sale)["draw"].clone();
        Some(draw).filter(|draw| !draw["seed"].is_null())
    });
    assert_eq!(draw["seed_sha256"], before["seed_sha256"], "it was published before the restart");
    // Another kill: neither the draw nor anybody's place changes.
    penstock.kill().unwrap();
    penstock.start().unwrap();
    assert_eq!(Merchant::of(&penstock).sale(&sale)["draw"], draw);

    let late = take_ticket(&penstock, &sale, "late");
    assert!(late["place"].as_u64() >= draw["count"].as_u64(), "a late ticket queues behind: {late}");
    let outcomes: Vec<_> = thread::scope(|scope| {
        let buying: Vec<_> = tickets
            .iter()
            .map(|(buyer, ticket)| {
                let (client, sale) = (penstock.client().with_token(&buyer_token(buyer)), &sale);
                scope.spawn(move || buy(client, sale, buyer, text(&ticket["ticket"])))
            })
            .collect();
        buying.into_iter().map(|buying| buying.join().unwrap()).collect()
    });
    let mut auditor = Auditor::default();
    for ((buyer, _), outcome) in tickets.iter().zip(&outcomes) {
        let Some((key, answer)) = outcome else { continue };
        assert_eq!(answer.status, 201, "never more people admitted than could buy: {}", answer.text());
        auditor.sends(&sale, buyer, 1, key);
        auditor.saw(&sale, key, answer);
    }
    let sold = outcomes.iter().flatten().count();
    assert_eq!(sold, UNITS as usize, "the people in front bought everything");
    auditor.verify(&penstock).assert_clean();

    // The people drawn to the front bought, and nobody else did.
    let place_of = |ticket: &Value| {
        let path = format!("/api/v1/sales/{sale}/tickets/{}", text(&ticket["ticket"]));
        penstock.client().get(&path).unwrap().json()["place"].as_u64().unwrap()
    };
    let mut by_place: Vec<(u64, bool)> = tickets
        .iter()
        .zip(&outcomes)
        .map(|((_, ticket), outcome)| (place_of(ticket), outcome.is_some()))
        .collect();
    by_place.sort_unstable();
    let bought: Vec<bool> = by_place.iter().map(|(_, bought)| *bought).collect();
    let in_front = bought.iter().take_while(|bought| **bought).count();
    assert_eq!(in_front, UNITS as usize, "{by_place:?}");

    let second_opinion = second_opinion(&sale, &draw, &tickets);
    let sale_file = penstock.data().join("sale.json");
    std::fs::write(&sale_file, Merchant::of(&penstock).sale(&sale).to_string()).unwrap();
    for ((_, ticket), expected) in tickets.iter().zip(second_opinion) {
        assert_eq!(place_of(ticket), expected, "ticket {}", ticket["number"]);
        let arguments = [
            "draw",
            "verify",
            "--json",
            "--sale",
            sale_file.to_str().unwrap(),
            "--ticket",
            text(&ticket["ticket"]),
        ];
        let verified = penstock.run(&arguments).unwrap();
        assert!(verified.status.success(), "{verified:?}");
        let verified: Value = serde_json::from_str(&verified.stdout).unwrap();
        assert_eq!(verified["place"], expected + 1, "people count from 1: {verified}");
    }
}

/// After a sell-out most people leave. A unit that comes back goes at once to a person who is still there.
#[test]
fn returned_units_go_to_people_who_are_there_and_not_to_hundreds_who_left() {
    const LEFT: usize = 300;
    const UNITS: u32 = 6;
    let mut penstock = Penstock::new(BINARY);
    penstock.start().unwrap();
    let gate = json!({ "waiting_room": true });
    let offer = OfferTerms { units: UNITS, ..OfferTerms::default() };
    let sale = Merchant::of(&penstock).publish_with(offer, |sale| sale["gate"] = gate);
    let look = |ticket: &Value| {
        let path = format!("/api/v1/sales/{sale}/tickets/{}", text(&ticket["ticket"]));
        penstock.client().get(&path).unwrap().json()
    };
    let order = |buyer: &str, ticket: &Value| {
        let mut client = penstock.client().with_token(&buyer_token(buyer));
        let pass = client
            .post(&format!("/api/v1/sales/{sale}/pass"), &json!({ "ticket": ticket["ticket"] }))
            .unwrap();
        assert_eq!(pass.status, 201, "{buyer} was admitted: {}", pass.text());
        let pass = pass.json();
        let headers = [("idempotency-key", buyer), ("penstock-pass", text(&pass["pass"]))];
        let path = format!("/api/v1/sales/{sale}/orders");
        let answer = client.send("POST", &path, &headers, Some(br#"{"quantity":1}"#)).unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
        text(&answer.json()["id"]).to_owned()
    };
    let until_turn =
        |ticket: &Value| until("a turn", || Some(()).filter(|()| look(ticket)["state"] == "admitted"));
    let orders: Vec<(String, String)> = (0..UNITS)
        .map(|number| {
            let buyer = format!("first-{number}");
            let ticket = take_ticket(&penstock, &sale, &buyer);
            until_turn(&ticket);
            let id = order(&buyer, &ticket);
            (buyer, id)
        })
        .collect();
    // Sold out. People come, look and leave; a few stay, far behind each other.
    let mut staying = Vec::new();
    for number in 0..LEFT {
        let buyer = format!("later-{number}");
        let ticket = take_ticket(&penstock, &sale, &buyer);
        if number % 100 == 99 {
            staying.push((buyer, ticket));
        }
    }
    let waiting = || {
        let metrics = penstock.client().get("/metrics").unwrap().text();
        let line = metrics.lines().find_map(|line| line.strip_prefix("penstock_tickets_waiting "));
        line.and_then(|line| line.trim().parse::<f64>().ok())
    };
    until("the people who left to be forgotten", || {
        staying.iter().for_each(|(_, ticket)| drop(look(ticket)));
        waiting().filter(|waiting| *waiting == staying.len() as f64)
    });
    // Unpaid units come back one by one, and each finds a buyer within seconds.
    for ((buyer, id), (name, ticket)) in orders.iter().zip(&staying) {
        let mut client = penstock.client().with_token(&buyer_token(buyer));
        assert_eq!(client.post_nothing(&format!("/api/v1/orders/{id}/cancel")).unwrap().status, 200);
        let began = Instant::now();
        until_turn(ticket);
        assert!(began.elapsed() < Duration::from_secs(10), "{name} waited {:?}", began.elapsed());
        order(name, ticket);
    }
}

/// The places of the tickets according to a program that was written only from the documentation.
fn second_opinion(sale: &str, draw: &Value, tickets: &[(String, Value)]) -> Vec<u64> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/draw/second_opinion.py");
    let mut python = Command::new("python3")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("python3 is needed to check the draw a second time: {error}"));
    let numbers: Vec<&Value> = tickets.iter().map(|(_, ticket)| &ticket["number"]).collect();
    let question = json!({ "seed": draw["seed"], "sale": sale, "count": draw["count"], "numbers": numbers });
    writeln!(python.stdin.take().unwrap(), "{question}").unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["seed_sha256"], draw["seed_sha256"]);
    answer["places"].as_array().unwrap().iter().map(|place| place.as_u64().unwrap()).collect()
}

#[test]
fn the_secret_is_rotated_under_a_running_server_and_nobody_is_signed_out() {
    let mut penstock = Penstock::new(BINARY);
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock)
        .publish_with(OfferTerms::default(), |sale| sale["gate"] = json!({ "pass_required": true }));
    let pass_of = |buyer: &str| {
        let mut client = penstock.client().with_token(&buyer_token(buyer));
        let answer = client.post(&format!("/api/v1/sales/{sale}/pass"), &json!({})).unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
        text(&answer.json()["pass"]).to_owned()
    };
    let order = |buyer: &str, pass: &str, key: &str| {
        let mut client = penstock.client().with_token(&buyer_token(buyer));
        let headers = [("idempotency-key", key), ("penstock-pass", pass)];
        client
            .send("POST", &format!("/api/v1/sales/{sale}/orders"), &headers, Some(br#"{"quantity":1}"#))
            .unwrap()
    };
    let rotate = || {
        let data = penstock.data().to_str().unwrap();
        let rotated = penstock.run(&["admin", "rotate-secret", "--data", data]).unwrap();
        assert!(rotated.status.success(), "{rotated:?}");
    };
    let old = pass_of("ann");
    rotate();
    until("the new secret", || Some(()).filter(|()| pass_of("ann") != old));
    assert_eq!(order("ann", &old, "first").status, 201, "the old secret's pass is still valid");
    rotate();
    // Ann is at the limit for one buyer; a valid pass changes the answer.
    until("tokens from two rotations ago to end", || {
        Some(order("ann", &old, "second").code()).filter(|code| code == "pass_invalid")
    });
}
