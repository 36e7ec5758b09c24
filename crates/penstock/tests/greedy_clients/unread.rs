//! Clients that ask and don't read the answers.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use penstock_testkit::{Merchant, OfferTerms, Penstock, longest_order};
use socket2::{Domain, Socket, Type};

use crate::{ATTACK, BINARY, GREEDY, Greedy, MAX_LATENCY, PATIENCE, alone, ended, get, metric, server};

/// Lets greedy clients attack, and checks how the server copes.
fn withstand(penstock: &Penstock, sale: &str, (count, requests): (usize, String), max_growth_bytes: u64) {
    let (before_bytes, _) = penstock.resident_bytes().unwrap();
    let greedy = Greedy::attack(penstock.address(), count, requests);
    let longest = longest_order(penstock, sale, ATTACK);
    let (_, peak_bytes) = penstock.resident_bytes().unwrap();
    let growth = peak_bytes.saturating_sub(before_bytes);
    eprintln!("grew by {} MiB, longest order {longest:?}", growth >> 20);
    assert!(growth < max_growth_bytes, "grew by {} MiB", growth >> 20);
    assert!(longest < MAX_LATENCY, "an order took {longest:?}");
    let began = Instant::now();
    loop {
        let unread_bytes = metric(penstock, "penstock_unread_bytes");
        assert!(unread_bytes <= 32 << 20, "{unread_bytes} bytes count as unread");
        if unread_bytes > 0 {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "nothing counts as unread");
        thread::sleep(Duration::from_millis(20));
    }
    drop(greedy);
    let began = Instant::now();
    while metric(penstock, "penstock_unread_bytes") > 0 {
        assert!(began.elapsed() < PATIENCE, "memory is held for clients that are gone");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn requests_with_unread_answers_take_bounded_memory_and_delay_no_orders() {
    let _alone = alone();
    let mut penstock = server();
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(OfferTerms { units: 1_000_000, ..OfferTerms::default() });
    // As many as one read of the server takes.
    let request = get(&format!("/api/v1/sales/{sale}"));
    let requests = request.repeat((64 << 10) / request.len());
    // The limit on unread answers, the same again for answers that are just being made, and the system's
    // overhead.
    withstand(&penstock, &sale, (GREEDY, requests), 160 << 20);
    expect_some_cut(&penstock);
}

/// How many of the requests in one read the server answers for a client that reads nothing.
fn answered_unread(kibibytes_per_connection: u32) -> u64 {
    let mut penstock = Penstock::new(BINARY)
        .with("PENSTOCK_HTTP__MAX_UNREAD_KIBIBYTES_PER_CONNECTION", kibibytes_per_connection);
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(OfferTerms::default());
    let request = get(&format!("/api/v1/sales/{sale}"));
    let answered = || metric(&penstock, "penstock_request_duration_seconds_count{group=\"sales\"}");
    let before = answered();
    let silent = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    silent.set_recv_buffer_size(16 << 10).unwrap();
    silent.connect(&penstock.address().into()).unwrap();
    (&silent).write_all(request.repeat(READ_REQUESTS).as_bytes()).unwrap();
    let mut count = 0;
    loop {
        thread::sleep(Duration::from_secs(1));
        let now = answered() - before;
        if now > 0 && now == count {
            return count;
        }
        count = now;
    }
}

/// About as many as one read of the server takes.
const READ_REQUESTS: usize = 700;

#[test]
fn a_client_that_does_not_read_is_answered_up_to_the_limit_for_a_connection() {
    let _alone = alone();
    let (few, all) = (answered_unread(1), answered_unread(1_024));
    // The system buffers some answers in both cases.
    assert!(few < READ_REQUESTS as u64 * 2 / 3, "{few} answers with a limit of 1 KiB");
    assert_eq!(all, READ_REQUESTS as u64, "with a limit of 1 MiB");
}

fn expect_some_cut(penstock: &Penstock) {
    let began = Instant::now();
    while ended(penstock, "unread") == 0 {
        assert!(began.elapsed() < PATIENCE, "no client was cut although there was not enough room");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The shortest requests have the longest response heads, and no body that would count. The odd `connection`
/// header makes hyper answer them.
#[test]
fn unread_heads_take_bounded_memory_and_delay_no_orders() {
    let _alone = alone();
    let mut penstock = server();
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(OfferTerms { units: 1_000_000, ..OfferTerms::default() });
    let odd = get("/healthz").replace("\r\n\r\n", "\r\nconnection: keep-alive, x\r\n\r\n");
    let requests = odd + &"HEAD / HTTP/1.1\r\n\r\n".repeat(3_000);
    withstand(&penstock, &sale, (GREEDY, requests), 64 << 20);
}

#[test]
fn unread_files_of_the_documentation_take_hardly_any_memory() {
    let _alone = alone();
    let mut penstock = server();
    penstock.start().unwrap();
    let file = "/docs/swagger-ui-bundle.js";
    assert!(penstock.client().get(file).unwrap().body.len() > 1_000_000);
    let growth = growth_by_unread(&penstock, std::iter::repeat_n(file.to_owned(), GREEDY));
    assert!(growth < 32 << 20, "grew by {} MiB", growth >> 20);
    assert_eq!(ended(&penstock, "unread"), 0);
}

#[test]
fn large_unread_answers_take_bounded_memory_and_delay_no_orders() {
    let _alone = alone();
    // A list is built while it is read, so it takes little memory. The limit is lower, so that some clients
    // are cut.
    let mut penstock = server().with("PENSTOCK_HTTP__MAX_UNREAD_MEBIBYTES", 4);
    penstock.start().unwrap();
    let mut merchant = Merchant::of(&penstock);
    let sale = merchant.publish(OfferTerms { units: 1_000_000, ..OfferTerms::default() });
    let item = json_item(&mut penstock.admin());
    for _ in 0..199 {
        merchant.publish_with(OfferTerms::default(), |sale| sale["item_id"] = item.clone().into());
    }
    let list = get("/api/v1/sales?limit=200");
    let length = penstock.client().get("/api/v1/sales?limit=200").unwrap().body.len();
    assert!(length > 2_000_000, "{length} bytes are not a large answer");
    withstand(&penstock, &sale, (GREEDY, list.clone()), 64 << 20);
    expect_some_cut(&penstock);
    // The same when hyper has the whole connection to itself.
    let odd = list.replace("\r\n\r\n", "\r\nconnection: keep-alive, x\r\n\r\n");
    withstand(&penstock, &sale, (GREEDY, odd), 64 << 20);
}

/// An item with the longest description allowed.
fn json_item(admin: &mut penstock_testkit::Client) -> String {
    let item = serde_json::json!({ "title": "Kettle", "description": "K".repeat(10_000),
        "regular_price": { "amount": "59.90", "currency": "EUR" } });
    let answer = admin.post("/api/v1/admin/items", &item).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_str().unwrap().to_owned()
}

/// How much the server grows by unread answers, each on its own connection. Orders of others are quick
/// meanwhile.
fn growth_by_unread(penstock: &Penstock, paths: impl Iterator<Item = String>) -> u64 {
    let sale = Merchant::of(penstock).publish(OfferTerms { units: 1_000_000, ..OfferTerms::default() });
    let (before_bytes, _) = penstock.resident_bytes().unwrap();
    let ask = |path: String| {
        let mut stream = TcpStream::connect(penstock.address()).unwrap();
        stream.write_all(get(&path).as_bytes()).unwrap();
        // The answer has begun before the next request is sent.
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.read_exact(&mut [0; 100]).unwrap();
        stream
    };
    let unread: Vec<TcpStream> = paths.map(ask).collect();
    let longest = longest_order(penstock, &sale, ATTACK);
    assert!(longest < MAX_LATENCY, "an order took {longest:?}");
    let (_, peak_bytes) = penstock.resident_bytes().unwrap();
    let growth = peak_bytes.saturating_sub(before_bytes);
    eprintln!("{} unread answers, grew by {} MiB", unread.len(), growth >> 20);
    growth
}

#[test]
fn unread_pages_of_different_items_take_only_the_memory_of_their_items() {
    let _alone = alone();
    let mut penstock = server();
    penstock.start().unwrap();
    let mut admin = penstock.admin();
    let items: Vec<String> = (0..300).map(|_| json_item(&mut admin)).collect();
    let path = |number: usize| {
        let (limit, after) = (150 + number % 50, &items[150 + number % 150]);
        format!("/api/v1/items?limit={limit}&after={after}")
    };
    let growth = growth_by_unread(&penstock, (0..GREEDY).map(path));
    assert!(growth < 96 << 20, "grew by {} MiB", growth >> 20);
}

/// A PNG of a megabyte, as far as its header shows.
fn picture(number: u32) -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\0\0\0\x01\0\x08\x02\0\0\0".to_vec();
    png.extend_from_slice(&number.to_be_bytes());
    png.resize((1 << 20) - 1, 0);
    png
}

#[test]
fn unread_pictures_take_no_more_memory_than_the_cache() {
    let _alone = alone();
    let mut penstock = server();
    penstock.start().unwrap();
    let mut admin = penstock.admin();
    let pictures: Vec<String> = (0..150)
        .map(|number| {
            let headers = [("content-type", "image/png")];
            let answer =
                admin.send("POST", "/api/v1/admin/pictures", &headers, Some(&picture(number))).unwrap();
            assert_eq!(answer.status, 201, "{}", answer.text());
            answer.json()["picture"].as_str().unwrap().to_owned()
        })
        .collect();
    let growth = growth_by_unread(&penstock, pictures.iter().cycle().take(450).cloned());
    // The cache has 64 MiB.
    assert!(growth < 160 << 20, "grew by {} MiB", growth >> 20);
}

#[test]
fn a_client_that_does_not_read_gets_no_more_answers_even_if_they_have_no_body() {
    let _alone = alone();
    let mut penstock = server();
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(OfferTerms::default());
    // Hyper answers them because of the header, and one after the other because it has all of them.
    let request = get(&format!("/api/v1/sales/{sale}"))
        .replace("\r\n\r\n", "\r\nconnection: keep-alive, x\r\nif-none-match: *\r\n\r\n");
    let _greedy = Greedy::attack(penstock.address(), 1, request.repeat((64 << 10) / request.len()));
    let answered = || metric(&penstock, "penstock_requests_total{code=\"not_modified\"}");
    let (began, mut before) = (Instant::now(), 0);
    loop {
        thread::sleep(Duration::from_secs(2));
        let now = answered();
        if metric(&penstock, "penstock_unread_bytes") > 0 && now == before {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{now} answers, and none of them was read");
        before = now;
    }
}

/// A phone on a slow network: the system buffers little for it, and it reads 50 KB a second. Clients that
/// read nothing come back as soon as they are cut.
#[test]
fn a_slow_reader_gets_every_answer_while_greedy_clients_are_cut() {
    let _alone = alone();
    let mut penstock = server().with("PENSTOCK_HTTP__MAX_UNREAD_MEBIBYTES", 8);
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(OfferTerms::default());
    let request = get(&format!("/api/v1/sales/{sale}"));
    let one = {
        let mut stream = TcpStream::connect(penstock.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = vec![0; 64 << 10];
        stream.read(&mut answer).unwrap()
    };
    let requests = (600 << 10) / one;
    let slow = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    slow.set_recv_buffer_size(16 << 10).unwrap();
    slow.connect(&penstock.address().into()).unwrap();
    let mut slow = TcpStream::from(slow);
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut sender = slow.try_clone().unwrap();
    let all = request.repeat(requests);
    let sending = thread::spawn(move || sender.write_all(all.as_bytes()));
    let greedy = Greedy::attack(penstock.address(), GREEDY, request.repeat((64 << 10) / request.len()));
    let (mut expected, mut read) = (one * requests, vec![0; 5 << 10]);
    while expected > 0 {
        let count = slow.read(&mut read).unwrap();
        assert!(count > 0, "it was cut although it reads, {expected} bytes before the end");
        expected -= count;
        thread::sleep(Duration::from_millis(100));
    }
    sending.join().unwrap().unwrap();
    drop(greedy);
    assert!(ended(&penstock, "unread") > 0);
}

/// Answers of the lane and of hyper alternate, and are read only after the server has stopped writing for a
/// while.
#[test]
fn a_client_that_reads_late_gets_every_answer() {
    const ROUNDS: usize = 400;
    let _alone = alone();
    let mut penstock = server();
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(OfferTerms::default());
    let requests = get(&format!("/api/v1/sales/{sale}")).repeat(9) + &get("/healthz");
    let mut stream = TcpStream::connect(penstock.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut sender = stream.try_clone().unwrap();
    let sending = thread::spawn(move || sender.write_all(requests.repeat(ROUNDS).as_bytes()));
    let began = Instant::now();
    while metric(&penstock, "penstock_unread_bytes") == 0 {
        assert!(began.elapsed() < PATIENCE, "nothing counts as unread");
        thread::sleep(Duration::from_millis(20));
    }
    let (mut answers, mut text) = (0, String::new());
    let mut bytes = vec![0; 64 << 10];
    while answers < ROUNDS * 10 {
        let count = stream.read(&mut bytes).unwrap_or_else(|error| panic!("{answers} answers: {error}"));
        assert!(count > 0, "cut after {answers} answers");
        text.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
        answers += text.matches("HTTP/1.1 200 OK").count();
        // The rest may be the beginning of another answer.
        let rest =
            text.rfind("HTTP/1.1 200 OK").map_or(0, |begin| begin + 1).max(text.len().saturating_sub(14));
        text.drain(..rest);
    }
    sending.join().unwrap().unwrap();
}
