//! A shop to test, and a small HTTP client on a bare socket.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use penstock_domain::Timestamp;
use penstock_http::{JsonScribe, Server, ServerOptions};
use penstock_ledger::{
    Health, Ledger,
    embedded::{self, EmbeddedOptions},
};
use penstock_records::{Records, sqlite_url};
use penstock_shop::{
    ShopOptions,
    identity::{CodeSender, JwtKey, JwtOptions, SendFailed},
    storefront::Storefront,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{runtime::Handle, sync::oneshot};

use crate::documented;

pub(crate) const ADMIN_TOKEN: &str = "admin-token-of-the-test";
pub(crate) const JWT_SECRET: &[u8] = b"the shop's own secret, 32 bytes!";
/// 2027-01-15T08:00:00Z
pub(crate) const START: i64 = 1_800_000_000_000;

/// Keeps the codes it is asked to send.
#[derive(Debug, Default)]
pub(crate) struct Outbox(Mutex<Vec<(String, String)>>);

impl Outbox {
    pub(crate) fn last_code(&self, phone: &str) -> String {
        let sent = self.0.lock().unwrap();
        sent.iter().rev().find(|(to, _)| to == phone).map(|(_, code)| code.clone()).expect("a code was sent")
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// Ample for anything that happens ten times a second. A timeout is a failure, not a measurement.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Calls `look` again and again until it returns something.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(began.elapsed() < SOON, "this did not happen in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A phone for which sending panics, which is the only way to make a handler panic.
pub(crate) const CURSED_PHONE: &str = "+4966666666";

impl CodeSender for Outbox {
    fn send<'a>(&'a self, phone: &'a str, code: &'a str) -> BoxFuture<'a, Result<(), SendFailed>> {
        assert_ne!(phone, CURSED_PHONE, "this panic is part of a test");
        self.0.lock().unwrap().push((phone.to_owned(), code.to_owned()));
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A runtime that its own thread drives, even while the test does something else.
pub(crate) struct Driven {
    handle: Handle,
    /// Dropping it ends the thread.
    _end: oneshot::Sender<()>,
}

impl Driven {
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        std::thread::spawn(move || runtime.block_on(ended));
        Self { handle, _end: end }
    }

    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.handle.block_on(future)
    }
}

/// A running shop.
pub(crate) struct Shop {
    pub(crate) clock: Arc<AtomicI64>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) ledger: Ledger,
    pub(crate) records: Records,
    runtime: Driven,
    server: Option<Server>,
    address: SocketAddr,
    folder: Arc<TempDir>,
}

impl Shop {
    pub(crate) fn open() -> Self {
        Self::open_with(|_| {})
    }

    pub(crate) fn open_with(change: impl FnOnce(&mut ServerOptions)) -> Self {
        Self::open_in(Arc::new(tempfile::tempdir().unwrap()), START, change)
    }

    fn open_in(folder: Arc<TempDir>, millis: i64, change: impl FnOnce(&mut ServerOptions)) -> Self {
        let runtime = Driven::start();
        let clock = Arc::new(AtomicI64::new(millis));
        let outbox = Arc::new(Outbox::default());
        let read_clock = Arc::clone(&clock);
        let mut options = ServerOptions::new(ShopOptions::new(
            Arc::new(move || Timestamp::from_millis(read_clock.load(Relaxed))),
            [7; 32],
        ));
        options.listen = "127.0.0.1:0".parse().unwrap();
        options.workers = 2;
        options.shop.identity.admin_token = Some(ADMIN_TOKEN.to_owned());
        options.shop.identity.code_sender = outbox.clone();
        options.shop.identity.jwt = Some(JwtOptions {
            key: JwtKey::Secret(JWT_SECRET.to_vec()),
            issuer: None,
            audience: None,
            leeway_seconds: 0,
        });
        change(&mut options);
        let storefront = Storefront::new(JsonScribe);
        let journal = EmbeddedOptions::new(folder.path().join("journal"));
        let ledger = embedded::open(journal, options.shop.clock.clone(), storefront.clone()).unwrap();
        let url = sqlite_url(&folder.path().join("records.db"));
        let (server, records) = runtime.block_on(async {
            let records = Records::open(&url, 4).await.unwrap();
            assert_eq!(ledger.recovered().await, Health::Ready);
            let server = Server::start(options, storefront, ledger.clone(), records.clone()).await;
            let server = server.unwrap_or_else(|error| panic!("{error}"));
            (server, records)
        });
        let address = server.addr();
        Self { clock, outbox, ledger, records, runtime, server: Some(server), address, folder }
    }

    /// Stops everything and opens again on the same folder, as after a restart.
    pub(crate) fn reopen(self) -> Self {
        self.reopen_with(|_| {})
    }

    pub(crate) fn reopen_with(mut self, change: impl FnOnce(&mut ServerOptions)) -> Self {
        let server = self.server.take().unwrap();
        self.block_on(async {
            server.stop().await;
            self.ledger.stop().await;
            self.records.close().await;
        });
        let millis = self.clock.load(Relaxed);
        Self::open_in(Arc::clone(&self.folder), millis, change)
    }

    pub(crate) fn stop_server(&mut self) {
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.stop());
        }
    }

    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn advance_seconds(&self, seconds: i64) {
        self.clock.fetch_add(seconds * 1000, Relaxed);
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }

    pub(crate) fn admin(&self) -> Client {
        self.client().with_token(ADMIN_TOKEN)
    }

    /// A buyer with a shop token.
    pub(crate) fn buyer(&self, name: &str) -> Client {
        self.client().with_token(&jwt(&json!({ "sub": name, "exp": START / 1000 + 1_000_000 })))
    }

    pub(crate) fn item(&self) -> String {
        let item = json!({ "title": "Kettle", "description": "Boils.", "picture": "/kettle.jpg",
            "regular_price": { "amount": "59.90", "currency": "EUR" } });
        let answer = self.admin().post("/api/v1/admin/items", &item);
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn sale_request(&self) -> Value {
        json!({ "item_id": self.item(), "price": { "amount": "19.90", "currency": "EUR" }, "units": 10,
            "limit_per_buyer": 2, "opens_at": null, "closes_at": null, "hold_seconds": 60 })
    }

    pub(crate) fn draft(&self, change: impl FnOnce(&mut Value)) -> String {
        let mut request = self.sale_request();
        change(&mut request);
        let answer = self.admin().post("/api/v1/admin/sales", &request);
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// A published sale of `units`, open at once.
    pub(crate) fn sale(&self, units: u32) -> String {
        self.published(|sale| sale["units"] = units.into())
    }

    pub(crate) fn published(&self, change: impl FnOnce(&mut Value)) -> String {
        let id = self.draft(change);
        self.steer(&id, "publish");
        id
    }

    pub(crate) fn steer(&self, sale: &str, how: &str) {
        let answer = self.admin().post_empty(&format!("/api/v1/admin/sales/{sale}/{how}"));
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// Releases the holds whose time is over.
    pub(crate) fn expire_holds(&self) {
        self.block_on(self.ledger.expire_due(1000)).unwrap();
    }

    /// Settles all pending decisions.
    pub(crate) fn settle(&self) {
        self.block_on(async {
            let lease = self.records.lease("ledger", "tests", 60).await.unwrap().unwrap();
            let piece = self.ledger.feed().read("ledger", lease.cursor, 100_000).await.unwrap();
            self.records.settle(&lease, &piece.decisions, piece.mark).await.unwrap();
        });
    }

    /// Registers and signs in; returns the session token.
    pub(crate) fn account(&self, phone: &str, password: &str) -> String {
        let mut client = self.client();
        assert_eq!(client.post("/api/v1/otp", &json!({ "phone": phone })).status, 202);
        let otp = self.outbox.last_code(phone);
        let request = json!({ "phone": phone, "otp": otp, "name": "Ann", "password": password });
        let answer = client.post("/api/v1/accounts", &request);
        assert_eq!(answer.status, 201, "{answer:?}");
        self.sign_in(phone, password)
    }

    pub(crate) fn sign_in(&self, phone: &str, password: &str) -> String {
        let request = json!({ "phone": phone, "password": password });
        let answer = self.client().post("/api/v1/sessions", &request);
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["token"].as_str().unwrap().to_owned()
    }

    /// The counter of requests with this outcome.
    pub(crate) fn counted(&self, code: &str) -> u64 {
        let text = self.client().get("/metrics").text();
        let start = format!("penstock_requests_total{{code=\"{code}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&start)).expect("every code has a counter");
        line.parse().unwrap()
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.stop_server();
        self.block_on(self.ledger.stop());
    }
}

pub(crate) fn jwt(claims: &Value) -> String {
    use jsonwebtoken::{EncodingKey, Header, encode};
    encode(&Header::default(), claims, &EncodingKey::from_secret(JWT_SECRET)).unwrap()
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// Asserts that it is a complete problem with this code; returns its body.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        let body = self.json();
        assert_eq!((self.status, body["code"].as_str()), (status, Some(code)), "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(body["type"], format!("/errors/{code}"));
        assert_eq!(body["status"], status);
        assert!(body["title"].as_str().is_some_and(|title| !title.is_empty()));
        assert!(body["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
        body
    }

    /// Asserts a 422 that names `field`.
    #[track_caller]
    pub(crate) fn names_field(&self, field: &str) {
        let body = self.problem(422, "invalid_request");
        let fields: Vec<&str> =
            body["errors"].as_array().unwrap().iter().map(|error| error["field"].as_str().unwrap()).collect();
        assert!(fields.contains(&field), "{field} is not in {fields:?}: {body}");
        assert!(body["errors"][0]["message"].as_str().is_some_and(|message| !message.is_empty()));
    }
}

static KEYS: AtomicU64 = AtomicU64::new(0);

/// A new idempotency key.
pub(crate) fn new_key() -> String {
    format!("key-{}", KEYS.fetch_add(1, Relaxed))
}

/// One keep-alive connection.
pub(crate) struct Client {
    connection: BufReader<TcpStream>,
    token: Option<String>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { connection: BufReader::new(stream), token: None }
    }

    pub(crate) fn with_token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.connection.get_ref()
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.connection.get_mut().write_all(bytes).unwrap();
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: shop.example\r\n");
        if let Some(token) = &self.token {
            head += &format!("authorization: Bearer {token}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() {
            head += &format!("content-length: {}\r\n", body.len());
        }
        head += "\r\n";
        self.send_raw(&[head.as_bytes(), body].concat());
    }

    pub(crate) fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        self.send(method, path, headers, body);
        let answer = self.receive(method == "HEAD").expect("an answer");
        documented::require(method, path, &answer);
        answer
    }

    /// None if the connection was closed instead.
    pub(crate) fn receive(&mut self, is_head: bool) -> Option<Answer> {
        let mut line = String::new();
        if self.connection.read_line(&mut line).unwrap_or(0) == 0 {
            return None;
        }
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            self.connection.read_line(&mut line).unwrap();
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").unwrap();
            headers.push((name.to_owned(), value.to_owned()));
        }
        let mut answer = Answer { status, headers, body: Vec::new() };
        let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        if !is_head && status != 304 {
            answer.body = vec![0; length];
            self.connection.read_exact(&mut answer.body).unwrap();
        }
        Some(answer)
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.request("GET", path, &[], b"")
    }

    pub(crate) fn post(&mut self, path: &str, body: &Value) -> Answer {
        self.json("POST", path, body)
    }

    pub(crate) fn json(&mut self, method: &str, path: &str, body: &Value) -> Answer {
        self.request(method, path, &[("content-type", "application/json")], body.to_string().as_bytes())
    }

    pub(crate) fn post_empty(&mut self, path: &str) -> Answer {
        self.request("POST", path, &[], b"")
    }

    pub(crate) fn order(&mut self, sale: &str, quantity: impl Into<Value>, key: &str) -> Answer {
        self.order_body(sale, json!({ "quantity": quantity.into() }).to_string().as_bytes(), key)
    }

    pub(crate) fn order_body(&mut self, sale: &str, body: &[u8], key: &str) -> Answer {
        let headers = [("content-type", "application/json"), ("idempotency-key", key)];
        self.request("POST", &format!("/api/v1/sales/{sale}/orders"), &headers, body)
    }

    /// Orders one unit under a new key and expects to get it; returns the order's id.
    #[track_caller]
    pub(crate) fn buy(&mut self, sale: &str) -> String {
        let answer = self.order(sale, 1, &new_key());
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["id"].as_str().unwrap().to_owned()
    }
}
