//! What nginx does for the nodes: it keeps pages, sends an order to another node when its own dies, and lets nobody
//! pretend or pry.

use std::{
    fs,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use penstock_local::RedisKind;
use penstock_testkit::{Auditor, Client, Offer, Random, seed_of_the_day};
use serde_json::json;

use crate::trial::{Trial, buyer, expect, until};

const BUYERS_AT_ONCE: usize = 8;
/// What one address may ask for at once on one node is 10, and there are three nodes.
const CODES: u32 = 40;

#[test]
fn nginx_keeps_pages_and_neither_believes_nor_tells_everything() {
    let trial = Trial::start(RedisKind::Single);
    let sale = trial.publish(Offer::default());
    let path = format!("/api/v1/sales/{sale}");
    let mut front = Client::new(trial.front());
    until("a page from nginx' own memory", || {
        let answer = front.get(&path).unwrap();
        assert_eq!(answer.json()["id"], sale.as_str());
        (answer.header("penstock-cache") == Some("HIT")).then_some(())
    });
    for hidden in ["/metrics", "/readyz"] {
        assert_eq!(front.get(hidden).unwrap().status, 404, "{hidden} is for operators");
        assert_eq!(Client::new(trial.node(0)).get(hidden).unwrap().status, 200);
    }
    assert_eq!(front.get("/healthz").unwrap().status, 200);

    // An address from far away is limited, and a node believes a proxy of this machine. So a visitor who names one at a
    // node is soon refused; if he does so before nginx, it is thrown away.
    let ask = |client: &mut Client, number: u32| {
        let body = json!({ "phone": format!("+861380000{number:04}") }).to_string();
        let forged = [("x-forwarded-for", "203.0.113.7")];
        client.send("POST", "/api/v1/otp", &forged, Some(body.as_bytes())).unwrap().status
    };
    let mut node = Client::new(trial.node(0));
    assert!((0..CODES).map(|number| ask(&mut node, number)).any(|status| status == 429), "nobody is limited");
    for number in 0..CODES {
        assert_eq!(ask(&mut front, CODES + number), 202, "nginx has handed on a forged address");
    }
}

#[test]
fn nginx_sends_an_order_to_another_node_when_its_own_dies() {
    let mut random = Random::new(seed_of_the_day("an order whose node dies"));
    let mut trial = Trial::start(RedisKind::Single);
    let sale = trial.publish(Offer { units: 100_000, ..Offer::default() });
    let victim = random.below(3) as usize;
    let (stop, people) = (AtomicBool::new(false), AtomicU64::new(0));
    let front = trial.front();
    // They ask once, and no second time.
    let shop_once = || {
        let mut auditor = Auditor::default();
        while !stop.load(Ordering::Relaxed) {
            let name = format!("buyer-{}", people.fetch_add(1, Ordering::Relaxed));
            auditor.sends(&sale, &name, 1, &name);
            let answer = buyer(front, &name).claim(&sale, 1, &name).unwrap();
            expect(201, &answer);
            auditor.saw(&sale, &name, &answer);
        }
        auditor
    };
    let orders = format!("POST /api/v1/sales/{sale}/orders");
    let log = trial.folder().join("nginx/logs/error.log");
    let mut auditor = Auditor::default();
    let mut retried = Vec::new();
    thread::scope(|scope| {
        let buying: Vec<_> = (0..BUYERS_AT_ONCE).map(|_| scope.spawn(shop_once)).collect();
        thread::sleep(Duration::from_millis(500 + random.below(500)));
        trial.shop.node(victim).unwrap().kill().unwrap();
        thread::sleep(Duration::from_secs(1));
        stop.store(true, Ordering::Relaxed);
        for thread in buying {
            auditor.merge(thread.join().unwrap());
        }
        let told = fs::read_to_string(&log).unwrap();
        retried.extend(told.lines().filter(|line| line.contains(&orders)).map(str::to_owned));
    });
    assert!(!retried.is_empty(), "no order was on its way to node {victim} when it died");
    trial.shop.node(victim).unwrap().start().unwrap();
    let promised = trial.audit(&auditor);
    eprintln!(
        "node {victim} killed: {promised} orders, each asked for once; {} sent to another",
        retried.len()
    );
}
