//! While the database can't be reached, orders are accepted; they settle when it is back.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{thread, time::Duration};

use penstock_testkit::{Auditor, Merchant, OfferTerms, Penstock, buyer_token};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_penstock");

fn report(penstock: &Penstock) -> Value {
    let data = penstock.data().display().to_string();
    let run = penstock.run(&["audit", "--json", "--data", &data]).unwrap();
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", run.stdout, run.stderr))
}

#[test]
fn orders_are_accepted_without_the_database_and_settle_later() {
    let mut penstock = Penstock::new(BINARY);
    penstock.start().unwrap();
    let mut merchant = Merchant::of(&penstock);
    let sale = merchant.publish(OfferTerms { units: 100, ..OfferTerms::default() });

    // Another process holds the database's only write lock, and does not let go.
    let mut intruder = rusqlite::Connection::open(penstock.data().join("records.db")).unwrap();
    intruder.busy_timeout(Duration::from_secs(10)).unwrap();
    let lock = intruder.transaction_with_behavior(rusqlite::TransactionBehavior::Exclusive).unwrap();

    let mut auditor = Auditor::default();
    let mut client = penstock.client();
    let buy = |client: &mut penstock_testkit::Client, auditor: &mut Auditor, number: u32| {
        let (buyer, key) = (format!("buyer-{number}"), format!("key-{number}"));
        client.set_token(&buyer_token(&buyer));
        auditor.sends(&sale, &buyer, 1, &key);
        let answer = client.claim(&sale, 1, &key).unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
        auditor.saw(&sale, &key, &answer).unwrap()
    };
    for number in 0..50 {
        let order = buy(&mut client, &mut auditor, number);
        // A buyer can read their own order, though no row of it exists.
        let read = client.get(&format!("/api/v1/orders/{order}")).unwrap();
        assert_eq!((read.status, read.json()["state"].clone()), (200, "held".into()), "{}", read.text());
        let paid = client.post_nothing(&format!("/api/v1/orders/{order}/pay")).unwrap();
        assert_eq!(paid.status, 200, "{}", paid.text());
        auditor.saw_payment(&order);
    }
    // Longer than settlement waits for the lock, so that it fails and tries again.
    thread::sleep(Duration::from_secs(7));
    for number in 50..60 {
        buy(&mut client, &mut auditor, number);
    }
    let during = report(&penstock);
    assert_eq!(during["ok"], true, "{during:#}");
    assert!(during["pending"].as_u64() >= Some(110), "nothing may have been settled: {during:#}");

    drop(lock);
    drop(intruder);
    let verdict = auditor.verify(&penstock);
    verdict.assert_clean();
    assert_eq!((verdict.promised, verdict.orders), (60, 60));
    assert!(merchant.dead_letters().is_empty(), "an outage makes no dead letter");
}

#[test]
fn decisions_that_the_database_missed_are_settled_after_a_restart() {
    let mut penstock = Penstock::new(BINARY);
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(OfferTerms { units: 100, ..OfferTerms::default() });
    let mut intruder = rusqlite::Connection::open(penstock.data().join("records.db")).unwrap();
    intruder.busy_timeout(Duration::from_secs(10)).unwrap();
    let lock = intruder.transaction_with_behavior(rusqlite::TransactionBehavior::Exclusive).unwrap();
    let mut auditor = Auditor::default();
    let mut client = penstock.client();
    for number in 0..30 {
        let (buyer, key) = (format!("buyer-{number}"), format!("key-{number}"));
        client.set_token(&buyer_token(&buyer));
        auditor.sends(&sale, &buyer, 1, &key);
        auditor.saw(&sale, &key, &client.claim(&sale, 1, &key).unwrap()).unwrap();
    }
    penstock.kill().unwrap();
    drop(lock);
    drop(intruder);
    penstock.start().unwrap();
    let verdict = auditor.verify(&penstock);
    verdict.assert_clean();
    assert_eq!((verdict.promised, verdict.orders), (30, 30));
}
