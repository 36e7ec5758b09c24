//! The live view: what it counts, who may see it, and when it ends.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Read as _},
    net::TcpStream,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use futures_util::future::{BoxFuture, ready};
use penstock_shop::{
    SettlementView,
    live::WorkerFigures,
    ports::{FiguresAway, SharedFigures, Shown},
};
use serde_json::{Value, json};

use crate::support::{Client, SOON, Shop, new_key};

const LIVE: &str = "/api/v1/admin/live";

/// Reads the figures on a new connection.
struct Figures(BufReader<TcpStream>);

impl Figures {
    fn of(shop: &Shop, path: &str) -> Self {
        Self::with(shop.admin(), path)
    }

    fn with(mut client: Client, path: &str) -> Self {
        client.send("GET", path, &[], b"");
        let mut stream = BufReader::new(client.stream().try_clone().unwrap());
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        for line in ["content-type: text/event-stream", "cache-control: no-store", "x-accel-buffering: no"] {
            assert!(head.contains(line), "{line} is not in {head}");
        }
        Self(stream)
    }

    /// The next figures; None at the end.
    fn next(&mut self) -> Option<Value> {
        let mut event = String::new();
        loop {
            let mut line = String::new();
            // The last chunk is empty.
            if self.0.read_line(&mut line).unwrap() == 0 || line == "0\r\n" {
                return None;
            }
            if let Some(name) = line.strip_prefix("event: ") {
                event = name.trim_end().to_owned();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                assert_eq!(event, "figures");
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }

    fn until(&mut self, what: &str, mut is_so: impl FnMut(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let figures = self.next().expect("more figures");
            if is_so(&figures) {
                return figures;
            }
            assert!(began.elapsed() < SOON, "this did not happen in time: {what}: {figures}");
        }
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

/// The sum of a map of refusals by code.
fn sum(refusals: &Value) -> u64 {
    refusals.as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum()
}

#[test]
fn figures_come_at_once_and_move_when_orders_come() {
    let shop = Shop::open();
    let sale = shop.sale(2);
    let mut live = Figures::of(&shop, LIVE);
    let first = live.next().unwrap();
    let quiet = &first["sales"][0];
    assert_eq!((quiet["id"].as_str(), quiet["title"].as_str()), (Some(sale.as_str()), Some("Kettle")));
    assert_eq!(
        (&quiet["state"], &quiet["available"], &quiet["total"]),
        (&json!("open"), &json!(2), &json!(2))
    );
    assert_eq!(quiet["totals"]["claims"], 0);
    assert_eq!(first["nodes"][0]["name"], "this node");
    assert_eq!((&first["nodes"][0]["ready"], &first["nodes"][0]["trouble"]), (&json!(true), &Value::Null));
    assert_eq!(first["settlement"]["dead_letters"], 0);

    let mut ann = shop.buyer("ann");
    ann.buy(&sale);
    let moved = live.until("an accepted claim a second", |figures| {
        number(&figures["sales"][0]["accepted_per_second"]) > 0.0
    });
    let selling = &moved["sales"][0];
    assert_eq!((&selling["available"], &selling["held"]), (&json!(1), &json!(1)));
    assert_eq!(selling["totals"]["accepted"], 1);
    assert!(number(&moved["requests_per_second"]) > 0.0 && number(&moved["seconds"]) > 0.0, "{moved}");
    assert_eq!(moved["latency"]["claims"], 1);
    assert!(number(&moved["latency"]["p99_ms"]) > 0.0, "{moved}");

    ann.buy(&sale);
    ann.order(&sale, 1, &new_key()).problem(409, "sold_out");
    let refused =
        live.until("a refusal", |figures| figures["sales"][0]["totals"]["refused"]["sold_out"] == 1);
    assert_eq!(refused["sales"][0]["state"], "sold_out");
    let is_counted = |map: &Value| map["sold_out"].as_f64().is_some_and(|rate| rate > 0.0);
    assert!(is_counted(&refused["refusals_per_second"]), "{refused}");
    assert!(is_counted(&refused["sales"][0]["refusals_per_second"]), "{refused}");
    let calm =
        live.until("nothing happens", |figures| number(&figures["sales"][0]["claims_per_second"]) == 0.0);
    assert_eq!((&calm["latency"], &calm["sales"][0]["refusals_per_second"]), (&Value::Null, &json!({})));
}

#[test]
fn every_claim_of_a_sale_is_counted_by_its_outcome() {
    let shop = Shop::open();
    let (sale, other) = (shop.sale(2), shop.sale(2));
    let orders = format!("/api/v1/sales/{sale}/orders");
    let mut sent = 0;
    let mut claim = |client: &mut Client, headers: &[(&str, &str)], body: &[u8], status: u16| {
        sent += 1;
        assert_eq!(client.request("POST", &orders, headers, body).status, status);
    };
    let key = new_key();
    let json = ("content-type", "application/json");
    let key = ("idempotency-key", key.as_str());
    let one = br#"{"quantity":1}"#.as_slice();
    // The lane refuses or decides most of these, hyper the rest.
    claim(&mut shop.client(), &[json, key], one, 401);
    claim(&mut shop.buyer("ann"), &[json], one, 400);
    claim(&mut shop.buyer("ann"), &[key], one, 415);
    claim(&mut shop.buyer("ann"), &[json, key], b"{", 400);
    claim(&mut shop.buyer("ann"), &[json, key], br#"{"quantity":0}"#, 422);
    claim(&mut shop.buyer("ann"), &[json, key, ("connection", "close")], one, 201);
    claim(&mut shop.buyer("ann"), &[json, key], one, 201);
    claim(&mut shop.buyer("ann"), &[json, key], br#"{"quantity":2}"#, 422);
    let (second, third) = (new_key(), new_key());
    claim(&mut shop.buyer("ann"), &[json, ("idempotency-key", &second)], one, 201);
    let late = [json, ("idempotency-key", third.as_str())];
    // From here on the latch refuses: one after another, all at once, and in pieces.
    for _ in 0..7 {
        claim(&mut shop.buyer("bob"), &late, one, 409);
    }
    let mut client = shop.client();
    let head = format!(
        "POST {orders} HTTP/1.1\r\nhost: a\r\n{}: {}\r\n{}: {}\r\ncontent-length: {}\r\n\r\n",
        json.0,
        json.1,
        late[1].0,
        late[1].1,
        one.len()
    );
    let request = [head.as_bytes(), one].concat();
    client.send_raw(&request.repeat(5));
    for piece in request.chunks(request.len() - 4) {
        client.send_raw(piece);
        std::thread::sleep(Duration::from_millis(20));
    }
    for _ in 0..6 {
        sent += 1;
        assert_eq!(client.receive(false).unwrap().status, 409);
    }
    // An odd spelling of the same path.
    let odd = format!("/api/v1/sales/%{:02x}{}/orders", sale.as_bytes()[0], &sale[1..]);
    sent += 1;
    assert_eq!(shop.buyer("bob").request("POST", &odd, &late, one).status, 409);
    // Reads of the sale are not claims.
    for _ in 0..3 {
        assert_eq!(shop.client().get(&format!("/api/v1/sales/{sale}")).status, 200);
    }
    shop.buyer("eve").buy(&other);

    let figures = Figures::of(&shop, &format!("{LIVE}?sale={sale}")).next().unwrap();
    assert_eq!(figures["sales"].as_array().unwrap().len(), 1);
    let figures = Figures::of(&shop, &format!("{LIVE}?sale={sale}"))
        .until("all claims", |figures| figures["sales"][0]["totals"]["claims"].as_u64() >= Some(sent));
    let totals = &figures["sales"][0]["totals"];
    assert_eq!(totals["claims"], sent, "{totals}");
    // One order was requested again with its key.
    assert_eq!((&totals["accepted"], &totals["repeated"]), (&json!(2), &json!(1)));
    assert_eq!((&totals["gone"], &totals["looks"]), (&json!(0), &json!(3)));
    assert_eq!(sum(&totals["refused"]) + 3, sent, "{totals}");
    assert_eq!(totals["refused"]["sold_out"], 7 + 6 + 1);
    assert_eq!(totals["refused"]["unauthorized"], 1);
    assert_eq!(totals["refused"]["idempotency_key_reused"], 1);
}

#[test]
fn an_order_counts_as_accepted_once_however_often_its_claim_is_sent() {
    let shop = Shop::open();
    let sale = shop.sale(2);
    let mut ann = shop.buyer("ann");
    let (first, second) = (new_key(), new_key());
    assert_eq!(ann.order(&sale, 1, &first).status, 201);
    // While units are left, after the last is gone, and through an odd spelling of the path.
    assert_eq!(ann.order(&sale, 1, &first).status, 201);
    assert_eq!(ann.order(&sale, 1, &second).status, 201);
    let odd = format!("%{:02x}{}", sale.as_bytes()[0], &sale[1..]);
    for sale in [&sale, &odd] {
        assert_eq!(ann.order(sale, 1, &second).status, 201);
    }
    let figures = Figures::of(&shop, LIVE)
        .until("all claims", |figures| figures["sales"][0]["totals"]["claims"].as_u64() >= Some(5));
    let (sold, totals) = (&figures["sales"][0], &figures["sales"][0]["totals"]);
    assert_eq!((&totals["accepted"], &totals["repeated"], &sold["held"]), (&json!(2), &json!(3), &json!(2)));
    assert_eq!((shop.counted("accepted"), shop.counted("repeated")), (2, 3));

    let mut live = Figures::of(&shop, LIVE);
    live.until("nothing happens", |figures| number(&figures["sales"][0]["claims_per_second"]) == 0.0);
    assert_eq!(ann.order(&sale, 1, &first).status, 201);
    let again = live.until("a claim", |figures| number(&figures["sales"][0]["claims_per_second"]) > 0.0);
    assert_eq!(number(&again["sales"][0]["accepted_per_second"]), 0.0, "{again}");
}

#[test]
fn concurrent_claims_add_up_while_a_sale_sells_out() {
    const PEOPLE: u64 = 8;
    const CLAIMS: u64 = 60;
    const UNITS: u64 = 100;
    let shop = Shop::open();
    let sale = shop.published(|sale| {
        sale["units"] = UNITS.into();
        sale["limit_per_buyer"] = UNITS.into();
    });
    std::thread::scope(|scope| {
        for person in 0..PEOPLE {
            let (shop, sale) = (&shop, sale.as_str());
            scope.spawn(move || {
                let mut client = shop.buyer(&format!("person-{person}"));
                for _ in 0..CLAIMS {
                    assert!([201, 409].contains(&client.order(sale, 1, &new_key()).status));
                }
            });
        }
    });
    let figures = Figures::of(&shop, LIVE).until("all claims", |figures| {
        figures["sales"][0]["totals"]["claims"].as_u64() >= Some(PEOPLE * CLAIMS)
    });
    let totals = &figures["sales"][0]["totals"];
    assert_eq!((&totals["claims"], &totals["accepted"]), (&json!(PEOPLE * CLAIMS), &json!(UNITS)));
    assert_eq!(totals["refused"], json!({ "sold_out": PEOPLE * CLAIMS - UNITS }));
}

#[test]
fn a_claim_whose_client_is_gone_is_counted_too() {
    let shop = Shop::open();
    let sale = shop.sale(5);
    let mut client = shop.buyer("ann");
    let headers =
        [("content-type", "application/json"), ("idempotency-key", "half"), ("content-length", "50")];
    client.send("POST", &format!("/api/v1/sales/{sale}/orders"), &headers, b"");
    client.send_raw(b"{\"quantity\"");
    let mut live = Figures::of(&shop, LIVE);
    assert!(live.next().is_some());
    drop(client);
    let figures = live.until("the claim", |figures| figures["sales"][0]["totals"]["claims"] == 1);
    let totals = &figures["sales"][0]["totals"];
    assert_eq!(totals["gone"].as_u64().unwrap() + sum(&totals["refused"]), 1, "{totals}");
}

#[test]
fn the_waiting_room_is_part_of_the_figures() {
    let shop = Shop::open();
    let sale = shop.published(|sale| {
        sale["units"] = 1.into();
        sale["opens_at"] = "2027-01-15T08:01:00Z".into();
        sale["gate"] = json!({ "waiting_room": true });
    });
    for name in ["ann", "bob", "cid"] {
        assert_eq!(shop.buyer(name).post_empty(&format!("/api/v1/sales/{sale}/tickets")).status, 201);
    }
    let mut live = Figures::of(&shop, &format!("{LIVE}?sale={sale}"));
    let early = live.until("three tickets", |figures| figures["sales"][0]["totals"]["tickets"] == 3);
    assert_eq!(
        (&early["sales"][0]["state"], &early["sales"][0]["waiting"]),
        (&json!("scheduled"), &json!(3))
    );
    shop.advance_seconds(61);
    let let_in = live.until("a turn", |figures| number(&figures["sales"][0]["admitted_per_second"]) > 0.0);
    let (totals, waiting) = (&let_in["sales"][0]["totals"], &let_in["sales"][0]["waiting"]);
    assert_eq!(totals["admitted"].as_u64().unwrap() + waiting.as_u64().unwrap(), 3, "{let_in}");
}

#[test]
fn people_on_the_waitlist_of_a_sold_out_sale_are_counted() {
    let shop = Shop::open();
    let (sale, open) = (shop.sale(1), shop.sale(1));
    shop.buyer("ann").buy(&sale);
    let join = json!({ "quantity": 1 });
    for name in ["bob", "cid"] {
        assert_eq!(shop.buyer(name).post(&format!("/api/v1/sales/{sale}/waitlist"), &join).status, 201);
    }
    shop.settle();
    let mut live = Figures::of(&shop, &format!("{LIVE}?sale={sale}"));
    let one = live.until("two on the waitlist", |figures| figures["sales"][0]["waitlist"] == 2);
    assert_eq!(one["sales"][0]["state"], "sold_out");
    let other = Figures::of(&shop, &format!("{LIVE}?sale={open}")).next().unwrap();
    assert_eq!(other["sales"][0]["waitlist"], 0);
}

#[test]
fn only_an_admin_may_watch_and_only_existing_sales() {
    let shop = Shop::open();
    shop.client().get(LIVE).problem(401, "unauthorized");
    shop.buyer("ann").get(LIVE).problem(403, "forbidden");
    shop.admin().get(&format!("{LIVE}?sale=nonsense")).problem(404, "sale_not_found");
    shop.admin().get(&format!("{LIVE}?sale=0000000000000")).problem(404, "sale_not_found");
    let draft = shop.draft(|_| {});
    shop.admin().get(&format!("{LIVE}?sale={draft}")).problem(409, "not_published");
}

#[test]
fn one_watcher_too_many_is_refused() {
    let shop = Shop::open();
    let mut streams: Vec<Figures> = (0..32).map(|_| Figures::of(&shop, LIVE)).collect();
    let answer = shop.admin().get(LIVE);
    answer.problem(503, "busy");
    let metrics = shop.client().get("/metrics").text();
    assert!(metrics.contains("penstock_gate_refusals_total{reason=\"watchers\"} 1"), "{metrics}");
    drop(streams.pop());
    let began = Instant::now();
    loop {
        let mut admin = shop.admin();
        admin.send("GET", LIVE, &[], b"");
        if admin.receive(false).unwrap().status == 200 {
            break;
        }
        assert!(began.elapsed() < SOON, "no stream has ended");
    }
    assert!(streams.iter_mut().all(|stream| stream.next().is_some()));
}

#[test]
fn a_closed_sale_is_shown_only_on_request() {
    let shop = Shop::open();
    let (old, new) = (shop.sale(1), shop.sale(1));
    shop.steer(&old, "close");
    let all = Figures::of(&shop, LIVE).next().unwrap();
    let ids: Vec<&Value> = all["sales"].as_array().unwrap().iter().map(|sale| &sale["id"]).collect();
    assert_eq!(ids, [&json!(new)]);
    let one = Figures::of(&shop, &format!("{LIVE}?sale={old}")).next().unwrap();
    assert_eq!((&one["sales"][0]["id"], &one["sales"][0]["state"]), (&json!(old), &json!("closed")));
}

#[test]
fn a_live_stream_ends_when_the_server_stops_and_does_not_delay_it() {
    let mut shop = Shop::open();
    let mut live = Figures::of(&shop, LIVE);
    assert!(live.next().is_some());
    let began = Instant::now();
    shop.stop_server();
    assert!(began.elapsed() < SOON, "the drain waited for the stream");
    let mut rest = Vec::new();
    live.0.read_to_end(&mut rest).unwrap();
}

#[test]
fn a_person_who_loses_the_admin_role_sees_no_more() {
    const PHONE: &str = "+4915112345678";
    let shop = Shop::open();
    let token = shop.account(PHONE, "a long password");
    let promote = |admin| assert!(shop.block_on(shop.records.promote(PHONE, admin)).unwrap());
    promote(true);
    let mut live = Figures::with(shop.client().with_token(&token), LIVE);
    assert!(live.next().is_some());
    promote(false);
    let began = Instant::now();
    while live.next().is_some() {
        assert!(began.elapsed() < SOON, "the stream goes on");
    }
}

/// Shows the figures of the node `one` a second time, as those of a node called `twin`, with a given age.
#[derive(Default)]
struct Mirror {
    shown: Mutex<HashMap<String, Vec<u8>>>,
    age: Mutex<Duration>,
    is_away: AtomicBool,
}

impl SharedFigures for Mirror {
    fn put<'a>(
        &'a self,
        name: &'a str,
        figures: Vec<u8>,
        _: Duration,
    ) -> BoxFuture<'a, Result<(), FiguresAway>> {
        self.shown.lock().unwrap().insert(name.to_owned(), figures);
        Box::pin(ready(Ok(())))
    }

    fn all(&self) -> BoxFuture<'_, Result<Vec<Shown>, FiguresAway>> {
        if self.is_away.load(Relaxed) {
            return Box::pin(ready(Err(FiguresAway("the test has taken it".to_owned()))));
        }
        let mut all = Vec::new();
        for (name, figures) in &*self.shown.lock().unwrap() {
            let (figures, age) = (figures.clone(), *self.age.lock().unwrap());
            if name == "one" {
                all.push(Shown { name: "twin".to_owned(), figures: figures.clone(), age });
                all.push(Shown { name: "stranger".to_owned(), figures: b"of another version".to_vec(), age });
            }
            all.push(Shown { name: name.clone(), figures, age });
        }
        Box::pin(ready(Ok(all)))
    }
}

fn names(figures: &Value) -> Vec<&str> {
    figures["nodes"].as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap()).collect()
}

#[test]
fn nodes_add_up_and_a_silent_one_is_shown_as_such_before_it_is_forgotten() {
    let mirror = Arc::new(Mirror::default());
    let shared = Arc::clone(&mirror);
    let shop = Shop::open_with(|options| {
        options.shop.node = "one".to_owned();
        options.shop.shared_figures = shared;
    });
    let sale = shop.sale(5);
    shop.buyer("ann").buy(&sale);
    let mut live = Figures::of(&shop, LIVE);
    let both = live.until("the twin's claims", |figures| figures["sales"][0]["totals"]["claims"] == 2);
    assert_eq!(names(&both), ["one", "twin"]);
    assert_eq!((&both["sales"][0]["held"], &both["nodes"][1]["ready"]), (&json!(1), &json!(true)));
    live.until("the twin's rate", |figures| figures["nodes"][1]["requests_per_second"].is_number());

    *mirror.age.lock().unwrap() = Duration::from_secs(5);
    let silent = live.until("it is not ready", |figures| figures["nodes"][1]["ready"] == false);
    let twin = &silent["nodes"][1];
    assert!(
        twin["trouble"].as_str().is_some_and(|trouble| trouble.starts_with("not heard from for ")),
        "{twin}"
    );
    assert_eq!((&twin["requests_per_second"], &silent["nodes"][0]["ready"]), (&Value::Null, &json!(true)));

    *mirror.age.lock().unwrap() = Duration::from_secs(11);
    let alone = live.until("it is gone", |figures| names(figures) == ["one"]);
    assert_eq!(alone["sales"][0]["totals"]["claims"], 1);

    mirror.is_away.store(true, Relaxed);
    let blind = live.until("the others can't be seen", |figures| !figures["nodes"][0]["trouble"].is_null());
    assert_eq!(blind["nodes"][0]["ready"], true);
}

#[test]
fn in_a_cluster_the_workers_report_how_far_settlement_is() {
    let mirror = Arc::new(Mirror::default());
    let shared = Arc::clone(&mirror);
    let shop = Shop::open_with(|options| options.shop.shared_figures = shared);
    let mut live = Figures::of(&shop, LIVE);
    let nobody = live.next().unwrap()["settlement"].clone();
    assert_eq!((&nobody["lag_decisions"], &nobody["lag_seconds"]), (&Value::Null, &Value::Null));
    assert_eq!((&nobody["dead_letters"], nobody["trouble"].is_string()), (&json!(0), true));
    let worker = |name: &str, position, lag_decisions| WorkerFigures {
        name: name.to_owned(),
        settlement: Arc::new(move || SettlementView {
            position,
            lag_decisions,
            lag_seconds: 1.5,
            ..SettlementView::default()
        }),
        parts: Vec::new(),
    };
    // A worker that has just started has not yet found anything to be behind with.
    let (new, behind, ahead) = (worker("new", 0, 0), worker("behind", 5, 9), worker("ahead", 7, 7));
    shop.block_on(async {
        let both = async { tokio::join!(new.show(&*mirror), behind.show(&*mirror), ahead.show(&*mirror)) };
        // They run for ever; the first report is sent at once.
        let _ = tokio::time::timeout(Duration::from_millis(10), both).await;
    });
    let told = live.until("a worker", |figures| figures["settlement"]["lag_decisions"] == 7);
    assert_eq!(
        (&told["settlement"]["lag_seconds"], &told["settlement"]["trouble"]),
        (&json!(1.5), &Value::Null)
    );
}
