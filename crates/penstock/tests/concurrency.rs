//! Many buyers at once: exactly the existing units are sold, and a retry gets the first answer.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

use penstock_testkit::{
    Auditor, Client, ClientAnswer, Merchant, OfferTerms, Penstock, Random, buyer_token, seed_of_the_day,
};

const BINARY: &str = env!("CARGO_BIN_EXE_penstock");

/// Enough that claims wait for each other everywhere, and few enough for the system's limit on open files.
const CONNECTIONS: usize = 500;

/// Sends until there is a verdict: 429 and 503 only say "not now".
fn claim(client: &mut Client, sale: &str, quantity: u32, key: &str) -> ClientAnswer {
    for _ in 0..1_000 {
        let answer = client.claim(sale, quantity, key).unwrap_or_else(|lost| panic!("no answer: {lost:?}"));
        if !matches!(answer.status, 429 | 503) {
            return answer;
        }
        assert!(answer.header("retry-after").is_some(), "{} without Retry-After", answer.status);
        thread::sleep(Duration::from_millis(20));
    }
    panic!("there is no verdict on {key}");
}

#[test]
fn five_thousand_buyers_get_exactly_two_hundred_units() {
    const BUYERS: usize = 5_000;
    const UNITS: u32 = 200;
    let mut random = Random::new(seed_of_the_day("concurrency"));
    let mut penstock = Penstock::new(BINARY);
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(OfferTerms { units: UNITS, ..OfferTerms::default() });
    // Each claim three times, in any order, on any connection: twice as many retries as claims.
    let mut requests: Vec<usize> = (0..BUYERS).flat_map(|buyer| [buyer; 3]).collect();
    for place in (1..requests.len()).rev() {
        requests.swap(place, random.below(place as u64 + 1) as usize);
    }
    let tokens: Arc<Vec<String>> =
        Arc::new((0..BUYERS).map(|buyer| buyer_token(&format!("buyer-{buyer}"))).collect());
    let start = Arc::new(Barrier::new(CONNECTIONS));
    let threads: Vec<_> = requests
        .chunks(requests.len().div_ceil(CONNECTIONS))
        .map(|share| {
            let (share, sale, tokens, start) = (share.to_vec(), sale.clone(), tokens.clone(), start.clone());
            let mut client = penstock.client();
            thread::spawn(move || {
                client.connect().unwrap();
                start.wait();
                let ask = |buyer: usize| {
                    client.set_token(&tokens[buyer]);
                    (buyer, claim(&mut client, &sale, 1, &format!("key-{buyer}")))
                };
                share.into_iter().map(ask).collect::<Vec<_>>()
            })
        })
        .collect();
    assert_eq!(threads.len(), CONNECTIONS, "every thread has to reach the barrier");

    let mut auditor = Auditor::default();
    let mut answers: BTreeMap<usize, BTreeSet<(u16, String)>> = BTreeMap::new();
    for (buyer, answer) in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
        let (name, key) = (format!("buyer-{buyer}"), format!("key-{buyer}"));
        auditor.sends(&sale, &name, 1, &key);
        let told = auditor.saw(&sale, &key, &answer).unwrap_or_else(|| answer.code());
        answers.entry(buyer).or_default().insert((answer.status, told));
    }
    // No unit is returned in this sale, so a buyer always gets the same answer.
    for (buyer, told) in &answers {
        assert_eq!(told.len(), 1, "buyer {buyer} got different answers: {told:?}");
        let (status, text) = told.first().unwrap();
        assert!(*status == 201 || (*status == 409 && text == "sold_out"), "{status} {text}");
    }
    assert_eq!(auditor.promised(&sale).len(), UNITS as usize);
    let verdict = auditor.verify(&penstock);
    verdict.assert_clean();
    assert_eq!((verdict.promised, verdict.orders), (UNITS as usize, UNITS as usize));
    assert_eq!(Merchant::of(&penstock).sale(&sale)["state"], "sold_out");
}

/// One thread's share of the mixed sale: buys, retries, pays, cancels, and sometimes does nothing more.
fn trade(mut client: Client, sale: &str, worker: usize, mut random: Random) -> Auditor {
    const BUYERS: u64 = 400;
    let mut auditor = Auditor::default();
    for number in 0..30 {
        let buyer = format!("buyer-{}", random.below(BUYERS));
        let key = format!("key-{worker}-{number}");
        let quantity = 1 + random.below(3) as u32;
        client.set_token(&buyer_token(&buyer));
        auditor.sends(sale, &buyer, quantity, &key);
        let mut order = None;
        for _ in 0..3 {
            let answer = claim(&mut client, sale, quantity, &key);
            assert!(matches!(answer.status, 201 | 409), "{} {}", answer.status, answer.text());
            order = auditor.saw(sale, &key, &answer).or(order);
        }
        let Some(order) = order else { continue };
        if random.percent(20) {
            thread::sleep(Duration::from_millis(random.below(1_500)));
        }
        let (verb, chance) = (random.below(10), random.percent(50));
        if verb < 3 {
            let answer = client.post_nothing(&format!("/api/v1/orders/{order}/pay")).unwrap();
            match (answer.status, answer.code().as_str()) {
                (200, _) => auditor.saw_payment(&order),
                (409, "hold_expired" | "refund_due") => {}
                other => panic!("{other:?}"),
            }
        } else if verb < 7 || chance {
            let answer = client.post_nothing(&format!("/api/v1/orders/{order}/cancel")).unwrap();
            match (answer.status, answer.code().as_str()) {
                (200, _) => auditor.saw_cancellation(&order),
                (409, "hold_expired") => {}
                other => panic!("{other:?}"),
            }
        }
    }
    auditor
}

#[test]
fn payments_cancellations_and_expiries_lose_no_unit() {
    const WORKERS: usize = 64;
    let mut random = Random::new(seed_of_the_day("concurrency, mixed"));
    let mut penstock = Penstock::new(BINARY);
    penstock.start().unwrap();
    let offer = OfferTerms { units: 200, limit_per_buyer: 5, hold_seconds: 1 };
    let sale = Merchant::of(&penstock).publish(offer);
    let threads: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let (client, sale, random) = (penstock.client(), sale.clone(), random.fork());
            thread::spawn(move || trade(client, &sale, worker, random))
        })
        .collect();
    let mut auditor = Auditor::default();
    threads.into_iter().for_each(|thread| auditor.merge(thread.join().unwrap()));
    assert!(auditor.promised(&sale).len() > 200, "units that came back have to be sold again");
    auditor.verify(&penstock).assert_clean();

    // When every hold is over, only paid units are gone.
    let mut merchant = Merchant::of(&penstock);
    for _ in 0..600 {
        let held = merchant.orders(&sale).iter().filter(|order| order["state"] == "held").count();
        if held == 0 {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    let orders = merchant.orders(&sale);
    assert!(orders.iter().all(|order| order["state"] != "held"), "a hold is never released");
    auditor.verify(&penstock).assert_clean();
}
