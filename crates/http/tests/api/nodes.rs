//! Two nodes of one shop: one ledger, one database, and neighbours and a cache in memory instead of Redis.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::{
    future::BoxFuture,
    stream::{self, BoxStream},
};
use penstock_domain::{ItemId, Timestamp};
use penstock_http::{JsonScribe, Server, ServerOptions};
use penstock_ledger::{
    Health, Ledger, Listener, SaleNews,
    embedded::{self, EmbeddedOptions},
};
use penstock_records::{Records, sqlite_url};
use penstock_shop::{
    ShopOptions,
    identity::{Country, new_account},
    ports::{CacheAway, Change, Figure, FigureValue, Kept, Neighbours, NodePart, SharedCache},
    storefront::Storefront,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::broadcast;

use crate::support::{ADMIN_TOKEN, Client, Driven, JWT_SECRET, START, jwt, new_key, until};

/// Neighbours who hear each other, unless the test prevents it.
struct Village {
    told: broadcast::Sender<Change>,
    is_deaf: AtomicBool,
}

impl Neighbours for Village {
    fn tell(&self, change: Change) -> BoxFuture<'_, ()> {
        if !self.is_deaf.load(Relaxed) {
            let _ = self.told.send(change);
        }
        Box::pin(std::future::ready(()))
    }

    fn changes(&self) -> BoxStream<'static, Change> {
        let next = |mut told: broadcast::Receiver<Change>| async { Some((told.recv().await.ok()?, told)) };
        Box::pin(stream::unfold(self.told.subscribe(), next))
    }
}

/// A shared cache that can be away. Removed keys stay closed.
#[derive(Default)]
struct Cupboard {
    kept: Mutex<HashMap<String, Kept>>,
    is_away: AtomicBool,
    /// Calls wait for ever.
    is_stuck: AtomicBool,
}

impl Cupboard {
    fn open<T>(
        &self,
        with: impl FnOnce(&mut HashMap<String, Kept>) -> T,
    ) -> BoxFuture<'_, Result<T, CacheAway>>
    where
        T: Send + 'static,
    {
        if self.is_stuck.load(Relaxed) {
            return Box::pin(std::future::pending());
        }
        let result = match self.is_away.load(Relaxed) {
            true => Err(CacheAway("the test has taken it".to_owned())),
            false => Ok(with(&mut self.kept.lock().unwrap())),
        };
        Box::pin(std::future::ready(result))
    }
}

impl SharedCache for Cupboard {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Kept, CacheAway>> {
        self.open(|kept| kept.get(key).cloned().unwrap_or(Kept::Nothing))
    }

    fn put<'a>(&'a self, key: &'a str, value: Vec<u8>, _: Duration) -> BoxFuture<'a, Result<(), CacheAway>> {
        self.open(|kept| {
            if kept.get(key) != Some(&Kept::Removed) {
                kept.insert(key.to_owned(), Kept::Value(value));
            }
        })
    }

    fn remove<'a>(&'a self, key: &'a str, _: Duration) -> BoxFuture<'a, Result<(), CacheAway>> {
        self.open(|kept| drop(kept.insert(key.to_owned(), Kept::Removed)))
    }
}

/// The ledger's news reaches every node.
struct Everybody(Vec<Arc<Storefront>>);

impl Listener for Everybody {
    fn sales_changed(&self, news: &[SaleNews]) {
        self.0.iter().for_each(|storefront| storefront.sales_changed(news));
    }
}

struct Bell;

impl NodePart for Bell {
    fn name(&self) -> &'static str {
        "bell"
    }

    fn trouble(&self) -> Option<String> {
        Some("it has no clapper".to_owned())
    }

    fn figures(&self) -> Vec<Figure> {
        let name = "penstock_bell_rung";
        vec![Figure { name, help: "How often it rang", value: FigureValue::Counter(3) }]
    }
}

/// Everything that the nodes share.
struct Common {
    runtime: Driven,
    village: Arc<Village>,
    cupboard: Arc<Cupboard>,
    folder: TempDir,
}

impl Common {
    fn new() -> Self {
        let village = Village { told: broadcast::channel(100).0, is_deaf: AtomicBool::new(false) };
        Self {
            runtime: Driven::start(),
            village: Arc::new(village),
            cupboard: Arc::default(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn records(&self) -> Records {
        let url = sqlite_url(&self.folder.path().join("records.db"));
        self.runtime.block_on(Records::open(&url, 4)).unwrap()
    }

    fn ledger(&self, name: &str, storefronts: &[Arc<Storefront>]) -> Ledger {
        let listener = Arc::new(Everybody(storefronts.to_vec()));
        let journal = EmbeddedOptions::new(self.folder.path().join(name));
        let ledger = embedded::open(journal, Arc::new(|| Timestamp::from_millis(START)), listener).unwrap();
        assert_eq!(self.runtime.block_on(ledger.recovered()), Health::Ready);
        ledger
    }

    fn options(&self) -> ServerOptions {
        let mut options =
            ServerOptions::new(ShopOptions::new(Arc::new(|| Timestamp::from_millis(START)), [7; 32]));
        options.listen = "127.0.0.1:0".parse().unwrap();
        options.workers = 1;
        options.shop.identity.admin_token = Some(ADMIN_TOKEN.to_owned());
        options.shop.identity.jwt = Some(penstock_shop::identity::JwtOptions {
            key: penstock_shop::identity::JwtKey::Secret(JWT_SECRET.to_vec()),
            issuer: None,
            audience: None,
            leeway_seconds: 0,
        });
        options.shop.neighbours = self.village.clone();
        options.shop.shared_cache = self.cupboard.clone();
        options.shop.node = "node-7".to_owned();
        options.shop.parts = vec![Arc::new(Bell)];
        options.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
        options.codes_in_answers = true;
        options
    }

    fn server(&self, storefront: Arc<Storefront>, ledger: &Ledger, records: Records) -> Server {
        let server = Server::start(self.options(), storefront, ledger.clone(), records);
        let server = self.runtime.block_on(server);
        server.unwrap_or_else(|error| panic!("{error}"))
    }
}

/// A shop of two nodes.
struct Pair {
    a: Server,
    b: Server,
    ledger: Ledger,
    records: Records,
    /// The records as only node B sees them.
    records_of_b: Records,
    common: Common,
}

impl Pair {
    fn open() -> Self {
        let common = Common::new();
        let storefronts = [Storefront::new(JsonScribe), Storefront::new(JsonScribe)];
        let ledger = common.ledger("journal", &storefronts);
        let records = common.records();
        let [a, b] = storefronts;
        let a = common.server(a, &ledger, records.clone());
        let records_of_b = common.records();
        let b = common.server(b, &ledger, records_of_b.clone());
        Self { a, b, ledger, records, records_of_b, common }
    }

    fn item(&self) -> String {
        let item = json!({ "title": "Kettle", "regular_price": { "amount": "59.90", "currency": "EUR" } });
        let answer = admin(&self.a).post("/api/v1/admin/items", &item);
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// A sale that node A publishes.
    fn sale(&self, item: &str) -> String {
        let sale = json!({ "item_id": item, "price": { "amount": "19.90", "currency": "EUR" }, "units": 10,
            "limit_per_buyer": 2 });
        let answer = admin(&self.a).post("/api/v1/admin/sales", &sale);
        assert_eq!(answer.status, 201, "{answer:?}");
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        let answer = admin(&self.a).post_empty(&format!("/api/v1/admin/sales/{id}/publish"));
        assert_eq!(answer.status, 200, "{answer:?}");
        id
    }

    fn rename(&self, item: &str, title: &str) {
        let change = json!({ "title": title });
        let answer = admin(&self.a).json("PATCH", &format!("/api/v1/admin/items/{item}"), &change);
        assert_eq!((answer.status, answer.json()["title"].as_str()), (200, Some(title)));
    }

    async fn settle(&self) {
        let feed = self.ledger.feed();
        for stream in feed.streams().await.unwrap() {
            let lease = self.records.lease(&stream, "test", 60).await.unwrap().unwrap();
            let piece = feed.read(&stream, lease.cursor, 100_000).await.unwrap();
            self.records.settle(&lease, &piece.decisions, piece.mark).await.unwrap();
        }
    }
}

fn client(server: &Server) -> Client {
    Client::connect(server.addr())
}

fn admin(server: &Server) -> Client {
    client(server).with_token(ADMIN_TOKEN)
}

fn buyer(server: &Server, name: &str) -> Client {
    client(server).with_token(&jwt(&json!({ "sub": name, "exp": START / 1000 + 1_000_000 })))
}

fn get(server: &Server, path: &str) -> Value {
    let answer = client(server).get(path);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// How often this level of the catalogue had this outcome.
fn lookups(server: &Server, level: &str, outcome: &str) -> u64 {
    let text = client(server).get("/metrics").text();
    let start = format!("penstock_catalogue_lookups_total{{level=\"{level}\",outcome=\"{outcome}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&start)).unwrap().parse().unwrap()
}

#[test]
fn a_sale_and_its_item_are_the_same_on_every_node() {
    let shop = Pair::open();
    let item = shop.item();
    let sale = shop.sale(&item);
    let title = |path: &str| get(&shop.b, path)["item"]["title"].clone();
    let sale_path = format!("/api/v1/sales/{sale}");
    until("the sale on the other node", || (client(&shop.b).get(&sale_path).status == 200).then_some(()));
    assert_eq!(title(&sale_path), "Kettle");
    assert!(lookups(&shop.b, "shared", "hit") >= 2, "it was put into the shared cache");
    assert_eq!(get(&shop.b, &format!("/api/v1/items/{item}"))["title"], "Kettle");
    assert_eq!(get(&shop.b, "/api/v1/items")["data"][0]["title"], "Kettle");

    shop.rename(&item, "Pot");
    until("the new title in the sale", || (title(&sale_path) == "Pot").then_some(()));
    assert_eq!(get(&shop.b, "/api/v1/sales")["data"][0]["item"]["title"], "Pot");
    assert_eq!(get(&shop.b, &format!("/api/v1/items/{item}"))["title"], "Pot");
    assert_eq!(get(&shop.b, "/api/v1/items")["data"][0]["title"], "Pot");
    assert_eq!(get(&shop.a, &sale_path)["item"]["title"], "Pot");
}

#[test]
fn a_node_that_has_missed_something_reads_everything_again() {
    let shop = Pair::open();
    let item = shop.item();
    let sale = shop.sale(&item);
    let path = format!("/api/v1/sales/{sale}");
    until("the sale on the other node", || (client(&shop.b).get(&path).status == 200).then_some(()));
    account(&shop, "+4912345678");
    let token = sign_in(&shop.b, "+4912345678");
    shop.common.village.is_deaf.store(true, Relaxed);
    shop.rename(&item, "Pot");
    assert_eq!(
        client(&shop.a).with_token(&token).request("DELETE", "/api/v1/sessions/current", &[], b"").status,
        204
    );
    assert_eq!(get(&shop.b, &path)["item"]["title"], "Kettle", "nobody has announced it");
    shop.common.village.is_deaf.store(false, Relaxed);
    shop.common.runtime.block_on(shop.common.village.tell(Change::Everything));
    until("the new title", || (get(&shop.b, &path)["item"]["title"] == "Pot").then_some(()));
    client(&shop.b).with_token(&token).get("/api/v1/me").problem(401, "unauthorized");
}

fn account(shop: &Pair, phone: &str) {
    let now = Timestamp::from_millis(START);
    let new = new_account(phone, Country::default(), "Ann", "correct horse", false, now).unwrap();
    shop.common.runtime.block_on(shop.records.create_account(new)).unwrap();
}

fn sign_in(server: &Server, phone: &str) -> String {
    let request = json!({ "phone": phone, "password": "correct horse" });
    let answer = client(server).post("/api/v1/sessions", &request);
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()["token"].as_str().unwrap().to_owned()
}

#[test]
fn a_session_that_ends_on_one_node_ends_on_all() {
    let shop = Pair::open();
    account(&shop, "+4912345678");
    let (first, second) = (sign_in(&shop.a, "+4912345678"), sign_in(&shop.a, "+4912345678"));
    let status = |token: &str| client(&shop.b).with_token(token).get("/api/v1/me").status;
    assert_eq!((status(&first), status(&second)), (200, 200), "a session is valid on every node");

    let ended = client(&shop.a).with_token(&first).request("DELETE", "/api/v1/sessions/current", &[], b"");
    assert_eq!(ended.status, 204);
    until("the end of the session", || (status(&first) == 401).then_some(()));
    assert_eq!(status(&second), 200, "the other session goes on");

    let change = json!({ "current_password": "correct horse", "new_password": "battery staple" });
    let changed = client(&shop.a).with_token(&second).json("PUT", "/api/v1/me/password", &change);
    assert_eq!(changed.status, 204, "{changed:?}");
    until("the end of all sessions", || (status(&second) == 401).then_some(()));
}

#[test]
fn devices_and_codes_are_valid_on_every_node_and_guesses_count_per_node() {
    let shop = Pair::open();
    let phone = "+4912345678";
    account(&shop, phone);
    let post = |server: &Server, path: &str, cookie: &str, body: &Value| {
        let headers =
            [("content-type", "application/json"), ("x-forwarded-for", "203.0.113.9"), ("cookie", cookie)];
        client(server).request("POST", path, &headers, body.to_string().as_bytes())
    };
    let sign_in = |server: &Server, cookie: &str, password: &str| {
        post(server, "/api/v1/sessions", cookie, &json!({ "phone": phone, "password": password }))
    };
    let signed_in = sign_in(&shop.a, "", "correct horse");
    let cookies = signed_in.headers.iter().map(|(_, value)| value.split(';').next().unwrap());
    let device = cookies.into_iter().find(|cookie| cookie.starts_with("penstock_device=")).unwrap();
    let guesses = |server: &Server| (0..12).filter(|_| sign_in(server, "", "wrong").status == 401).count();
    assert_eq!((guesses(&shop.a), guesses(&shop.b)), (10, 10), "each node counts by itself");
    sign_in(&shop.b, "", "correct horse").problem(429, "rate_limited");
    assert_eq!(sign_in(&shop.b, device, "correct horse").status, 201, "node A has signed the device");

    let ask = |server: &Server| post(server, "/api/v1/otp", "", &json!({ "phone": "+4912345679" }));
    let sent = [&shop.a, &shop.b, &shop.a, &shop.b, &shop.a].map(ask);
    assert!(sent.iter().all(|answer| answer.status == 202), "{sent:?}");
    ask(&shop.b).problem(429, "rate_limited");
    let otp = sent[4].json()["code"].clone();
    let new = json!({ "phone": "+4912345679", "otp": otp, "name": "Bo", "password": "correct horse" });
    assert_eq!(post(&shop.b, "/api/v1/accounts", "", &new).status, 201);
}

fn sign_out(server: &Server, token: &str) {
    let ended = client(server).with_token(token).request("DELETE", "/api/v1/sessions/current", &[], b"");
    assert_eq!(ended.status, 204, "{ended:?}");
}

#[test]
fn a_session_ends_everywhere_even_if_its_node_dies_before_announcing_it() {
    let shop = Pair::open();
    account(&shop, "+4912345678");
    let (first, second) = (sign_in(&shop.a, "+4912345678"), sign_in(&shop.a, "+4912345678"));
    shop.common.village.is_deaf.store(true, Relaxed);
    let status = |token: &str| client(&shop.b).with_token(token).get("/api/v1/me").status;
    sign_out(&shop.a, &first);
    until("the end of the session", || (status(&first) == 401).then_some(()));
    assert_eq!(status(&second), 200, "the other session goes on");
    let change = json!({ "current_password": "correct horse", "new_password": "battery staple" });
    let changed = client(&shop.a).with_token(&second).json("PUT", "/api/v1/me/password", &change);
    assert_eq!(changed.status, 204, "{changed:?}");
    until("the end of all sessions", || (status(&second) == 401).then_some(()));
}

/// A call that a session can make without the database.
fn orders_again(server: &Server, token: &str, sale: &str) -> u16 {
    client(server).with_token(token).order(sale, 1, "the-same-each-time").status
}

#[test]
fn a_node_that_has_missed_something_accepts_no_session_until_it_can_read_it() {
    let shop = Pair::open();
    let sale = shop.sale(&shop.item());
    account(&shop, "+4912345678");
    let token = sign_in(&shop.a, "+4912345678");
    let status = || orders_again(&shop.b, &token, &sale);
    until("the sale on the other node", || (status() == 201).then_some(()));
    shop.common.runtime.block_on(shop.records_of_b.close());
    assert_eq!(status(), 201, "sessions are valid without the database");
    shop.common.runtime.block_on(shop.common.village.tell(Change::Everything));
    until("that nobody knows who has signed out", || (status() == 503).then_some(()));
}

#[test]
fn a_session_that_a_newer_secret_may_have_signed_is_neither_accepted_nor_refused() {
    let common = Common::new();
    let storefront = Storefront::new(JsonScribe);
    let ledger = common.ledger("journal", std::slice::from_ref(&storefront));
    let options = common.options();
    let is_in_doubt = Arc::clone(&options.shop.is_secret_in_doubt);
    let server =
        common.runtime.block_on(Server::start(options, storefront, ledger, common.records())).unwrap();
    let ask = || client(&server).with_token("pst_of-another-node").get("/api/v1/me");
    ask().problem(401, "unauthorized");
    is_in_doubt.store(true, Relaxed);
    ask().problem(503, "unavailable");
}

#[test]
fn the_end_of_a_session_waits_for_nothing_else_that_has_changed() {
    let shop = Pair::open();
    let sale = shop.sale(&shop.item());
    account(&shop, "+4912345678");
    let token = sign_in(&shop.a, "+4912345678");
    let status = || orders_again(&shop.b, &token, &sale);
    until("the sale on the other node", || (status() == 201).then_some(()));
    shop.common.runtime.block_on(shop.records_of_b.close());
    shop.common.cupboard.is_stuck.store(true, Relaxed);
    shop.common.runtime.block_on(shop.common.village.tell(Change::Item(ItemId::from_random(1))));
    sign_out(&shop.a, &token);
    until("the end of the session", || (status() == 401).then_some(()));
}

#[test]
fn an_item_is_read_once_however_many_request_it_even_without_the_shared_cache() {
    let shop = Pair::open();
    // If it heard of the change, the other node would read the item again.
    shop.common.village.is_deaf.store(true, Relaxed);
    let item = shop.item();
    shop.common.cupboard.is_away.store(true, Relaxed);
    let loads = || lookups(&shop.b, "records", "load");
    let (before, path) = (loads(), format!("/api/v1/items/{item}"));
    let ask = || (0..50).for_each(|_| assert_eq!(get(&shop.b, &path)["title"], "Kettle"));
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(ask))));
    assert_eq!(loads() - before, 1);
    assert!(lookups(&shop.b, "shared", "failure") >= 1);
    client(&shop.b).get("/api/v1/items/0123456789abc").problem(404, "item_not_found");
}

#[test]
fn a_node_that_starts_without_the_database_shows_and_sells_from_the_shared_cache() {
    let shop = Pair::open();
    let sale = shop.sale(&shop.item());
    account(&shop, "+4912345678");
    let token = sign_in(&shop.a, "+4912345678");
    shop.common.runtime.block_on(shop.ledger.stop());
    let records = shop.common.records();
    shop.common.runtime.block_on(records.close());
    let storefront = Storefront::new(JsonScribe);
    let ledger = shop.common.ledger("journal", std::slice::from_ref(&storefront));
    let c = shop.common.server(storefront, &ledger, records);
    let path = format!("/api/v1/sales/{sale}");
    until("the sale", || (client(&c).get(&path).status == 200).then_some(()));
    assert_eq!(get(&c, &path)["item"]["title"], "Kettle");
    buyer(&c, "ann").buy(&sale);
    // Only the database knows whether a session was ended.
    client(&c).with_token(&token).get("/api/v1/me").problem(503, "unavailable");
}

#[test]
fn orders_that_the_ledger_has_forgotten_are_answered_from_the_records() {
    let shop = Pair::open();
    let sale = shop.sale(&shop.item());
    let paid = buyer(&shop.a, "paid").buy(&sale);
    assert_eq!(buyer(&shop.a, "paid").post_empty(&format!("/api/v1/orders/{paid}/pay")).status, 200);
    let cancelled = buyer(&shop.a, "cancelled").buy(&sale);
    let cancel = format!("/api/v1/orders/{cancelled}/cancel");
    assert_eq!(buyer(&shop.a, "cancelled").post_empty(&cancel).status, 200);
    shop.common.runtime.block_on(shop.settle());

    let storefront = Storefront::new(JsonScribe);
    let forgetful = shop.common.ledger("another journal", std::slice::from_ref(&storefront));
    let c = shop.common.server(storefront, &forgetful, shop.records.clone());
    let ask = |name: &str, order: &str, what: &str| {
        buyer(&c, name).post_empty(&format!("/api/v1/orders/{order}/{what}"))
    };
    let pay = ask("paid", &paid, "pay");
    assert_eq!((pay.status, pay.json()["state"].as_str()), (200, Some("paid")));
    ask("paid", &paid, "cancel").problem(409, "already_paid");
    ask("cancelled", &cancelled, "pay").problem(409, "hold_expired");
    assert_eq!(ask("cancelled", &cancelled, "cancel").status, 200);
    ask("somebody else", &paid, "pay").problem(404, "order_not_found");
    ask("somebody else", &cancelled, "cancel").problem(404, "order_not_found");
    let read = buyer(&c, "paid").get(&format!("/api/v1/orders/{paid}"));
    assert_eq!((read.status, read.json()["item"]["title"].as_str()), (200, Some("Kettle")));
    buyer(&c, "new").order(&sale, 1, &new_key()).problem(404, "sale_not_found");
}

#[test]
fn a_node_shows_its_name_and_the_state_of_its_parts() {
    let shop = Pair::open();
    let ready = get(&shop.a, "/readyz");
    assert_eq!((&ready["status"], &ready["node"]), (&json!("ready"), &json!("node-7")));
    assert_eq!(ready["parts"], json!({ "bell": "it has no clapper" }));
    let metrics = client(&shop.a).get("/metrics").text();
    for line in [
        "penstock_node{node=\"node-7\"} 1",
        "penstock_part_ready{part=\"bell\"} 0",
        "penstock_bell_rung_total 3",
    ] {
        assert!(metrics.lines().any(|known| known == line), "{line} is missing in {metrics}");
    }
}
