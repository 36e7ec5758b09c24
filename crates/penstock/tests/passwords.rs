//! Floods of passwords: memory stays where the settings put it, orders keep their cores, and others can still sign in.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use penstock_testkit::{Client, Penstock};
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_penstock");

/// What one hash needs.
const HASH_BYTES: u64 = 19 << 20;
/// For connections, their requests, and what the allocator keeps.
const BESIDE_BYTES: u64 = 32 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

fn sign_in(client: &mut Client, address: &str, phone: &str, password: &str) -> u16 {
    let body = json!({ "phone": phone, "password": password }).to_string();
    let sent =
        client.send("POST", "/api/v1/sessions", &[("x-forwarded-for", address)], Some(body.as_bytes()));
    sent.unwrap_or_else(|lost| panic!("a sign-in was not answered: {lost:?}")).status
}

/// Sends wrong passwords on `connections` connections until it is told to stop; each to a phone of its own.
struct Flood {
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<u64>>,
}

impl Flood {
    fn of(penstock: &Penstock, connections: usize, address: &'static str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..connections).map(|connection| {
            let (mut client, stop) = (penstock.client(), Arc::clone(&stop));
            thread::spawn(move || {
                let mut sent = 0;
                while !stop.load(Relaxed) {
                    let phone = format!("+86139{connection:04}{:04}", sent % 10_000);
                    let status = sign_in(&mut client, address, &phone, "wrong password");
                    assert!(matches!(status, 401 | 503), "{status}");
                    sent += 1;
                    // Who is told that it is too much asks again at once, but not without end.
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

/// Behind a proxy, and with no limits by address but those of the queue.
fn server() -> Penstock {
    Penstock::new(BINARY)
        .with("PENSTOCK_HTTP__TRUSTED_PROXIES", "127.0.0.0/8")
        .with("PENSTOCK_IDENTITY__LIMITS__SIGN_INS_BY_ADDRESS_BURST", 1_000_000)
        .with("PENSTOCK_IDENTITY__CODES_IN_ANSWERS", true)
}

/// What the threads of the server that neither serve nor decide have used of the processors so far.
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
        if name.starts_with("password-") || name.starts_with("tokio") {
            nanoseconds += used.split(' ').next().unwrap().parse::<u64>().unwrap();
        }
    }
    nanoseconds as f64 / 1e9
}

#[test]
fn wrong_passwords_take_the_memory_that_the_settings_say_and_give_it_back() {
    let mut penstock = server()
        .with("PENSTOCK_IDENTITY__PASSWORD_HASHES_AT_ONCE", 2)
        .with("PENSTOCK_IDENTITY__PASSWORD_CORE_PERCENT", 100);
    penstock.start().unwrap();
    let (before, _) = penstock.resident_bytes().unwrap();
    let flood = Flood::of(&penstock, 60, "203.0.113.9");
    thread::sleep(Duration::from_secs(5));
    let sent = flood.end();
    assert!(sent >= 60, "only {sent} passwords were tried");
    let (_, peak) = penstock.resident_bytes().unwrap();
    let grown = peak.saturating_sub(before);
    assert!(grown < 2 * HASH_BYTES + BESIDE_BYTES, "{} MiB more after {sent} passwords", grown >> 20);
    let began = Instant::now();
    loop {
        let (now, _) = penstock.resident_bytes().unwrap();
        if now < before + BESIDE_BYTES {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{} MiB are not given back", (now - before) >> 20);
        thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_flood_from_one_address_keeps_nobody_else_from_signing_in_or_up() {
    let mut penstock = server().with("PENSTOCK_IDENTITY__PASSWORD_CORE_PERCENT", 100);
    penstock.start().unwrap();
    let mut owner = penstock.client();
    let phone = "+8613900000001";
    let otp = owner.post("/api/v1/otp", &json!({ "phone": phone })).unwrap().json()["code"].clone();
    let flood = Flood::of(&penstock, 300, "203.0.113.9");
    // The queue is full when the first is told so.
    let began = Instant::now();
    while sign_in(&mut penstock.client(), "203.0.113.9", "+8613900000009", "wrong password") != 503 {
        assert!(began.elapsed() < PATIENCE, "the flood does not fill the queue");
    }
    let account = json!({ "phone": phone, "otp": otp, "name": "Ann", "password": "a good password" });
    assert_eq!(owner.post("/api/v1/accounts", &account).unwrap().status, 201);
    for host in 1..=5 {
        let address = format!("198.51.100.{host}");
        assert_eq!(sign_in(&mut penstock.client(), &address, phone, "a good password"), 201, "{address}");
    }
    flood.end();
}

/// As many as the queue has places, and a third more.
const DEVICES: usize = 84;

/// Signs in without a cookie, and answers the one by which the device is known from then on.
fn new_device(client: &mut Client, phone: &str) -> String {
    let body = json!({ "phone": phone, "password": "a good password" }).to_string();
    let headers = [("x-forwarded-for", "203.0.113.9")];
    let signed_in = client.send("POST", "/api/v1/sessions", &headers, Some(body.as_bytes())).unwrap();
    assert_eq!(signed_in.status, 201);
    let cookies = signed_in.headers.iter().filter(|(name, _)| name == "set-cookie");
    let mut devices = cookies.map(|(_, value)| value).filter(|value| value.starts_with("penstock_device="));
    devices.next().unwrap().split(';').next().unwrap().to_owned()
}

#[test]
fn one_account_with_many_known_devices_keeps_nobody_else_from_signing_in() {
    let mut penstock = server();
    penstock.start().unwrap();
    let mut client = penstock.client();
    let [flooding, honest] = ["+8613900000001", "+8613900000002"];
    for phone in [flooding, honest] {
        let otp = client.post("/api/v1/otp", &json!({ "phone": phone })).unwrap().json()["code"].clone();
        let account = json!({ "phone": phone, "otp": otp, "name": "Ann", "password": "a good password" });
        assert_eq!(client.post("/api/v1/accounts", &account).unwrap().status, 201);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let devices: Vec<String> = (0..DEVICES).map(|_| new_device(&mut client, flooding)).collect();
    let floods = devices.into_iter().map(|device| {
        let (mut client, stop) = (penstock.client(), Arc::clone(&stop));
        let body = json!({ "phone": flooding, "password": "a good password" }).to_string();
        thread::spawn(move || {
            while !stop.load(Relaxed) {
                let headers = [("x-forwarded-for", "203.0.113.9"), ("cookie", device.as_str())];
                let answer =
                    client.send("POST", "/api/v1/sessions", &headers, Some(body.as_bytes())).unwrap();
                thread::sleep(Duration::from_millis(if answer.status == 201 { 0 } else { 50 }));
            }
        })
    });
    let floods: Vec<_> = floods.collect();
    thread::sleep(Duration::from_secs(1));
    for host in 1..=10 {
        let address = format!("198.51.100.{host}");
        let status = sign_in(&mut penstock.client(), &address, honest, "a good password");
        assert_eq!(status, 201, "{address}");
    }
    stop.store(true, Relaxed);
    for flood in floods {
        flood.join().unwrap();
    }
}

#[test]
fn a_flood_of_passwords_takes_the_share_of_the_cores_that_the_settings_say() {
    let mut penstock = server().with("PENSTOCK_IDENTITY__PASSWORD_CORE_PERCENT", 10);
    penstock.start().unwrap();
    let began = Instant::now();
    let flood = Flood::of(&penstock, 20, "203.0.113.9");
    thread::sleep(Duration::from_secs(10));
    let used = hashing_seconds(&penstock);
    let elapsed = began.elapsed().as_secs_f64();
    flood.end();
    let cores = thread::available_parallelism().unwrap().get() as f64;
    // A burst, the share, and what had begun when the share was used up.
    let allowed = 2.0 + 0.1 * cores * elapsed + 0.5;
    assert!(used < allowed, "{used:.1} s of {cores} cores in {elapsed:.1} s; {allowed:.1} s are allowed");
    assert!(used > 0.1, "nothing was hashed");
}
