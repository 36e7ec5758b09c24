//! One thread of a run: an epoll loop over its connections.

use std::{
    io,
    time::{Duration, Instant},
};

use anyhow::Context;
use mio::{Events, Poll, Token};

use super::{DRAIN_LIMIT, Options, Phase, Script, SharedPhase, Tally, connection::Connection};

const EVENTS: usize = 1024;
const SCRATCH_BYTES: usize = 16 * 1024;
/// How late a thread may notice that the phase has changed when no answer comes.
const POLL_LIMIT: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Done<S> {
    pub(super) total: Tally,
    pub(super) measured: Tally,
    /// When the last answer came, if the script had no more requests before the time was up.
    pub(super) ran_dry_at: Option<Instant>,
    pub(super) script: S,
}

struct Worker<'a, S> {
    options: &'a Options,
    phase: &'a SharedPhase,
    poll: Poll,
    connections: Vec<Option<Connection>>,
    script: S,
    dry: bool,
    /// The answers of the warm-up and of draining; `measured` has the others.
    unmeasured: Tally,
    measured: Tally,
    under_way: usize,
    errors: u64,
    last_answer_at: Instant,
}

pub(super) fn run<S: Script>(
    options: &Options,
    connections: usize,
    core: Option<usize>,
    script: S,
    phase: &SharedPhase,
) -> anyhow::Result<Done<S>> {
    if let Some(core) = core {
        let mut set = rustix::thread::CpuSet::new();
        set.set(core);
        rustix::thread::sched_setaffinity(None, &set)
            .with_context(|| format!("cannot stay on core {core}"))?;
    }
    let mut worker = Worker {
        options,
        phase,
        poll: Poll::new().context("cannot create a poll")?,
        connections: Vec::with_capacity(connections),
        script,
        dry: false,
        unmeasured: Tally::default(),
        measured: Tally::default(),
        under_way: 0,
        errors: 0,
        last_answer_at: Instant::now(),
    };
    worker.connect(connections)?;
    worker.serve()?;
    Ok(worker.done())
}

impl<S: Script> Worker<'_, S> {
    fn connect(&mut self, connections: usize) -> anyhow::Result<()> {
        for index in 0..connections {
            let connection = Connection::open(self.options.address, self.poll.registry(), Token(index))
                .with_context(|| format!("cannot connect to {}", self.options.address))?;
            self.connections.push(Some(connection));
        }
        let now = Instant::now();
        for index in 0..connections {
            self.send(index, now);
        }
        Ok(())
    }

    fn serve(&mut self) -> anyhow::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        let mut scratch = vec![0; SCRATCH_BYTES];
        let mut draining_since = None;
        while self.under_way > 0 && self.errors <= self.options.max_errors {
            match self.poll.poll(&mut events, Some(POLL_LIMIT)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
            for event in &events {
                self.receive(event.token().0, &mut scratch);
            }
            if self.phase.get() == Phase::Draining {
                let since = *draining_since.get_or_insert_with(Instant::now);
                if since.elapsed() > DRAIN_LIMIT {
                    self.lose(self.under_way as u64);
                    break;
                }
            }
        }
        Ok(())
    }

    fn receive(&mut self, index: usize, scratch: &mut [u8]) {
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else { return };
        let was_under_way = connection.under_way.is_some();
        let (script, phase) = (&mut self.script, self.phase.get());
        let tally = if phase == Phase::Measuring { &mut self.measured } else { &mut self.unmeasured };
        let mut answered_at = None;
        let received = connection.receive(scratch, |number, sent_at, answer| {
            let now = Instant::now();
            tally.count(answer, now.saturating_duration_since(sent_at));
            script.answered(number, answer);
            answered_at = Some(now);
        });
        if let Some(now) = answered_at {
            self.under_way -= 1;
            self.last_answer_at = now;
        }
        match (received, answered_at) {
            (Ok(Some(())), Some(now)) => self.send(index, now),
            (Ok(_), _) => {}
            // The server closed after its answer, which is its right, or closed an idle connection.
            (Err(_), Some(now)) => self.reopen(index, now),
            (Err(_), None) => {
                if was_under_way {
                    self.under_way -= 1;
                }
                self.lose(1);
                self.reopen(index, Instant::now());
            }
        }
    }

    fn send(&mut self, index: usize, now: Instant) {
        if self.dry || self.phase.get() == Phase::Draining {
            return;
        }
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else { return };
        let Some((number, request)) = self.script.next_request() else {
            self.dry = true;
            return;
        };
        self.under_way += 1;
        if connection.send(number, request, now).is_err() {
            self.under_way -= 1;
            self.lose(1);
            self.reopen(index, now);
        }
    }

    fn lose(&mut self, requests: u64) {
        self.errors += requests;
        self.unmeasured.errors += requests;
    }

    /// Replaces a lost connection, unless the server is gone or nothing is left to send.
    fn reopen(&mut self, index: usize, now: Instant) {
        let Some(slot) = self.connections.get_mut(index) else { return };
        if let Some(old) = slot.take() {
            old.close(self.poll.registry());
        }
        if self.dry || self.errors > self.options.max_errors || self.phase.get() == Phase::Draining {
            return;
        }
        match Connection::open(self.options.address, self.poll.registry(), Token(index)) {
            Ok(connection) => {
                *slot = Some(connection);
                self.send(index, now);
            }
            Err(_) => self.lose(1),
        }
    }

    fn done(mut self) -> Done<S> {
        self.measured.flush_problem();
        self.unmeasured.flush_problem();
        let mut total = self.unmeasured;
        total.add(&self.measured);
        let ran_dry_at = self.dry.then_some(self.last_answer_at);
        Done { total, measured: self.measured, ran_dry_at, script: self.script }
    }
}
