//! One connection, and the list of all connections of a worker, by which idle ones are cut and all are ended.
//!
//! A connection costs nothing while it works: no timer of its own, no channel it has to look at. A sweep of the
//! whole list, every now and then, does what timers would.

use std::{
    collections::HashMap,
    future::{Future as _, poll_fn},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    task::Poll,
};

use futures_util::task::AtomicWaker;
use hyper::server::conn::http1;
use tokio::{net::TcpStream, sync::Notify};

use crate::{entry::Entry, lane::Lane, problem::Code, tally::Outcome};

const MAX_BUFFER_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 64;
const MAX_HEAD_BYTES: usize = 16 * 1024;
const _: () = assert!(MAX_HEAD_BYTES <= MAX_BUFFER_BYTES);

/// What a connection is told; 0 is to go on. Answer what is under way, then close.
const FINISH: u8 = 1;
/// As `FINISH`, and nothing is under way.
const IDLE: u8 = 2;
const CUT: u8 = 3;

/// Signs of life of a connection.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    beats: AtomicU64,
    working: AtomicU32,
    /// Whether the work is the lane's own.
    deciding: AtomicBool,
    /// Requests that went to hyper, and answers of it that are complete.
    passed: AtomicU64,
    answered: AtomicU64,
    /// The beats at the last sweep.
    seen: AtomicU64,
    command: AtomicU8,
    waker: AtomicWaker,
}

impl Pulse {
    /// A request has begun.
    pub(crate) fn beat(&self) {
        self.beats.fetch_add(1, Relaxed);
    }

    /// A request goes to hyper.
    pub(crate) fn pass(&self) {
        self.passed.fetch_add(1, Relaxed);
    }

    /// Hyper has taken all of an answer.
    pub(crate) fn answer(&self) {
        self.answered.fetch_add(1, Relaxed);
    }

    /// Whether hyper has answered all it was passed.
    pub(crate) fn has_answered(&self) -> bool {
        self.answered.load(Relaxed) == self.passed.load(Relaxed)
    }

    /// As long as the guard lives the connection waits for us, not for the client.
    pub(crate) fn working(self: &Arc<Self>) -> Working {
        self.working.fetch_add(1, Relaxed);
        Working(Arc::clone(self))
    }

    /// Like `working`, for a claim that hyper doesn't know of and that shutting down has to wait for.
    pub(crate) fn deciding(self: &Arc<Self>) -> Working {
        self.deciding.store(true, Relaxed);
        self.working()
    }

    pub(crate) fn is_finishing(&self) -> bool {
        self.command.load(Relaxed) != 0
    }

    fn tell(&self, command: u8) {
        self.command.fetch_max(command, Relaxed);
        self.waker.wake();
    }

    /// Whether nothing has happened since the last time this was asked.
    fn is_idle(&self) -> bool {
        let beats = self.beats.load(Relaxed);
        self.seen.swap(beats, Relaxed) == beats && self.working.load(Relaxed) == 0
    }
}

#[derive(Debug)]
pub(crate) struct Working(Arc<Pulse>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.beats.fetch_add(1, Relaxed);
        self.0.working.fetch_sub(1, Relaxed);
        self.0.deciding.store(false, Relaxed);
    }
}

/// The open connections of a worker.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    open: Mutex<HashMap<u64, Arc<Pulse>>>,
    closed: Notify,
}

impl Connections {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Pulse>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts the connections that did nothing since the last sweep.
    pub(crate) fn sweep(&self) {
        for pulse in self.open().values().filter(|pulse| pulse.is_idle()) {
            pulse.tell(IDLE);
        }
    }

    pub(crate) fn finish_all(&self) {
        self.open().values().for_each(|pulse| pulse.tell(FINISH));
    }

    pub(crate) fn cut_all(&self) {
        self.open().values().for_each(|pulse| pulse.tell(CUT));
    }

    /// Waits until all are closed.
    pub(crate) async fn all_closed(&self) {
        while !self.open().is_empty() {
            self.closed.notified().await;
        }
    }

    pub(crate) fn add(self: &Arc<Self>, number: u64) -> Listed {
        let pulse: Arc<Pulse> = Arc::default();
        // So that the first sweep finds it as if it had just spoken.
        pulse.seen.store(u64::MAX, Relaxed);
        self.open().insert(number, Arc::clone(&pulse));
        Listed { connections: Arc::clone(self), number, pulse }
    }
}

/// A place in the list, left when the connection ends.
#[derive(Debug)]
pub(crate) struct Listed {
    connections: Arc<Connections>,
    number: u64,
    pub(crate) pulse: Arc<Pulse>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.connections.open().remove(&self.number);
        self.connections.closed.notify_one();
    }
}

pub(crate) fn http1() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .keep_alive(true)
        // Who shuts down their side after the request still wants the answer.
        .half_close(true)
        .max_buf_size(MAX_BUFFER_BYTES)
        .max_headers(MAX_HEADERS)
        .max_header_size(MAX_HEAD_BYTES);
    builder
}

/// Serves a connection until the client or we end it.
pub(crate) async fn serve(builder: http1::Builder, stream: TcpStream, entry: Entry, listed: Listed) {
    let pulse = Arc::clone(&listed.pulse);
    let lane = Lane::new(stream, &entry);
    let tally = Arc::clone(&entry.tally);
    let mut connection = pin!(builder.serve_connection(lane, entry));
    let mut is_registered = false;
    let mut is_finishing = false;
    poll_fn(|context| {
        // The waker of a spawned task stays the same, so once is enough.
        if !is_registered {
            is_registered = true;
            pulse.waker.register(context.waker());
        }
        loop {
            if let Poll::Ready(ended) = connection.as_mut().poll(context) {
                // What hyper could not even parse, it refused by itself and no handler counted. Any other error
                // concerns this connection only, and its client knows better than we do.
                if ended.is_err_and(|error| error.is_parse()) {
                    tally.count(Outcome::Refused(Code::BadRequest));
                }
                return Poll::Ready(());
            }
            match pulse.command.load(Relaxed) {
                CUT => return Poll::Ready(()),
                // What has come in since the sweep is still answered.
                IDLE if pulse.working.load(Relaxed) == 0 => return Poll::Ready(()),
                // Hyper would take a connection that waits for the lane's own claim for an idle one.
                IDLE | FINISH if !is_finishing && !pulse.deciding.load(Relaxed) => {
                    is_finishing = true;
                    connection.as_mut().graceful_shutdown();
                }
                _ => return Poll::Pending,
            }
        }
    })
    .await;
    drop(listed);
}
