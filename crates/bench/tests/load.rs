//! The generator against a tiny server that misbehaves in known ways.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use penstock_bench::load::{
    self, BuyerTape, LoadOptions, LoadScript, OpenLoop, Phase, SlowOptions, SlowSwarm, Tape, TapeCall,
    bearers, orders_path,
};
use penstock_rush::connection::HttpAnswer;

/// Answers the `n`th request over all connections with `answer(n)`; an empty answer closes the connection.
fn serve(answer: impl Fn(u64) -> Vec<u8> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (answer, count) = (Arc::new(answer), Arc::new(AtomicU64::new(0)));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (answer, count) = (Arc::clone(&answer), Arc::clone(&count));
            thread::spawn(move || converse(stream.unwrap(), |number| answer(number), &count));
        }
    });
    address
}

fn converse(mut stream: TcpStream, answer: impl Fn(u64) -> Vec<u8>, count: &AtomicU64) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut body_bytes = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(length) = line.strip_prefix("Content-Length: ") {
                body_bytes = length.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        reader.read_exact(&mut vec![0; body_bytes]).unwrap();
        let bytes = answer(count.fetch_add(1, Ordering::SeqCst));
        if bytes.is_empty() {
            return;
        }
        // In two pieces, so that the generator has to join them.
        let (first, second) = bytes.split_at(bytes.len() / 2);
        stream.write_all(first).unwrap();
        stream.flush().unwrap();
        thread::yield_now();
        stream.write_all(second).unwrap();
    }
}

fn response(status: u16, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn orders(address: SocketAddr, count: usize) -> Tape {
    let identity = &bearers(b"secret");
    let buyers = BuyerTape { address, identity, first_buyer: 0, buyers: u64::MAX, count };
    buyers.build(&TapeCall::order(&orders_path("sale"))).unwrap()
}

#[test]
fn every_request_of_a_tape_is_sent_once_and_counted() {
    let address = serve(|number| match number {
        0..50 => response(201, "{}"),
        _ => response(409, r#"{"code":"sold_out"}"#),
    });
    let script = orders(address, 300).once();
    let outcome = load::run(&LoadOptions::new(address, 7), script).unwrap();
    assert_eq!(outcome.total.answers, 300);
    assert_eq!((outcome.total.status(201), outcome.total.status(409)), (50, 250));
    assert_eq!(outcome.total.codes().get("sold_out"), Some(&250));
    assert_eq!(outcome.total.errors, 0);
}

#[test]
fn a_lost_connection_is_an_error_and_the_run_goes_on() {
    let address = serve(|number| if number % 10 == 9 { Vec::new() } else { response(201, "{}") });
    let script = orders(address, 100).once();
    let outcome = load::run(&LoadOptions::new(address, 4), script).unwrap();
    assert_eq!((outcome.total.answers, outcome.total.errors), (90, 10));
}

#[test]
fn a_server_that_is_gone_ends_the_run() {
    let address = serve(|_| Vec::new());
    let options = LoadOptions::new(address, 4);
    let outcome = load::run(&options, orders(address, 10_000).once()).unwrap();
    assert_eq!(outcome.total.answers, 0);
    assert!((101..=110).contains(&outcome.total.errors), "{}", outcome.total.errors);
}

struct Recorder {
    left: u64,
    request: Vec<u8>,
    seen: Vec<(u64, String)>,
}

impl LoadScript for Recorder {
    fn next_request(&mut self) -> Option<(u64, &[u8])> {
        self.left = self.left.checked_sub(1)?;
        Some((self.left, &self.request))
    }

    fn answered(&mut self, number: u64, answer: &HttpAnswer<'_>) {
        self.seen.push((number, String::from_utf8_lossy(answer.body).into_owned()));
    }
}

#[test]
fn a_script_sees_each_answer_with_its_number() {
    let address = serve(|number| response(201, &format!("order {number}")));
    let request = b"GET / HTTP/1.1\r\n\r\n".to_vec();
    let script = Recorder { left: 3, request, seen: Vec::new() };
    let outcome = load::run(&LoadOptions::new(address, 1), script).unwrap();
    let seen: Vec<_> = outcome.script.seen.iter().map(|(number, body)| (*number, body.as_str())).collect();
    assert_eq!(seen, [(2, "order 0"), (1, "order 1"), (0, "order 2")]);
}

#[test]
fn the_warm_up_is_not_measured_and_nothing_is_cut_off_at_the_end() {
    let sent = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&sent);
    let address = serve(move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
        response(201, "{}")
    });
    let mut options = LoadOptions::new(address, 3);
    options.warm_up = Duration::from_millis(60);
    options.measured = Duration::from_millis(60);
    let mut phases = Vec::new();
    let script = orders(address, 2).endless();
    let outcome = load::run_watched(&options, script, |phase| phases.push(phase)).unwrap();
    assert_eq!(phases, [Phase::Measuring, Phase::Draining]);
    assert_eq!(outcome.total.answers, sent.load(Ordering::SeqCst));
    assert!(outcome.measured.answers < outcome.total.answers);
    assert!(outcome.per_second(201) > 0.0);
}

#[test]
fn an_open_loop_sends_by_its_schedule_and_accounts_for_every_arrival() {
    let address = serve(|number| match number % 3 {
        0 => response(201, "{}"),
        _ => response(503, r#"{"code":"busy"}"#),
    });
    let mut options = LoadOptions::new(address, 8);
    options.open_loop = Some(OpenLoop { per_second: 2_000.0, max_waiting: 64 });
    let outcome = load::run(&options, orders(address, 300).once()).unwrap();
    assert_eq!((outcome.total.answers, outcome.total.errors), (300, 0));
    assert_eq!((outcome.total.status(201), outcome.total.code("busy")), (100, 200));
    let arrivals = outcome.arrivals;
    assert_eq!(arrivals.sent, 300);
    assert_eq!(arrivals.due, arrivals.sent + arrivals.not_sent);
}

#[test]
fn a_request_that_waits_for_a_connection_is_late_and_its_wait_is_latency() {
    let address = serve(|_| {
        thread::sleep(Duration::from_millis(5));
        response(201, "{}")
    });
    let mut options = LoadOptions::new(address, 1);
    options.open_loop = Some(OpenLoop { per_second: 10_000.0, max_waiting: 10 });
    options.measured = Duration::from_millis(100);
    let outcome = load::run(&options, orders(address, 5_000).once()).unwrap();
    let arrivals = outcome.arrivals;
    // One connection with answers after 5 ms takes at most 200 requests a second, so most are never sent.
    assert!(arrivals.not_sent > arrivals.sent && arrivals.late > 0, "{arrivals:?}");
    assert_eq!((outcome.total.answers, arrivals.due), (arrivals.sent, arrivals.sent + arrivals.not_sent));
    let (latency, service) = (&outcome.total.accepted_latency, &outcome.total.accepted_service);
    assert!(latency.quantile(0.9) > service.quantile(0.1) * 2, "{latency:?}");
}

#[test]
fn answers_that_never_come_are_missing() {
    let address = serve(|number| if number % 10 == 9 { Vec::new() } else { response(201, "{}") });
    let mut options = LoadOptions::new(address, 4);
    options.open_loop = Some(OpenLoop { per_second: 5_000.0, max_waiting: 100 });
    let outcome = load::run(&options, orders(address, 100).once()).unwrap();
    let losses = outcome.total.losses;
    assert_eq!((outcome.total.answers, losses.missing), (90, 10));
    assert_eq!(losses.closed + losses.resets, 10, "{losses:?}");
}

/// Cuts each connection after this many bytes, and counts the bytes that came.
fn cut_after(bytes: usize) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let cut = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&cut);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, count) = (stream.unwrap(), Arc::clone(&count));
            thread::spawn(move || {
                if stream.read_exact(&mut vec![0; bytes]).is_ok() {
                    count.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    (address, cut)
}

#[test]
fn slow_connections_come_back_when_they_are_cut() {
    let (address, cut) = cut_after(1);
    let options = SlowOptions {
        address,
        connections: 20,
        request: b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        core: None,
        max_opened: 50,
    };
    let swarm = SlowSwarm::start(options).unwrap();
    while cut.load(Ordering::SeqCst) < 50 {
        thread::sleep(Duration::from_millis(10));
    }
    let tally = swarm.stop().unwrap();
    assert_eq!((tally.opened, tally.failed), (50, 0), "{tally:?}");
    assert_eq!(tally.bytes_sent, 50, "a byte for each connection: {tally:?}");
}

#[test]
fn slow_connections_that_are_left_alone_never_finish_their_request() {
    let seen = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&seen);
    let address = serve(move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
        response(200, "{}")
    });
    let request = b"\r\n".to_vec();
    let swarm = SlowSwarm::start(SlowOptions { address, connections: 3, request, core: None, max_opened: 3 })
        .unwrap();
    thread::sleep(Duration::from_millis(2_500));
    let tally = swarm.stop().unwrap();
    assert!(tally.opened <= 3 && tally.bytes_sent <= tally.opened, "{tally:?}");
    assert_eq!(seen.load(Ordering::SeqCst), 0);
}
