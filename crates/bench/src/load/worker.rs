//! The generator's thread: an epoll loop over its connections.

use std::{
    collections::VecDeque,
    io,
    time::{Duration, Instant},
};

use anyhow::Context;
use mio::{Events, Poll, Token};
use penstock_rush::connection::{Connection, LostConnection};

use super::{
    AnswerTally, ArrivalCounts, DRAIN_LIMIT, LoadOptions, LoadOutcome, LoadScript, MAX_ERRORS, Phase,
    SharedPhase,
    schedule::{OpenSchedule, count_sent},
    tally::Took,
};

const EVENTS: usize = 1024;
const SCRATCH_BYTES: usize = 16 * 1024;
/// How late a thread may notice a change of phase when no answer comes.
const POLL_LIMIT: Duration = Duration::from_millis(20);
/// The resolution of the kernel's wait; shorter waits are spun.
const POLL_STEP: Duration = Duration::from_millis(1);
/// The most answers read before the loop checks whether requests are due.
const EVENTS_AT_ONCE: usize = 32;

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug)]
struct RequestUnderWay {
    number: u64,
    /// When it should have been sent; in a closed loop, when it was sent.
    due_at: Instant,
    sent_at: Instant,
}

/// Counted separately for the measured time and the rest.
#[derive(Default)]
struct PhaseCounts {
    tally: AnswerTally,
    arrivals: ArrivalCounts,
}

struct LoadWorker<'a, S> {
    options: &'a LoadOptions,
    phase: &'a SharedPhase,
    poll: Poll,
    connections: Vec<Option<Connection<RequestUnderWay>>>,
    /// In an open loop: connections without a request, the longest rested first.
    free: VecDeque<usize>,
    /// `None` in a closed loop.
    schedule: Option<OpenSchedule>,
    script: S,
    dry: bool,
    /// Warm-up and draining; `measured` has the time between them.
    unmeasured: PhaseCounts,
    measured: PhaseCounts,
    under_way: usize,
    errors: u64,
    last_answer_at: Instant,
}

/// Also returns when the last answer came, if the script had no more requests before the time was up.
pub(super) fn run<S: LoadScript>(
    options: &LoadOptions,
    script: S,
    phase: &SharedPhase,
) -> anyhow::Result<(LoadOutcome<S>, Option<Instant>)> {
    if let Some(core) = options.core {
        stay_on(core)?;
    }
    let mut worker = LoadWorker {
        options,
        phase,
        poll: Poll::new().context("cannot create a poll")?,
        connections: Vec::new(),
        free: VecDeque::new(),
        schedule: None,
        script,
        dry: false,
        unmeasured: PhaseCounts::default(),
        measured: PhaseCounts::default(),
        under_way: 0,
        errors: 0,
        last_answer_at: Instant::now(),
    };
    worker.connect()?;
    worker.begin();
    worker.serve()?;
    Ok(worker.done())
}

/// The highest priority.
const FIRST: i32 = -20;

/// Keeps the calling thread on one core, ahead of all others there if that is allowed: a thread that sends
/// late because of its neighbours would measure those.
pub(super) fn stay_on(core: usize) -> anyhow::Result<()> {
    let _ = rustix::process::setpriority_process(None, FIRST);
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set).with_context(|| format!("cannot stay on core {core}"))
}

impl<S: LoadScript> LoadWorker<'_, S> {
    fn connect(&mut self) -> anyhow::Result<()> {
        for index in 0..self.options.connections {
            let connection = Connection::open(self.options.address, self.poll.registry(), Token(index))
                .with_context(|| format!("cannot connect to {}", self.options.address))?;
            self.connections.push(Some(connection));
        }
        Ok(())
    }

    fn begin(&mut self) {
        let now = Instant::now();
        self.schedule = self.options.open_loop.map(|open| OpenSchedule::new(open, now));
        for index in 0..self.connections.len() {
            self.rest(index, now);
        }
    }

    fn serve(&mut self) -> anyhow::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        let mut scratch = vec![0; SCRATCH_BYTES];
        let mut draining_since = None;
        self.arrive();
        while !self.is_done() {
            match self.poll.poll(&mut events, Some(self.patience())) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
            for (count, event) in events.iter().enumerate() {
                self.receive(event.token().0, &mut scratch);
                if count % EVENTS_AT_ONCE == EVENTS_AT_ONCE - 1 {
                    self.arrive();
                }
            }
            self.arrive();
            if self.phase.get() == Phase::Draining {
                let since = *draining_since.get_or_insert_with(Instant::now);
                if since.elapsed() > DRAIN_LIMIT {
                    self.give_up();
                    break;
                }
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        let has_more = self.schedule.is_some() && !self.has_ended();
        (self.under_way == 0 && !has_more) || self.errors > MAX_ERRORS
    }

    /// How long the poll may wait for answers.
    fn patience(&self) -> Duration {
        let Some(schedule) = &self.schedule else { return POLL_LIMIT };
        let until_next = schedule.until_next(Instant::now());
        if until_next < POLL_STEP {
            Duration::ZERO
        } else {
            (until_next - POLL_STEP).clamp(POLL_STEP, POLL_LIMIT)
        }
    }

    /// Sends what is due on free connections; the rest stands in line.
    fn arrive(&mut self) {
        let now = Instant::now();
        let has_ended = self.has_ended();
        loop {
            let counts = current(self.phase, &mut self.measured, &mut self.unmeasured);
            let Some(schedule) = &mut self.schedule else { return };
            if has_ended {
                schedule.end(&mut counts.arrivals);
                return;
            }
            let Some(due_at) = schedule.arrive(now, &mut counts.arrivals) else { return };
            match next_free(&mut self.free, &self.connections) {
                Some(index) => self.send(index, due_at, now),
                None => schedule.wait(due_at, &mut counts.arrivals),
            }
        }
    }

    /// The connection has no request under way: it sends the next one, or waits.
    fn rest(&mut self, index: usize, now: Instant) {
        let Some(schedule) = &mut self.schedule else { return self.send(index, now, now) };
        match schedule.next_waiting() {
            Some(due_at) => self.send(index, due_at, now),
            None => self.free.push_back(index),
        }
    }

    fn receive(&mut self, index: usize, scratch: &mut [u8]) {
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else { return };
        let was_under_way = connection.under_way.is_some();
        let script = &mut self.script;
        let part = current(self.phase, &mut self.measured, &mut self.unmeasured);
        let mut answered_at = None;
        let received = connection.receive(scratch, |request, answer| {
            let now = Instant::now();
            let since = |at| now.saturating_duration_since(at);
            let took = Took { since_due: since(request.due_at), since_sent: since(request.sent_at) };
            part.tally.count(answer, took);
            script.answered(request.number, answer);
            answered_at = Some(now);
        });
        if let Some(now) = answered_at {
            self.under_way -= 1;
            self.last_answer_at = now;
        }
        match (received, answered_at) {
            (Ok(Some(())), Some(now)) => self.rest(index, now),
            (Ok(_), _) => {}
            // The server announced that it closes after this answer, which is its right.
            (Err(_), Some(now)) => self.reopen(index, now, true),
            (Err(lost), None) => {
                if was_under_way {
                    self.under_way -= 1;
                }
                self.lose(lost, was_under_way);
                self.reopen(index, Instant::now(), was_under_way);
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.dry || self.phase.get() == Phase::Draining
    }

    fn send(&mut self, index: usize, due_at: Instant, now: Instant) {
        let is_open = self.schedule.is_some();
        let counts = &mut current(self.phase, &mut self.measured, &mut self.unmeasured).arrivals;
        let connection = self.connections.get_mut(index).and_then(Option::as_mut);
        let next = match connection {
            Some(connection) if !self.dry && self.phase.get() != Phase::Draining => {
                let next = self.script.next_request();
                self.dry = next.is_none();
                next.map(|next| (connection, next))
            }
            _ => None,
        };
        let Some((connection, (number, request))) = next else {
            counts.not_sent += u64::from(is_open);
            return;
        };
        if is_open {
            count_sent(due_at, now, counts);
        }
        self.under_way += 1;
        if let Err(lost) = connection.send(RequestUnderWay { number, due_at, sent_at: now }, request) {
            self.under_way -= 1;
            self.lose(lost, true);
            self.reopen(index, now, true);
        }
    }

    /// Counts a lost connection, and the request that was under way on it.
    fn lose(&mut self, lost: LostConnection, had_request: bool) {
        self.errors += 1;
        let tally = &mut self.unmeasured.tally;
        tally.errors += 1;
        match lost {
            LostConnection::Closed => tally.losses.closed += 1,
            LostConnection::Reset => tally.losses.resets += 1,
            LostConnection::OutOfStep => tally.losses.other += 1,
        }
        tally.losses.missing += u64::from(had_request);
    }

    /// Gives up on the answers that are still under way.
    fn give_up(&mut self) {
        let missing = self.under_way as u64;
        self.errors += missing;
        self.unmeasured.tally.errors += missing;
        self.unmeasured.tally.losses.missing += missing;
    }

    /// Replaces a lost connection, unless the server is gone or nothing is left to send. A connection that
    /// had no request is already among the free ones.
    fn reopen(&mut self, index: usize, now: Instant, had_request: bool) {
        let ends = self.has_ended() || self.errors > MAX_ERRORS;
        let Some(slot) = self.connections.get_mut(index) else { return };
        if let Some(old) = slot.take() {
            old.close(self.poll.registry());
        }
        if ends {
            return;
        }
        match Connection::open(self.options.address, self.poll.registry(), Token(index)) {
            Ok(connection) => {
                *slot = Some(connection);
                if had_request {
                    self.rest(index, now);
                }
            }
            Err(_) => self.lose(LostConnection::OutOfStep, false),
        }
    }

    fn done(mut self) -> (LoadOutcome<S>, Option<Instant>) {
        self.measured.tally.flush_problem();
        self.unmeasured.tally.flush_problem();
        let (mut total, mut arrivals) = (self.unmeasured.tally, self.unmeasured.arrivals);
        total.add(&self.measured.tally);
        arrivals.add(&self.measured.arrivals);
        let outcome = LoadOutcome {
            total,
            measured: self.measured.tally,
            measured_seconds: f64::NAN,
            arrivals,
            measured_arrivals: self.measured.arrivals,
            script: self.script,
        };
        (outcome, self.dry.then_some(self.last_answer_at))
    }
}

/// The part that counts at this moment.
fn current<'a>(
    phase: &SharedPhase,
    measured: &'a mut PhaseCounts,
    unmeasured: &'a mut PhaseCounts,
) -> &'a mut PhaseCounts {
    if phase.get() == Phase::Measuring { measured } else { unmeasured }
}

/// The connection that has rested longest. Skips those that could not be reopened.
fn next_free(
    free: &mut VecDeque<usize>,
    connections: &[Option<Connection<RequestUnderWay>>],
) -> Option<usize> {
    loop {
        let index = free.pop_front()?;
        if connections.get(index).is_some_and(Option::is_some) {
            return Some(index);
        }
    }
}
