//! Connections that send a valid request at one byte a second and never finish it. When the server cuts one,
//! it is opened again.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

const BETWEEN_BYTES: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(20);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The most times that each connection is opened again.
const MAX_REOPENED: u64 = 100;
const HEAD: &[u8] = b"POST /api/v1/sales/00000000000000000000000000/orders HTTP/1.1\r\nhost: localhost\r\n";

/// They live as long as this value.
#[derive(Debug)]
pub struct SlowConnections {
    stop: Arc<AtomicBool>,
    cut: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

struct Slow {
    stream: TcpStream,
    sent: usize,
    next_at: Instant,
}

impl SlowConnections {
    pub fn open(address: SocketAddr, count: usize) -> Self {
        let (stop, cut) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, cuts) = (Arc::clone(&stop), Arc::clone(&cut));
        let thread = thread::spawn(move || {
            let mut connections: Vec<Option<Slow>> = (0..count).map(|_| connect(address)).collect();
            while !stopped.load(Ordering::Relaxed) {
                for slot in &mut connections {
                    if slot.as_mut().is_none_or(is_alive) {
                        continue;
                    }
                    let all = cuts.fetch_add(1, Ordering::Relaxed);
                    *slot = (all < MAX_REOPENED * count as u64).then(|| connect(address)).flatten();
                }
                thread::sleep(STEP);
            }
        });
        Self { stop, cut, thread: Some(thread) }
    }

    /// How many the server has cut so far.
    pub fn cut(&self) -> u64 {
        self.cut.load(Ordering::Relaxed)
    }
}

impl Drop for SlowConnections {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // If it panicked, the test has failed already.
            let _ = thread.join();
        }
    }
}

fn connect(address: SocketAddr) -> Option<Slow> {
    let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).ok()?;
    stream.set_nonblocking(true).ok()?;
    stream.set_nodelay(true).ok()?;
    Some(Slow { stream, sent: 0, next_at: Instant::now() })
}

/// Sends the next byte if it is due. Returns false if the server has ended the connection.
fn is_alive(slow: &mut Slow) -> bool {
    let waits =
        |error: &std::io::Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
    match slow.stream.read(&mut [0; 1024]) {
        Ok(0) => return false,
        Err(error) if !waits(&error) => return false,
        _ => {}
    }
    if Instant::now() < slow.next_at || slow.sent == HEAD.len() {
        return true;
    }
    slow.next_at = Instant::now() + BETWEEN_BYTES;
    match slow.stream.write(&HEAD[slow.sent..=slow.sent]) {
        Ok(written) => slow.sent += written,
        Err(error) => return waits(&error),
    }
    true
}
