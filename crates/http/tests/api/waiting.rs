//! The waiting room: tickets, the draw, turns, and how people learn of them.

use std::{
    collections::BTreeSet,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use penstock_domain::{BuyerId, Claim, KeyDigest, SaleId};
use penstock_gate::{Draw, RoomState};
use penstock_http::ServerOptions;
use penstock_shop::gate::{RoomStore, RoomsInMemory};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::{Answer, Client, SOON, Shop, new_key, until};

fn room(shop: &Shop, units: u32, opens_at: Option<&str>) -> String {
    shop.published(|sale| {
        sale["units"] = units.into();
        sale["opens_at"] = opens_at.into();
        sale["gate"] = json!({ "waiting_room": true });
    })
}

const IN_A_MINUTE: &str = "2027-01-15T08:01:00Z";

fn take(shop: &Shop, sale: &str, buyer: &str) -> Value {
    let answer = shop.buyer(buyer).post_empty(&format!("/api/v1/sales/{sale}/tickets"));
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

fn look(shop: &Shop, sale: &str, ticket: &Value) -> Value {
    let answer = shop.client().get(&format!("/api/v1/sales/{sale}/tickets/{}", text(&ticket["ticket"])));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

fn until_state(shop: &Shop, sale: &str, ticket: &Value, state: &str) -> Value {
    until(state, || Some(look(shop, sale, ticket)).filter(|seen| seen["state"] == state))
}

fn draw(shop: &Shop, sale: &str) -> Value {
    shop.client().get(&format!("/api/v1/sales/{sale}")).json()["draw"].clone()
}

fn until_drawn(shop: &Shop, sale: &str) -> Value {
    until("the draw", || Some(draw(shop, sale)).filter(|draw| !draw["seed"].is_null()))
}

fn ask_pass(client: &mut Client, sale: &str, ticket: &Value) -> Answer {
    client.post(&format!("/api/v1/sales/{sale}/pass"), &json!({ "ticket": ticket["ticket"] }))
}

fn buy(shop: &Shop, sale: &str, buyer: &str, ticket: &Value) -> Answer {
    let mut client = shop.buyer(buyer);
    let pass = ask_pass(&mut client, sale, ticket);
    assert_eq!(pass.status, 201, "{pass:?}");
    let (key, pass) = (new_key(), pass.json());
    let headers = [
        ("content-type", "application/json"),
        ("idempotency-key", key.as_str()),
        ("penstock-pass", text(&pass["pass"])),
    ];
    client.request("POST", &format!("/api/v1/sales/{sale}/orders"), &headers, br#"{"quantity":1}"#)
}

#[test]
fn people_before_the_opening_are_placed_by_the_draw_and_later_ones_queue_behind() {
    let shop = Shop::open();
    let sale = room(&shop, 3, Some(IN_A_MINUTE));
    let committed = draw(&shop, &sale);
    assert_eq!(committed["algorithm"], "penstock draw 1");
    assert!(committed["seed"].is_null() && committed["count"].is_null(), "{committed}");
    let early: Vec<Value> = (0..20).map(|number| take(&shop, &sale, &format!("early-{number}"))).collect();
    for (number, ticket) in early.iter().enumerate() {
        assert_eq!(ticket["number"], number);
        assert_eq!(ticket["state"], "waiting");
        assert!(ticket["position"].is_null() && ticket["estimated_wait_seconds"].is_null(), "{ticket}");
    }

    shop.advance_seconds(60);
    let drawn = until_drawn(&shop, &sale);
    assert_eq!(drawn["seed_sha256"], committed["seed_sha256"]);
    assert_eq!(drawn["count"], 20);
    let seed: Vec<u8> = hex(text(&drawn["seed"]));
    assert_eq!(hex(text(&drawn["seed_sha256"])), Sha256::digest(&seed).to_vec());

    let expected = Draw::new(&seed.try_into().unwrap(), sale.parse().unwrap(), 20);
    let places: BTreeSet<u64> = early
        .iter()
        .map(|ticket| {
            let seen = look(&shop, &sale, ticket);
            let place = seen["place"].as_u64().unwrap();
            assert_eq!(place, expected.place(ticket["number"].as_u64().unwrap()));
            place
        })
        .collect();
    assert_eq!(places, (0..20).collect());
    for number in 20..23 {
        assert_eq!(take(&shop, &sale, &format!("late-{number}"))["place"], number);
    }
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).unwrap()).collect()
}

#[test]
fn never_more_people_are_admitted_than_could_still_buy() {
    let shop = Shop::open_with(|options| options.shop.gate.admissions_per_second = 1_000);
    let sale = room(&shop, 3, None);
    let names: Vec<String> = (0..10).map(|number| format!("buyer-{number}")).collect();
    let tickets: Vec<Value> = names.iter().map(|name| take(&shop, &sale, name)).collect();
    let admitted = || -> Vec<usize> {
        (0..10).filter(|number| look(&shop, &sale, &tickets[*number])["state"] == "admitted").collect()
    };
    shop.advance_seconds(1);
    until("three people admitted", || Some(()).filter(|()| admitted() == [0, 1, 2]));
    let fourth = look(&shop, &sale, &tickets[3]);
    assert_eq!((fourth["position"].as_u64(), fourth["state"].as_str()), (Some(1), Some("waiting")));
    ask_pass(&mut shop.buyer(&names[3]), &sale, &tickets[3]).problem(403, "not_admitted");
    ask_pass(&mut shop.buyer(&names[3]), &sale, &tickets[0]).problem(403, "not_admitted");
    ask_pass(&mut shop.buyer(&names[0]), &sale, &json!({ "ticket": "0.forged" }))
        .problem(403, "not_admitted");
    ask_pass(&mut shop.buyer(&names[0]), &sale, &json!({})).problem(403, "not_admitted");

    // One buys, one is slow, one never comes. When that turn is over, the next person is let in.
    assert_eq!(buy(&shop, &sale, &names[1], &tickets[1]).status, 201);
    ask_pass(&mut shop.buyer(&names[1]), &sale, &tickets[1]).problem(403, "not_admitted");
    shop.advance_seconds(5);
    assert_eq!(buy(&shop, &sale, &names[0], &tickets[0]).status, 201);
    shop.advance_seconds(56);
    let third = until_state(&shop, &sale, &tickets[2], "gone");
    assert_eq!(third["reason"], "turn_over");
    until_state(&shop, &sale, &tickets[3], "admitted");
    assert_eq!(admitted(), [3]);
    ask_pass(&mut shop.buyer(&names[2]), &sale, &tickets[2]).problem(403, "not_admitted");

    // The last unit: now the tickets are gone for everybody. When a unit comes back, so does the queue.
    assert_eq!(buy(&shop, &sale, &names[3], &tickets[3]).status, 201);
    assert_eq!(until_state(&shop, &sale, &tickets[4], "gone")["reason"], "sold_out");
    let orders = shop.buyer(&names[0]).get("/api/v1/orders").json();
    let cancel = format!("/api/v1/orders/{}/cancel", text(&orders["data"][0]["id"]));
    assert_eq!(shop.buyer(&names[0]).post_empty(&cancel).status, 200);
    shop.advance_seconds(1);
    until_state(&shop, &sale, &tickets[4], "admitted");
    assert_eq!(look(&shop, &sale, &tickets[5])["state"], "waiting");
    shop.steer(&sale, "close");
    assert_eq!(look(&shop, &sale, &tickets[5])["reason"], "closed");
}

#[test]
fn a_ticket_is_valid_only_in_its_sale_and_cannot_be_forged() {
    let shop = Shop::open();
    let (sale, other) = (room(&shop, 3, None), room(&shop, 3, None));
    let ticket = take(&shop, &sale, "ann");
    let ticket = text(&ticket["ticket"]);
    let get = |sale: &str, ticket: &str| shop.client().get(&format!("/api/v1/sales/{sale}/tickets/{ticket}"));
    assert_eq!(get(&sale, ticket).status, 200);
    get(&other, ticket).problem(404, "ticket_not_found");
    get(&sale, &format!("1{ticket}")).problem(404, "ticket_not_found");
    get(&sale, "0.").problem(404, "ticket_not_found");
    get(&sale, &ticket[..ticket.len() - 1]).problem(404, "ticket_not_found");
    get(&"0".repeat(13), ticket).problem(404, "sale_not_found");
    let plain = shop.sale(1);
    shop.buyer("ann").post_empty(&format!("/api/v1/sales/{plain}/tickets")).problem(409, "not_gated");
    get(&plain, ticket).problem(409, "not_gated");
    shop.client().post_empty(&format!("/api/v1/sales/{sale}/tickets")).problem(401, "unauthorized");
    shop.steer(&sale, "close");
    shop.buyer("ann").post_empty(&format!("/api/v1/sales/{sale}/tickets")).problem(409, "closed");
}

#[test]
fn one_buyer_gets_only_a_few_tickets() {
    let shop = Shop::open();
    let sale = room(&shop, 3, Some(IN_A_MINUTE));
    for _ in 0..5 {
        take(&shop, &sale, "greedy");
    }
    let path = format!("/api/v1/sales/{sale}/tickets");
    shop.buyer("greedy").post_empty(&path).problem(429, "rate_limited");
    take(&shop, &sale, "modest");
}

#[test]
fn a_restart_repeats_no_number_and_no_draw() {
    let store = Arc::new(RoomsInMemory::default());
    let with_store = |options: &mut ServerOptions| options.shop.gate.room_store = store.clone();
    let shop = Shop::open_with(with_store);
    let sale = room(&shop, 3, Some(IN_A_MINUTE));
    let mut numbers: Vec<u64> = Vec::new();
    let first = take(&shop, &sale, "ann");
    numbers.push(first["number"].as_u64().unwrap());
    let committed = draw(&shop, &sale);
    let shop = shop.reopen_with(with_store);
    assert_eq!(draw(&shop, &sale)["seed_sha256"], committed["seed_sha256"]);
    numbers.push(take(&shop, &sale, "bob")["number"].as_u64().unwrap());
    assert_eq!(numbers, [0, 1], "an orderly stop skips nothing");
    shop.advance_seconds(60);
    let drawn = until_drawn(&shop, &sale);
    let place = look(&shop, &sale, &first)["place"].clone();
    let shop = shop.reopen_with(with_store);
    assert_eq!(until_drawn(&shop, &sale), drawn);
    assert_eq!(look(&shop, &sale, &first)["place"], place);
    assert_eq!(take(&shop, &sale, "cid")["number"], 2);
}

/// A slow store.
#[derive(Default)]
struct SlowStore(RoomsInMemory);

impl RoomStore for SlowStore {
    fn load(&self, sale: SaleId) -> io::Result<Option<RoomState>> {
        let state = self.0.load(sale);
        thread::sleep(Duration::from_millis(700));
        state
    }

    fn save(&self, sale: SaleId, state: &RoomState) -> io::Result<()> {
        self.0.save(sale, state)
    }
}

#[test]
fn a_room_that_is_opened_twice_at_once_has_one_seed() {
    let store = Arc::new(SlowStore::default());
    let shop = Shop::open_with(|options| options.shop.gate.room_store = store.clone());
    let sale = shop.draft(|sale| sale["gate"] = json!({ "waiting_room": true }));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| shop.steer(&sale, "publish"));
        }
    });
    let kept = store.0.load(sale.parse().unwrap()).unwrap().unwrap();
    assert_eq!(hex(text(&draw(&shop, &sale)["seed_sha256"])), Sha256::digest(kept.seed).to_vec());
}

/// A store that is slow to save, and notices when two callers save at once.
#[derive(Default)]
struct OneAtATime {
    rooms: RoomsInMemory,
    saving: Mutex<()>,
    clashed: AtomicBool,
}

impl RoomStore for OneAtATime {
    fn load(&self, sale: SaleId) -> io::Result<Option<RoomState>> {
        self.rooms.load(sale)
    }

    fn save(&self, sale: SaleId, state: &RoomState) -> io::Result<()> {
        let Ok(_alone) = self.saving.try_lock() else {
            self.clashed.store(true, Relaxed);
            return Err(io::Error::other("somebody else is writing"));
        };
        // Longer than the interval at which all rooms are saved.
        thread::sleep(Duration::from_millis(150));
        self.rooms.save(sale, state)
    }
}

#[test]
fn a_room_that_is_being_published_is_saved_by_one_task_at_a_time() {
    let store = Arc::new(OneAtATime::default());
    let shop = Shop::open_with(|options| options.shop.gate.room_store = store.clone());
    let sale = room(&shop, 3, Some(IN_A_MINUTE));
    take(&shop, &sale, "ann");
    assert!(!store.clashed.load(Relaxed));
}

/// Reads server-sent events on a new connection.
struct Events(BufReader<TcpStream>);

impl Events {
    fn of(shop: &Shop, sale: &str, ticket: &Value) -> Self {
        let mut client = shop.client();
        client.send(
            "GET",
            &format!("/api/v1/sales/{sale}/tickets/{}/events", text(&ticket["ticket"])),
            &[],
            b"",
        );
        let mut stream = BufReader::new(client.stream().try_clone().unwrap());
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        Self(stream)
    }

    /// The data of the next event; None at the end.
    fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }

    fn until_state(&mut self, state: &str) -> Value {
        loop {
            let event = self.next().expect("more events");
            if event["state"] == state {
                return event;
            }
        }
    }
}

#[test]
fn a_watcher_is_told_that_the_turn_has_come_that_it_is_gone_and_that_it_is_back() {
    let shop = Shop::open();
    let sale = room(&shop, 1, None);
    let (ann, bob) = (take(&shop, &sale, "ann"), take(&shop, &sale, "bob"));
    let mut watching = Events::of(&shop, &sale, &ann);
    shop.advance_seconds(1);
    watching.until_state("admitted");
    let mut waiting = Events::of(&shop, &sale, &bob);
    assert_eq!(waiting.until_state("waiting")["position"], 1);
    let order = buy(&shop, &sale, "ann", &ann);
    assert_eq!(order.status, 201);
    let sold_at = Instant::now();
    assert_eq!(waiting.until_state("gone")["reason"], "sold_out");
    assert!(sold_at.elapsed() < SOON);
    let cancel = format!("/api/v1/orders/{}/cancel", text(&order.json()["id"]));
    assert_eq!(shop.buyer("ann").post_empty(&cancel).status, 200);
    shop.advance_seconds(1);
    assert!(waiting.until_state("admitted")["admitted_until"].is_string());
}

#[test]
fn a_stream_ends_when_the_server_stops_and_does_not_delay_it() {
    let mut shop = Shop::open();
    let sale = room(&shop, 1, None);
    let ticket = take(&shop, &sale, "ann");
    let mut watching = Events::of(&shop, &sale, &ticket);
    assert!(watching.next().is_some());
    let began = Instant::now();
    shop.stop_server();
    assert!(began.elapsed() < SOON, "the drain waited for the stream");
    let mut rest = Vec::new();
    watching.0.read_to_end(&mut rest).unwrap();
}

/// Behind a proxy, nobody notices for a long time that a phone has vanished without a word.
#[test]
fn a_stream_ends_after_two_minutes_and_another_goes_on() {
    let shop = Shop::open();
    let sale = room(&shop, 1, None);
    let ticket = take(&shop, &sale, "ann");
    let mut watching = Events::of(&shop, &sale, &ticket);
    watching.until_state("admitted");
    shop.advance_seconds(150);
    let began = Instant::now();
    let mut line = String::new();
    // The chunk that ends a body.
    while line != "0\r\n" {
        line.clear();
        assert_ne!(watching.0.read_line(&mut line).unwrap(), 0, "the connection is closed");
    }
    assert!(began.elapsed() < SOON, "the stream went on for {:?}", began.elapsed());
    assert!(Events::of(&shop, &sale, &ticket).next().is_some());
}

#[test]
fn a_stream_whose_client_has_gone_ends_at_once() {
    let shop = Shop::open();
    let sale = room(&shop, 1, None);
    let ticket = take(&shop, &sale, "ann");
    let open = || {
        let text = shop.client().get("/metrics").text();
        let count = text.lines().find_map(|line| line.strip_prefix("penstock_connections_open "));
        count.expect("a figure of open connections").parse::<u64>().unwrap()
    };
    // The clients that published the sale and took the ticket have gone; only the one that looks is left.
    until("no other connection", || (open() == 1).then_some(()));
    let mut watching: Vec<Events> = (0..20).map(|_| Events::of(&shop, &sale, &ticket)).collect();
    for watching in &mut watching[..10] {
        // Whatever a client sends after it requested the stream.
        watching.0.get_mut().write_all(b"\r\n").unwrap();
    }
    assert!(watching.iter_mut().all(|watching| watching.next().is_some()));
    assert!(open() >= 21);
    drop(watching);
    let began = Instant::now();
    while open() > 1 {
        assert!(began.elapsed() < SOON, "{} streams without a client", open() - 1);
    }
}

#[test]
fn streams_leave_some_connections_to_others_and_further_ones_are_told_to_poll() {
    let shop = Shop::open_with(|options| {
        options.max_connections = 40;
        options.workers = 1;
    });
    let sale = room(&shop, 1, None);
    let ticket = take(&shop, &sale, "ann");
    let _watching: Vec<Events> = (0..30).map(|_| Events::of(&shop, &sale, &ticket)).collect();
    let path = format!("/api/v1/sales/{sale}/tickets/{}", text(&ticket["ticket"]));
    shop.client().get(&format!("{path}/events")).problem(503, "busy");
    assert_eq!(shop.client().get(&path).status, 200);
}

#[test]
fn a_stream_that_is_read_lives_longer_than_an_idle_connection() {
    // Long compared to the tenth of a second after which a change is sent, even on a busy machine.
    const IDLE: Duration = Duration::from_secs(5);
    let shop = Shop::open_with(|options| options.idle_timeout = IDLE);
    let sale = room(&shop, 1, None);
    let (ann, bob) = (take(&shop, &sale, "ann"), take(&shop, &sale, "bob"));
    shop.advance_seconds(1);
    until_state(&shop, &sale, &ann, "admitted");
    let mut watching = Events::of(&shop, &sale, &bob);
    watching.until_state("waiting");
    let began = Instant::now();
    // It is Ann's turn all the time. Every change has to arrive on this one stream, the last one long after
    // the stream began.
    while began.elapsed() < 5 * IDLE / 2 {
        let claim = Claim {
            sale: sale.parse().unwrap(),
            buyer: BuyerId::of_subject("cid").unwrap(),
            quantity: 1,
            key: KeyDigest::of(new_key().as_bytes()).unwrap(),
        };
        let order = shop.block_on(shop.ledger.claim(claim)).unwrap();
        assert_eq!(watching.until_state("gone")["reason"], "sold_out");
        shop.block_on(shop.ledger.cancel(order.id, None)).unwrap();
        watching.until_state("waiting");
    }
}
