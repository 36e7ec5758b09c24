//! Connections of clients that misbehave: too slow, too silent, under a false address.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    num::NonZeroU32,
    thread,
    time::{Duration, Instant},
};

use penstock_gate::LimitOptions;
use serde_json::json;

use crate::support::{Answer, Client, Shop, jwt, new_key};

const REQUEST_TIMEOUT: Duration = Duration::from_millis(300);
/// Far more than any of this should take, and far less than it would take if nothing cut the connection.
const SOON: Duration = Duration::from_secs(8);

fn impatient_shop() -> Shop {
    Shop::open_with(|options| options.request_timeout = REQUEST_TIMEOUT)
}

/// How many connections have ended this way.
fn ended(shop: &Shop, how: &str) -> u64 {
    let text = shop.client().get("/metrics").text();
    let start = format!("penstock_connections_total{{end=\"{how}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&start)).expect("every end has a counter").parse().unwrap()
}

/// Waits until this many connections have ended this way: the client may notice before it is counted.
#[track_caller]
fn expect_ended(shop: &Shop, how: &str, count: u64) {
    let began = Instant::now();
    while ended(shop, how) != count {
        assert!(began.elapsed() < SOON, "{} instead of {count} connections ended {how}", ended(shop, how));
        thread::sleep(Duration::from_millis(20));
    }
}

/// Sends byte by byte until the server has had enough; returns the server's answer.
fn dribble(client: &mut Client, bytes: &[u8], pause: Duration) -> Option<Answer> {
    let mut sender = client.stream().try_clone().unwrap();
    let bytes = bytes.to_vec();
    let sending = thread::spawn(move || {
        for byte in bytes.into_iter().chain(std::iter::repeat(b'x')) {
            if sender.write_all(&[byte]).is_err() {
                return;
            }
            thread::sleep(pause);
        }
    });
    let answer = client.receive(false);
    // By now the server has closed, so the sender notices.
    sending.join().unwrap();
    answer
}

fn claim_head(sale: &str, more: &str) -> String {
    let token = jwt(&json!({ "sub": "ann", "exp": 1_900_000_000 }));
    format!(
        "POST /api/v1/sales/{sale}/orders HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\nidempotency-key: {}\r\n{more}\r\n",
        new_key()
    )
}

#[test]
fn a_head_that_arrives_byte_by_byte_is_refused_and_cut() {
    let shop = impatient_shop();
    // When their time is over, the first is still in the lane, and the second has long been with hyper.
    for (number, pause) in [(1, 50), (2, 5)] {
        let mut client = shop.client();
        let began = Instant::now();
        let answer = dribble(&mut client, b"GET /healthz HTTP/1.1\r\nx: ", Duration::from_millis(pause));
        assert!((REQUEST_TIMEOUT..SOON).contains(&began.elapsed()), "{:?}", began.elapsed());
        let answer = answer.expect("an answer");
        answer.problem(408, "request_timeout");
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(client.receive(false).is_none(), "the connection is over");
        assert_eq!(shop.counted("request_timeout"), number);
        expect_ended(&shop, "slow", number);
    }
}

#[test]
fn a_body_that_arrives_byte_by_byte_is_refused_and_cut() {
    let shop = impatient_shop();
    let (open, sold_out) = (shop.sale(5), shop.sale(1));
    shop.buyer("early").buy(&sold_out);
    let otp = "POST /api/v1/otp HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
    let requests = [
        claim_head(&open, "content-length: 1000\r\n"),
        claim_head(&sold_out, "content-length: 1000\r\n"),
        claim_head(&open, "transfer-encoding: chunked\r\n") + "fff\r\n",
        claim_head(&open, "content-length: 1000\r\nexpect: nothing\r\n"),
        format!("{otp}content-length: 1000\r\n\r\n"),
        format!("{otp}transfer-encoding: chunked\r\n\r\nfff\r\n"),
    ];
    for (number, head) in (1..).zip(requests) {
        let mut client = shop.client();
        client.send_raw(head.as_bytes());
        let answer = dribble(&mut client, b"{\"", Duration::from_millis(30)).expect("an answer");
        answer.problem(408, "request_timeout");
        assert_eq!(answer.header("connection"), Some("close"), "{head}");
        assert!(client.receive(false).is_none(), "the connection is over: {head}");
        assert_eq!(shop.counted("request_timeout"), number, "{head}");
        expect_ended(&shop, "slow", number);
    }
    assert_eq!(shop.counted("client_gone"), 0, "each is counted once");
}

#[test]
fn a_second_request_gets_no_more_time_than_the_first() {
    let shop = impatient_shop();
    let sale = shop.sale(1);
    shop.buyer("early").buy(&sale);
    let plain = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n".to_owned();
    let odd = "POST /nowhere HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n".to_owned();
    let refused = claim_head(&sale, "content-length: 2\r\n") + "{}";
    for first in [plain, odd, refused] {
        let mut client = shop.client();
        client.send_raw(first.as_bytes());
        assert!(client.receive(false).is_some_and(|answer| answer.status != 408), "{first}");
        let answer = dribble(&mut client, b"GET /heal", Duration::from_millis(30)).expect("an answer");
        answer.problem(408, "request_timeout");
    }
    // Here the beginning of the second request comes together with the first.
    let mut client = shop.client();
    client.send_raw((claim_head(&sale, "content-length: 2\r\n") + "{}GET /heal").as_bytes());
    client.receive(false).unwrap().problem(409, "sold_out");
    client.receive(false).expect("an answer").problem(408, "request_timeout");
    expect_ended(&shop, "slow", 4);
}

/// Hyper has read the second head together with the first request, so no part of it ever passes the lane.
#[test]
fn a_missing_body_is_not_waited_for_even_if_its_head_came_with_another_request() {
    let shop = impatient_shop();
    let sale = shop.sale(5);
    let odd = "POST /nowhere HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    let otp = "POST /api/v1/otp HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
    let heads = [
        format!("{otp}content-length: 1000\r\n\r\n"),
        format!("{otp}transfer-encoding: chunked\r\n\r\n"),
        claim_head(&sale, "content-length: 1000\r\n"),
    ];
    for (number, head) in (1..).zip(heads) {
        let mut client = shop.client();
        client.send_raw(format!("{odd}{head}").as_bytes());
        assert_eq!(client.receive(false).map(|answer| answer.status), Some(404), "{head}");
        client.receive(false).unwrap_or_else(|| panic!("no answer: {head}")).problem(408, "request_timeout");
        assert!(client.receive(false).is_none(), "the connection is over: {head}");
        expect_ended(&shop, "slow", number);
    }
}

#[test]
fn a_whole_request_is_not_delayed_by_a_slow_one() {
    let shop = impatient_shop();
    let address = shop.address();
    let slow: Vec<_> = (0..20)
        .map(|_| {
            thread::spawn(move || {
                let mut client = Client::connect(address);
                dribble(&mut client, b"GET /healthz HTTP/1.1\r\nx: ", Duration::from_millis(50))
            })
        })
        .collect();
    let (mut busy, mut quiet) = (shop.client(), shop.client());
    for _ in 0..3 {
        assert_eq!(quiet.get("/healthz").status, 200);
        let pause_over = Instant::now() + 2 * REQUEST_TIMEOUT;
        while Instant::now() < pause_over {
            assert_eq!(busy.get("/healthz").status, 200);
        }
    }
    assert_eq!(quiet.get("/healthz").status, 200, "a pause between requests is not lateness");
    for slow in slow {
        slow.join().unwrap().expect("an answer").problem(408, "request_timeout");
    }
    expect_ended(&shop, "slow", 20);
}

/// Sends the same request until the server cuts the connection, and never reads an answer.
fn send_without_reading(client: &TcpStream, request: &str) {
    let many = request.repeat(100);
    let mut sender = client;
    client.set_write_timeout(Some(SOON)).unwrap();
    let cut = loop {
        if let Err(error) = sender.write_all(many.as_bytes()) {
            break error;
        }
    };
    assert_ne!(cut.kind(), std::io::ErrorKind::WouldBlock, "nobody cut it");
}

#[test]
fn a_client_that_does_not_read_its_answers_is_cut() {
    let shop = Shop::open_with(|options| {
        options.idle_timeout = Duration::from_millis(400);
        // The requests must reach the ledger, not a limit.
        options.shop.gate.by_buyer.burst = NonZeroU32::MAX;
        options.shop.gate.by_node.burst = NonZeroU32::MAX;
        options.shop.gate.into_ledger.burst = NonZeroU32::MAX;
    });
    let (open, sold_out) = (shop.sale(1000), shop.sale(1));
    shop.buyer("early").buy(&sold_out);
    let accepted = claim_head(&open, "content-length: 14\r\n") + "{\"quantity\":1}";
    let refused = claim_head(&sold_out, "content-length: 14\r\n") + "{\"quantity\":1}";
    let both = format!("{}{accepted}", refused.repeat(20));
    let routed = "GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n";
    for request in [refused.as_str(), both.as_str(), routed] {
        let before = ended(&shop, "unread");
        send_without_reading(shop.client().stream(), request);
        expect_at_least(&shop, "unread", before + 1);
    }
    assert_eq!(shop.client().get("/healthz").status, 200);
}

/// For ends that other connections of the test may share.
#[track_caller]
fn expect_at_least(shop: &Shop, how: &str, count: u64) {
    let began = Instant::now();
    while ended(shop, how) < count {
        assert!(began.elapsed() < SOON, "{} instead of {count} connections ended {how}", ended(shop, how));
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn every_connection_ends_in_one_way_that_is_counted() {
    let shop = impatient_shop();
    let mut watching = shop.client();
    drop(shop.client());
    assert_eq!(shop.client().request("GET", "/healthz", &[("connection", "close")], b"").status, 200);
    let mut malformed = shop.client();
    malformed.send_raw(b"NONSENSE\r\n\r\n");
    malformed.receive(false).unwrap().problem(400, "bad_request");
    let mut slow = shop.client();
    slow.send_raw(b"GET");
    slow.receive(false).unwrap().problem(408, "request_timeout");
    let expected = [
        "penstock_connections_open 1",
        "penstock_connections_total{end=\"client\"} 2",
        "penstock_connections_total{end=\"idle\"} 0",
        "penstock_connections_total{end=\"displaced\"} 0",
        "penstock_connections_total{end=\"unread\"} 0",
        "penstock_connections_total{end=\"slow\"} 1",
        "penstock_connections_total{end=\"malformed\"} 1",
        "penstock_connections_total{end=\"refused\"} 0",
        "penstock_connections_total{end=\"drained\"} 0",
        "penstock_connections_total{end=\"cut\"} 0",
    ];
    let began = Instant::now();
    loop {
        let text = watching.get("/metrics").text();
        let found: Vec<_> = text.lines().filter(|line| line.starts_with("penstock_connections_")).collect();
        if found == expected {
            break;
        }
        assert!(began.elapsed() < SOON, "{found:#?}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn behind_proxies(proxies: &[&str]) -> Shop {
    let proxies: Vec<_> = proxies.iter().map(|proxy| proxy.parse().unwrap()).collect();
    let once = LimitOptions { burst: NonZeroU32::MIN, one_per: Duration::from_secs(3600), max_keys: 1000 };
    Shop::open_with(move |options| {
        options.trusted_proxies = proxies;
        options.shop.identity.otp_by_address = once;
        options.shop.gate.by_address = once;
    })
}

/// Requests a one-time code as if for these addresses; returns the status.
fn ask_for_code(shop: &Shop, forwarded: &[&str]) -> u16 {
    let phone = format!("+49151{}", 1_000_000 + new_key().trim_start_matches("key-").parse::<u32>().unwrap());
    let body = json!({ "phone": phone }).to_string();
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(forwarded.iter().map(|list| ("x-forwarded-for", *list)));
    shop.client().request("POST", "/api/v1/otp", &headers, body.as_bytes()).status
}

#[test]
fn behind_a_trusted_proxy_each_client_has_its_own_limit() {
    let shop = behind_proxies(&["127.0.0.0/8", "10.0.0.0/8"]);
    assert_eq!(ask_for_code(&shop, &["198.51.100.1"]), 202);
    assert_eq!(ask_for_code(&shop, &["198.51.100.1"]), 429);
    assert_eq!(ask_for_code(&shop, &["198.51.100.2"]), 202, "another client");
    assert_eq!(ask_for_code(&shop, &["198.51.100.2, 10.0.0.1"]), 429, "through one more proxy");
    assert_eq!(ask_for_code(&shop, &["198.51.100.2", "10.0.0.1"]), 429, "in two headers");
    assert_eq!(ask_for_code(&shop, &["203.0.113.5, 198.51.100.2"]), 429, "with an address made up");
    assert_eq!(ask_for_code(&shop, &["203.0.113.5", "198.51.100.2"]), 429, "in a separate header");
    assert_eq!(ask_for_code(&shop, &["203.0.113.5"]), 202, "the made-up address still has its allowance");
}

#[test]
fn an_untrusted_proxy_speaks_only_for_itself() {
    let shop = behind_proxies(&["10.0.0.0/8"]);
    for _ in 0..3 {
        // This client is on loopback, which has no limits.
        assert_eq!(ask_for_code(&shop, &["198.51.100.1"]), 202);
    }
}

#[test]
fn clients_that_a_proxy_on_this_machine_does_not_name_share_one_limit() {
    let shop = behind_proxies(&["127.0.0.0/8"]);
    assert_eq!(ask_for_code(&shop, &["unknown"]), 202);
    for list in ["unknown", "", "not an address, 127.0.0.1", "198.51.100.1, unknown"] {
        assert_eq!(ask_for_code(&shop, &[list]), 429, "{list:?}");
    }
    assert_eq!(ask_for_code(&shop, &["198.51.100.1"]), 202, "other clients are not affected");
}

#[test]
fn claims_are_limited_by_their_clients_address_too() {
    let shop = behind_proxies(&["127.0.0.1/32"]);
    let sale = shop.sale(10);
    let claim = |name: &str, forwarded: &[&str]| {
        let (key, path) = (new_key(), format!("/api/v1/sales/{sale}/orders"));
        let mut headers = vec![("content-type", "application/json"), ("idempotency-key", key.as_str())];
        headers.extend(forwarded.iter().map(|list| ("x-forwarded-for", *list)));
        shop.buyer(name).request("POST", &path, &headers, b"{\"quantity\":1}").status
    };
    assert_eq!(claim("ann", &["198.51.100.1"]), 201);
    assert_eq!(claim("bob", &["198.51.100.1"]), 429);
    assert_eq!(claim("bob", &["203.0.113.5, 198.51.100.1"]), 429);
    assert_eq!(claim("bob", &["203.0.113.5", "198.51.100.1"]), 429, "two headers are one list");
    assert_eq!(claim("bob", &["203.0.113.5"]), 201, "the refused claims did not count for this address");
}

#[test]
fn a_client_that_waits_for_its_turn_to_send_is_answered() {
    let shop = impatient_shop();
    let sale = shop.sale(5);
    let mut client = shop.client();
    client.send_raw(claim_head(&sale, "content-length: 14\r\nexpect: 100-continue\r\n").as_bytes());
    let mut interim = [0; 25];
    client.stream().read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.send_raw(b"{\"quantity\":1}");
    assert_eq!(client.receive(false).unwrap().status, 201);
}
