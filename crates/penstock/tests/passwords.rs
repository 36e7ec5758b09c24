//! Floods of passwords: memory stays within the settings, orders keep their cores, and others can still sign
//! in.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    fs,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use penstock_testkit::{Client, ClientAnswer, Merchant, OfferTerms, Penstock, longest_order};
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_penstock");

/// The memory that one hash needs.
const HASH_BYTES: u64 = 19 << 20;
/// For connections, their requests, and what the allocator keeps.
const BESIDE_BYTES: u64 = 16 << 20;
const PATIENCE: Duration = Duration::from_secs(60);
/// Other people's orders take milliseconds; in a debug build on a busy machine perhaps a thousand times as
/// long.
const MAX_LATENCY: Duration = Duration::from_secs(5);
const PASSWORD: &str = "a good password";
const ANN: &str = "+8613900000001";
const BOB: &str = "+8613900000002";
/// The address that a flood comes from.
const STRANGER: &str = "203.0.113.9";

/// One flood at a time: each test measures how long others wait, or what the flood uses.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A client that waits as long as its answer takes.
fn patient(penstock: &Penstock) -> Client {
    penstock.client().with_timeout(PATIENCE)
}

fn sign_in_as(client: &mut Client, headers: &[(&str, &str)], phone: &str, password: &str) -> ClientAnswer {
    let body = json!({ "phone": phone, "password": password }).to_string();
    let sent = client.send("POST", "/api/v1/sessions", headers, Some(body.as_bytes()));
    sent.unwrap_or_else(|lost| panic!("a sign-in was not answered: {lost:?}"))
}

fn sign_in(client: &mut Client, address: &str, phone: &str, password: &str) -> u16 {
    sign_in_as(client, &[("x-forwarded-for", address)], phone, password).status
}

fn sign_up(client: &mut Client, phone: &str) {
    let otp = client.post("/api/v1/otp", &json!({ "phone": phone })).unwrap().json()["code"].clone();
    let account = json!({ "phone": phone, "otp": otp, "name": "Ann", "password": PASSWORD });
    assert_eq!(client.post("/api/v1/accounts", &account).unwrap().status, 201);
}

/// Sends wrong passwords on many connections until it is told to stop, each for a different phone.
struct Flood {
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<u64>>,
}

impl Flood {
    fn of(penstock: &Penstock, connections: usize, address: &'static str) -> Self {
        Self::from(penstock, &vec![address.to_owned(); connections])
    }

    /// One connection for each of `addresses`.
    fn from(penstock: &Penstock, addresses: &[String]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = addresses.iter().cloned().enumerate().map(|(connection, address)| {
            let (mut client, stop) = (patient(penstock), Arc::clone(&stop));
            thread::spawn(move || {
                let mut sent = 0;
                while !stop.load(Relaxed) {
                    let phone = format!("+86139{connection:04}{:04}", sent % 10_000);
                    let status = sign_in(&mut client, &address, &phone, "wrong password");
                    assert!(matches!(status, 401 | 503), "{status}");
                    sent += 1;
                    // A client that is refused asks again at once, but not in a tight loop.
                    thread::sleep(Duration::from_millis(if status == 503 { 50 } else { 0 }));
                }
                sent
            })
        });
        let threads = threads.collect();
        Self { stop, threads }
    }

    fn end(self) -> u64 {
        self.stop.store(true, Relaxed);
        self.threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    }
}

/// Waits until strangers are refused because too many are waiting.
fn until_full(penstock: &Penstock, address: &str) {
    let began = Instant::now();
    while sign_in(&mut patient(penstock), address, "+8613900000009", "wrong password") != 503 {
        assert!(began.elapsed() < PATIENCE, "the flood does not fill the queue");
    }
}

/// Behind a proxy, with no limits by address except those of the queue, and with all cores for hashing.
fn server() -> Penstock {
    Penstock::new(BINARY)
        .with("PENSTOCK_IDENTITY__PASSWORD_CORE_PERCENT", 100)
        .with("PENSTOCK_HTTP__TRUSTED_PROXIES", "127.0.0.0/8")
        .with("PENSTOCK_IDENTITY__LIMITS__SIGN_INS_BY_ADDRESS_BURST", 1_000_000)
        .with("PENSTOCK_IDENTITY__CODES_IN_ANSWERS", true)
}

/// Processor time that the server's hashing threads have used so far.
fn hashing_seconds(penstock: &Penstock) -> f64 {
    let process = penstock.process_id().unwrap();
    let mut nanoseconds = 0;
    for thread in fs::read_dir(format!("/proc/{process}/task")).unwrap() {
        let thread = thread.unwrap().path();
        // A thread may end meanwhile.
        let (Ok(name), Ok(used)) =
            (fs::read_to_string(thread.join("comm")), fs::read_to_string(thread.join("schedstat")))
        else {
            continue;
        };
        if name.starts_with("password-") {
            nanoseconds += used.split(' ').next().unwrap().parse::<u64>().unwrap();
        }
    }
    nanoseconds as f64 / 1e9
}

#[test]
fn wrong_passwords_stay_within_the_configured_memory() {
    let _alone = alone();
    for hashes_at_once in [1, 3] {
        let mut penstock = server().with("PENSTOCK_IDENTITY__PASSWORD_HASHES_AT_ONCE", hashes_at_once);
        penstock.start().unwrap();
        let sale = Merchant::of(&penstock).publish(OfferTerms { units: 1_000_000, ..OfferTerms::default() });
        let (before, _) = penstock.resident_bytes().unwrap();
        let mut grown = 0;
        for cycle in 1..=3 {
            let flood = Flood::of(&penstock, 60, STRANGER);
            let longest = longest_order(&penstock, &sale, Duration::from_secs(2));
            let sent = flood.end();
            assert!(sent >= 60, "only {sent} passwords were tried");
            assert!(longest < MAX_LATENCY, "an order took {longest:?}");
            let (_, peak) = penstock.resident_bytes().unwrap();
            grown = peak.saturating_sub(before);
            let allowed = hashes_at_once * HASH_BYTES + BESIDE_BYTES;
            assert!(grown < allowed, "{} MiB more in flood {cycle}", grown >> 20);
            thread::sleep(Duration::from_secs(1));
        }
        assert!(grown > (hashes_at_once - 1) * HASH_BYTES, "the memory in the settings is not used");
    }
}

#[test]
fn a_flood_from_one_address_keeps_nobody_else_from_signing_in_or_up() {
    let _alone = alone();
    let mut penstock = server();
    penstock.start().unwrap();
    let mut owner = patient(&penstock);
    let flood = Flood::of(&penstock, 300, STRANGER);
    until_full(&penstock, STRANGER);
    sign_up(&mut owner, ANN);
    for host in 1..=5 {
        let address = format!("198.51.100.{host}");
        assert_eq!(sign_in(&mut patient(&penstock), &address, ANN, PASSWORD), 201, "{address}");
    }
    flood.end();
}

/// As many as the queue has places, and a third more.
const CROWD: usize = 84;

#[test]
fn strangers_from_many_addresses_keep_out_no_known_device_and_no_sign_up() {
    let _alone = alone();
    let mut penstock = server();
    penstock.start().unwrap();
    let mut owner = patient(&penstock);
    sign_up(&mut owner, ANN);
    let device = new_device(&mut owner, ANN);
    let addresses: Vec<String> = (0..CROWD).map(|host| format!("203.0.113.{host}")).collect();
    let flood = Flood::from(&penstock, &addresses);
    until_full(&penstock, "198.51.100.77");
    for round in 0..3 {
        let headers = [("x-forwarded-for", "198.51.100.7"), ("cookie", device.as_str())];
        let signed_in = sign_in_as(&mut owner, &headers, ANN, PASSWORD);
        assert_eq!(signed_in.status, 201, "a known device, round {round}");
        owner.set_token(signed_in.json()["token"].as_str().unwrap());
    }
    let change = json!({ "current_password": PASSWORD, "new_password": "a better password" }).to_string();
    let changed = owner.send("PUT", "/api/v1/me/password", &[], Some(change.as_bytes())).unwrap();
    assert_eq!(changed.status, 204);
    sign_up(&mut patient(&penstock), BOB);
    flood.end();
}

/// Signs in without a cookie, and returns the cookie by which the device is known from then on.
fn new_device(client: &mut Client, phone: &str) -> String {
    let signed_in = sign_in_as(client, &[("x-forwarded-for", STRANGER)], phone, PASSWORD);
    assert_eq!(signed_in.status, 201);
    let cookies = signed_in.headers.iter().filter(|(name, _)| name == "set-cookie");
    let mut devices = cookies.map(|(_, value)| value).filter(|value| value.starts_with("penstock_device="));
    devices.next().unwrap().split(';').next().unwrap().to_owned()
}

#[test]
fn one_account_with_many_known_devices_keeps_nobody_else_from_signing_in() {
    let _alone = alone();
    let mut penstock = server();
    penstock.start().unwrap();
    let mut client = patient(&penstock);
    let [flooding, honest] = [ANN, BOB];
    for phone in [flooding, honest] {
        sign_up(&mut client, phone);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let devices: Vec<String> = (0..CROWD).map(|_| new_device(&mut client, flooding)).collect();
    let floods = devices.into_iter().map(|device| {
        let (mut client, stop) = (patient(&penstock), Arc::clone(&stop));
        thread::spawn(move || {
            while !stop.load(Relaxed) {
                let headers = [("x-forwarded-for", STRANGER), ("cookie", device.as_str())];
                let answer = sign_in_as(&mut client, &headers, flooding, PASSWORD);
                thread::sleep(Duration::from_millis(if answer.status == 201 { 0 } else { 50 }));
            }
        })
    });
    let floods: Vec<_> = floods.collect();
    thread::sleep(Duration::from_secs(1));
    for host in 1..=10 {
        let address = format!("198.51.100.{host}");
        let status = sign_in(&mut patient(&penstock), &address, honest, PASSWORD);
        assert_eq!(status, 201, "{address}");
    }
    stop.store(true, Relaxed);
    for flood in floods {
        flood.join().unwrap();
    }
}

#[test]
fn a_flood_of_passwords_takes_only_its_configured_share_of_the_cores() {
    let _alone = alone();
    let cores = thread::available_parallelism().unwrap().get();
    // Two threads would use more than this on any machine.
    let percent = (20 / cores).max(1);
    let mut penstock = server().with("PENSTOCK_IDENTITY__PASSWORD_CORE_PERCENT", percent);
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(OfferTerms { units: 1_000_000, ..OfferTerms::default() });
    let began = Instant::now();
    let flood = Flood::of(&penstock, 20, STRANGER);
    let longest = longest_order(&penstock, &sale, Duration::from_secs(10));
    let used = hashing_seconds(&penstock);
    let elapsed = began.elapsed().as_secs_f64();
    flood.end();
    // A burst, the share, and hashes that had begun when the share was used up: in a debug build on a busy
    // machine those take a while.
    let allowed = 2.0 + percent as f64 / 100.0 * cores as f64 * elapsed + 1.5;
    assert!(used < allowed, "{used:.1} s of {cores} cores in {elapsed:.1} s; {allowed:.1} s are allowed");
    assert!(used > 0.1, "nothing was hashed");
    assert!(longest < MAX_LATENCY, "an order took {longest:?}");
}
