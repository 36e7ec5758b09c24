//! HTTP itself: everything that all paths have in common.

use std::{io::Read as _, net::Shutdown, time::Duration};

use serde_json::json;

use crate::support::{CURSED_PHONE, Client, Shop, jwt, new_key, until};

#[test]
fn unknown_paths_are_not_found() {
    let shop = Shop::open();
    let mut client = shop.client();
    for path in
        ["/", "/api", "/api/v1", "/api/v1/", "/api/v2/sales", "/api/v1/sales/", "/api/v1/admin/", "/%ff"]
    {
        client.get(path).problem(404, "not_found");
    }
    client.post_empty("/api/v1/payments/notifications").problem(404, "not_found");
}

#[test]
fn a_wrong_method_is_told_the_right_ones() {
    let shop = Shop::open();
    let sale = shop.sale(1);
    let mut client = shop.client();
    for (method, path, allowed) in [
        ("DELETE", "/api/v1/sales".to_owned(), "GET,HEAD"),
        ("GET", format!("/api/v1/sales/{sale}/orders"), "POST"),
        ("GET", "/api/v1/otp".to_owned(), "POST"),
        ("PUT", "/api/v1/admin/sales".to_owned(), "GET,HEAD,POST"),
        ("BREW", "/healthz".to_owned(), "GET,HEAD"),
    ] {
        let refused = client.request(method, &path, &[], b"");
        refused.problem(405, "method_not_allowed");
        let mut methods: Vec<&str> = refused.header("allow").unwrap().split(',').collect();
        methods.sort_unstable();
        assert_eq!(methods.join(","), allowed, "{path}");
    }
}

#[test]
fn head_is_get_without_a_body() {
    let shop = Shop::open();
    let sale = shop.sale(1);
    let mut client = shop.client();
    for path in [format!("/api/v1/sales/{sale}"), "/api/v1/items".to_owned(), "/healthz".to_owned()] {
        let get = client.get(&path);
        let head = client.request("HEAD", &path, &[], b"");
        assert_eq!(
            (head.status, head.header("content-length")),
            (200, get.header("content-length")),
            "{path}"
        );
        assert_eq!(head.header("etag"), get.header("etag"));
    }
    assert_eq!(client.request("HEAD", "/nowhere", &[], b"").status, 404);
    assert_eq!(client.get("/healthz").status, 200, "the connection goes on");
}

#[test]
fn a_panic_is_answered_and_the_connection_survives() {
    let shop = Shop::open();
    let mut client = shop.client();
    client.post("/api/v1/otp", &json!({ "phone": CURSED_PHONE })).problem(500, "internal");
    assert_eq!(client.post("/api/v1/otp", &json!({ "phone": "+4915112345678" })).status, 202);
    assert_eq!(shop.counted("internal"), 1);
}

#[test]
fn bodies_are_checked_alike_everywhere() {
    let shop = Shop::open();
    let mut admin = shop.admin();
    let path = "/api/v1/admin/items";
    let json_type = [("content-type", "application/json; charset=utf-8")];
    admin.request("POST", path, &json_type, b"{\"title\":").problem(400, "malformed_json");
    admin.request("POST", path, &json_type, b"").problem(400, "malformed_json");
    admin.request("POST", path, &json_type, b"7").problem(422, "invalid_request");
    admin
        .request("POST", path, &[("content-type", "text/plain")], b"{}")
        .problem(415, "unsupported_media_type");
    let large = format!("{{\"title\":\"{}\"}}", "x".repeat(70_000));
    admin.request("POST", path, &json_type, large.as_bytes()).problem(413, "body_too_large");
    assert_eq!(admin.get("/api/v1/items").status, 200, "the connection goes on");
    let huge = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9999999999\r\nauthorization: Bearer {}\r\n\r\n{{",
        crate::support::ADMIN_TOKEN
    );
    let mut client = shop.client();
    client.send_raw(huge.as_bytes());
    client.receive(false).unwrap().problem(413, "body_too_large");
}

#[test]
fn chunked_bodies_are_bodies() {
    let shop = Shop::open();
    let sale = shop.sale(1);
    let mut client = shop.client();
    let token = jwt(&json!({ "sub": "ann", "exp": 1_900_000_000 }));
    let head = format!(
        "POST /api/v1/sales/{sale}/orders HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         idempotency-key: chunky\r\nauthorization: Bearer {token}\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    client.send_raw(head.as_bytes());
    client.send_raw(b"5\r\n{\"qua\r\n");
    std::thread::sleep(Duration::from_millis(20));
    client.send_raw(b"9\r\nntity\":1}\r\n0\r\n\r\n");
    assert_eq!(client.receive(false).unwrap().status, 201);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let shop = Shop::open();
    let sale = shop.sale(1);
    let mut ann = shop.buyer("ann");
    ann.buy(&sale);
    let path = format!("/api/v1/sales/{sale}/orders");
    let headers = [("content-type", "application/json"), ("idempotency-key", "fresh")];
    for _ in 0..10 {
        ann.send("POST", &path, &headers, b"{\"quantity\":1}");
        ann.send("GET", "/healthz", &[], b"");
    }
    for _ in 0..10 {
        ann.receive(false).unwrap().problem(409, "sold_out");
        assert_eq!(ann.receive(false).unwrap().status, 200);
    }
}

#[test]
fn a_refused_order_whose_body_comes_late_keeps_its_connection() {
    let shop = Shop::open();
    let sale = shop.sale(1);
    let mut ann = shop.buyer("ann");
    ann.buy(&sale);
    for _ in 0..3 {
        ann.send_raw(
            format!(
                "POST /api/v1/sales/{sale}/orders HTTP/1.1\r\nhost: x\r\nidempotency-key: late\r\n\
                 content-type: application/json\r\ncontent-length: 14\r\n\r\n"
            )
            .as_bytes(),
        );
        std::thread::sleep(Duration::from_millis(20));
        ann.send_raw(b"{\"quantity\":1}");
        ann.receive(false).unwrap().problem(409, "sold_out");
    }
}

#[test]
fn a_client_that_shuts_down_its_side_still_gets_the_answer() {
    let shop = Shop::open();
    let sale = shop.sale(1);
    let mut ann = shop.buyer("ann");
    let key = new_key();
    let headers = [("content-type", "application/json"), ("idempotency-key", key.as_str())];
    ann.send("POST", &format!("/api/v1/sales/{sale}/orders"), &headers, b"{\"quantity\":1}");
    ann.stream().shutdown(Shutdown::Write).unwrap();
    assert_eq!(ann.receive(false).unwrap().status, 201);
    let mut rest = Vec::new();
    ann.stream().read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "then the connection ends");
}

/// A request that takes a while, because a password is hashed.
fn ask_slowly(client: &mut Client) {
    let body = br#"{"phone":"+4915112345678","password":"a wrong password"}"#;
    client.send("POST", "/api/v1/sessions", &[("content-type", "application/json")], body);
}

#[test]
fn a_request_that_comes_while_another_is_answered_is_answered_next() {
    let shop = Shop::open();
    let mut client = shop.client();
    for _ in 0..3 {
        ask_slowly(&mut client);
        std::thread::sleep(Duration::from_millis(10));
        client.send("GET", "/healthz", &[], b"");
        assert_eq!(client.receive(false).unwrap().status, 401);
        assert_eq!(client.receive(false).unwrap().status, 200);
    }
}

#[test]
fn a_connection_whose_client_leaves_while_it_is_answered_ends_with_the_answer() {
    let shop = Shop::open();
    let mut client = shop.client();
    ask_slowly(&mut client);
    client.stream().shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.receive(false).unwrap().status, 401, "it may still read");
    let mut rest = Vec::new();
    client.stream().read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
    for _ in 0..3 {
        let mut client = shop.client();
        ask_slowly(&mut client);
        std::thread::sleep(Duration::from_millis(10));
    }
    until("the connections of clients that are gone have ended", || {
        let text = shop.client().get("/metrics").text();
        text.lines().any(|line| line == "penstock_connections_open 1").then_some(())
    });
}

#[test]
fn bytes_that_are_not_http_are_refused_and_the_server_goes_on() {
    let shop = Shop::open();
    let before = shop.counted("bad_request");
    let malformed: [&[u8]; 6] = [
        b"NONSENSE\r\n\r\n",
        &[0; 1000],
        b"GET /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: x\r\n\r\n",
        b"POST /api/v1/otp HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        &[b"GET /healthz HTTP/1.1\r\n", "a: b\r\n".repeat(100).as_bytes(), b"\r\n"].concat(),
        &[b"GET /healthz HTTP/1.1\r\na: ", "b".repeat(20_000).as_bytes()].concat(),
    ];
    for bytes in malformed {
        let mut client = shop.client();
        client.send_raw(bytes);
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        let answer = client.receive(false).unwrap_or_else(|| panic!("{start} is not answered"));
        answer.problem(400, "bad_request");
        assert_eq!(answer.header("connection"), Some("close"), "{start}");
        assert!(client.receive(false).is_none(), "{start}: the connection is over");
    }
    assert_eq!(shop.counted("bad_request") - before, malformed.len() as u64, "each of them is counted once");
    let client = shop.client();
    // The server may close before everything is sent.
    let endless = format!("GET /healthz HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(100_000));
    let _ = std::io::Write::write_all(&mut client.stream(), endless.as_bytes());
    assert_eq!(shop.client().get("/healthz").status, 200);
}

#[test]
fn bytes_after_a_request_do_not_delay_its_answer() {
    let shop = Shop::open();
    let sale = shop.sale(5);
    let token = jwt(&json!({ "sub": "ann", "exp": 4_000_000_000u64 }));
    let claim = format!(
        "POST /api/v1/sales/{sale}/orders HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
         connection: close\r\ncontent-type: application/json\r\nidempotency-key: the-same-key\r\n\
         content-length: 14\r\n\r\n{{\"quantity\":1}}"
    );
    for rest in ["\r\n", "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"] {
        let mut client = shop.client();
        client.send_raw(format!("{claim}{rest}").as_bytes());
        assert_eq!(client.receive(false).map(|answer| answer.status), Some(201), "{rest:?}");
    }
    let mut client = shop.client();
    let chunked = "POST /api/v1/otp HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    client.send_raw(format!("{chunked}GET /healthz HT").as_bytes());
    assert!(client.receive(false).is_some(), "half of the next request is there already");
}

#[test]
fn a_silent_connection_is_cut() {
    let shop = Shop::open_with(|options| options.idle_timeout = Duration::from_millis(200));
    let mut slow = shop.client();
    slow.send_raw(b"GET /healthz HTTP/1.1\r\nhost:");
    let sale = shop.sale(1);
    let mut owing = shop.buyer("ann");
    let headers = [("content-type", "application/json"), ("idempotency-key", "k"), ("content-length", "14")];
    owing.send("POST", &format!("/api/v1/sales/{sale}/orders"), &headers, b"");
    let mut idle = shop.client();
    assert_eq!(idle.get("/healthz").status, 200);
    assert!(idle.receive(false).is_none());
    assert!(slow.receive(false).is_none());
    assert!(owing.receive(false).is_none(), "the body never came");
    assert_eq!(shop.counted("client_gone"), 1);
}

#[test]
fn stopping_answers_the_requests_under_way() {
    let mut shop = Shop::open_with(|options| options.shop.gate.by_buyer.burst = u32::MAX.try_into().unwrap());
    let sale = shop.sale(1000);
    let address = shop.address();
    let buyers: Vec<_> = (0..8)
        .map(|number| {
            let token = jwt(&json!({ "sub": format!("buyer-{number}"), "exp": 1_900_000_000 }));
            let sale = sale.clone();
            std::thread::spawn(move || {
                let mut client = Client::connect(address).with_token(&token);
                let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
                let mut answered = 0;
                loop {
                    client.send(
                        "POST",
                        &format!("/api/v1/sales/{sale}/orders"),
                        &headers,
                        b"{\"quantity\":1}",
                    );
                    match client.receive(false) {
                        Some(answer) => {
                            assert_eq!(answer.status, 201);
                            answered += 1;
                            if answer.header("connection") == Some("close") {
                                return (answered, true);
                            }
                        }
                        None => return (answered, false),
                    }
                }
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    shop.stop_server();
    for buyer in buyers {
        let (answered, _) = buyer.join().expect("no answer was cut off");
        assert!(answered > 0);
    }
    assert!(std::net::TcpStream::connect(address).is_err(), "nothing listens on the port now");
}

#[test]
fn a_port_that_is_taken_is_refused() {
    let shop = Shop::open();
    let address = shop.address();
    let taken = std::thread::spawn(move || drop(Shop::open_with(|options| options.listen = address)));
    let why = taken.join().unwrap_err();
    assert!(why.downcast_ref::<String>().unwrap().contains("can't listen on 127.0.0.1"));
}
