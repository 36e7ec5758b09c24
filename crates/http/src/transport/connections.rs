//! The open connections of a worker. This list serves to cut slow and idle ones, to bound the memory for
//! unread answers, to make room for newcomers, and to end them all. It does not know what is requested on
//! them.
//!
//! A connection costs nothing while it works: it has no timer of its own and no channel to check. Instead, a
//! regular sweep of the whole list does what timers would.

mod stalls;
mod waiting;

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use penstock_shop::tally::Tally;
use tokio::sync::Notify;

use self::stalls::{MIN_STALLED, Stalls};
use crate::transport::pulse::{ConnectionCommand, Pulse};

const MAX_SWEEP_INTERVAL: Duration = Duration::from_secs(1);
const MIN_SWEEP_INTERVAL: Duration = Duration::from_millis(10);
/// A connection that has been quiet for less may just be about to send its request.
const MIN_QUIET: Duration = Duration::from_secs(1);
/// The most connections found by one walk through the list, so that a crowd of newcomers needs few walks.
const FOUND_AT_ONCE: usize = 1_024;
/// How often a task that wants to answer yields to the others while the memory for unread answers is full.
pub(crate) const MAX_WAITS: u32 = 64;

/// How long the server waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For a request, from its first byte to its last.
    pub(crate) request: Duration,
    /// For the next request, or for the client to read some of the answer.
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
    /// Since when nothing has happened on the connection.
    fn quiet_since(&mut self, now: Instant) -> Instant {
        let beats = self.pulse.beats();
        if self.beats != beats || self.pulse.is_working() {
            self.beats = beats;
            self.quiet_since = now;
        }
        self.quiet_since
    }

    /// Why the connection is dispensable, and since when; None if it is not.
    fn dispensable(&mut self, now: Instant) -> Option<(Dispensable, Instant)> {
        let quiet_since = self.quiet_since(now);
        let pulse = &self.pulse;
        let (why, since) = if pulse.is_idle() {
            (Dispensable::Idle, quiet_since)
        } else if pulse.command() != ConnectionCommand::GoOn || pulse.is_deciding() {
            return None;
        } else if pulse.unread_bytes() > 0 {
            (Dispensable::Stalled, quiet_since)
        } else if self.arrival.is_some() && self.arrival == pulse.arrival() {
            (Dispensable::Arriving, self.arriving_since)
        } else {
            return None;
        };
        let min_quiet = if why == Dispensable::Stalled { MIN_STALLED } else { MIN_QUIET };
        (now.saturating_duration_since(since) >= min_quiet).then_some((why, since))
    }

    /// Ends the connection, so that others can have its place or its memory.
    fn displace(&self, why: Dispensable) {
        match why {
            Dispensable::Idle => self.pulse.tell(ConnectionCommand::Displaced),
            Dispensable::Arriving => self.pulse.give_up_waiting(),
            Dispensable::Stalled => self.pulse.tell(ConnectionCommand::Unread),
        }
    }

    fn look(&mut self, patience: Patience, now: Instant) {
        if now.saturating_duration_since(self.quiet_since(now)) >= patience.idle {
            let is_stalled = self.pulse.unread_bytes() > 0;
            self.pulse.tell(if is_stalled { ConnectionCommand::Unread } else { ConnectionCommand::Idle });
        }
        let pulse = &self.pulse;
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

/// Why a connection is dispensable. Those that are least likely to be missed come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Dispensable {
    /// Nothing is under way.
    Idle,
    /// A request has begun and makes no progress.
    Arriving,
    /// The client does not read its answers.
    Stalled,
}

/// The list itself.
#[derive(Debug, Default)]
struct Open {
    watched: HashMap<u64, Watched>,
    /// The dispensable connections that the last walk through the list found, in the order in which they go,
    /// each with its beats at that time. While one still has the same beats, all connections that are not
    /// listed here became dispensable later.
    dispensable: VecDeque<(Dispensable, u64, u64)>,
    stalls: Stalls,
}

impl Open {
    /// Ends the connection that is easiest to do without.
    fn displace(&mut self, now: Instant) {
        if self.dispensable.is_empty() {
            self.find_dispensable(now);
        }
        while let Some((why, number, beats)) = self.dispensable.pop_front() {
            let Some(watched) = self.watched.get_mut(&number) else { continue };
            let is_still = watched.dispensable(now).is_some_and(|(still, _)| still == why);
            if is_still && watched.beats == beats {
                return watched.displace(why);
            }
        }
    }

    fn find_dispensable(&mut self, now: Instant) {
        let mut found: Vec<(Dispensable, Instant, u64, u64)> = Vec::new();
        for (number, watched) in &mut self.watched {
            if let Some((why, since)) = watched.dispensable(now) {
                found.push((why, since, *number, watched.beats));
            }
        }
        if found.len() > FOUND_AT_ONCE {
            found.select_nth_unstable(FOUND_AT_ONCE);
            found.truncate(FOUND_AT_ONCE);
        }
        found.sort_unstable();
        self.dispensable = found.into_iter().map(|(why, _, number, beats)| (why, number, beats)).collect();
    }
}

/// The open connections of a worker.
#[derive(Debug)]
pub(crate) struct Connections {
    open: Mutex<Open>,
    closed: Notify,
    tally: Arc<Tally>,
    /// Of all workers, because they share the memory for unread answers.
    tallies: Vec<Arc<Tally>>,
    max_unread_bytes: usize,
    /// This worker's share of it.
    share_bytes: usize,
    /// The memory of connections that were given up but have not noticed yet.
    leaving_bytes: AtomicUsize,
}

impl Connections {
    /// The list of the worker with this number.
    pub(crate) fn new(tallies: &[Arc<Tally>], worker: usize, max_unread_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            open: Mutex::default(),
            closed: Notify::new(),
            tally: Arc::clone(&tallies[worker]),
            tallies: tallies.to_vec(),
            max_unread_bytes,
            share_bytes: max_unread_bytes / tallies.len(),
            leaving_bytes: AtomicUsize::new(0),
        })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connections that were too slow or idle for too long.
    pub(crate) fn sweep(&self, patience: Patience, now: Instant) {
        let mut open = self.open();
        open.stalls.note(self.tally.stalls.load(Relaxed), now);
        open.watched.values_mut().for_each(|watched| watched.look(patience, now));
        open.bound_waiting(self.share_bytes);
        drop(open);
        self.make_room();
    }

    pub(crate) fn tell_all(&self, command: ConnectionCommand) {
        self.open().watched.values().for_each(|watched| watched.pulse.tell(command));
    }

    /// Waits until all are closed.
    pub(crate) async fn all_closed(&self) {
        while !self.open().watched.is_empty() {
            self.closed.notified().await;
        }
    }

    /// Adds an accepted connection to the list.
    pub(crate) fn add(self: &Arc<Self>, number: u64, now: Instant) -> Listed {
        let pulse: Arc<Pulse> = Arc::default();
        let watched = Watched {
            pulse: Arc::clone(&pulse),
            beats: pulse.beats(),
            quiet_since: now,
            arrival: None,
            arriving_since: now,
        };
        self.open().watched.insert(number, watched);
        self.tally.connection_opened();
        Listed { connections: Arc::clone(self), number, pulse }
    }

    /// Ends the connection that is easiest to do without, so that a newcomer can have its place: the one that
    /// has been idle longest, else one whose request makes no progress, else one whose client does not read.
    /// A connection on which work is being done keeps its place.
    pub(crate) fn displace(&self, now: Instant) {
        self.open().displace(now);
    }

    /// The client of a connection does not read what is written to it, and this takes `bytes` of memory.
    /// `has_taken` says that the client has read some since the last call.
    pub(crate) fn stalled(&self, pulse: &Pulse, bytes: usize, has_taken: bool) {
        if pulse.is_leaving() {
            return;
        }
        if has_taken {
            pulse.stall(self.tally.stalls.fetch_add(1, Relaxed) + 1);
        }
        self.tally.unread_bytes.fetch_add(bytes, Relaxed);
        self.tally.unread_bytes.fetch_sub(pulse.hold_unread(bytes), Relaxed);
        self.make_room();
    }

    /// The client has read everything, or is gone.
    pub(crate) fn taken(&self, pulse: &Pulse) {
        let bytes = pulse.hold_unread(0);
        self.tally.unread_bytes.fetch_sub(bytes, Relaxed);
        if pulse.is_leaving() {
            self.leaving_bytes.fetch_sub(bytes, Relaxed);
        }
    }

    /// Whether unread answers take all the memory they may. Then connections that were given up have to go
    /// before others are answered.
    pub(crate) fn is_full(&self) -> bool {
        self.tally.unread_bytes.load(Relaxed) > self.share_bytes && self.is_over(self.max_unread_bytes, 0)
    }

    /// Whether unread answers, less the bytes in `without`, take more than all workers may and more than this
    /// worker's share. If all together take too much, at least one worker exceeds its share.
    fn is_over(&self, max: usize, without: usize) -> bool {
        let bytes = |tally: &Tally| tally.unread_bytes.load(Relaxed);
        bytes(&self.tally) > max / self.tallies.len() + without
            && self.tallies.iter().map(|tally| bytes(tally)).sum::<usize>() > max + without
    }

    /// If unread answers take more memory than they may, ends connections until there is room.
    fn make_room(&self) {
        if !self.is_over(self.max_unread_bytes, self.leaving_bytes.load(Relaxed)) {
            return;
        }
        let open = self.open();
        let pulses = open.watched.values().map(|watched| &watched.pulse);
        let mut stalled: Vec<_> =
            pulses.filter(|pulse| pulse.unread_bytes() > 0 && !pulse.is_leaving()).collect();
        stalled.sort_unstable_by_key(|pulse| open.stalls.order_of_leaving(pulse));
        // Frees more than necessary, so that the list is not walked through for each unread answer.
        let enough = self.max_unread_bytes / 4 * 3;
        for pulse in stalled {
            if !self.is_over(enough, self.leaving_bytes.load(Relaxed)) {
                break;
            }
            self.leaving_bytes.fetch_add(pulse.leave(), Relaxed);
            pulse.tell(ConnectionCommand::Unread);
        }
    }
}

/// A place in the list, which is left when the connection ends. The end is counted there, whatever caused it.
#[derive(Debug)]
pub(crate) struct Listed {
    connections: Arc<Connections>,
    number: u64,
    pub(crate) pulse: Arc<Pulse>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.connections.taken(&self.pulse);
        self.connections.open().watched.remove(&self.number);
        self.connections.tally.connection_ended(self.pulse.end());
        self.connections.closed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_shop::tally::ConnectionEnd;

    pub(super) const PATIENCE: Patience =
        Patience { request: Duration::from_secs(10), idle: Duration::from_secs(75) };

    pub(super) fn connections() -> (Arc<Tally>, Arc<Connections>) {
        let tally = Arc::new(Tally::of_worker(0, 1));
        let connections = Connections::new(&[Arc::clone(&tally)], 0, 1_000);
        (tally, connections)
    }

    /// Sweeps every second for `seconds`; `live` is what the connection does in each.
    pub(super) fn sweep(
        connections: &Connections,
        begin: Instant,
        seconds: u64,
        mut live: impl FnMut(),
    ) -> Instant {
        for second in 1..=seconds {
            live();
            connections.sweep(PATIENCE, begin + Duration::from_secs(second));
        }
        begin + Duration::from_secs(seconds)
    }

    #[test]
    fn a_connection_without_traffic_becomes_idle() {
        let (_, connections) = connections();
        let begin = Instant::now();
        let listed = connections.add(1, begin);
        let now = sweep(&connections, begin, 74, || {});
        assert_eq!(listed.pulse.command(), ConnectionCommand::GoOn);
        sweep(&connections, now, 1, || {});
        assert_eq!(listed.pulse.command(), ConnectionCommand::Idle);
    }

    #[test]
    fn a_connection_that_works_or_speaks_is_not_idle() {
        let (_, connections) = connections();
        let begin = Instant::now();
        let (speaking, working) = (connections.add(1, begin), connections.add(2, begin));
        let _work = working.pulse.working();
        sweep(&connections, begin, 200, || speaking.pulse.beat());
        assert_eq!(
            (speaking.pulse.command(), working.pulse.command()),
            (ConnectionCommand::GoOn, ConnectionCommand::GoOn)
        );
    }

    #[test]
    fn a_request_that_arrives_bit_by_bit_is_late() {
        let (_, connections) = connections();
        let begin = Instant::now();
        let listed = connections.add(1, begin);
        let now = sweep(&connections, begin, 10, || listed.pulse.arriving());
        assert!(!listed.pulse.is_late());
        sweep(&connections, now, 1, || listed.pulse.arriving());
        assert!(listed.pulse.is_late());
        assert_eq!(listed.pulse.command(), ConnectionCommand::GoOn);
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
        assert!(connections.open().watched.is_empty());
    }

    #[test]
    fn sweeps_are_frequent_enough_for_the_shortest_patience() {
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

    pub(super) fn commands(listed: &[Listed]) -> Vec<ConnectionCommand> {
        listed.iter().map(|listed| listed.pulse.command()).collect()
    }

    #[test]
    fn a_newcomer_takes_the_place_of_the_connection_that_was_idle_for_longest() {
        let (_, connections) = connections();
        let begin = Instant::now();
        let later = |seconds| begin + Duration::from_secs(seconds);
        let listed: Vec<_> = (0..3).map(|number| connections.add(number, later(number))).collect();
        connections.displace(begin);
        assert_eq!(commands(&listed), [ConnectionCommand::GoOn; 3], "nobody has been idle for long");
        listed[0].pulse.beat();
        connections.displace(later(10));
        assert_eq!(
            commands(&listed),
            [ConnectionCommand::GoOn, ConnectionCommand::Displaced, ConnectionCommand::GoOn]
        );
        connections.displace(later(10));
        assert_eq!(
            commands(&listed),
            [ConnectionCommand::GoOn, ConnectionCommand::Displaced, ConnectionCommand::Displaced]
        );
        connections.displace(later(20));
        assert_eq!(commands(&listed), [ConnectionCommand::Displaced; 3]);
    }

    #[test]
    fn idle_connections_go_first_then_stuck_ones_and_never_one_that_is_being_answered() {
        let (_, connections) = connections();
        let begin = Instant::now();
        let listed: Vec<_> = (0..5).map(|number| connections.add(number, begin)).collect();
        let pulse = |number: usize| &listed[number].pulse;
        let _work = pulse(0).working();
        pulse(1).arriving();
        pulse(2).call();
        connections.stalled(pulse(3), 10, true);
        let now = sweep(&connections, begin, 9, || {});
        let mut expected = [ConnectionCommand::GoOn; 5];
        connections.displace(now);
        expected[4] = ConnectionCommand::Displaced;
        assert_eq!((commands(&listed), pulse(1).is_late()), (expected.to_vec(), false));
        connections.displace(now);
        assert_eq!((commands(&listed), pulse(1).is_late()), (expected.to_vec(), true));
        connections.displace(now);
        expected[3] = ConnectionCommand::Unread;
        assert_eq!(commands(&listed), expected);
        (0..3).for_each(|_| connections.displace(now));
        assert_eq!(commands(&listed), expected);
    }

    #[test]
    fn a_connection_that_spoke_since_it_was_found_idle_keeps_its_place() {
        let (_, connections) = connections();
        let begin = Instant::now();
        let listed: Vec<_> = (0..3).map(|number| connections.add(number, begin)).collect();
        let now = begin + Duration::from_secs(5);
        connections.displace(now);
        listed[1].pulse.beat();
        connections.displace(now);
        assert_eq!(
            commands(&listed),
            [ConnectionCommand::Displaced, ConnectionCommand::GoOn, ConnectionCommand::Displaced]
        );
    }

    #[test]
    fn clients_that_have_read_nothing_for_longest_go_first_when_unread_answers_fill_their_memory() {
        let (tally, connections) = connections();
        let listed: Vec<_> = (0..4).map(|number| connections.add(number, Instant::now())).collect();
        let stall = |number: usize, has_taken| connections.stalled(&listed[number].pulse, 300, has_taken);
        let begin = Instant::now();
        (0..3).for_each(|number| stall(number, true));
        sweep(&connections, begin, 10, || {});
        stall(1, false);
        stall(0, true);
        assert_eq!(commands(&listed), [ConnectionCommand::GoOn; 4]);
        assert_eq!(tally.unread_bytes.load(Relaxed), 900);
        stall(3, true);
        // 1,200 bytes are too many, and 750 are enough.
        assert_eq!(
            commands(&listed),
            [
                ConnectionCommand::GoOn,
                ConnectionCommand::Unread,
                ConnectionCommand::Unread,
                ConnectionCommand::GoOn
            ]
        );
        assert!(connections.is_full(), "until they are gone");
        stall(1, true);
        assert_eq!(tally.unread_bytes.load(Relaxed), 1_200, "a connection given up counts only once");
        let [first, second, third, last]: [Listed; 4] = listed.try_into().unwrap();
        drop((second, third));
        assert_eq!(tally.unread_bytes.load(Relaxed), 600);
        assert!(!connections.is_full());
        drop((first, last));
        assert_eq!(tally.unread_bytes.load(Relaxed), 0);
        assert_eq!(connections.leaving_bytes.load(Relaxed), 0);
    }

    #[test]
    fn a_slow_reader_keeps_its_place_however_many_clients_come_that_do_not_read() {
        let (_, connections) = connections();
        let slow = connections.add(0, Instant::now());
        let begin = Instant::now();
        connections.stalled(&slow.pulse, 300, true);
        for number in 1..100 {
            let greedy = connections.add(number, Instant::now());
            connections.stalled(&greedy.pulse, 300, true);
            let other = connections.add(1_000 + number, Instant::now());
            connections.stalled(&other.pulse, 500, true);
            assert_eq!(
                (slow.pulse.command(), other.pulse.command()),
                (ConnectionCommand::GoOn, ConnectionCommand::Unread)
            );
            drop((greedy, other));
        }
        connections.stalled(&slow.pulse, 300, true);
        sweep(&connections, begin, 10, || {});
        let greedy = connections.add(1, Instant::now());
        connections.stalled(&greedy.pulse, 800, true);
        assert_eq!(
            (slow.pulse.command(), greedy.pulse.command()),
            (ConnectionCommand::GoOn, ConnectionCommand::Unread)
        );
    }

    #[test]
    fn a_worker_within_its_share_gives_up_no_connection_for_another_worker() {
        let tallies: Vec<_> = (0..2).map(|worker| Arc::new(Tally::of_worker(worker, 2))).collect();
        let workers = [0, 1].map(|worker| Connections::new(&tallies, worker, 1_000));
        let (modest, greedy) = (workers[0].add(1, Instant::now()), workers[1].add(1, Instant::now()));
        workers[1].stalled(&greedy.pulse, 900, true);
        workers[0].stalled(&modest.pulse, 200, true);
        assert_eq!(
            (modest.pulse.command(), greedy.pulse.command()),
            (ConnectionCommand::GoOn, ConnectionCommand::GoOn)
        );
        workers[1].sweep(PATIENCE, Instant::now());
        assert_eq!(
            (modest.pulse.command(), greedy.pulse.command()),
            (ConnectionCommand::GoOn, ConnectionCommand::Unread)
        );
    }

    #[test]
    fn a_client_that_reads_nothing_for_too_long_is_distinguished_from_an_idle_one() {
        let (_, connections) = connections();
        let begin = Instant::now();
        let listed = connections.add(1, begin);
        connections.stalled(&listed.pulse, 10, true);
        sweep(&connections, begin, 76, || {});
        assert_eq!(listed.pulse.command(), ConnectionCommand::Unread);
    }
}
