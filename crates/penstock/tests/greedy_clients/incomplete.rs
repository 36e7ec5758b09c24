//! Clients that never send the end of their requests.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use penstock_testkit::{Merchant, OfferTerms, longest_order};

use crate::{ATTACK, Greedy, MAX_LATENCY, PATIENCE, alone, ended, get, server};

/// Sends the larger part of many such requests, with a time limit far beyond the test.
fn withstand_half_sent(call: impl Fn(&str) -> String) {
    let _alone = alone();
    let mut penstock = server().with("PENSTOCK_HTTP__REQUEST_SECONDS", 600);
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(OfferTerms { units: 1_000_000, ..OfferTerms::default() });
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: x\r\nidempotency-key: k\r\ncontent-type: application/json\r\n",
        call(&sale)
    );
    let half_sent = head + "content-length: 65536\r\n\r\n" + &" ".repeat(60_000);
    let (before_bytes, _) = penstock.resident_bytes().unwrap();
    let mut waiting: Vec<TcpStream> = Vec::new();
    for round in 1..=8 {
        // More than twice as much as may be kept, each time.
        for _ in 0..600 {
            let mut stream = TcpStream::connect(penstock.address()).unwrap();
            stream.write_all(half_sent.as_bytes()).unwrap();
            waiting.push(stream);
        }
        let began = Instant::now();
        while ended(&penstock, "slow") < round * 600 - 400 {
            assert!(began.elapsed() < PATIENCE, "{} were given up", ended(&penstock, "slow"));
            thread::sleep(Duration::from_millis(50));
        }
    }
    let longest = longest_order(&penstock, &sale, ATTACK);
    assert!(longest < MAX_LATENCY, "an order took {longest:?}");
    let (_, peak_bytes) = penstock.resident_bytes().unwrap();
    let growth = peak_bytes.saturating_sub(before_bytes);
    eprintln!("grew by {} MiB, longest order {longest:?}", growth >> 20);
    // Of 280 MiB that were sent. What arrives between two checks is held twice: as received and as handed on.
    assert!(growth < 200 << 20, "grew by {} MiB", growth >> 20);
}

#[test]
fn incomplete_claims_are_given_up_when_they_fill_their_memory() {
    withstand_half_sent(|sale| format!("/api/v1/sales/{sale}/orders"));
}

#[test]
fn incomplete_calls_are_given_up_when_they_fill_their_memory() {
    withstand_half_sent(|_| "/api/v1/sessions".to_owned());
}

/// A head that comes in many pieces is read by hyper, and counts there, too.
#[test]
fn incomplete_heads_are_given_up_when_they_fill_their_memory() {
    const PIECES: usize = 12;
    const CLIENTS: usize = 600;
    let _alone = alone();
    let mut penstock =
        server().with("PENSTOCK_HTTP__MAX_UNREAD_MEBIBYTES", 4).with("PENSTOCK_HTTP__REQUEST_SECONDS", 600);
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(OfferTerms { units: 1_000_000, ..OfferTerms::default() });
    let (before_bytes, _) = penstock.resident_bytes().unwrap();
    let connect = |_| TcpStream::connect(penstock.address()).unwrap();
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(connect).collect();
    let piece = format!("x-{}: {}\r\n", "y".repeat(20), "z".repeat(1_200));
    for number in 0..PIECES {
        let begin = if number == 0 { "GET /api/v1/me HTTP/1.1\r\nhost: x\r\n" } else { "" };
        for client in &mut clients {
            // The server may have given it up.
            drop(client.write_all(format!("{begin}{piece}").as_bytes()));
        }
        thread::sleep(Duration::from_millis(100));
    }
    // There is room for fewer than half of them.
    let (began, least) = (Instant::now(), (CLIENTS / 3) as u64);
    while ended(&penstock, "slow") < least {
        assert!(began.elapsed() < PATIENCE, "{} were given up", ended(&penstock, "slow"));
        thread::sleep(Duration::from_millis(50));
    }
    let longest = longest_order(&penstock, &sale, ATTACK);
    assert!(longest < MAX_LATENCY, "an order took {longest:?}");
    let (_, peak_bytes) = penstock.resident_bytes().unwrap();
    let growth = peak_bytes.saturating_sub(before_bytes);
    eprintln!("grew by {} MiB, longest order {longest:?}", growth >> 20);
    assert!(growth < 48 << 20, "grew by {} MiB", growth >> 20);
}

/// Clients that read, and send on while they are being answered. They go before somebody whose request is on
/// its way.
#[test]
fn requests_that_wait_behind_another_one_take_bounded_memory() {
    const CLIENTS: usize = 300;
    let _alone = alone();
    let mut penstock =
        server().with("PENSTOCK_HTTP__MAX_UNREAD_MEBIBYTES", 4).with("PENSTOCK_HTTP__REQUEST_SECONDS", 600);
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(OfferTerms { units: 1_000_000, ..OfferTerms::default() });
    let mut honest = TcpStream::connect(penstock.address()).unwrap();
    honest.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = "POST /api/v1/sessions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
    honest.write_all(format!("{head}content-length: 20\r\n\r\n{{").as_bytes()).unwrap();
    let (before_bytes, _) = penstock.resident_bytes().unwrap();
    // Each has to be looked up.
    let requests: String = (0..1_000).map(|number| get(&format!("/api/v1/items/{number:013}"))).collect();
    let greedy = Greedy::that_reads(penstock.address(), CLIENTS, requests);
    let began = Instant::now();
    while ended(&penstock, "unread") < CLIENTS as u64 {
        assert!(began.elapsed() < PATIENCE, "{} were cut", ended(&penstock, "unread"));
        thread::sleep(Duration::from_millis(50));
    }
    let longest = longest_order(&penstock, &sale, ATTACK);
    let (_, peak_bytes) = penstock.resident_bytes().unwrap();
    drop(greedy);
    let growth = peak_bytes.saturating_sub(before_bytes);
    eprintln!("grew by {} MiB, longest order {longest:?}", growth >> 20);
    assert!(longest < MAX_LATENCY, "an order took {longest:?}");
    assert!(growth < 64 << 20, "grew by {} MiB", growth >> 20);
    honest.write_all(&[b' '; 19]).unwrap();
    let mut answer = [0; 12];
    honest.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 400", "a request on its way was given up");
}

/// Hyper keeps its buffers, grown to the largest head, while it has a connection to itself.
#[test]
fn idle_connections_that_hyper_has_to_itself_take_bounded_memory() {
    const AT_ONCE: usize = 600;
    let _alone = alone();
    let mut penstock = server();
    penstock.start().unwrap();
    let (before_bytes, _) = penstock.resident_bytes().unwrap();
    let head = "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: keep-alive, x\r\n";
    let request = format!("{head}x-long: {}\r\n\r\n", "z".repeat(15_000));
    let mut idle: Vec<TcpStream> = Vec::new();
    for round in 1..=8 {
        for _ in 0..AT_ONCE {
            let mut stream = TcpStream::connect(penstock.address()).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0, "the connection was closed");
            idle.push(stream);
        }
        // There is room for 400.
        let began = Instant::now();
        while ended(&penstock, "displaced") < (round * AT_ONCE - 420) as u64 {
            assert!(began.elapsed() < PATIENCE, "{} went", ended(&penstock, "displaced"));
            thread::sleep(Duration::from_millis(50));
        }
    }
    let (_, peak_bytes) = penstock.resident_bytes().unwrap();
    let growth = peak_bytes.saturating_sub(before_bytes);
    eprintln!("{} connections, grew by {} MiB", idle.len(), growth >> 20);
    // Without a bound, about 40 KiB for each of them.
    assert!(growth < 90 << 20, "grew by {} MiB", growth >> 20);
}

/// Such a client is never waited for, so only the memory shows what is kept for it.
#[test]
fn connections_that_were_busy_once_take_no_more_memory_than_others() {
    let _alone = alone();
    let mut penstock = server();
    penstock.start().unwrap();
    let (before_bytes, _) = penstock.resident_bytes().unwrap();
    let body = format!("{{\"phone\":\"{}\"}}", "1".repeat(60_000));
    let head = "POST /api/v1/otp HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    let ask = |_| {
        let mut stream = TcpStream::connect(penstock.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // Hyper reads more at once if it has had much to read.
        for _ in 0..4 {
            stream.write_all(request.as_bytes()).unwrap();
            let count = stream.read(&mut [0; 4096]).unwrap();
            assert!(count > 0, "the connection was closed");
        }
        stream
    };
    let idle: Vec<TcpStream> = (0..1_000).map(ask).collect();
    let (now_bytes, _) = penstock.resident_bytes().unwrap();
    let growth = now_bytes.saturating_sub(before_bytes);
    eprintln!("{} connections, grew by {} KiB", idle.len(), growth >> 10);
    assert!(growth < 16 << 20, "grew by {} KiB", growth >> 10);
}
