//! Connections that send one byte a second of a valid request and never finish it, like an attacker who wants
//! to tie up a server's connections. Connections that the server cuts are opened again.

use std::{
    io::{self, Read, Write},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow};
use mio::{Events, Interest, Poll, Token, net::TcpStream};

use super::worker::stay_on;

#[derive(Clone, Debug)]
pub struct SlowOptions {
    pub address: SocketAddr,
    pub connections: usize,
    /// Sent one byte a second; its last byte is never sent.
    pub request: Vec<u8>,
    /// The core that the swarm's thread stays on.
    pub core: Option<usize>,
    /// The most connections opened over the swarm's life, the first ones included.
    pub max_opened: u64,
}

/// The counts of a swarm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowTally {
    pub opened: u64,
    /// Connections that were open at the end.
    pub open: u64,
    pub bytes_sent: u64,
    /// Connections that the server answered before it closed them.
    pub answered: u64,
    /// Connections that the server closed, answered ones included.
    pub closed: u64,
    /// Connections that the server broke off.
    pub resets: u64,
    /// Connections that could not be opened.
    pub failed: u64,
}

/// Slow connections, until they are stopped.
#[derive(Debug)]
pub struct SlowSwarm {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<SlowTally>>,
}

impl SlowSwarm {
    pub fn start(options: SlowOptions) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (poll, seen) = (Poll::new().context("cannot create a poll")?, Arc::clone(&stop));
        let thread = thread::Builder::new().name("slow-swarm".to_owned()).spawn(move || {
            if let Some(core) = options.core {
                stay_on(core)?;
            }
            Swarm::new(options, poll).live(&seen)
        })?;
        Ok(Self { stop, thread })
    }

    pub fn stop(self) -> anyhow::Result<SlowTally> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the swarm's thread panicked"))?
    }
}

const TICK: Duration = Duration::from_millis(10);
/// The number of steps in a round over all connections, which takes a second.
const STEPS: usize = 100;
/// The most connections opened in one step: a listener's queue is limited.
const OPENED_PER_STEP: usize = 64;
const EVENTS: usize = 1024;

#[derive(Debug)]
struct SlowConnection {
    stream: TcpStream,
    sent: usize,
    is_answered: bool,
}

struct Swarm {
    options: SlowOptions,
    poll: Poll,
    connections: Vec<Option<SlowConnection>>,
    tally: SlowTally,
}

impl Swarm {
    fn new(options: SlowOptions, poll: Poll) -> Self {
        let connections = std::iter::repeat_with(|| None).take(options.connections).collect();
        Self { options, poll, connections, tally: SlowTally::default() }
    }

    fn live(mut self, stop: &AtomicBool) -> anyhow::Result<SlowTally> {
        let mut events = Events::with_capacity(EVENTS);
        let started_at = Instant::now();
        let mut step: usize = 0;
        while !stop.load(Ordering::Relaxed) {
            let due_at = started_at + TICK * u32::try_from(step).unwrap_or(u32::MAX);
            let wait = due_at.saturating_duration_since(Instant::now());
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
            for event in &events {
                self.look(event.token().0);
            }
            if Instant::now() >= due_at {
                self.open_some();
                self.send_a_byte(step % STEPS);
                step += 1;
            }
        }
        self.tally.open = self.connections.iter().flatten().count() as u64;
        Ok(self.tally)
    }

    fn open_some(&mut self) {
        let missing = self.connections.iter().enumerate().filter(|(_, slow)| slow.is_none());
        let missing: Vec<usize> = missing.map(|(index, _)| index).take(OPENED_PER_STEP).collect();
        for index in missing {
            if self.tally.opened >= self.options.max_opened {
                return;
            }
            self.tally.opened += 1;
            match self.open(index) {
                Ok(slow) => self.connections[index] = Some(slow),
                Err(_) => self.tally.failed += 1,
            }
        }
    }

    fn open(&self, index: usize) -> io::Result<SlowConnection> {
        let mut stream = TcpStream::connect(self.options.address)?;
        stream.set_nodelay(true)?;
        self.poll.registry().register(&mut stream, Token(index), Interest::READABLE)?;
        Ok(SlowConnection { stream, sent: 0, is_answered: false })
    }

    /// Sends a byte on each connection of this step.
    fn send_a_byte(&mut self, step: usize) {
        let last = self.options.request.len().saturating_sub(1);
        for index in (step..self.connections.len()).step_by(STEPS) {
            let Some(slow) = &mut self.connections[index] else { continue };
            let Some(byte) = self.options.request.get(slow.sent..=slow.sent).filter(|_| slow.sent < last)
            else {
                continue;
            };
            match slow.stream.write(byte) {
                Ok(written) => {
                    slow.sent += written;
                    self.tally.bytes_sent += written as u64;
                }
                // Not connected yet, or no room: try again in a second.
                Err(error) if is_passing(&error) => {}
                Err(error) => self.lose(index, &error),
            }
        }
    }

    /// Reads what the server sent; usually the end.
    fn look(&mut self, index: usize) {
        let mut scratch = [0; 4096];
        loop {
            let Some(slow) = self.connections.get_mut(index).and_then(Option::as_mut) else { return };
            match slow.stream.read(&mut scratch) {
                Ok(0) => {
                    self.tally.closed += 1;
                    self.tally.answered += u64::from(slow.is_answered);
                    self.connections[index] = None;
                }
                Ok(_) => slow.is_answered = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_passing(&error) => return,
                Err(error) => self.lose(index, &error),
            }
        }
    }

    fn lose(&mut self, index: usize, error: &io::Error) {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => self.tally.resets += 1,
            _ => self.tally.failed += 1,
        }
        self.connections[index] = None;
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected)
}
