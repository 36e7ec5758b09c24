//! Load far beyond the server's capacity: it takes what it can, refuses the rest at once, and loses nothing.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    collections::BTreeMap,
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

use penstock_testkit::{
    Auditor, Client, ClientAnswer, Merchant, OfferTerms, Penstock, SlowConnections, buyer_token,
};

const BINARY: &str = env!("CARGO_BIN_EXE_penstock");

/// Each sends its next claim as soon as it has an answer of any kind.
const CONNECTIONS: usize = 200;
const CLAIMS_PER_CONNECTION: usize = 150;
/// Further connections, which send a byte per second.
const SLOW_CONNECTIONS: usize = 300;
/// The most claims decided at the same time: a tenth of those that arrive.
const IN_FLIGHT: usize = 20;
/// Far more than orders and connections need, and far less than an unbounded queue would take.
const MAX_GROWTH_BYTES: u64 = 64 << 20;

/// A server whose ledger syncs every order separately.
fn slow_server() -> Penstock {
    let mut penstock = Penstock::new(BINARY)
        .with("PENSTOCK_LEDGER__MAX_BATCH", 1)
        .with("PENSTOCK_GATE__LIMITS__IN_FLIGHT_MIN", 1)
        .with("PENSTOCK_GATE__LIMITS__IN_FLIGHT_MAX", IN_FLIGHT)
        .with("PENSTOCK_HTTP__REQUEST_SECONDS", 2);
    penstock.start().unwrap();
    penstock
}

/// What one connection asked for and was told.
struct Told {
    buyer: String,
    answer: ClientAnswer,
}

fn flood(mut client: Client, sale: &str, connection: usize, start: &Barrier) -> Vec<Told> {
    let buyers: Vec<(String, String)> = (0..CLAIMS_PER_CONNECTION)
        .map(|number| format!("buyer-{connection}-{number}"))
        .map(|buyer| (buyer_token(&buyer), buyer))
        .collect();
    client.connect().unwrap();
    start.wait();
    let ask = |(token, buyer): (String, String)| {
        client.set_token(&token);
        let answer = client.claim(sale, 1, &buyer);
        // A connection that is reset or closed has no answer, or its answer announces the end.
        let answer = answer.unwrap_or_else(|lost| panic!("a claim was not answered: {lost:?}"));
        assert_ne!(answer.header("connection"), Some("close"), "{}", answer.text());
        Told { buyer, answer }
    };
    buyers.into_iter().map(ask).collect()
}

/// The counters of `/metrics` by code.
fn counters(penstock: &Penstock) -> BTreeMap<String, u64> {
    let answer = penstock.client().get("/metrics").unwrap();
    let counter = |line: &str| {
        let rest = line.strip_prefix("penstock_requests_total{code=\"")?;
        let (code, count) = rest.split_once("\"} ")?;
        Some((code.to_owned(), count.parse().ok()?))
    };
    answer.text().lines().filter_map(counter).collect()
}

#[test]
fn under_ten_times_its_load_the_server_sells_what_it_can_and_answers_everybody() {
    let penstock = slow_server();
    let sale = Merchant::of(&penstock).publish(OfferTerms { units: 1_000_000, ..OfferTerms::default() });
    let slow = SlowConnections::open(penstock.address(), SLOW_CONNECTIONS);
    let before = counters(&penstock);
    let (before_bytes, _) = penstock.resident_bytes().unwrap();

    let start = Arc::new(Barrier::new(CONNECTIONS));
    let threads: Vec<_> = (0..CONNECTIONS)
        .map(|connection| {
            let (client, sale, start) = (penstock.client(), sale.clone(), Arc::clone(&start));
            thread::spawn(move || flood(client, &sale, connection, &start))
        })
        .collect();
    let told: Vec<Told> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    assert_eq!(told.len(), CONNECTIONS * CLAIMS_PER_CONNECTION, "every claim has an answer");

    let mut auditor = Auditor::default();
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for Told { buyer, answer } in &told {
        auditor.sends(&sale, buyer, 1, buyer);
        auditor.saw(&sale, buyer, answer);
        let code = if answer.status == 201 { "accepted".to_owned() } else { answer.code() };
        assert!(matches!((answer.status, code.as_str()), (201, _) | (503, "busy")), "{}", answer.text());
        let retry_after = answer.header("retry-after").and_then(|seconds| seconds.parse::<u32>().ok());
        assert!(answer.status == 201 || retry_after.is_some_and(|seconds| seconds >= 1), "{answer:?}");
        *seen.entry(code).or_default() += 1;
    }
    let count = |code: &str| seen.get(code).copied().unwrap_or(0);
    assert!(count("accepted") > 0 && count("busy") > 0, "{seen:?}");

    // Memory hardly grows.
    let (_, peak_bytes) = penstock.resident_bytes().unwrap();
    let growth = peak_bytes.saturating_sub(before_bytes);
    assert!(growth < MAX_GROWTH_BYTES, "{} MiB more than before", growth >> 20);

    // The counters agree with the answers, and nothing else went wrong.
    let after = counters(&penstock);
    let counted = |code: &str| after[code] - before[code];
    for code in ["accepted", "busy"] {
        assert_eq!(counted(code), count(code), "{code}: {after:?}");
    }
    for code in ["client_gone", "internal", "unavailable", "rate_limited", "sold_out"] {
        assert_eq!(counted(code), 0, "{code}: {after:?}");
    }

    // Exactly the promised units are sold.
    let status = Merchant::of(&penstock).sale(&sale);
    let stock = |field: &str| status["stock"][field].as_u64().unwrap();
    assert_eq!(stock("total") - stock("available"), count("accepted"));
    drop(slow);
    let verdict = auditor.verify(&penstock);
    verdict.assert_clean();
    assert_eq!(verdict.orders as u64, count("accepted"));
}

#[test]
fn slow_connections_are_cut_and_keep_nobody_from_buying() {
    let penstock = slow_server();
    let sale = Merchant::of(&penstock).publish(OfferTerms { units: 1_000, ..OfferTerms::default() });
    let slow = SlowConnections::open(penstock.address(), SLOW_CONNECTIONS);
    let mut client = penstock.client().with_token(&buyer_token("patient"));
    let served = (0..100).any(|_| {
        let answer = client.claim(&sale, 1, "patient").unwrap();
        thread::sleep(Duration::from_millis(u64::from(answer.status != 201) * 50));
        answer.status == 201
    });
    assert!(served, "the slow connections keep a buyer from being served");
    // None of them finishes a request within the time limit, so every one is cut.
    for _ in 0..1_200 {
        if slow.cut() >= SLOW_CONNECTIONS as u64 {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("only {} of {SLOW_CONNECTIONS} slow connections were cut", slow.cut());
}
