//! A payment that came too late: every node tells its buyer that the money goes back, even after Redis has
//! lost or forgotten the order, and even if the payment came only then.

use std::fs;

use penstock_local::RedisKind;
use penstock_testkit::{ADMIN_TOKEN, Client, OfferTerms};
use serde_json::{Value, json};

use crate::trial::{Trial, buyer, expect, must_buy, patiently, until};

/// The buyer's own order, as every node shows it alone and in the list.
fn refunds(trial: &Trial, order: &str) -> Vec<Value> {
    let seen = trial.nodes().into_iter().map(|node| {
        let path = format!("/api/v1/orders/{order}");
        let one = expect(200, &patiently("an order", || buyer(node, "ann").get(&path)));
        let list = expect(200, &patiently("orders", || buyer(node, "ann").get("/api/v1/orders")));
        assert_eq!(list["data"], json!([one]));
        assert_eq!(one["state"], "expired", "{one}");
        one["refund_due"].clone()
    });
    seen.collect()
}

#[test]
fn every_node_shows_a_refund_that_is_due_whatever_happens_to_redis() {
    let mut trial = Trial::start_with(RedisKind::Single, |plan| {
        plan.variables.push(("PENSTOCK_LEDGER__FORGET_AFTER_SECONDS".to_owned(), "1".to_owned()));
    });
    let sale = trial.publish(OfferTerms { units: 2, limit_per_buyer: 2, hold_seconds: 2 });
    let order = must_buy(trial.node(0), &sale, "ann", 1);
    let cyds = must_buy(trial.node(0), &sale, "cyd", 1);
    for (name, order) in [("ann", &order), ("cyd", &cyds)] {
        until("the time is over", || {
            let seen = buyer(trial.node(0), name).get(&format!("/api/v1/orders/{order}")).ok()?;
            (seen.json()["state"] == "expired").then_some(())
        });
    }
    assert_eq!(refunds(&trial, &order), [Value::Null, Value::Null, Value::Null], "nobody has paid");
    let bobs = must_buy(trial.node(1), &sale, "bob", 2);
    let (one, other) = (trial.node(1), trial.node(2));
    let pay = |name, order: &str| {
        let path = format!("/api/v1/orders/{order}/pay");
        patiently("an answer", || buyer(one, name).post_nothing(&path))
    };
    expect(200, &pay("bob", &bobs));
    assert_eq!(pay("ann", &order).code(), "refund_due");
    assert_eq!(refunds(&trial, &order), [true, true, true]);

    let is_recorded = |order: &str| {
        let query = format!("/api/v1/admin/orders?q={order}");
        let page = Client::new(other).with_token(ADMIN_TOKEN).get(&query).ok()?;
        (page.json()["data"][0]["refund_due"] == true).then_some(())
    };
    until("the refund is settled", || is_recorded(&order));
    let redis = trial.shop.redis.single().unwrap();
    redis.kill().unwrap();
    fs::remove_dir_all(redis.folder().join("appendonlydir")).unwrap();
    redis.restart().unwrap();
    assert_eq!(refunds(&trial, &order), [true, true, true], "Redis got it back from the records");

    trial.merchant(0).act(&sale, "close", None);
    let orders = format!("{{{sale}}}:orders");
    until("Redis has forgotten the sale", || {
        let found = trial.shop.redis.single().ok()?.cli(&["EXISTS", &orders]).ok()?;
        (found.trim() == "0").then_some(())
    });
    assert_eq!(refunds(&trial, &order), [true, true, true], "only the records know it");

    assert_eq!(is_recorded(&cyds), None, "cyd has not paid");
    for _ in 0..2 {
        assert_eq!(pay("cyd", &cyds).code(), "refund_due", "too late even for the ledger");
        assert_eq!(is_recorded(&cyds), Some(()));
    }
    let audit = trial.run(&["audit"]).unwrap();
    assert!(audit.status.success(), "{audit:?}");
}
