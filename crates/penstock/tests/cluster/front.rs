//! What nginx does for the nodes: it caches pages, sends an order to another node when its own dies, and
//! passes on no forged addresses and no private pages.

use std::{
    fs,
    net::SocketAddr,
    panic::{self, AssertUnwindSafe},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use penstock_local::RedisKind;
use penstock_testkit::{ADMIN_TOKEN, Auditor, Client, OfferTerms, Random, seed_of_the_day};
use serde_json::json;

use crate::trial::{Trial, buyer, expect, text, until};

const BUYERS_AT_ONCE: usize = 8;
/// More than the three nodes together allow one address at once, which is 10 each.
const CODES: u32 = 40;

#[test]
fn nginx_caches_pages_hides_internal_ones_and_drops_forged_addresses() {
    let trial = Trial::start(RedisKind::Single);
    let sale = trial.publish(OfferTerms::default());
    let path = format!("/api/v1/sales/{sale}");
    let mut front = Client::new(trial.front());
    until("a page from nginx's cache", || {
        let answer = front.get(&path).unwrap();
        assert_eq!(answer.json()["id"], sale.as_str());
        (answer.header("penstock-cache") == Some("HIT")).then_some(())
    });
    for hidden in ["/metrics", "/readyz"] {
        assert_eq!(front.get(hidden).unwrap().status, 404, "{hidden} is for operators");
        assert_eq!(Client::new(trial.node(0)).get(hidden).unwrap().status, 200);
    }
    assert_eq!(front.get("/healthz").unwrap().status, 200);

    // The page of an existing sale is cached; a page that says that there is no such sale is not.
    let person = [("accept", "text/html")];
    until("a sale's page from nginx's cache", || {
        let answer = front.send("GET", &format!("/sales/{sale}"), &person, None).unwrap();
        // A node that has not heard of the sale yet says that there is none.
        (answer.status == 200 && answer.header("penstock-cache") == Some("HIT")).then_some(())
    });
    for unknown in ["/sales/abc", "/sales/0123456789abc"] {
        for _ in 0..2 {
            let answer = front.send("GET", unknown, &person, None).unwrap();
            assert_eq!((answer.status, answer.header("cache-control")), (404, Some("no-store")), "{unknown}");
            assert!(answer.text().contains("<html"), "{unknown}: {}", answer.text());
        }
        assert_eq!(front.get(unknown).unwrap().code(), "sale_not_found");
    }
    let page = front.send("GET", "/errors/sold_out", &person, None).unwrap();
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(front.get("/errors/sold_out").unwrap().text().starts_with("# `sold_out`"), "for a program");

    // Requests from a public address are limited, and a node believes a proxy on this machine. So a visitor
    // who forges an address is soon limited at a node; nginx replaces the forged address.
    let ask = |client: &mut Client, number: u32| {
        let body = json!({ "phone": format!("+861380000{number:04}") }).to_string();
        let forged = [("x-forwarded-for", "203.0.113.7")];
        client.send("POST", "/api/v1/otp", &forged, Some(body.as_bytes())).unwrap().status
    };
    let mut node = Client::new(trial.node(0));
    assert!((0..CODES).map(|number| ask(&mut node, number)).any(|status| status == 429), "nobody is limited");
    for number in 0..CODES {
        assert_eq!(ask(&mut front, CODES + number), 202, "nginx has passed on a forged address");
    }
}

/// People who ask once and never again: any answer but 201 fails the test.
struct Impatient<'a> {
    front: SocketAddr,
    sale: &'a str,
    stop: AtomicBool,
    people: AtomicU64,
}

impl Impatient<'_> {
    fn shop(&self) -> Auditor {
        let mut auditor = Auditor::default();
        while !self.stop.load(Ordering::Relaxed) {
            let name = format!("buyer-{}", self.people.fetch_add(1, Ordering::Relaxed));
            auditor.sends(self.sale, &name, 1, &name);
            let answer = buyer(self.front, &name).claim(self.sale, 1, &name).unwrap();
            expect(201, &answer);
            auditor.saw(self.sale, &name, &answer);
        }
        auditor
    }
}

/// Lets people buy during `meanwhile`, and returns what they saw.
fn while_people_buy(front: SocketAddr, sale: &str, meanwhile: impl FnOnce()) -> Auditor {
    let crowd = Impatient { front, sale, stop: AtomicBool::new(false), people: AtomicU64::new(0) };
    let mut auditor = Auditor::default();
    thread::scope(|scope| {
        let buying: Vec<_> = (0..BUYERS_AT_ONCE).map(|_| scope.spawn(|| crowd.shop())).collect();
        // Stop them even if it panics, so that nothing waits for them forever.
        let happened = panic::catch_unwind(AssertUnwindSafe(meanwhile));
        crowd.stop.store(true, Ordering::Relaxed);
        for thread in buying {
            auditor.merge(thread.join().unwrap());
        }
        happened.unwrap();
    });
    auditor
}

#[test]
fn nginx_sends_an_order_to_another_node_when_its_own_dies() {
    let mut random = Random::new(seed_of_the_day("an order whose node dies"));
    let mut trial = Trial::start(RedisKind::Single);
    let sale = trial.publish(OfferTerms { units: 100_000, ..OfferTerms::default() });
    let victim = random.below(3) as usize;
    let auditor = while_people_buy(trial.front(), &sale, || {
        thread::sleep(Duration::from_millis(500 + random.below(500)));
        trial.shop.node(victim).unwrap().kill().unwrap();
        thread::sleep(Duration::from_secs(1));
    });
    let told = fs::read_to_string(trial.folder().join("nginx/logs/error.log")).unwrap();
    let orders = format!("POST /api/v1/sales/{sale}/orders");
    let again = told.lines().filter(|line| line.contains(&orders)).count();
    assert!(again > 0, "no order was on its way to node {victim} when it died: {told}");
    trial.shop.node(victim).unwrap().start().unwrap();
    let promised = trial.audit(&auditor);
    eprintln!("node {victim} killed: {promised} orders, each asked for once; {again} sent to another node");
}

#[test]
fn all_nodes_are_replaced_one_by_one_and_nobody_notices() {
    let mut trial = Trial::start(RedisKind::Single);
    let sale = trial.publish(OfferTerms { units: 100_000, ..OfferTerms::default() });
    let front = trial.front();
    let auditor = while_people_buy(front, &sale, || {
        for number in 0..3 {
            let node = trial.shop.node(number).unwrap();
            node.stop().unwrap();
            node.start().unwrap();
            // Like an operator: the next node is stopped when this one sells again.
            until("nginx sends it orders again", || {
                (trial.figure(number, "penstock_ledger_commands_total") > 0.0).then_some(())
            });
        }
    });
    let promised = trial.audit(&auditor);
    eprintln!("three nodes replaced: {promised} orders, each asked for once");
}

/// The files that a page names.
fn named_in(page: &str) -> Vec<&str> {
    let after = page.split("=\"/assets/").skip(1);
    after.filter_map(|rest| rest.split('"').next()).collect()
}

/// As much of a picture as a node looks at: one pixel.
const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0";

#[test]
fn a_twisted_request_does_not_spoil_the_cache_for_later_visitors() {
    let trial = Trial::start(RedisKind::Single);
    let (mut front, mut node) = (Client::new(trial.front()), Client::new(trial.node(0)));
    let page = node.get("/").unwrap().text();
    let mut paths: Vec<String> = named_in(&page).iter().map(|name| format!("/assets/{name}")).collect();
    assert!(!paths.is_empty(), "the pages are not built, run `make web`: {page}");
    let mut merchant = Client::new(trial.front()).with_token(ADMIN_TOKEN);
    let png = [("content-type", "image/png")];
    let taken = merchant.send("POST", "/api/v1/admin/pictures", &png, Some(PICTURE)).unwrap();
    paths.push(text(&expect(201, &taken)["picture"]));
    let others = ["/favicon.svg", "/docs/swagger-ui.css", "/errors/sold_out", "/openapi.json"];
    let pages = ["/orders", "/console/sales"];
    paths.extend(others.into_iter().chain(pages).map(str::to_owned));
    for path in &paths {
        for twisted in [
            format!("/console/..{path}"),
            format!("/console/%2e%2e{path}"),
            format!("/sales/..%2F{}", &path[1..]),
            format!("/{path}"),
            format!("{path}?an=invention"),
        ] {
            front.get(&twisted).unwrap();
        }
        let (seen, honest) = (front.get(path).unwrap(), node.get(path).unwrap());
        assert_eq!((seen.status, honest.status), (200, 200), "{path}");
        assert_eq!(seen.header("content-type"), honest.header("content-type"), "{path}");
        assert!(seen.body == honest.body, "{path} is not what the node has");
    }
}

#[test]
fn the_shop_opens_even_when_all_nodes_are_dead() {
    let mut trial = Trial::start(RedisKind::Single);
    let mut front = Client::new(trial.front());
    let browser = [("accept-encoding", "gzip, br")];
    let mut look = |path: &str| {
        let answer = front.send("GET", path, &browser, None).unwrap();
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        answer.body
    };
    let before = (look("/"), look("/console"));
    let page = Client::new(trial.front()).get("/").unwrap().text();
    let files = named_in(&page);
    assert!(!files.is_empty(), "the pages are not built, run `make web`: {page}");
    let of_files: Vec<Vec<u8>> = files.iter().map(|name| look(&format!("/assets/{name}"))).collect();
    for number in 0..3 {
        trial.shop.node(number).unwrap().kill().unwrap();
    }
    assert_eq!((look("/sales/0123456789abc"), look("/console/sales")), before);
    for (name, bytes) in files.iter().zip(of_files) {
        assert_eq!(look(&format!("/assets/{name}")), bytes, "{name}");
    }
    let mut front = Client::new(trial.front());
    let asked = front.get("/api/v1/me").unwrap();
    assert_eq!((asked.status, asked.code().as_str()), (503, "unavailable"), "they are really dead");
}
