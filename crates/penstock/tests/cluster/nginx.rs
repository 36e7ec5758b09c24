//! How nginx treats the answers of nodes; the nodes here answer what the test wants.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use penstock_local::{Nginx, free_address, start_front};
use penstock_testkit::{Client, ClientAnswer};
use tempfile::TempDir;

const ORDERS: &str = "/api/v1/sales/0123456789abc/orders";
const WAITLIST: &str = "/api/v1/sales/0123456789abc/waitlist";
const TICKETS: &str = "/api/v1/sales/0123456789abc/tickets";
const CHALLENGE: &str = "/api/v1/sales/0123456789abc/challenge";
const PASSWORD: &str = "/api/v1/me/password";
const PASS: &str = "/api/v1/sales/0123456789abc/pass";
const SALE: &str = "/api/v1/sales/0123456789abc";
const CUT: &str = "503 Service Unavailable\r\nretry-after: 1\r\npenstock-ask-another: yes";
const BUSY: &str = "503 Service Unavailable\r\nretry-after: 1";
const VISITORS: usize = 20;

/// Takes the head of a request; returns the status line and headers of an answer, and its body. None: closes
/// the connection without an answer.
type Says = fn(&str) -> Option<(&'static str, String)>;

/// Answers every request the same way, and counts the requests.
struct FakeNode {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
}

impl FakeNode {
    fn start(says: Says) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), says)
    }

    fn at(address: SocketAddr, says: Says) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let count = Arc::clone(&count);
                thread::spawn(move || drop(answer(&stream, says, &count)));
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> usize {
        self.asked.load(SeqCst)
    }
}

fn answer(mut stream: &TcpStream, says: Says, asked: &AtomicUsize) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut request = String::new();
        if reader.read_line(&mut request)? == 0 {
            return Ok(());
        }
        let mut body_bytes = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            request += &line;
            if let Some(length) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                body_bytes = length.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; body_bytes];
        reader.read_exact(&mut body)?;
        asked.fetch_add(1, SeqCst);
        let Some((head, body)) = says(&request) else { return Ok(()) };
        write!(stream, "HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())?;
    }
}

/// The configuration as it is delivered, in front of the test's nodes.
struct Front {
    nodes: Vec<FakeNode>,
    address: SocketAddr,
    _nginx: Nginx,
    folder: TempDir,
}

impl Front {
    fn before(first: Says, second: Says) -> Self {
        Self::before_all(&[first, second])
    }

    fn before_all(nodes: &[Says]) -> Self {
        let nodes: Vec<FakeNode> = nodes.iter().map(|says| FakeNode::start(*says)).collect();
        let addresses: Vec<SocketAddr> = nodes.iter().map(|node| node.address).collect();
        let folder = tempfile::tempdir().unwrap();
        let address = free_address().unwrap();
        let nginx = start_front(folder.path(), address, &addresses).unwrap();
        Self { nodes, address, _nginx: nginx, folder }
    }

    /// What nginx has complained about.
    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("logs/error.log")).unwrap()
    }

    fn post(&self, path: &str) -> ClientAnswer {
        Client::new(self.address).send("POST", path, &[], Some(b"{}")).unwrap()
    }

    fn asked(&self) -> usize {
        self.nodes.iter().map(FakeNode::asked).sum()
    }
}

fn accepts(_: &str) -> Option<(&'static str, String)> {
    Some(("201 Created", "an order".to_owned()))
}

#[test]
fn an_order_goes_to_another_node_if_its_own_cannot_answer_it() {
    let front = Front::before(|_| Some((CUT, "cut".to_owned())), accepts);
    // Each has an even chance of going to the node that can't.
    for _ in 0..40 {
        let answer = front.post(ORDERS);
        assert_eq!((answer.status, answer.text().as_str()), (201, "an order"));
    }
    assert!(front.nodes[0].asked() > 0, "no request came to the node that can't");
}

#[test]
fn an_order_that_no_node_can_answer_is_tried_three_times_and_no_node_is_left_out() {
    let cut: Says = |_| Some((CUT, "cut".to_owned()));
    let front = Front::before(cut, cut);
    for _ in 0..20 {
        let answer = front.post(ORDERS);
        assert_eq!((answer.status, answer.text().as_str()), (503, "cut"), "the node's own answer");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    assert_eq!(front.asked(), 60);
}

#[test]
fn a_request_refused_as_busy_is_not_repeated() {
    let busy: Says = |_| Some((BUSY, "busy".to_owned()));
    let front = Front::before(busy, busy);
    for _ in 0..10 {
        let answer = front.post(ORDERS);
        assert_eq!((answer.status, answer.code().as_str()), (503, "busy"));
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    }
    assert_eq!(front.asked(), 10);
}

#[test]
fn only_harmless_requests_are_repeated_when_a_node_dies() {
    let front = Front::before(|_| None, accepts);
    for path in [ORDERS, "/api/v1/orders/abc/pay", "/api/v1/orders/abc/cancel", TICKETS, CHALLENGE] {
        for _ in 0..2 {
            assert_eq!(front.post(path).status, 201, "{path}");
        }
    }
    for path in ["/api/v1/accounts", "/api/v1/sessions", "/api/v1/otp", PASS, WAITLIST] {
        let front = Front::before(|_| None, |_| None);
        let answer = front.post(path);
        assert_eq!((answer.status, answer.code().as_str()), (503, "unavailable"), "in the words of Penstock");
        assert_eq!(front.asked(), 1, "{path}");
    }
    let front = Front::before(|_| None, |_| None);
    let answer = Client::new(front.address).send("PUT", PASSWORD, &[], Some(b"{}")).unwrap();
    assert_eq!((answer.status, front.asked()), (503, 2), "a repeated PUT changes nothing");
    let cut: Says = |_| Some((CUT, "cut".to_owned()));
    let front = Front::before(cut, cut);
    assert_eq!(
        (front.post(WAITLIST).text().as_str(), front.asked()),
        ("cut", 1),
        "they may be on the waitlist already"
    );
}

#[test]
fn a_request_to_a_node_without_redis_goes_to_each_busy_node_at_most_once() {
    let (cut, busy): (Says, Says) = (|_| Some((CUT, "cut".to_owned())), |_| Some((BUSY, "busy".to_owned())));
    let front = Front::before_all(&[cut, busy, busy]);
    let asked = || [0, 1, 2].map(|node| front.nodes[node].asked());
    let mut came_to_the_cut_one = 0;
    for _ in 0..40 {
        let before = asked();
        let answer = front.post(ORDERS);
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
        let after = asked();
        let [by_cut, one, other] = [0, 1, 2].map(|node| after[node] - before[node]);
        match by_cut {
            0 => assert_eq!(one + other, 1, "a refused request must not be repeated"),
            _ => assert!(one.max(other) <= 1 && by_cut + one + other <= 3, "{before:?} {after:?}"),
        }
        came_to_the_cut_one += usize::from(by_cut > 0);
    }
    assert!(came_to_the_cut_one > 0, "no request came to the node without Redis");
}

#[test]
fn every_answer_about_a_ticket_is_passed_on() {
    let busy: Says = |_| Some((BUSY, "busy".to_owned()));
    let front = Front::before(busy, busy);
    let answer = front.post(TICKETS);
    assert_eq!((answer.status, answer.code().as_str(), front.asked()), (503, "busy", 1));
    let cut: Says = |_| Some((CUT, "cut".to_owned()));
    let front = Front::before(cut, cut);
    let answer = front.post(TICKETS);
    assert_eq!((answer.status, answer.text().as_str(), front.asked()), (503, "cut", 3));
    let refuses: Says = |_| Some(("409 Conflict", "not gated".to_owned()));
    let front = Front::before(refuses, refuses);
    let answer = front.post(TICKETS);
    assert_eq!((answer.status, answer.text().as_str(), front.asked()), (409, "not gated", 1));
}

#[test]
fn a_ticket_or_a_place_does_not_wait_long_for_a_frozen_node() {
    let front = Front::before(frozen, accepts);
    let ask = |path: &'static str| {
        let began = Instant::now();
        let mut client = Client::new(front.address).with_timeout(Duration::from_secs(50));
        let status = client.send("POST", path, &[], Some(b"{}")).unwrap().status;
        (status, began.elapsed())
    };
    // Some of them go to the frozen node first.
    let all = |path: &'static str| {
        thread::scope(|scope| {
            let people: Vec<_> = (0..24).map(|_| scope.spawn(move || ask(path))).collect();
            people.into_iter().map(|person| person.join().unwrap()).collect::<Vec<_>>()
        })
    };
    for path in [TICKETS, CHALLENGE] {
        let before = front.nodes[0].asked();
        let answers = all(path);
        assert!(front.nodes[0].asked() > before, "no request came to the frozen node");
        assert!(answers.iter().all(|(status, _)| *status == 201), "{path}: {answers:?}");
        assert!(answers.iter().all(|(_, took)| *took < GIVEN_UP_WITHIN), "{path}: {answers:?}");
    }
    for path in [PASS, WAITLIST] {
        let before = front.asked();
        let answers = all(path);
        assert_eq!(front.asked() - before, answers.len(), "{path} was repeated");
        assert!(
            answers.iter().any(|(status, _)| *status == 503),
            "{path}: no request came to the frozen node"
        );
        assert!(answers.iter().all(|(_, took)| *took < GIVEN_UP_WITHIN), "{path}: {answers:?}");
    }
}

/// Longer than nginx waits for an order.
const STUCK: Duration = Duration::from_secs(4);
/// Shorter than nginx's default wait, and longer than its wait for requests that people watch.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(8);
const IN_A_HURRY: usize = 8;

/// Like a stopped process: accepts connections and never answers.
fn frozen(_: &str) -> Option<(&'static str, String)> {
    thread::sleep(Duration::from_secs(60));
    None
}

/// One sale is overloaded, and the others are not.
fn slow_in_the_rush(request: &str) -> Option<(&'static str, String)> {
    if request.contains("/sales/rush/") {
        thread::sleep(STUCK);
    }
    accepts(request)
}

#[test]
fn slow_answers_and_a_frozen_node_never_make_nginx_leave_out_the_nodes_that_sell() {
    let front = Front::before_all(&[frozen, slow_in_the_rush, slow_in_the_rush]);
    let began = Instant::now();
    let mut took = thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| front.post("/api/v1/sales/rush/orders"));
        }
        // By now nginx has stopped waiting for each of them once.
        thread::sleep(STUCK - Duration::from_millis(500));
        let buyers: Vec<_> =
            (0..IN_A_HURRY).map(|_| scope.spawn(|| buy_until(&front, began + 2 * STUCK))).collect();
        buyers.into_iter().flat_map(|buyer| buyer.join().unwrap()).collect::<Vec<Duration>>()
    });
    assert!(!front.log().contains("no live upstreams"), "{}", front.log());
    took.sort_unstable();
    let (median, slow) =
        (took[took.len() / 2], took.iter().filter(|took| **took > Duration::from_secs(2)).count());
    eprintln!("{} orders beside a frozen node, {slow} of them slow, half within {median:?}", took.len());
    assert!(median < Duration::from_secs(1), "half of the buyers wait longer than {median:?}");
    assert!(slow * 10 <= took.len(), "the frozen node keeps getting orders: {slow} of {}", took.len());
}

/// Buys one after the other, and returns how long each order took. Any other answer fails the test.
fn buy_until(front: &Front, end: Instant) -> Vec<Duration> {
    let mut took = Vec::new();
    while Instant::now() < end {
        let began = Instant::now();
        let answer = front.post(ORDERS);
        assert_eq!((answer.status, answer.text().as_str()), (201, "an order"));
        took.push(began.elapsed());
        thread::sleep(Duration::from_millis(10));
    }
    took
}

#[test]
fn a_stream_that_a_frozen_node_never_begins_is_begun_by_another() {
    let front = Front::before(frozen, |_| {
        Some(("200 OK\r\ncontent-type: text/event-stream", "data: 1\n\n".to_owned()))
    });
    let listen = |path: &str, within: Duration| {
        let began = Instant::now();
        let answer = Client::new(front.address).with_timeout(Duration::from_secs(50)).get(path).unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (200, "data: 1\n\n"), "{path}");
        assert!(began.elapsed() < within, "{path} began after {:?}", began.elapsed());
    };
    for (path, within) in [
        ("/api/v1/admin/live", GIVEN_UP_WITHIN),
        ("/api/v1/sales/0123456789abc/tickets/abc/events", Duration::from_secs(28)),
    ] {
        let before = front.nodes[0].asked();
        // Some of them go to the frozen node first.
        thread::scope(|scope| (0..16).for_each(|_| drop(scope.spawn(|| listen(path, within)))));
        assert!(front.nodes[0].asked() > before, "no request came to the frozen node");
    }
}

#[test]
fn nginx_comes_back_to_a_node_as_soon_as_it_listens_again() {
    let folder = tempfile::tempdir().unwrap();
    let (address, later, never) = (free_address().unwrap(), free_address().unwrap(), free_address().unwrap());
    // With a single node nginx does not count failures, whatever the configuration says.
    let _nginx = start_front(folder.path(), address, &[later, never]).unwrap();
    let order = || Client::new(address).send("POST", ORDERS, &[], Some(b"{}")).unwrap();
    for _ in 0..10 {
        let answer = order();
        assert_eq!((answer.status, answer.code().as_str()), (503, "unavailable"));
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    let _node = FakeNode::at(later, accepts);
    for _ in 0..40 {
        let answer = order();
        assert_eq!((answer.status, answer.text().as_str()), (201, "an order"), "a node was left out");
    }
}

/// As slow as a node in a rush.
fn slow_page(request: &str) -> Option<(&'static str, String)> {
    thread::sleep(Duration::from_millis(400));
    Some(("200 OK\r\ncache-control: no-cache", request.to_owned()))
}

#[test]
fn one_visitor_renews_an_expired_page_while_the_others_see_the_old_one() {
    let front = Front::before(slow_page, slow_page);
    let look = || {
        let answer = Client::new(front.address).get(SALE).unwrap();
        assert_eq!(answer.status, 200);
        answer.header("penstock-cache").unwrap().to_owned()
    };
    assert_eq!(look(), "MISS");
    // A page is fresh for a second.
    thread::sleep(Duration::from_millis(2_100));
    let together = Barrier::new(VISITORS);
    let seen: Vec<String> = thread::scope(|scope| {
        let come = || {
            together.wait();
            look()
        };
        let visitors: Vec<_> = (0..VISITORS).map(|_| scope.spawn(come)).collect();
        visitors.into_iter().map(|visitor| visitor.join().unwrap()).collect()
    });
    let waited = seen.iter().filter(|status| *status == "EXPIRED").count();
    // A visitor who comes more than a second after the others needs a new page, too.
    assert!((1..=2).contains(&waited), "{seen:?}");
}

#[test]
fn a_page_is_cached_under_the_path_as_it_was_sent() {
    let front = Front::before(slow_page, slow_page);
    for path in ["//api/v1//sales/0123456789abc", "/x/../api/v1/sales/0123456789abc", SALE] {
        let answer = Client::new(front.address).get(path).unwrap();
        assert!(answer.text().starts_with(&format!("GET {path} ")), "{path} got {}", answer.text());
    }
    let asked = front.asked();
    let answer = Client::new(front.address).get(&format!("{SALE}?an=invention")).unwrap();
    assert_eq!((answer.status, front.asked()), (200, asked), "meaningless arguments make no new page");
}

/// A page as nodes send it, in the requested encoding.
fn page(request: &str) -> Option<(&'static str, String)> {
    let lower = request.to_ascii_lowercase();
    let head = match lower.lines().find_map(|line| line.strip_prefix("accept-encoding: ")) {
        None => "200 OK\r\ncache-control: public, max-age=60\r\nvary: accept-encoding\r\netag: \"1\"",
        Some("br") => {
            "200 OK\r\ncache-control: public, max-age=60\r\nvary: accept-encoding\r\netag: \"1-br\"\r\ncontent-encoding: br"
        }
        Some("gzip") => {
            "200 OK\r\ncache-control: public, max-age=60\r\nvary: accept-encoding\r\netag: \"1-gz\"\r\ncontent-encoding: gzip"
        }
        Some(_) => "400 Bad Request",
    };
    Some((head, request.lines().next().unwrap_or_default().to_owned()))
}

#[test]
fn the_shop_is_one_page_in_three_encodings_and_does_not_wait_for_a_node() {
    let front = Front::before(page, page);
    let get = |path: &str, accepted: Option<&str>| {
        let headers: Vec<_> = accepted.iter().map(|accepted| ("accept-encoding", *accepted)).collect();
        Client::new(front.address).send("GET", path, &headers, None).unwrap()
    };
    let forms = [
        (None, None),
        (Some("deflate, zstd"), None),
        (Some("gzip, deflate, br, zstd"), Some("br")),
        (Some("br;q=1.0,gzip;q=0.5"), Some("br")),
        (Some("br;q=0, gzip"), Some("gzip")),
        (Some("GZIP ; q=0.8"), Some("gzip")),
        (Some("brotli, gzip;q=0.000"), None),
    ];
    let paths = ["/", "/?from=a-friend", "/orders", "/orders/0123456789abc", "/account"];
    for path in paths.into_iter().chain(["/sign-in", "/sign-up", "/orders/"]) {
        for (accepted, form) in forms {
            let answer = get(path, accepted);
            assert_eq!((answer.status, answer.text().as_str()), (200, "GET / HTTP/1.1"), "{path}");
            assert_eq!(answer.header("content-encoding"), form, "{path} to {accepted:?}");
            assert_eq!(answer.header("vary"), Some("accept-encoding"), "other caches need it");
        }
    }
    assert_eq!(front.asked(), 3, "one for each encoding");
    for path in ["/console", "/console/", "/console/sales/0123456789abc"] {
        assert_eq!(get(path, Some("br")).text(), "GET /console HTTP/1.1", "{path}");
    }
    assert_eq!(front.asked(), 4);
    let known = [("accept-encoding", "br"), ("if-none-match", "\"1-br\"")];
    let answer = Client::new(front.address).send("GET", "/orders", &known, None).unwrap();
    assert_eq!((answer.status, front.asked()), (304, 4));
    // Only a node knows whether the sale exists; then its page is cached, too.
    for _ in 0..2 {
        for (accepted, form) in forms {
            let answer = get("/sales/0123456789abc", accepted);
            assert_eq!((answer.status, answer.text().as_str()), (200, "GET /sales/0123456789abc HTTP/1.1"));
            assert_eq!(answer.header("content-encoding"), form, "{accepted:?}");
        }
    }
    assert_eq!(front.asked(), 7, "one for each encoding");
}

/// A node that takes every path as it comes and lets everybody cache its answers.
fn gullible(request: &str) -> Option<(&'static str, String)> {
    Some((
        "200 OK\r\ncache-control: public, max-age=60",
        request.lines().next().unwrap_or_default().to_owned(),
    ))
}

/// Other ways to write a path that nginx treats as the same.
fn disguises(path: &str) -> [String; 17] {
    let (first, rest) = path[1..].split_at(1);
    let code = first.as_bytes()[0];
    [
        format!("/console/..{path}"),
        format!("/console/%2e%2E{path}"),
        format!("/console/..%2F{first}{rest}"),
        format!("/console%2F..%2f{first}{rest}"),
        format!("/sales/x/../..{path}"),
        format!("/sales/..%2F{first}{rest}"),
        format!("/api/v1/../..{path}"),
        format!("/docs/..{path}"),
        format!("/console/%0A/../..{path}"),
        format!("/.{path}"),
        format!("/{path}"),
        format!("//{path}"),
        format!("/%{code:x}{rest}"),
        format!("/console/..{path}?an=invention"),
        format!("{path}?an=invention"),
        format!("{path}#end"),
        format!("http://elsewhere.example/console/..{path}"),
    ]
}

#[test]
fn nobody_can_put_another_page_into_the_cache() {
    // Each path with the path that nginx has to request from a node.
    let honest = [
        ("/assets/shop-1a2b.js", "/assets/shop-1a2b.js"),
        ("/favicon.svg", "/favicon.svg"),
        ("/robots.txt", "/robots.txt"),
        ("/pictures/1a2b.png", "/pictures/1a2b.png"),
        ("/docs/swagger-ui.css", "/docs/swagger-ui.css"),
        ("/openapi.json", "/openapi.json"),
        ("/sales/0123456789abc", "/sales/0123456789abc"),
        ("/console/sales", "/console"),
    ];
    for number in 0..disguises("/any").len() {
        // The cache is empty.
        let front = Front::before(gullible, gullible);
        let mut client = Client::new(front.address);
        for (path, asked_for) in honest {
            let disguise = &disguises(path)[number];
            let expected = format!("GET {asked_for} HTTP/1.1");
            let answer = client.get(disguise).unwrap();
            assert_eq!((answer.status, answer.text()), (200, expected.clone()), "{disguise}");
            assert_eq!(client.get(path).unwrap().text(), expected, "{path} after {disguise}");
        }
    }
}

#[test]
fn escaped_characters_reach_a_node_unchanged() {
    let front = Front::before(gullible, gullible);
    for path in
        ["/assets/a%20br", "/assets/a%0Ab", "/assets/a%0D%0Ax:%20y", "/pictures/a%3Fb", "/docs/%252e%252e/x"]
    {
        let answer = Client::new(front.address).get(path).unwrap();
        assert_eq!(answer.text(), format!("GET {path} HTTP/1.1"));
    }
}

#[test]
fn a_file_that_only_a_newer_node_has_is_found() {
    let front = Front::before(
        |_| Some(("404 Not Found", "which file?".to_owned())),
        |_| Some(("200 OK\r\ncache-control: public, max-age=31536000, immutable", "a file".to_owned())),
    );
    for number in 0..6 {
        let answer = Client::new(front.address).get(&format!("/assets/shop-{number}.js")).unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (200, "a file"));
    }
    let asked = front.asked();
    for number in 0..6 {
        let answer = Client::new(front.address).get(&format!("/assets/shop-{number}.js?again")).unwrap();
        assert_eq!(answer.header("penstock-cache"), Some("HIT"));
    }
    assert_eq!(front.asked(), asked);
}

#[test]
fn a_picture_may_be_larger_than_other_bodies_and_is_cached() {
    let front = Front::before(accepts, accepts);
    let post = |path: &str, bytes: usize| {
        Client::new(front.address).send("POST", path, &[], Some(&vec![b'x'; bytes])).unwrap()
    };
    assert_eq!(post("/api/v1/admin/pictures", 1024 * 1024).status, 201);
    for (path, bytes, allowed) in [
        ("/api/v1/admin/pictures", 3 * 1024 * 1024, "1048576"),
        ("/api/v1/admin/items", 1024 * 1024, "65536"),
        (ORDERS, 1024 * 1024, "65536"),
    ] {
        let answer = post(path, bytes);
        assert_eq!((answer.status, answer.code().as_str()), (413, "body_too_large"), "{path}");
        assert_eq!(answer.json()["detail"], format!("A body may have at most {allowed} bytes."), "{path}");
    }
    let keeps: Says =
        |_| Some(("200 OK\r\ncache-control: public, max-age=60, immutable", "a picture".to_owned()));
    let front = Front::before(keeps, keeps);
    for _ in 0..3 {
        assert_eq!(Client::new(front.address).get("/pictures/1a2b.png").unwrap().text(), "a picture");
    }
    assert_eq!(front.asked(), 1);
    for asked in 2..4 {
        assert_eq!(Client::new(front.address).get("/api/v1/time").unwrap().status, 200);
        assert_eq!(front.asked(), asked, "the time is never cached");
    }
}
