//! A waiting room that all nodes share goes on when nodes die.

use std::{
    fs,
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use penstock_local::RedisKind;
use penstock_testkit::{Auditor, Client, ClientAnswer, OfferTerms, buyer_token};
use serde_json::{Value, json};

use crate::trial::{Trial, expect, patiently, text, until};

const UNITS: u32 = 30;
const PEOPLE: usize = 40;

/// Waits for the turn, takes the pass and buys; failed requests are sent again. None: everything is sold.
fn buy(front: SocketAddr, sale: &str, name: &str, ticket: &str) -> Option<ClientAnswer> {
    let mut client = Client::new(front).with_token(&buyer_token(name)).with_timeout(Duration::from_secs(8));
    let at = |call: &str| format!("/api/v1/sales/{sale}/{call}");
    let mut ask = |method: &str, call: &str, headers: &[(&str, &str)], body: Option<Value>| {
        let body = body.map(|body| body.to_string());
        patiently("an answer", || {
            client.send(method, &at(call), headers, body.as_ref().map(String::as_bytes))
        })
    };
    let pass = until("a pass or the end", || {
        let seen = ask("GET", &format!("tickets/{ticket}"), &[], None).json();
        match seen["state"].as_str() {
            // The node that gives the pass may not know yet what another one said.
            Some("admitted") => Some(Some(ask("POST", "pass", &[], Some(json!({ "ticket": ticket }))))),
            Some("gone") => Some(None),
            _ => {
                thread::sleep(Duration::from_millis(100));
                None
            }
        }
    })?;
    if pass.status == 409 {
        return None;
    }
    assert_eq!(pass.status, 201, "{name} was admitted: {}", pass.text());
    let headers = [("idempotency-key", name), ("penstock-pass", &text(&pass.json()["pass"]))];
    Some(ask("POST", "orders", &headers, Some(json!({ "quantity": 1 }))))
}

#[test]
fn a_waiting_room_goes_on_when_the_nodes_that_keep_it_die() {
    let mut trial = Trial::start_with(RedisKind::Single, |plan| {
        // Slow, so that people still wait when the nodes die. What a dead node was holding, numbers and
        // passes, becomes free only when its time is over, which is short here.
        for (name, value) in [("ADMISSIONS_PER_SECOND", "6"), ("TURN_SECONDS", "5"), ("PASS_SECONDS", "5")] {
            plan.variables.push((format!("PENSTOCK_GATE__{name}"), value.to_owned()));
        }
    });
    let gate = json!({ "waiting_room": true });
    let offer = OfferTerms { units: UNITS, ..OfferTerms::default() };
    let sale = trial.merchant(0).publish_with(offer, |sale| sale["gate"] = gate);
    let front = trial.front();
    let people: Vec<String> = (0..PEOPLE).map(|number| format!("person-{number}")).collect();
    let path = format!("/api/v1/sales/{sale}/tickets");
    let tickets: Vec<String> = people
        .iter()
        .map(|name| {
            let mut client = Client::new(front).with_token(&buyer_token(name));
            let answer = patiently("a ticket", || client.post_nothing(&path));
            text(&expect(201, &answer)["ticket"])
        })
        .collect();
    let mut auditor = Auditor::default();
    thread::scope(|scope| {
        let buying: Vec<_> = people
            .iter()
            .zip(&tickets)
            .map(|(name, ticket)| scope.spawn(|| buy(front, &sale, name, ticket)))
            .collect();
        // The node that kept the room is among them.
        for victim in 0..3 {
            thread::sleep(Duration::from_millis(700));
            let node = trial.shop.node(victim).unwrap();
            node.kill().unwrap();
            node.start().unwrap();
        }
        for (name, thread) in people.iter().zip(buying) {
            if let Some(answer) = thread.join().unwrap() {
                auditor.sends(&sale, name, 1, name);
                auditor.saw(&sale, name, &answer);
            }
        }
    });
    assert_eq!(trial.audit(&auditor), UNITS as usize, "everybody who could buy did");
    trial.until_nodes_agree(&sale);
}

#[test]
fn a_waiting_room_goes_on_when_redis_has_lost_it_and_its_nodes_restart() {
    let mut trial = Trial::start(RedisKind::Single);
    let gate = json!({ "waiting_room": true });
    let offer = OfferTerms { units: UNITS, ..OfferTerms::default() };
    let sale = trial.merchant(0).publish_with(offer, |sale| sale["gate"] = gate);
    let front = trial.front();
    let path = format!("/api/v1/sales/{sale}/tickets");
    let take = |name: &str| {
        let mut client = Client::new(front).with_token(&buyer_token(name));
        let answer = patiently("a ticket", || client.post_nothing(&path));
        let ticket = expect(201, &answer);
        (ticket["number"].as_u64().unwrap(), text(&ticket["ticket"]))
    };
    let before: Vec<_> = (0..5).map(|number| take(&format!("early-{number}"))).collect();
    // The records are updated once a second.
    thread::sleep(Duration::from_secs(3));
    let redis = trial.shop.redis.single().unwrap();
    redis.kill().unwrap();
    fs::remove_dir_all(redis.folder().join("appendonlydir")).unwrap();
    for node in 0..3 {
        trial.shop.node(node).unwrap().kill().unwrap();
    }
    trial.shop.redis.single().unwrap().restart().unwrap();
    for node in 0..3 {
        trial.shop.node(node).unwrap().start().unwrap();
    }
    let (number, ticket) = take("late");
    assert!(before.iter().all(|(given, _)| *given < number), "{number} after {before:?}");
    let bought = buy(front, &sale, "late", &ticket).unwrap();
    assert_eq!(bought.status, 201, "{}", bought.text());
}

#[test]
fn units_that_come_back_go_to_people_who_are_there_whichever_node_they_ask() {
    let mut trial = Trial::start(RedisKind::Single);
    let gate = json!({ "waiting_room": true });
    let sale = trial
        .merchant(0)
        .publish_with(OfferTerms { units: 1, ..OfferTerms::default() }, |sale| sale["gate"] = gate);
    let front = trial.front();
    let client = |name: &str| Client::new(front).with_token(&buyer_token(name));
    let path = format!("/api/v1/sales/{sale}/tickets");
    let take = |name: &str| {
        let mut client = client(name);
        text(&expect(201, &patiently("a ticket", || client.post_nothing(&path)))["ticket"])
    };
    let first = take("first");
    let bought = buy(front, &sale, "first", &first).unwrap();
    let order = text(&expect(201, &bought)["id"]);
    // While it is sold out, many people come and leave again; one stays, behind them all.
    (0..100).for_each(|number| drop(take(&format!("left-{number}"))));
    let last = take("last");
    let look = || {
        let mut client = client("last");
        let path = format!("{path}/{last}");
        patiently("the place", || client.get(&path)).json()
    };
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(35) {
        look();
        thread::sleep(Duration::from_millis(500));
    }
    // A node that dies loses nobody's place.
    trial.shop.node(0).unwrap().kill().unwrap();
    trial.shop.node(0).unwrap().start().unwrap();
    let mut owner = client("first");
    let cancelled =
        patiently("a unit to come back", || owner.post_nothing(&format!("/api/v1/orders/{order}/cancel")));
    expect(200, &cancelled);
    let began = Instant::now();
    until("the turn", || Some(()).filter(|()| look()["state"] == "admitted"));
    assert!(began.elapsed() < Duration::from_secs(20), "it took {:?}", began.elapsed());
    expect(201, &buy(front, &sale, "last", &last).unwrap());
}
