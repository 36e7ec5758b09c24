//! SIGTERM under load: every accepted request is answered, and the process exits with success.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    collections::BTreeSet,
    thread,
    time::{Duration, Instant},
};

use penstock_testkit::{
    AnswerLost, Auditor, Client, ClientAnswer, Merchant, OfferTerms, Penstock, buyer_token,
};
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_penstock");

/// Claims until the server takes no more.
fn buy_until_refused(mut client: Client, sale: &str, worker: usize) -> Auditor {
    let mut auditor = Auditor::default();
    for number in 0.. {
        let (buyer, key) = (format!("buyer-{worker}-{number}"), format!("key-{worker}-{number}"));
        client.set_token(&buyer_token(&buyer));
        auditor.sends(sale, &buyer, 1, &key);
        match client.claim(sale, 1, &key) {
            Ok(answer) if answer.status == 503 => break,
            Ok(answer) => {
                assert_eq!(answer.status, 201, "{}", answer.text());
                auditor.saw(sale, &key, &answer);
            }
            // The server has closed the connection; the orders show whether it had accepted the claim.
            Err(_) => break,
        }
    }
    auditor
}

#[test]
fn requests_accepted_before_sigterm_are_answered() {
    const WORKERS: usize = 32;
    let mut penstock = Penstock::new(BINARY);
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(OfferTerms { units: 1_000_000, ..OfferTerms::default() });
    let threads: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let (client, sale) = (penstock.client(), sale.clone());
            thread::spawn(move || buy_until_refused(client, &sale, worker))
        })
        .collect();
    thread::sleep(Duration::from_millis(700));
    let stopped = penstock.stop().unwrap();
    assert!(stopped.status.success(), "{}: {}", stopped.status, stopped.log);
    let mut auditor = Auditor::default();
    threads.into_iter().for_each(|thread| auditor.merge(thread.join().unwrap()));

    penstock.start().unwrap();
    let verdict = auditor.verify(&penstock);
    verdict.assert_clean();
    let orders = Merchant::of(&penstock).orders(&sale);
    let known: BTreeSet<&str> = orders.iter().filter_map(|order| order["id"].as_str()).collect();
    let untold: Vec<_> = known.difference(&auditor.promised(&sale)).copied().collect();
    assert!(untold.is_empty(), "{} orders were decided and not answered: {untold:?}", untold.len());
    assert!(verdict.promised > WORKERS, "too little was sold to prove anything");
}

#[test]
fn an_idle_connection_does_not_delay_the_end() {
    let mut penstock = Penstock::new(BINARY);
    penstock.start().unwrap();
    let mut idle = penstock.client();
    assert_eq!(idle.get("/healthz").unwrap().status, 200);
    let begun = Instant::now();
    let stopped = penstock.stop().unwrap();
    assert!(stopped.status.success(), "{}", stopped.log);
    assert!(begun.elapsed() < Duration::from_secs(15), "it waited for an idle connection");
}

/// Holds the database's only write lock, so that a request that writes to it stays under way for a while.
fn hold_the_database(penstock: &Penstock) -> rusqlite::Connection {
    let intruder = rusqlite::Connection::open(penstock.data().join("records.db")).unwrap();
    intruder.busy_timeout(Duration::from_secs(10)).unwrap();
    intruder.execute_batch("BEGIN EXCLUSIVE").unwrap();
    intruder
}

/// Sends a request that waits for the database.
fn ask_for_a_code(penstock: &Penstock) -> thread::JoinHandle<Result<ClientAnswer, AnswerLost>> {
    let mut client = penstock.client();
    let asking = thread::spawn(move || client.post("/api/v1/otp", &json!({ "phone": "+8613900000005" })));
    thread::sleep(Duration::from_millis(500));
    assert!(!asking.is_finished(), "the request should wait for the database");
    asking
}

#[test]
fn a_request_under_way_is_answered_before_the_end() {
    let mut penstock = Penstock::new(BINARY);
    penstock.start().unwrap();
    let intruder = hold_the_database(&penstock);
    let asking = ask_for_a_code(&penstock);
    penstock.terminate().unwrap();
    thread::sleep(Duration::from_millis(500));
    drop(intruder);
    let answer = asking.join().unwrap().unwrap_or_else(|lost| panic!("not answered: {lost:?}"));
    assert_eq!(answer.status, 202, "{}", answer.text());
    assert!(penstock.wait().unwrap().status.success());
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    let mut penstock = Penstock::new(BINARY);
    penstock.start().unwrap();
    let _intruder = hold_the_database(&penstock);
    let asking = ask_for_a_code(&penstock);
    penstock.terminate().unwrap();
    thread::sleep(Duration::from_millis(500));
    penstock.terminate().unwrap();
    let stopped = penstock.wait().unwrap();
    assert_eq!(stopped.status.code(), Some(130), "{}", stopped.log);
    assert!(stopped.log.contains("ending at once"), "{}", stopped.log);
    assert!(asking.join().unwrap().is_err(), "nothing can have been answered");
}
