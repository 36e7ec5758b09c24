//! People wait at any node for a sale that is sold out. Redis loses everything or is replaced, and everybody
//! keeps their place.

use std::fs;

use penstock_local::RedisKind;
use penstock_testkit::{ADMIN_TOKEN, Auditor, Client, OfferTerms};
use serde_json::{Value, json};

use crate::trial::{Trial, buyer, expect, patiently, text, until};

const HOLDERS: usize = 3;
const PEOPLE: usize = 6;

/// A sold-out sale, and the people who wait for it.
struct Line {
    sale: String,
    auditor: Auditor,
    /// The holders' orders.
    orders: Vec<String>,
    /// In the order in which they came.
    waiting: Vec<String>,
}

impl Line {
    /// Each person goes to another node than the one before.
    fn form(trial: &Trial) -> Self {
        let sale = trial.publish(OfferTerms { units: HOLDERS as u32, limit_per_buyer: 1, hold_seconds: 600 });
        let mut line = Self { sale, auditor: Auditor::default(), orders: Vec::new(), waiting: Vec::new() };
        for number in 0..HOLDERS {
            let name = format!("holder-{number}");
            line.auditor.sends(&line.sale, &name, 1, &name);
            let claim = || buyer(trial.node(number % 3), &name).claim(&line.sale, 1, &name);
            let answer = patiently("a verdict", claim);
            line.orders.push(line.auditor.saw(&line.sale, &name, &answer).unwrap());
        }
        for number in 0..PEOPLE {
            let name = format!("person-{number}");
            line.auditor.joins(&line.sale);
            let join = || buyer(trial.node(number % 3), &name).post(&line.path(), &json!({ "quantity": 1 }));
            let place = expect(201, &patiently("a place", join));
            assert_eq!(place["position"], number as u64 + 1);
            line.waiting.push(name);
        }
        line
    }

    fn path(&self) -> String {
        format!("/api/v1/sales/{}/waitlist", self.sale)
    }

    /// The last holder cancels, and the first person on the waitlist has an order; every node shows it.
    fn serve(&mut self, trial: &Trial) -> Value {
        let order = self.orders.pop().unwrap();
        let holder = format!("holder-{}", self.orders.len());
        let path = format!("/api/v1/orders/{order}/cancel");
        expect(200, &patiently("a cancellation", || buyer(trial.node(0), &holder).post_nothing(&path)));
        self.auditor.saw_cancellation(&order);
        let first = self.waiting.remove(0);
        let seen = trial.nodes().into_iter().map(|node| {
            let orders = expect(200, &patiently("orders", || buyer(node, &first).get("/api/v1/orders")));
            let [offer] = orders["data"].as_array().unwrap().as_slice() else { panic!("{first}: {orders}") };
            offer.clone()
        });
        let seen: Vec<Value> = seen.collect();
        assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:?}");
        assert_eq!((&seen[0]["state"], &seen[0]["sale_id"]), (&json!("held"), &json!(self.sale)));
        self.auditor.saw_offer(&self.sale, &first, &text(&seen[0]["id"]));
        seen[0].clone()
    }

    fn leaves(&mut self, trial: &Trial, place: usize) {
        let name = self.waiting.remove(place);
        let leave = || buyer(trial.node(1), &name).send("DELETE", &self.path(), &[], None);
        expect(204, &patiently("to leave", leave));
    }

    /// Everybody keeps their place, whichever node is asked.
    fn check(&self, trial: &Trial) {
        for (name, position) in self.waiting.iter().zip(1_u64..) {
            for node in trial.nodes() {
                let place = expect(200, &patiently("a place", || buyer(node, name).get(&self.path())));
                assert_eq!(place["position"], position, "{name} at {node}");
            }
        }
        // Nothing was on sale in between.
        trial.until_nodes_agree(&self.sale);
        assert_eq!(trial.ledger(&self.sale)[1], 0);
        let stats = format!("/api/v1/admin/sales/{}/stats", self.sale);
        for node in trial.nodes() {
            until("the merchant sees how many wait", || {
                let seen = Client::new(node).with_token(ADMIN_TOKEN).get(&stats).ok()?;
                (seen.json()["waitlist"] == self.waiting.len()).then_some(())
            });
        }
    }
}

#[test]
fn a_wiped_redis_gets_the_waitlist_back_from_the_records() {
    let mut trial = Trial::start(RedisKind::Single);
    let mut line = Line::form(&trial);
    let offer = line.serve(&trial);
    line.leaves(&trial, 1);
    line.check(&trial);
    // Only settled places can be restored.
    trial.audit(&line.auditor);
    let rows = trial.shop.mariadb.sql("SELECT COUNT(*) FROM waitlist").unwrap();
    assert_eq!(rows, line.waiting.len().to_string(), "what MariaDB itself says");
    let redis = trial.shop.redis.single().unwrap();
    redis.kill().unwrap();
    fs::remove_dir_all(redis.folder().join("appendonlydir")).unwrap();
    redis.restart().unwrap();
    line.check(&trial);
    let next = line.serve(&trial);
    assert_ne!(next["id"], offer["id"]);
    // A new person gets a number that nobody had.
    line.auditor.joins(&line.sale);
    let join = || buyer(trial.node(2), "late").post(&line.path(), &json!({ "quantity": 1 }));
    expect(201, &patiently("a place", join));
    line.waiting.push("late".to_owned());
    line.check(&trial);
    trial.audit(&line.auditor);
}

#[test]
fn a_replica_that_takes_over_has_the_waitlist() {
    let mut trial = Trial::start(RedisKind::Cluster);
    let mut line = Line::form(&trial);
    line.leaves(&trial, 0);
    let key = format!("{{{}}}:sale", line.sale);
    let redis = trial.shop.redis.cluster().unwrap();
    let former = redis.master_of(&key).unwrap();
    redis.node(former).unwrap().kill().unwrap();
    redis.wait_for_failover(&key, former).unwrap();
    redis.node(former).unwrap().restart().unwrap();
    line.check(&trial);
    line.serve(&trial);
    line.check(&trial);
    trial.audit(&line.auditor);
}
