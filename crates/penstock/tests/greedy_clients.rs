//! Clients that take more than their part: they ask and do not read, or hold connections and do not ask. Memory stays
//! within its bounds, and everybody else is served meanwhile.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use penstock_testkit::{Merchant, Offer, Penstock, buyer_token, longest_order};
use socket2::{Domain, Socket, Type};

const BINARY: &str = env!("CARGO_BIN_EXE_penstock");

const GREEDY: usize = 300;
/// How long each attack lasts at least, once it is under way.
const ATTACK: Duration = Duration::from_secs(4);
/// Orders of others take milliseconds, and in a debug build on a busy machine perhaps a thousand times as long.
const MAX_LATENCY: Duration = Duration::from_secs(5);
/// A client counts as one that does not read after five seconds.
const MAX_WAIT_FOR_PLACE: Duration = Duration::from_secs(15);
/// Long enough for anything on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// One attack at a time: each looks at how long others wait.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn server() -> Penstock {
    Penstock::new(BINARY)
        .with("PENSTOCK_HTTP__MAX_UNREAD_MEBIBYTES", 16)
        .with("PENSTOCK_HTTP__MAX_UNREAD_KIBIBYTES_PER_CONNECTION", 64)
}

/// Connections on which the same requests are sent again and again, and no answer is ever read. Those that the server
/// cuts are opened again.
struct Greedy {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Greedy {
    fn attack(address: SocketAddr, count: usize, requests: String) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut connections: Vec<Option<Sending>> = (0..count).map(|_| None).collect();
            while !is_over.load(Relaxed) {
                for slot in &mut connections {
                    let sending = slot.take().or_else(|| Sending::begin(address));
                    *slot = sending.and_then(|sending| sending.go_on(requests.as_bytes()));
                }
                thread::sleep(Duration::from_millis(20));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Greedy {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

struct Sending {
    stream: TcpStream,
    /// So much of the requests is sent of this round.
    sent: usize,
}

impl Sending {
    fn begin(address: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok()?;
        stream.set_nonblocking(true).ok()?;
        Some(Self { stream, sent: 0 })
    }

    /// Sends as much as the system takes. None: the server has cut the connection.
    fn go_on(mut self, requests: &[u8]) -> Option<Self> {
        match self.stream.write(&requests[self.sent..]) {
            Ok(count) => self.sent = (self.sent + count) % requests.len(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
        Some(self)
    }
}

fn metric(penstock: &Penstock, name: &str) -> u64 {
    let text = penstock.client().with_timeout(PATIENCE).get("/metrics").unwrap().text();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

fn ended(penstock: &Penstock, how: &str) -> u64 {
    metric(penstock, &format!("penstock_connections_total{{end=\"{how}\"}}"))
}

/// Lets greedy clients attack, and asserts what the server makes of them.
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

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: shop.example\r\n\r\n")
}

#[test]
fn requests_whose_answers_nobody_reads_take_bounded_memory_and_hold_up_no_orders() {
    let _alone = alone();
    let mut penstock = server();
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(Offer { units: 1_000_000, ..Offer::default() });
    // As many as one read of the server's takes.
    let request = get(&format!("/api/v1/sales/{sale}"));
    let requests = request.repeat((64 << 10) / request.len());
    // What is unread, as much again for what is just being answered, and what the system makes of it.
    withstand(&penstock, &sale, (GREEDY, requests), 160 << 20);
    expect_some_cut(&penstock);
}

fn expect_some_cut(penstock: &Penstock) {
    let began = Instant::now();
    while ended(penstock, "unread") == 0 {
        assert!(began.elapsed() < PATIENCE, "nobody was cut although there was not room for all");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The shortest requests have the longest heads for an answer, and no body that would count. Hyper answers them, because of the first one.
#[test]
fn heads_that_nobody_reads_take_bounded_memory_and_hold_up_no_orders() {
    let _alone = alone();
    let mut penstock = server();
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(Offer { units: 1_000_000, ..Offer::default() });
    let odd = get("/healthz").replace("\r\n\r\n", "\r\nconnection: keep-alive, x\r\n\r\n");
    let requests = odd + &"HEAD / HTTP/1.1\r\n\r\n".repeat(3_000);
    withstand(&penstock, &sale, (GREEDY, requests), 64 << 20);
}

#[test]
fn files_of_the_documentation_that_nobody_reads_take_hardly_any_memory() {
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
fn large_answers_that_nobody_reads_take_bounded_memory_and_hold_up_no_orders() {
    let _alone = alone();
    // A list is put together while it is read, so that it takes little, and less has to be allowed for somebody to be cut.
    let mut penstock = server().with("PENSTOCK_HTTP__MAX_UNREAD_MEBIBYTES", 4);
    penstock.start().unwrap();
    let mut merchant = Merchant::of(&penstock);
    let sale = merchant.publish(Offer { units: 1_000_000, ..Offer::default() });
    let item = json_item(&mut penstock.admin());
    for _ in 0..199 {
        merchant.publish_with(Offer::default(), |sale| sale["item_id"] = item.clone().into());
    }
    let list = get("/api/v1/sales?limit=200");
    let length = penstock.client().get("/api/v1/sales?limit=200").unwrap().body.len();
    assert!(length > 2_000_000, "{length} bytes are no large answer");
    withstand(&penstock, &sale, (GREEDY, list.clone()), 64 << 20);
    expect_some_cut(&penstock);
    // The same where hyper has the whole connection to itself.
    let odd = list.replace("\r\n\r\n", "\r\nconnection: keep-alive, x\r\n\r\n");
    withstand(&penstock, &sale, (GREEDY, odd), 64 << 20);
}

/// An item with as long a description as it may have.
fn json_item(admin: &mut penstock_testkit::Client) -> String {
    let item = serde_json::json!({ "title": "Kettle", "description": "K".repeat(10_000),
        "regular_price": { "amount": "59.90", "currency": "EUR" } });
    let answer = admin.post("/api/v1/admin/items", &item).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_str().unwrap().to_owned()
}

/// How much the server grows by answers that nobody reads, each on a connection of its own.
fn growth_by_unread(penstock: &Penstock, paths: impl Iterator<Item = String>) -> u64 {
    let (before_bytes, _) = penstock.resident_bytes().unwrap();
    let ask = |path: String| {
        let mut stream = TcpStream::connect(penstock.address()).unwrap();
        stream.write_all(get(&path).as_bytes()).unwrap();
        // It is being answered before the next one asks.
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.read_exact(&mut [0; 100]).unwrap();
        stream
    };
    let unread: Vec<TcpStream> = paths.map(ask).collect();
    let (_, peak_bytes) = penstock.resident_bytes().unwrap();
    let growth = peak_bytes.saturating_sub(before_bytes);
    eprintln!("{} unread answers, grew by {} MiB", unread.len(), growth >> 20);
    growth
}

#[test]
fn pages_of_items_that_differ_and_that_nobody_reads_take_the_memory_of_their_items() {
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

/// A PNG of a megabyte, as far as its head tells.
fn picture(number: u32) -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\0\0\0\x01\0\x08\x02\0\0\0".to_vec();
    png.extend_from_slice(&number.to_be_bytes());
    png.resize((1 << 20) - 1, 0);
    png
}

#[test]
fn pictures_that_nobody_reads_take_no_more_memory_than_the_cache() {
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
fn a_client_that_does_not_read_is_answered_no_further_even_if_answers_have_no_body() {
    let _alone = alone();
    let mut penstock = server();
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(Offer::default());
    // Hyper answers them, because of the header, and one after the other, because it has all of them.
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

/// A phone on a slow network: the system keeps little for it, and it takes 50 KB a second. Whoever reads nothing comes back as soon as they are cut.
#[test]
fn a_slow_reader_gets_every_answer_while_greedy_clients_are_cut() {
    let _alone = alone();
    let mut penstock = server().with("PENSTOCK_HTTP__MAX_UNREAD_MEBIBYTES", 8);
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(Offer::default());
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
        assert!(count > 0, "cut although it reads, {expected} bytes before the end");
        expected -= count;
        thread::sleep(Duration::from_millis(100));
    }
    sending.join().unwrap().unwrap();
    drop(greedy);
    assert!(ended(&penstock, "unread") > 0);
}

/// How long a newcomer waits for an order while others hold all places and send this again and again, without ever reading. Their
/// connections have this end.
fn newcomer_beside(requests: &str, end: &str) -> Duration {
    const ALLOWED: usize = 200;
    // So much time and memory that nobody goes for their sake.
    let mut penstock = Penstock::new(BINARY)
        .with("PENSTOCK_HTTP__MAX_CONNECTIONS", ALLOWED)
        .with("PENSTOCK_HTTP__REQUEST_SECONDS", 600)
        .with("PENSTOCK_HTTP__MAX_UNREAD_MEBIBYTES", 256);
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(Offer { units: 1_000, ..Offer::default() });
    let greedy = Greedy::attack(penstock.address(), ALLOWED + 30, requests.replace("SALE", &sale));
    // Until all places are taken, and those who hold them have done nothing for long enough.
    thread::sleep(Duration::from_secs(7));
    let mut longest = Duration::ZERO;
    for number in 0..5 {
        let began = Instant::now();
        let name = format!("newcomer-{number}");
        let mut newcomer = penstock.client().with_timeout(PATIENCE).with_token(&buyer_token(&name));
        assert_eq!(newcomer.claim(&sale, 1, &name).unwrap().status, 201);
        longest = longest.max(began.elapsed());
    }
    drop(greedy);
    assert!(ended(&penstock, end) > 0, "nobody made room");
    longest
}

#[test]
fn a_newcomer_gets_the_place_of_a_client_whose_request_does_not_get_on() {
    let _alone = alone();
    let waited = newcomer_beside("G", "slow");
    assert!(waited < MAX_WAIT_FOR_PLACE, "a newcomer waited for {waited:?}");
}

#[test]
fn a_newcomer_gets_the_place_of_a_client_that_does_not_read() {
    let _alone = alone();
    let waited = newcomer_beside(&get("/api/v1/sales/SALE").repeat(600), "unread");
    assert!(waited < MAX_WAIT_FOR_PLACE, "a newcomer waited for {waited:?}");
}

/// Sends most of many requests like this, which are late only long after the test has ended.
fn withstand_half_sent(call: impl Fn(&str) -> String) {
    let _alone = alone();
    let mut penstock = server().with("PENSTOCK_HTTP__REQUEST_SECONDS", 600);
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(Offer { units: 1_000_000, ..Offer::default() });
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
    // Of 280 MiB that were sent. What comes in between two looks is held twice: as it came and as it is handed on.
    assert!(growth < 200 << 20, "grew by {} MiB", growth >> 20);
}

#[test]
fn claims_that_are_not_whole_are_given_up_when_they_fill_their_memory() {
    withstand_half_sent(|sale| format!("/api/v1/sales/{sale}/orders"));
}

#[test]
fn calls_that_are_not_whole_are_given_up_when_they_fill_their_memory() {
    withstand_half_sent(|_| "/api/v1/sessions".to_owned());
}

/// A head that comes in many pieces is hyper's, and counts there too.
#[test]
fn heads_that_are_not_whole_are_given_up_when_they_fill_their_memory() {
    const PIECES: usize = 12;
    const CLIENTS: usize = 600;
    let _alone = alone();
    let mut penstock =
        server().with("PENSTOCK_HTTP__MAX_UNREAD_MEBIBYTES", 4).with("PENSTOCK_HTTP__REQUEST_SECONDS", 600);
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(Offer { units: 1_000_000, ..Offer::default() });
    let connect = |_| TcpStream::connect(penstock.address()).unwrap();
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(connect).collect();
    let piece = format!("x-{}: {}\r\n", "y".repeat(20), "z".repeat(1_200));
    for number in 0..PIECES {
        let begin = if number == 0 { "GET /api/v1/me HTTP/1.1\r\nhost: x\r\n" } else { "" };
        for client in &mut clients {
            // It may have been given up.
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
}

/// Nobody waits for such a client, so that only the memory tells what is kept for it.
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

/// What the lane answers and what hyper answers comes in turns, and is read only when the server has given up writing for a while.
#[test]
fn a_client_that_reads_late_gets_every_answer() {
    const ROUNDS: usize = 400;
    let _alone = alone();
    let mut penstock = server();
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(Offer::default());
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
        // What may be the beginning of another answer.
        let rest =
            text.rfind("HTTP/1.1 200 OK").map_or(0, |begin| begin + 1).max(text.len().saturating_sub(14));
        text.drain(..rest);
    }
    sending.join().unwrap().unwrap();
}

#[test]
fn a_newcomer_gets_the_place_of_a_connection_that_was_idle_for_longest() {
    const ALLOWED: usize = 200;
    let _alone = alone();
    let mut penstock = server()
        .with("PENSTOCK_HTTP__MAX_CONNECTIONS", ALLOWED)
        // One list, so that it is known which connection is idle for longest.
        .with("PENSTOCK_HTTP__WORKERS", 1);
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(Offer { units: 1_000, ..Offer::default() });
    let connect = || TcpStream::connect(penstock.address()).unwrap();
    // Both began before all others. One waits for events, so that a request is under way; one has asked in the meantime.
    let mut watching = connect();
    let head = "GET /api/v1/admin/live HTTP/1.1\r\nhost: x\r\nauthorization: Bearer admin-token-for-tests-only\r\n\r\n";
    watching.write_all(head.as_bytes()).unwrap();
    watching.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(watching.read(&mut [0; 4096]).unwrap() > 0);
    let mut idle: Vec<TcpStream> = (0..ALLOWED + 30).map(|_| connect()).collect();
    let began = Instant::now();
    let mut newcomer = penstock.client().with_timeout(PATIENCE).with_token(&buyer_token("newcomer"));
    assert_eq!(newcomer.claim(&sale, 1, "newcomer").unwrap().status, 201);
    assert!(began.elapsed() < Duration::from_secs(20), "the newcomer waited for {:?}", began.elapsed());
    let displaced = ended(&penstock, "displaced");
    assert!((31..=60).contains(&displaced), "{displaced} were displaced");
    // Those that came first are gone, and those that came last are not.
    for stream in &mut idle[..20] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "was not displaced");
    }
    let last = idle.last_mut().unwrap();
    last.write_all(get("/healthz").as_bytes()).unwrap();
    last.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(last.read(&mut [0; 4096]).unwrap() > 0);
    assert!(watching.read(&mut [0; 4096]).unwrap() > 0, "who waits for events is not idle");
}
