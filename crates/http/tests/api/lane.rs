//! The fast lane and hyper share a connection. Requests on it are answered in order, whatever they are and
//! however they are cut.

use std::{net::Shutdown, time::Duration};

use serde_json::json;

use crate::support::{ADMIN_TOKEN, Answer, Client, Shop, jwt, new_key};

struct Exchange {
    request: String,
    status: u16,
    is_head: bool,
}

fn exchange(status: u16, head: &str, body: &str) -> Exchange {
    let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    let request = format!("{head} HTTP/1.1\r\nhost: shop.example\r\n{length}\r\n{body}");
    Exchange { request, status, is_head: head.starts_with("HEAD") }
}

/// Requests of all kinds, with refused claims between them.
fn mixture(sold_out: &str, open: &str) -> Vec<Exchange> {
    let token = jwt(&json!({ "sub": "ann", "exp": 1_900_000_000 }));
    let claim = |status: u16, sale: &str, key: &str, body: &str| {
        let mut exchange = exchange(status, &format!("POST /api/v1/sales/{sale}/orders"), body);
        let headers = format!(
            "authorization: Bearer {token}\r\nidempotency-key: {key}\r\ncontent-type: application/json\r\nhost"
        );
        exchange.request = exchange.request.replacen("host", &headers, 1);
        exchange
    };
    let chunked = {
        let mut exchange = claim(201, open, "one", "");
        exchange.request = exchange.request.replacen("host", "transfer-encoding: chunked\r\nhost", 1);
        exchange.request += "5\r\n{\"qua\r\n9\r\nntity\":1}\r\n0\r\n\r\n";
        exchange
    };
    vec![
        claim(409, sold_out, "a", "{\"quantity\":1}"),
        claim(409, sold_out, "b", "{\"quantity\":1}"),
        exchange(200, "GET /healthz", ""),
        claim(409, sold_out, "c", ""),
        claim(409, sold_out, "c", "GET /healthz HTTP/1.1\r\n\r\n"),
        exchange(200, "HEAD /healthz", ""),
        claim(201, open, "one", "{\"quantity\":1}"),
        claim(409, sold_out, "d", "{\"quantity\":1}"),
        exchange(404, "POST /nowhere", "some body"),
        claim(400, sold_out, "two words", "{\"quantity\":1}"),
        claim(409, sold_out, "e", "{\"quantity\":1}"),
        exchange(304, &format!("GET /api/v1/sales/{open}"), ""),
        exchange(200, &format!("GET /api/v1/sales/{sold_out}"), ""),
        exchange(200, &format!("HEAD /api/v1/sales/{sold_out}"), ""),
        claim(409, sold_out, "f", &"x".repeat(5_000)),
        chunked,
        claim(409, sold_out, "g", "{\"quantity\":1}"),
        exchange(200, "GET /healthz", ""),
    ]
}

fn shop_with_mixture() -> (Shop, Vec<Exchange>) {
    let shop = Shop::open();
    let (sold_out, open) = (shop.sale(1), shop.sale(1000));
    shop.buyer("early").buy(&sold_out);
    let ann = shop.buyer("ann").order(&open, 1, "one");
    assert_eq!(ann.status, 201);
    let etag = shop.client().get(&format!("/api/v1/sales/{open}")).header("etag").unwrap().to_owned();
    let mut mixture = mixture(&sold_out, &open);
    for exchange in mixture.iter_mut().filter(|exchange| exchange.status == 304) {
        exchange.request = exchange.request.replacen("host", &format!("if-none-match: {etag}\r\nhost"), 1);
    }
    (shop, mixture)
}

fn expect_all(client: &mut Client, mixture: &[Exchange], circumstance: &str) {
    for (number, exchange) in mixture.iter().enumerate() {
        let answer = client.receive(exchange.is_head);
        let answer = answer.unwrap_or_else(|| panic!("no answer to {number} {circumstance}"));
        assert_eq!(answer.status, exchange.status, "{number} {circumstance}: {}", exchange.request);
    }
}

#[test]
fn requests_of_all_kinds_are_answered_in_order_however_they_are_cut() {
    let (shop, mixture) = shop_with_mixture();
    let bytes: String = mixture.iter().map(|exchange| exchange.request.as_str()).collect();
    // With prime steps, each request is cut at another place each time.
    for step in [1009, 509, 251, 127, 61, bytes.len()] {
        let mut client = shop.client();
        for piece in bytes.as_bytes().chunks(step) {
            client.send_raw(piece);
            std::thread::sleep(Duration::from_micros(300));
        }
        expect_all(&mut client, &mixture, &format!("in pieces of {step}"));
    }
}

#[test]
fn requests_that_are_sent_one_by_one_are_answered_too() {
    let (shop, mixture) = shop_with_mixture();
    let mut client = shop.client();
    for exchange in &mixture {
        client.send_raw(exchange.request.as_bytes());
        expect_all(&mut client, std::slice::from_ref(exchange), "one by one");
    }
}

#[test]
fn a_claim_that_arrives_byte_by_byte_is_answered() {
    let (shop, mixture) = shop_with_mixture();
    let mut client = shop.client();
    for _ in 0..2 {
        for byte in mixture[0].request.as_bytes() {
            client.send_raw(&[*byte]);
        }
        expect_all(&mut client, &mixture[..1], "byte by byte");
    }
}

#[test]
fn a_client_that_shuts_down_after_a_claim_gets_its_refusal() {
    let (shop, mixture) = shop_with_mixture();
    let mut client = shop.client();
    client.send_raw(mixture[0].request.as_bytes());
    client.stream().shutdown(Shutdown::Write).unwrap();
    expect_all(&mut client, &mixture[..1], "before the end");
    assert!(client.receive(false).is_none());
}

#[test]
fn a_client_that_does_not_read_its_refusals_gets_them_all_later() {
    let (shop, mixture) = shop_with_mixture();
    let client = shop.client();
    let many = 40_000;
    let mut sender = client.stream().try_clone().unwrap();
    let request = mixture[0].request.clone();
    let sending = std::thread::spawn(move || {
        for _ in 0..many {
            std::io::Write::write_all(&mut sender, request.as_bytes()).unwrap();
        }
    });
    std::thread::sleep(Duration::from_millis(300));
    let mut client = client;
    for number in 0..many {
        assert_eq!(client.receive(false).expect("an answer").status, 409, "{number}");
    }
    sending.join().unwrap();
    assert_eq!(shop.counted("sold_out"), many);
}

#[test]
fn the_lane_and_the_ledger_refuse_in_the_same_words() {
    let (shop, mixture) = shop_with_mixture();
    let mut client = shop.client();
    client.send_raw(mixture[0].request.as_bytes());
    let from_lane = client.receive(false).unwrap();
    let odd = mixture[0].request.replacen("host", "connection: close\r\nhost", 1);
    client.send_raw(odd.as_bytes());
    let from_hyper = client.receive(false).unwrap();
    assert_eq!(from_lane.body, from_hyper.body);
    assert_eq!(names(&from_lane), names(&from_hyper));
}

fn names(answer: &Answer) -> Vec<String> {
    let names = answer.headers.iter().map(|(name, _)| name.clone());
    names.filter(|name| name != "connection").collect()
}

#[test]
fn the_lane_refuses_a_claim_as_hyper_would_whatever_is_wrong_with_it() {
    let shop = Shop::open();
    let (open, draft) = (shop.sale(5), shop.draft(|_| {}));
    let paused = shop.sale(5);
    shop.steer(&paused, "pause");
    let good = jwt(&json!({ "sub": "ann", "exp": 1_900_000_000 }));
    let over = jwt(&json!({ "sub": "ann", "exp": 1 }));
    let one = "{\"quantity\":1}";
    for (status, sale, token, body) in [
        (409, &paused, &good, one),
        (404, &draft, &good, one),
        (401, &open, &over, one),
        (401, &open, &"nonsense".to_owned(), one),
        (403, &open, &ADMIN_TOKEN.to_owned(), one),
        (400, &open, &good, "{\"quantity\":"),
        (422, &open, &good, "{\"quantity\":0}"),
        (422, &open, &good, "{\"quantity\":\"one\"}"),
        (422, &open, &good, "{\"quantity\":1,\"colour\":2}"),
        (409, &open, &good, "{\"quantity\":3}"),
    ] {
        let path = format!("/api/v1/sales/{sale}/orders");
        let claim = |more: &[(&str, &str)]| {
            let headers = [&[("content-type", "application/json"), ("idempotency-key", "k")], more].concat();
            let mut client = shop.client().with_token(token);
            client.send("POST", &path, &headers, body.as_bytes());
            // Only if everything is answered in order can the connection go on.
            client.send("GET", "/healthz", &[], b"");
            let answer = client.receive(false).expect("an answer");
            (answer, client.receive(false).map(|answer| answer.status))
        };
        let (from_lane, then) = claim(&[]);
        assert_eq!((from_lane.status, then), (status, Some(200)), "{body}: {}", from_lane.text());
        let (from_hyper, _) = claim(&[("connection", "close")]);
        assert_eq!(from_lane.text(), from_hyper.text());
        assert_eq!(names(&from_lane), names(&from_hyper), "{body}");
    }
}

#[test]
fn the_lane_answers_the_orders_of_the_shops_own_page_as_hyper_would() {
    let shop = Shop::open();
    let sold_out = shop.sale(1);
    shop.buyer("early").buy(&sold_out);
    let token = shop.account("+8613800138000", "a long password");
    let cookies = format!("penstock_signed_in=1; penstock_session={token}; other=x");
    let own = ("sec-fetch-site", "same-origin");
    let (of_this, of_another) = (("origin", "https://shop.example"), ("origin", "https://evil.example"));
    let page = ("referer", "https://shop.example/sales/1");
    for (status, cookies, sent_by) in [
        (201, &*cookies, &[own, of_this, page][..]),
        (201, &cookies, &[of_this]),
        (201, &cookies, &[page]),
        (201, &cookies, &[]),
        (409, &cookies, &[own]),
        (401, "penstock_session=pst_x", &[own]),
        (401, "other=x", &[own]),
        (403, &cookies, &[("sec-fetch-site", "cross-site")]),
        (403, &cookies, &[own, ("sec-fetch-site", "cross-site")]),
        (403, &cookies, &[of_another]),
        (403, &cookies, &[of_this, of_another]),
        (403, &cookies, &[("origin", "http://shop.example"), ("x-forwarded-proto", "https")]),
    ] {
        let sale = if status == 409 { sold_out.clone() } else { shop.sale(1) };
        let key = new_key();
        let order = |more: &[(&str, &str)]| {
            let headers =
                [("content-type", "application/json"), ("idempotency-key", &*key), ("cookie", cookies)];
            let mut client = shop.client();
            let headers = [&headers[..], sent_by, more].concat();
            client.send("POST", &format!("/api/v1/sales/{sale}/orders"), &headers, b"{\"quantity\":1}");
            client.receive(false).expect("an answer")
        };
        let (from_lane, from_hyper) = (order(&[]), order(&[("connection", "close")]));
        assert_eq!(from_lane.status, status, "{cookies} {sent_by:?}: {}", from_lane.text());
        assert_eq!(from_lane.header("date"), Some(DATE_OF_THE_LANE), "{sent_by:?}");
        assert_ne!(from_hyper.header("date"), Some(DATE_OF_THE_LANE));
        assert_eq!(from_lane.text(), from_hyper.text());
        assert_eq!(names(&from_lane), names(&from_hyper));
    }
}

#[test]
fn a_claim_in_two_pieces_is_the_lanes_too() {
    let shop = Shop::open();
    let sale = shop.sale(5);
    let mut ann = shop.buyer("ann");
    let headers = [("content-type", "application/json"), ("idempotency-key", "k"), ("content-length", "14")];
    ann.send("POST", &format!("/api/v1/sales/{sale}/orders"), &headers, b"");
    std::thread::sleep(Duration::from_millis(50));
    ann.send_raw(b"{\"quantity\":1}");
    let answer = ann.receive(false).unwrap();
    assert_eq!((answer.status, answer.header("date")), (201, Some(DATE_OF_THE_LANE)));
}

#[test]
fn a_claim_that_the_lane_refuses_counts_once() {
    let shop = Shop::open_with(|options| options.shop.gate.by_buyer.burst = 2.try_into().unwrap());
    let sale = shop.sale(5);
    let mut ann = shop.buyer("ann");
    let before = shop.counted("invalid_request");
    ann.order(&sale, 0, "k").problem(422, "invalid_request");
    ann.buy(&sale);
    ann.order(&sale, 1, "l").problem(429, "rate_limited");
    assert_eq!(shop.counted("invalid_request") - before, 1);
    assert_eq!(shop.counted("rate_limited"), 1);
}

/// The lane takes the date from the test's clock, hyper from the machine's.
const DATE_OF_THE_LANE: &str = "Fri, 15 Jan 2027 08:00:00 GMT";

/// Sends a request on a new connection.
fn ask(shop: &Shop, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut client = shop.client();
    client.send("GET", path, headers, b"");
    client.receive(false).expect("an answer")
}

/// All headers but those that differ between two moments or announce the end of the connection.
fn lasting(answer: &Answer) -> Vec<(String, String)> {
    let headers = answer.headers.iter().filter(|(name, _)| name != "date" && name != "connection");
    headers.cloned().collect()
}

#[test]
fn the_lane_shows_a_sale_as_hyper_would() {
    let shop = Shop::open();
    let (open, sold_out, paused) = (shop.sale(5), shop.sale(1), shop.sale(5));
    shop.buyer("early").buy(&sold_out);
    shop.steer(&paused, "pause");
    let scheduled = shop.published(|sale| sale["opens_at"] = "2027-01-15T09:00:00Z".into());
    let (draft, unknown) = (shop.draft(|_| {}), "0000000000001".to_owned());
    for (status, sale) in
        [(200, open), (200, sold_out), (200, paused), (200, scheduled), (404, draft), (404, unknown)]
    {
        let path = format!("/api/v1/sales/{sale}");
        let etag = ask(&shop, &path, &[]).header("etag").map_or("none".to_owned(), str::to_owned);
        let again = if status == 200 { 304 } else { status };
        let listed = format!("\"other\", {etag}");
        for (status, known) in [
            (status, "\"other\""),
            (again, &*etag),
            (again, etag.trim_start_matches("W/")),
            (again, &listed),
            (again, "*"),
        ] {
            let from_lane = ask(&shop, &path, &[("if-none-match", known)]);
            let from_hyper = ask(&shop, &path, &[("if-none-match", known), ("connection", "close")]);
            assert_eq!((from_lane.status, from_hyper.status), (status, status), "{sale} {known}");
            let is_shown = status != 404;
            assert_eq!(from_lane.header("date") == Some(DATE_OF_THE_LANE), is_shown, "{sale} {known}");
            assert_ne!(from_hyper.header("date"), Some(DATE_OF_THE_LANE));
            assert_eq!(from_lane.text(), from_hyper.text());
            assert_eq!(lasting(&from_lane), lasting(&from_hyper));
            assert_eq!(names(&from_lane), names(&from_hyper));
        }
    }
}

#[test]
fn a_sale_shown_by_the_lane_counts_like_one_shown_by_hyper() {
    let shop = Shop::open();
    let path = format!("/api/v1/sales/{}", shop.sale(5));
    let timed = || {
        let text = shop.client().get("/metrics").text();
        let count = "penstock_request_duration_seconds_count{group=\"sales\"} ";
        text.lines().find_map(|line| line.strip_prefix(count)).unwrap().parse::<u64>().unwrap()
    };
    for headers in [[("accept", "*/*")], [("connection", "close")]] {
        let before = (shop.counted("ok"), shop.counted("not_modified"), timed());
        ask(&shop, &path, &headers);
        ask(&shop, &path, &[headers[0], ("if-none-match", "*")]);
        // Reading the metrics adds two requests that succeed.
        let after = (shop.counted("ok"), shop.counted("not_modified"), timed());
        assert_eq!((after.0 - before.0, after.1 - before.1, after.2 - before.2), (4, 1, 2), "{headers:?}");
    }
}
