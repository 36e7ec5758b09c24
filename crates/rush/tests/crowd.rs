//! A crowd against a tiny server that follows a script; the tests look at what the crowd sent.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use penstock_rush::{
    api::ShopApi,
    crowd::{self, BuyerIdentity, CrowdOutcome, CrowdPlan, End, GateSteps},
    scenario::{Arrivals, Crowd, Mix},
    token::TokenSigner,
    verdict::{self, Evidence},
};

/// A request as received by the server.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// Method and path.
    line: String,
    key: String,
    token: String,
    pass: String,
    body: String,
}

impl Seen {
    fn is_order(&self) -> bool {
        self.line.ends_with("/orders")
    }
}

/// The server's reaction to a request.
enum Does {
    Answers(u16, &'static str, String),
    HangsUp,
}

fn says(status: u16, body: &str) -> Does {
    Does::Answers(status, "", body.to_owned())
}

fn sold_out() -> Does {
    says(409, r#"{"status":409,"code":"sold_out"}"#)
}

fn order(id: &str) -> Does {
    says(201, &format!(r#"{{"id":"{id}","quantity":1,"state":"held"}}"#))
}

type Log = Arc<Mutex<Vec<Seen>>>;

/// Answers each request by `script`, which gets the request and the number of orders before it.
fn serve(script: impl Fn(&Seen, usize) -> Does + Send + Sync + 'static) -> (SocketAddr, Log) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (script, log) = (Arc::new(script), Log::default());
    let all = Arc::clone(&log);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (script, log) = (Arc::clone(&script), Arc::clone(&log));
            thread::spawn(move || converse(stream.unwrap(), &*script, &log));
        }
    });
    (address, all)
}

fn converse(mut stream: TcpStream, script: &(dyn Fn(&Seen, usize) -> Does + Send + Sync), log: &Log) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(seen) = read_request(&mut reader) {
        let orders_before = {
            let mut log = log.lock().unwrap();
            log.push(seen.clone());
            log.iter().filter(|seen| seen.is_order()).count() - usize::from(seen.is_order())
        };
        let Does::Answers(status, headers, body) = script(&seen, orders_before) else { return };
        let answer = format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len());
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut seen = Seen::default();
    let mut body_bytes = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return None;
        }
        let line = line.trim_end();
        match line.split_once(": ") {
            Some(("Content-Length", length)) => body_bytes = length.parse().unwrap(),
            Some(("Idempotency-Key", key)) => seen.key = key.to_owned(),
            Some(("Authorization", token)) => seen.token = token.to_owned(),
            Some(("Penstock-Pass", pass)) => seen.pass = pass.to_owned(),
            Some(_) => {}
            None if line.is_empty() => break,
            None => seen.line = line.trim_end_matches(" HTTP/1.1").to_owned(),
        }
    }
    let mut body = vec![0; body_bytes];
    reader.read_exact(&mut body).ok()?;
    seen.body = String::from_utf8(body).unwrap();
    Some(seen)
}

/// `buyers` people, all there at an opening in the past. Those who get a unit pay at once.
fn plan(address: SocketAddr, buyers: u64) -> CrowdPlan {
    CrowdPlan {
        address,
        host: "shop.example".to_owned(),
        sale: "s1".to_owned(),
        opens_at: Instant::now(),
        units: 10,
        hold_seconds: 60,
        gate: GateSteps::default(),
        identity: BuyerIdentity::Jwt {
            signer: Arc::new(TokenSigner::lasting(b"secret")),
            prefix: "test-".to_owned(),
        },
        quantity: 1,
        crowd: Crowd { buyers, bots: 0.0, connections: 0, forwarded_addresses: false },
        arrivals: Arrivals { burst_at_opening: 1.0, ..Arrivals::default() },
        mix: Mix { looks: 0.0, pays: 1.0, cancels: 0.0, thinks_seconds: [0.0, 0.0], ..Mix::default() },
        threads: 1,
        seed: 7,
    }
}

fn run(plan: &CrowdPlan) -> CrowdOutcome {
    crowd::run(plan, |_| {}).unwrap()
}

fn orders(log: &Log) -> Vec<Seen> {
    log.lock().unwrap().iter().filter(|seen| seen.is_order()).cloned().collect()
}

#[test]
fn busy_is_heeded_and_the_order_sent_again_with_its_key() {
    let (address, log) = serve(|seen, orders_before| match (seen.is_order(), orders_before) {
        (true, 0) => Does::Answers(503, "Retry-After: 0\r\n", r#"{"code":"busy"}"#.to_owned()),
        (true, _) => order("o1"),
        (false, _) => says(200, r#"{"state":"paid"}"#),
    });
    let outcome = run(&plan(address, 1));
    let orders = orders(&log);
    assert_eq!(orders.len(), 2);
    assert_eq!((&orders[0].key, &orders[0].token), (&orders[1].key, &orders[1].token));
    assert_eq!(orders[0].body, r#"{"quantity":1}"#);
    assert_eq!(log.lock().unwrap().last().unwrap().line, "POST /api/v1/orders/o1/pay");
    assert_eq!((outcome.report.orders.paid, outcome.report.orders.repeated), (1, 1));
    assert_eq!(outcome.report.refused.get("busy"), Some(&1));
    assert_eq!(outcome.report.people.served, 1);
}

#[test]
fn a_connection_that_breaks_loses_no_order() {
    let (address, log) = serve(|seen, orders_before| match (seen.is_order(), orders_before) {
        (true, 0) => Does::HangsUp,
        (true, _) => order("o1"),
        (false, _) => says(200, "{}"),
    });
    let outcome = run(&plan(address, 1));
    let orders = orders(&log);
    assert_eq!(orders.len(), 2);
    assert_eq!(orders[0].key, orders[1].key);
    let [promised] = &outcome.promised[..] else { panic!("{:?}", outcome.promised) };
    assert_eq!((&*promised.order, promised.end, &promised.key), ("o1", End::Paid, &orders[0].key));
    assert_eq!(format!("Bearer {}", promised.token), orders[0].token);
    assert_eq!((outcome.doubtful.len(), outcome.report.generator.connections_lost), (0, 1));
}

#[test]
fn everybody_is_answered_once_when_it_is_sold_out() {
    let (address, log) = serve(|seen, orders_before| match (seen.is_order(), orders_before) {
        (true, 0..10) => order(&format!("o{orders_before}")),
        (true, _) => sold_out(),
        (false, _) => says(200, "{}"),
    });
    let mut plan = plan(address, 300);
    plan.crowd.connections = 20;
    plan.threads = 2;
    let outcome = run(&plan);
    let orders = orders(&log);
    let keys: std::collections::BTreeSet<_> = orders.iter().map(|seen| &seen.key).collect();
    let tokens: std::collections::BTreeSet<_> = orders.iter().map(|seen| &seen.token).collect();
    assert_eq!((orders.len(), keys.len(), tokens.len()), (300, 300, 300));
    assert_eq!((outcome.report.people.came, outcome.report.people.served), (300, 10));
    assert_eq!(outcome.report.refused.get("sold_out"), Some(&290));
    assert_eq!((outcome.report.orders.accepted, outcome.report.orders.paid), (10, 10));
    assert_eq!((outcome.report.requests, outcome.report.order_requests), (310, 300));
    assert_eq!(outcome.report.latency["order"].count, 300);
    assert_eq!(outcome.report.histogram.iter().map(|bar| bar.count).sum::<u64>(), 300);
    assert_eq!(outcome.report.timeline.iter().map(|slice| slice.sold).sum::<u64>(), 10);
    assert_eq!(outcome.report.timeline.iter().map(|slice| slice.requests).sum::<u64>(), 310);
    assert!(outcome.report.opening.stock_gone_after_seconds.is_some());
    assert!(
        outcome.report.opening.everybody_answered_after_seconds
            >= outcome.report.opening.stock_gone_after_seconds
    );
}

#[test]
fn a_closed_loop_lets_everybody_come_over_a_few_connections() {
    let (address, log) = serve(|_, _| sold_out());
    let mut plan = plan(address, 500);
    plan.crowd.connections = 3;
    plan.arrivals = Arrivals::default();
    let outcome = run(&plan);
    assert_eq!(orders(&log).len(), 500);
    assert_eq!((outcome.report.people.came, outcome.report.generator.connections), (500, 3));
    assert_eq!(
        (outcome.report.generator.late_percent, outcome.report.generator.waited_for_connection_percent),
        (0.0, 0.0)
    );
}

#[test]
fn a_server_that_closes_after_every_answer_is_served_as_well() {
    let (address, log) = serve(|_, _| {
        Does::Answers(409, "Connection: close\r\n", r#"{"status":409,"code":"sold_out"}"#.to_owned())
    });
    let mut plan = plan(address, 200);
    plan.crowd.connections = 4;
    plan.arrivals = Arrivals::default();
    let outcome = run(&plan);
    assert_eq!(orders(&log).len(), 200);
    assert_eq!((outcome.report.refused["sold_out"], outcome.report.generator.connections_lost), (200, 0));
    assert_eq!(outcome.report.orders.repeated, 0);
}

#[test]
fn a_double_click_that_gets_two_orders_is_noticed() {
    let (address, log) = serve(|seen, orders_before| match seen.is_order() {
        true => order(&format!("o{orders_before}")),
        false => says(200, "{}"),
    });
    let mut plan = plan(address, 1);
    plan.mix.double_clicks = 1.0;
    plan.crowd.connections = 2;
    let outcome = run(&plan);
    let orders = orders(&log);
    assert_eq!((orders.len(), &orders[0].key), (2, &orders[1].key));
    assert_eq!(outcome.contradictions.len(), 1);
    assert!(outcome.contradictions[0].contains(&orders[0].key), "{:?}", outcome.contradictions);
}

#[test]
fn a_gate_is_passed_and_its_pass_shown() {
    let (address, log) = serve(|seen, _| match seen.line.rsplit('/').next().unwrap() {
        "tickets" => says(201, r#"{"ticket":"t1","state":"admitted"}"#),
        "challenge" => says(201, r#"{"id":"c1","kind":"pow","salt":"salt","difficulty":8}"#),
        "pass" => says(201, r#"{"pass":"p1"}"#),
        "orders" => order("o1"),
        _ => says(200, "{}"),
    });
    let mut plan = plan(address, 1);
    plan.gate = GateSteps { challenge: true, waiting_room: true, pass_required: true };
    let outcome = run(&plan);
    let log = log.lock().unwrap();
    let lines: Vec<_> = log.iter().map(|seen| seen.line.as_str()).collect();
    let sale = "/api/v1/sales/s1";
    assert_eq!(
        lines,
        [
            &*format!("POST {sale}/tickets"),
            &*format!("POST {sale}/challenge"),
            &*format!("POST {sale}/pass"),
            &*format!("POST {sale}/orders"),
            "POST /api/v1/orders/o1/pay"
        ]
    );
    assert!(log[2].body.contains(r#""challenge":"c1""#) && log[2].body.contains(r#""ticket":"t1""#));
    assert_eq!(log[3].pass, "p1");
    assert_eq!(outcome.report.people.admitted, 1);
}

#[test]
fn bots_are_counted_separately() {
    let (address, log) = serve(|seen, _| match seen.is_order() {
        true => says(403, r#"{"code":"pass_required"}"#),
        false => says(403, r#"{"code":"challenge_failed"}"#),
    });
    let mut plan = plan(address, 3);
    plan.crowd.bots = 1.0;
    let outcome = run(&plan);
    assert_eq!((outcome.report.people.bots, outcome.report.people.came), (3, 6));
    assert!(outcome.report.bots_refused["pass_required"] > 20, "{:?}", outcome.report.bots_refused);
    assert!(outcome.report.refused["pass_required"] < 20, "{:?}", outcome.report.refused);
    assert_eq!(
        outcome.report.bots_refused["pass_required"] + outcome.report.refused["pass_required"],
        orders(&log).len() as u64
    );
}

#[test]
fn a_missing_server_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = crowd::run(&plan(address, 1), |_| {}).unwrap_err().to_string();
    assert!(error.contains("cannot connect"), "{error}");
}

#[test]
fn an_accepted_order_that_cannot_be_paid_counts_as_refused() {
    let (address, _) = serve(|seen, _| match seen.is_order() {
        true => order("o1"),
        false => says(409, r#"{"code":"hold_expired"}"#),
    });
    let outcome = run(&plan(address, 1));
    assert_eq!(outcome.promised[0].end, End::Refused);
    assert_eq!((outcome.report.orders.paid, outcome.report.orders.refused), (0, 1));
}

const STALL: Duration = Duration::from_millis(300);

#[test]
fn a_stall_before_the_order_is_part_of_its_latency() {
    let (address, _) = serve(|seen, _| {
        if !seen.is_order() {
            thread::sleep(STALL);
        }
        sold_out()
    });
    let mut plan = plan(address, 3);
    plan.mix.looks = 1.0;
    plan.arrivals = Arrivals { burst_at_opening: 0.0, rate: 100.0, ..Arrivals::default() };
    let outcome = run(&plan);
    let orders = &outcome.report.latency["order"];
    assert_eq!(orders.count, 3);
    assert!(orders.p50_ms >= STALL.as_secs_f64() * 1e3 * 0.99, "{orders:?}");
}

#[test]
fn a_lost_order_counts_its_whole_time_as_latency() {
    let (address, _) = serve(|seen, orders_before| match (seen.is_order(), orders_before) {
        (true, 0) => {
            thread::sleep(STALL);
            Does::HangsUp
        }
        _ => sold_out(),
    });
    let outcome = run(&plan(address, 1));
    let orders = &outcome.report.latency["order"];
    assert_eq!((orders.count, outcome.report.order_requests), (1, 1), "only the answered one counts");
    assert!(orders.max_ms >= STALL.as_secs_f64() * 1e3 * 0.99, "{orders:?}");
}

/// The evidence of a sale of ten units, of which one was promised.
fn evidence(promised: &[crowd::Promised]) -> Evidence<'_> {
    Evidence {
        sale: "s1",
        limit_per_buyer: 1,
        promised,
        doubtful: &[],
        contradictions: &[],
        unanswered: 0,
        is_ours_alone: true,
    }
}

#[test]
fn a_verdict_waits_until_the_stock_rests_and_the_server_is_free() {
    let looks = Mutex::new(0);
    let (address, _) = serve(move |_, _| {
        let mut looks = looks.lock().unwrap();
        *looks += 1;
        let available = match *looks {
            1 => return says(503, r#"{"code":"busy"}"#),
            2 => 8,
            3 => 9,
            _ => 10,
        };
        says(200, &format!(r#"{{"stock":{{"total":10,"available":{available}}},"hold_seconds":60}}"#))
    });
    let verdict = verdict::judge(&ShopApi::new(address, ""), &evidence(&[])).unwrap();
    assert!(verdict.is_clean() && verdict.findings.is_empty(), "{verdict:?}");
}

#[test]
fn a_stock_that_never_rests_is_a_finding_not_an_error() {
    let looks = Mutex::new(0);
    let (address, _) = serve(move |_, _| {
        let mut looks = looks.lock().unwrap();
        *looks += 1;
        says(200, &format!(r#"{{"stock":{{"total":10,"available":{}}},"hold_seconds":0}}"#, *looks % 2))
    });
    let verdict = verdict::judge(&ShopApi::new(address, ""), &evidence(&[])).unwrap();
    assert_eq!((verdict.lost, verdict.findings.len()), (1, 1), "{verdict:?}");
}
