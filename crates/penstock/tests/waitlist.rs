//! SIGKILL while people wait for units of a sold-out sale. Everybody keeps the place they were told, and a
//! returned unit goes to the first person on the waitlist, before and after the kill.
//!
//! `PENSTOCK_TEST_SEED` repeats a run.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    collections::VecDeque,
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use penstock_testkit::{
    AnswerLost, Auditor, Client, ClientAnswer, Merchant, OfferTerms, Penstock, Random, buyer_token,
    seed_of_the_day,
};
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_penstock");
const ROUNDS: usize = 8;
const UNITS: u32 = 100;
/// How long a client waits for an answer before it counts it as lost. By then the server has been killed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A sold-out sale, and everybody involved in it.
struct Crowd {
    sale: String,
    auditor: Auditor,
    /// Each buyer with a unit that can still come back, and the order.
    holders: VecDeque<(String, String)>,
    /// Everybody who was told a place, in this order, except those who left.
    waiting: Vec<String>,
    /// A person whose joining or leaving was not answered. They come after all the others.
    doubtful: Option<String>,
    joined: u32,
}

/// Asks until there is an answer that does not say "later". None: the server is gone.
fn ask(mut send: impl FnMut() -> Result<ClientAnswer, AnswerLost>) -> Option<ClientAnswer> {
    let began = Instant::now();
    loop {
        match send() {
            Ok(answer) if !matches!(answer.status, 429 | 503) => return Some(answer),
            Ok(_) => assert!(began.elapsed() < PATIENCE, "it is always too busy"),
            Err(_) => return None,
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn client_of(server: SocketAddr, name: &str) -> Client {
    Client::new(server).with_token(&buyer_token(name)).with_timeout(PATIENCE)
}

impl Crowd {
    fn sell_out(penstock: &Penstock) -> Self {
        let sale = Merchant::of(penstock).publish(OfferTerms {
            units: UNITS,
            limit_per_buyer: 1,
            hold_seconds: 600,
        });
        let (mut auditor, mut holders) = (Auditor::default(), VecDeque::new());
        for number in 0..UNITS {
            let name = format!("holder-{number}");
            auditor.sends(&sale, &name, 1, &name);
            let answer = ask(|| client_of(penstock.address(), &name).claim(&sale, 1, &name)).unwrap();
            holders.push_back((name.clone(), auditor.saw(&sale, &name, &answer).unwrap()));
        }
        Self { sale, auditor, holders, waiting: Vec::new(), doubtful: None, joined: 0 }
    }

    fn path(&self) -> String {
        format!("/api/v1/sales/{}/waitlist", self.sale)
    }

    /// People join one after the other, and now and then the last one leaves again, until the server is gone.
    fn join_until_killed(&mut self, server: SocketAddr, mut random: Random) {
        let path = self.path();
        loop {
            let name = format!("person-{}", self.joined);
            self.joined += 1;
            let mut client = client_of(server, &name);
            self.auditor.joins(&self.sale);
            self.doubtful = Some(name.clone());
            let Some(answer) = ask(|| client.post(&path, &json!({ "quantity": 1 }))) else { return };
            if answer.code() == "not_sold_out" {
                // Nobody was waiting when a unit came back, so it is on sale, and this person buys it.
                self.doubtful = None;
                self.auditor.sends(&self.sale, &name, 1, &name);
                let Some(answer) = ask(|| client.claim(&self.sale, 1, &name)) else { return };
                self.auditor.saw(&self.sale, &name, &answer);
                continue;
            }
            assert_eq!(answer.status, 201, "{}", answer.text());
            if random.percent(20) {
                let Some(left) = ask(|| client.send("DELETE", &path, &[], None)) else { return };
                assert_eq!(left.status, 204, "{}", left.text());
            } else {
                self.waiting.push(name);
            }
            self.doubtful = None;
        }
    }

    /// A person whom the kill cut off asks again.
    fn ask_again(&mut self, server: SocketAddr, name: String) {
        let mut client = client_of(server, &name);
        let answer = ask(|| client.post(&self.path(), &json!({ "quantity": 1 }))).unwrap();
        match answer.status {
            201 => self.waiting.push(name),
            // They were offered a unit in the meantime, and may have only one.
            409 if answer.code() == "limit_reached" => self.waiting.push(name),
            // The waitlist is empty, and they did not get onto it.
            _ => assert_eq!(answer.code(), "not_sold_out", "{}", answer.text()),
        }
    }

    /// People with an order came before all who wait, and those wait in the order in which they came.
    fn check_order(&mut self, server: SocketAddr) -> usize {
        let (mut offered, mut next_position) = (0, 1);
        for name in &self.waiting {
            let mut client = client_of(server, name);
            let place = ask(|| client.get(&self.path())).unwrap();
            if place.status == 200 {
                assert_eq!(place.json()["position"], next_position, "{name} has lost the place");
                next_position += 1;
                continue;
            }
            assert_eq!((place.status, place.code().as_str()), (404, "not_waiting"), "{}", place.text());
            assert_eq!(next_position, 1, "{name} was served before somebody who came earlier");
            let orders = ask(|| client.get("/api/v1/orders")).unwrap().json();
            let [order] = orders["data"].as_array().unwrap().as_slice() else { panic!("{name}: {orders}") };
            assert_eq!(order["state"], "held", "{order}");
            self.auditor.saw_offer(&self.sale, name, order["id"].as_str().unwrap());
            offered += 1;
        }
        offered
    }
}

/// Gives units back one by one until the server is gone. Returns the orders whose cancellation was confirmed.
fn cancel_until_killed(
    server: SocketAddr,
    holders: &mut VecDeque<(String, String)>,
    mut random: Random,
) -> Vec<String> {
    let mut cancelled = Vec::new();
    while let Some((name, order)) = holders.front() {
        let path = format!("/api/v1/orders/{order}/cancel");
        let Some(answer) = ask(|| client_of(server, name).post_nothing(&path)) else { break };
        assert_eq!(answer.status, 200, "{}", answer.text());
        cancelled.push(order.clone());
        holders.pop_front();
        thread::sleep(Duration::from_millis(random.below(20)));
    }
    cancelled
}

#[test]
fn nobody_on_a_waitlist_loses_their_place_by_sigkill() {
    let seed = seed_of_the_day("waitlist");
    let mut random = Random::new(seed);
    let mut penstock = Penstock::new(BINARY)
        // Small enough that kills hit compaction, too.
        .with("PENSTOCK_LEDGER__COMPACT_AFTER_DECISIONS", 60)
        .with("PENSTOCK_SETTLE__BATCH", 7)
        .with("PENSTOCK_LOG__LEVEL", "warn");
    penstock.start().unwrap();
    let server = penstock.address();
    let mut crowd = Crowd::sell_out(&penstock);
    let mut offered = 0;
    for round in 0..ROUNDS {
        let mut holders = std::mem::take(&mut crowd.holders);
        let pause = Duration::from_millis(20 + random.below(150));
        let (joining, cancelling) = (random.fork(), random.fork());
        let cancelled = thread::scope(|scope| {
            let joining = scope.spawn(|| crowd.join_until_killed(server, joining));
            let cancelling = scope.spawn(|| cancel_until_killed(server, &mut holders, cancelling));
            thread::sleep(pause);
            penstock.kill().unwrap();
            joining.join().unwrap();
            cancelling.join().unwrap()
        });
        crowd.holders = holders;
        cancelled.iter().for_each(|order| crowd.auditor.saw_cancellation(order));
        penstock.start().unwrap_or_else(|error| panic!("round {round}: {error:#}"));
        if let Some(name) = crowd.doubtful.take() {
            crowd.ask_again(server, name);
        }
        offered = crowd.check_order(server);
    }
    assert!(offered > 0 && crowd.waiting.len() > offered, "too little happened to prove anything");
    crowd.auditor.verify(&penstock).assert_clean();
    eprintln!(
        "waitlist: {ROUNDS} kills, {} joined, {offered} were offered a unit, {} wait: nobody lost a place (seed {seed})",
        crowd.joined,
        crowd.waiting.len() - offered
    );
}
