//! Clients that take more than their share: they ask without reading, or hold connections without asking.
//! Memory stays within its bounds, and everybody else is served meanwhile.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod incomplete;
mod places;
mod unread;

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use penstock_testkit::Penstock;

const BINARY: &str = env!("CARGO_BIN_EXE_penstock");

const GREEDY: usize = 300;
/// How long each attack lasts at least, once it is under way.
const ATTACK: Duration = Duration::from_secs(4);
/// Other people's orders take milliseconds; in a debug build on a busy machine perhaps a thousand times as
/// long.
const MAX_LATENCY: Duration = Duration::from_secs(5);
/// Long enough for anything on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// One attack at a time: each test measures how long others wait.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn server() -> Penstock {
    Penstock::new(BINARY)
        .with("PENSTOCK_HTTP__MAX_UNREAD_MEBIBYTES", 16)
        .with("PENSTOCK_HTTP__MAX_UNREAD_KIBIBYTES_PER_CONNECTION", 64)
}

/// Connections that send the same requests again and again. When the server cuts one, it is opened again.
struct Greedy {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Greedy {
    fn attack(address: SocketAddr, count: usize, requests: String) -> Self {
        Self::go_on(address, count, requests, false)
    }

    /// Like `attack`, but these read every answer.
    fn that_reads(address: SocketAddr, count: usize, requests: String) -> Self {
        Self::go_on(address, count, requests, true)
    }

    fn go_on(address: SocketAddr, count: usize, requests: String, reads: bool) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut connections: Vec<Option<Sending>> = (0..count).map(|_| None).collect();
            while !is_over.load(Relaxed) {
                for slot in &mut connections {
                    let sending = slot.take().or_else(|| Sending::begin(address));
                    let sending = sending.and_then(|sending| sending.go_on(requests.as_bytes()));
                    *slot = if reads { sending.and_then(Sending::read) } else { sending };
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
    /// How many bytes of the current round have been sent.
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

    /// Reads everything that is there. None: the server has cut the connection.
    fn read(mut self) -> Option<Self> {
        loop {
            match self.stream.read(&mut [0; 65_536]) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(self),
                Err(_) => return None,
            }
        }
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

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: shop.example\r\n\r\n")
}
