//! One connection, and the list of all connections of a worker, by which slow and idle ones are cut and all are
//! ended. It does not know what is asked for on them.
//!
//! A connection costs nothing while it works: no timer of its own, no channel it has to look at. A sweep of the
//! whole list, every now and then, does what timers would.

use std::{
    collections::HashMap,
    future::{Future as _, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hyper::{rt::Write as _, server::conn::http1};
use tokio::{net::TcpStream, sync::Notify};

use crate::{
    entry::Entry,
    lane::Lane,
    problem::Code,
    pulse::{Command, Pulse},
    tally::{ConnectionEnd, Outcome, Tally},
};

const MAX_BUFFER_BYTES: usize = 64 * 1024;
pub(crate) const MAX_HEADERS: usize = 64;
pub(crate) const MAX_HEAD_BYTES: usize = 16 * 1024;
const _: () = assert!(MAX_HEAD_BYTES <= MAX_BUFFER_BYTES);

const MAX_SWEEP_INTERVAL: Duration = Duration::from_secs(1);
const MIN_SWEEP_INTERVAL: Duration = Duration::from_millis(10);

/// How long we wait for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For a request, from its first byte to its last.
    pub(crate) request: Duration,
    /// For the next request, or for the client to take our answer.
    pub(crate) idle: Duration,
}

impl Patience {
    /// How often to look, so that nobody gets much more time than they should.
    pub(crate) fn sweep_interval(&self) -> Duration {
        (self.request.min(self.idle) / 4).clamp(MIN_SWEEP_INTERVAL, MAX_SWEEP_INTERVAL)
    }
}

/// A connection and what the last sweeps saw of it.
#[derive(Debug)]
struct Watched {
    pulse: Arc<Pulse>,
    beats: u64,
    quiet_since: Instant,
    arrival: Option<u64>,
    arriving_since: Instant,
}

impl Watched {
    fn look(&mut self, patience: Patience, now: Instant) {
        let pulse = &self.pulse;
        if self.beats != pulse.beats() || pulse.is_working() {
            self.beats = pulse.beats();
            self.quiet_since = now;
        } else if now.saturating_duration_since(self.quiet_since) >= patience.idle {
            pulse.tell(Command::Idle);
        }
        if self.arrival != pulse.arrival() {
            self.arrival = pulse.arrival();
            self.arriving_since = now;
        } else if self.arrival.is_some()
            && now.saturating_duration_since(self.arriving_since) >= patience.request
        {
            pulse.give_up_waiting();
        }
    }
}

/// The open connections of a worker.
#[derive(Debug)]
pub(crate) struct Connections {
    open: Mutex<HashMap<u64, Watched>>,
    closed: Notify,
    tally: Arc<Tally>,
}

impl Connections {
    pub(crate) fn new(tally: &Arc<Tally>) -> Arc<Self> {
        Arc::new(Self { open: Mutex::default(), closed: Notify::new(), tally: Arc::clone(tally) })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Watched>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connections with which we have lost patience.
    pub(crate) fn sweep(&self, patience: Patience, now: Instant) {
        self.open().values_mut().for_each(|watched| watched.look(patience, now));
    }

    pub(crate) fn tell_all(&self, command: Command) {
        self.open().values().for_each(|watched| watched.pulse.tell(command));
    }

    /// Waits until all are closed.
    pub(crate) async fn all_closed(&self) {
        while !self.open().is_empty() {
            self.closed.notified().await;
        }
    }

    /// Lists a connection that was accepted.
    pub(crate) fn add(self: &Arc<Self>, number: u64, now: Instant) -> Listed {
        let pulse: Arc<Pulse> = Arc::default();
        let watched = Watched {
            pulse: Arc::clone(&pulse),
            beats: pulse.beats(),
            quiet_since: now,
            arrival: None,
            arriving_since: now,
        };
        self.open().insert(number, watched);
        self.tally.connection_opened();
        Listed { connections: Arc::clone(self), number, pulse }
    }
}

/// A place in the list, left when the connection ends. That is where its end is counted, whatever it was.
#[derive(Debug)]
pub(crate) struct Listed {
    connections: Arc<Connections>,
    number: u64,
    pub(crate) pulse: Arc<Pulse>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.connections.open().remove(&self.number);
        self.connections.tally.connection_ended(self.pulse.end());
        self.connections.closed.notify_one();
    }
}

fn http1() -> http1::Builder {
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

/// How serving a connection came to its end.
enum Served {
    /// All is done that there was to do.
    Done(hyper::Result<()>),
    /// The request did not arrive in time, and nobody has begun to answer it.
    Late,
    Cut,
}

/// What the lane could do without hyper.
enum Alone {
    Served(Served),
    /// A request has come that hyper has to answer.
    NeedsHyper,
}

/// What a connection shall do about what it is told.
enum Obey {
    GoOn,
    /// Answer what is under way, then close.
    Finish,
    End(Served),
}

/// Serves a connection until the client or we end it.
///
/// Hyper comes in with the first request that is not the lane's own: most connections never need it, and those that
/// wait for a sale to open take a sixth of the memory without it.
pub(crate) async fn serve(stream: TcpStream, entry: Entry, listed: Listed) {
    let pulse = Arc::clone(&listed.pulse);
    let tally = Arc::clone(&entry.tally);
    // The waker of a spawned task stays the same, so once is enough.
    poll_fn(|context| {
        pulse.register(context.waker());
        Poll::Ready(())
    })
    .await;
    let mut lane = Lane::new(stream, &entry);
    let mut is_finishing = false;
    let alone = poll_fn(|context| poll_alone(&mut lane, &pulse, &mut is_finishing, context)).await;
    let (served, lane) = match alone {
        Alone::Served(served) => (served, lane),
        Alone::NeedsHyper => {
            let mut connection = Box::new(http1().serve_connection(lane, entry));
            let served =
                poll_fn(|context| poll_served(&mut connection, &pulse, &mut is_finishing, context)).await;
            (served, connection.into_parts().io)
        }
    };
    match served {
        // What hyper could not even parse, it refused by itself and no handler counted. Any other error
        // concerns this connection only, and its client knows better than we do.
        Served::Done(Err(error)) if error.is_parse() => {
            tally.count(Outcome::Refused(Code::BadRequest));
            pulse.end_because(ConnectionEnd::Malformed);
        }
        Served::Done(_) => {}
        Served::Late => {
            tally.count(Outcome::Refused(Code::RequestTimeout));
            lane.refuse_late();
        }
        Served::Cut => lane.abandon(),
    }
    drop(listed);
}

fn poll_alone(
    lane: &mut Lane,
    pulse: &Pulse,
    is_finishing: &mut bool,
    context: &mut Context<'_>,
) -> Poll<Alone> {
    if !*is_finishing {
        match lane.poll_alone(context) {
            Poll::Ready(Ok(true)) => return Poll::Ready(Alone::NeedsHyper),
            Poll::Ready(Ok(false)) => *is_finishing = true,
            Poll::Ready(Err(_)) => return Poll::Ready(Alone::Served(Served::Done(Ok(())))),
            Poll::Pending => {}
        }
    }
    match obey(pulse, is_finishing) {
        Obey::End(served) => return Poll::Ready(Alone::Served(served)),
        Obey::GoOn | Obey::Finish => {}
    }
    if *is_finishing {
        // Whether or not the client sees it: there is nothing more to say.
        return Pin::new(lane).poll_shutdown(context).map(|_| Alone::Served(Served::Done(Ok(()))));
    }
    Poll::Pending
}

fn poll_served(
    connection: &mut http1::Connection<Lane, Entry>,
    pulse: &Pulse,
    is_finishing: &mut bool,
    context: &mut Context<'_>,
) -> Poll<Served> {
    loop {
        if let Poll::Ready(ended) = Pin::new(&mut *connection).poll(context) {
            return Poll::Ready(Served::Done(ended));
        }
        match obey(pulse, is_finishing) {
            Obey::GoOn => return Poll::Pending,
            Obey::Finish => Pin::new(&mut *connection).graceful_shutdown(),
            Obey::End(served) => return Poll::Ready(served),
        }
    }
}

/// Looks what the connection is told. `Finish` comes once.
fn obey(pulse: &Pulse, is_finishing: &mut bool) -> Obey {
    // If a handler waits for the rest, it has just learnt of it and says so itself.
    if pulse.is_late() && !pulse.is_handling() {
        pulse.end_because(ConnectionEnd::Slow);
        return Obey::End(Served::Late);
    }
    match pulse.command() {
        Command::Cut => {
            pulse.end_because(ConnectionEnd::Cut);
            Obey::End(Served::Cut)
        }
        // What has come in since the sweep is still answered.
        Command::Idle if !pulse.is_working() => {
            pulse.end_because(ConnectionEnd::Idle);
            Obey::End(Served::Cut)
        }
        // Hyper would take a connection that waits for the lane's own claim for an idle one.
        command @ (Command::Idle | Command::Finish) if !*is_finishing && !pulse.is_deciding() => {
            *is_finishing = true;
            pulse.end_because(match command {
                Command::Idle => ConnectionEnd::Idle,
                _ => ConnectionEnd::Drained,
            });
            Obey::Finish
        }
        _ => Obey::GoOn,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    const PATIENCE: Patience = Patience { request: Duration::from_secs(10), idle: Duration::from_secs(75) };

    fn connections() -> (Arc<Tally>, Arc<Connections>) {
        let tally = Arc::new(Tally::of_worker(0, 1));
        let connections = Connections::new(&tally);
        (tally, connections)
    }

    /// Sweeps every second for so long; `live` is what the connection does in each.
    fn sweep(connections: &Connections, begin: Instant, seconds: u64, mut live: impl FnMut()) -> Instant {
        for second in 1..=seconds {
            live();
            connections.sweep(PATIENCE, begin + Duration::from_secs(second));
        }
        begin + Duration::from_secs(seconds)
    }

    #[test]
    fn who_does_nothing_is_idle_after_a_while() {
        let (_, connections) = connections();
        let begin = Instant::now();
        let listed = connections.add(1, begin);
        let now = sweep(&connections, begin, 74, || {});
        assert_eq!(listed.pulse.command(), Command::GoOn);
        sweep(&connections, now, 1, || {});
        assert_eq!(listed.pulse.command(), Command::Idle);
    }

    #[test]
    fn who_works_or_speaks_is_not_idle() {
        let (_, connections) = connections();
        let begin = Instant::now();
        let (speaking, working) = (connections.add(1, begin), connections.add(2, begin));
        let _work = working.pulse.working();
        sweep(&connections, begin, 200, || speaking.pulse.beat());
        assert_eq!((speaking.pulse.command(), working.pulse.command()), (Command::GoOn, Command::GoOn));
    }

    #[test]
    fn a_request_that_comes_bit_by_bit_is_late() {
        let (_, connections) = connections();
        let begin = Instant::now();
        let listed = connections.add(1, begin);
        let now = sweep(&connections, begin, 10, || listed.pulse.arriving());
        assert!(!listed.pulse.is_late());
        sweep(&connections, now, 1, || listed.pulse.arriving());
        assert!(listed.pulse.is_late());
        assert_eq!(listed.pulse.command(), Command::GoOn);
    }

    #[test]
    fn one_request_after_the_other_is_not_late() {
        let (_, connections) = connections();
        let begin = Instant::now();
        let listed = connections.add(1, begin);
        sweep(&connections, begin, 60, || {
            listed.pulse.arrived();
            listed.pulse.arriving();
        });
        assert!(!listed.pulse.is_late());
    }

    #[test]
    fn every_connection_is_counted_when_it_opens_and_when_it_ends() {
        let (tally, connections) = connections();
        let ended = |end: ConnectionEnd| tally.connection_ends[end as usize].load(Relaxed);
        let listed: Vec<_> = (0..3).map(|number| connections.add(number, Instant::now())).collect();
        assert_eq!(tally.connections_opened.load(Relaxed), 3);
        listed[1].pulse.end_because(ConnectionEnd::Slow);
        drop(listed);
        assert_eq!((ended(ConnectionEnd::Client), ended(ConnectionEnd::Slow)), (2, 1));
        assert!(connections.open().is_empty());
    }

    #[test]
    fn sweeps_are_as_frequent_as_the_shortest_patience_asks() {
        let interval = |request: u64, idle: u64| {
            let patience =
                Patience { request: Duration::from_millis(request), idle: Duration::from_millis(idle) };
            patience.sweep_interval().as_millis()
        };
        assert_eq!(interval(10_000, 75_000), 1_000);
        assert_eq!(interval(300, 75_000), 75);
        assert_eq!(interval(10_000, 200), 50);
        assert_eq!(interval(0, 0), 10);
    }
}
