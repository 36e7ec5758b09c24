//! One thread of a run: an event loop that carries requests and answers between its buyers and its
//! connections.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque, binary_heap::PeekMut},
    io,
    time::Duration,
};

use anyhow::Context;
use mio::{Events, Poll, Token};
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

use crate::latency::LatencyHistogram;

use super::{
    CrowdClock, Moment,
    alarm::Alarm,
    arrivals::{Arrival, Schedule},
    buyer::{BuyerCall, BuyerEvent, Next},
    codes::CodeCounts,
    desk::Desk,
    findings::Findings,
    pool::{CallUnderWay, ConnectionPool},
    request::RequestWriter,
    solver::Handle,
    tally::CrowdTally,
    terms::CrowdTerms,
    timeline::Timeline,
};

pub(super) const WAKER: Token = Token(usize::MAX - 1);
const ALARM: Token = Token(usize::MAX - 2);
const EVENTS: usize = 1_024;
const SCRATCH_BYTES: usize = 32 * 1024;
/// How many requests are sent, or answers read, before others get their turn.
const AT_ONCE: usize = 32;
/// How often a thread reports its progress.
const TELL_SECONDS: f64 = 0.1;
/// How often it looks for overdue answers.
const SWEEP_SECONDS: f64 = 1.0;
/// How often a thread measures how busy it was. The rest at the end of a run counts if it is not too short.
const WINDOW: Duration = Duration::from_secs(1);
const SHORTEST_WINDOW: Duration = Duration::from_millis(200);
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// A server is gone if it has taken no connection for this long.
const GONE_AFTER: Duration = Duration::from_secs(60);
/// In a closed loop, nobody else comes while this many buyers of a thread are here.
const MAX_LIVE: usize = 100_000;

/// A thread's progress, for the display.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) came: u64,
    pub(super) admitted: u64,
    pub(super) requests: u64,
    pub(super) refused: CodeCounts,
    pub(super) order_latency: LatencyHistogram,
    pub(super) under_way: u64,
    pub(super) waiting: u64,
}

/// What a thread leaves behind.
#[derive(Debug)]
pub(super) struct SeatResult {
    pub(super) findings: Findings,
    pub(super) timeline: Timeline,
    pub(super) tally: CrowdTally,
    pub(super) connections: usize,
}

/// A request that waits for a free connection.
#[derive(Clone, Copy, Debug)]
struct InLine {
    buyer: u32,
    call: BuyerCall,
    /// When it could have left. Any delay after that is the generator's own.
    ready_at: Moment,
}

/// Everything that a thread starts with.
pub(super) struct Seat<'a> {
    pub(super) clock: CrowdClock,
    pub(super) terms: &'a CrowdTerms,
    pub(super) desk: Desk<'a>,
    pub(super) pool: ConnectionPool,
    pub(super) schedule: Schedule,
    pub(super) writer: RequestWriter,
    pub(super) solver: Option<Handle>,
    pub(super) poll: Poll,
    pub(super) snapshot: &'a Mutex<Snapshot>,
}

struct CrowdWorker<'a> {
    seat: Seat<'a>,
    alarm: Alarm,
    timers: BinaryHeap<Reverse<(Moment, u32)>>,
    line: VecDeque<InLine>,
    /// Buyers whose connection broke with a request under way, and who have not been told yet.
    broken: Vec<u32>,
    under_way: u64,
    tell_at: Moment,
    sweep_at: Moment,
    opened_at: Option<Moment>,
    /// CPU time at the start of the current window, and that moment.
    window: (Duration, Moment),
}

pub(super) fn run(seat: Seat<'_>) -> anyhow::Result<SeatResult> {
    let alarm = Alarm::new(seat.poll.registry(), ALARM)?;
    let now = seat.clock.now();
    let mut worker = CrowdWorker {
        seat,
        alarm,
        timers: BinaryHeap::new(),
        line: VecDeque::new(),
        broken: Vec::new(),
        under_way: 0,
        tell_at: now,
        sweep_at: now,
        opened_at: None,
        window: (Duration::ZERO, now),
    };
    worker.serve()?;
    Ok(worker.done())
}

/// CPU time of the calling thread.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

impl CrowdWorker<'_> {
    fn serve(&mut self) -> anyhow::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        let mut scratch = vec![0; SCRATCH_BYTES];
        loop {
            let now = self.seat.clock.now();
            let has_more_due = self.work(now);
            self.pump(now);
            self.seat.pool.open_some(self.seat.poll.registry(), now, !self.line.is_empty());
            self.take_solved(now);
            self.look_after(now);
            if self.is_over(now) {
                return Ok(());
            }
            let patience = if has_more_due { Duration::ZERO } else { self.patience(now)? };
            match self.seat.poll.poll(&mut events, Some(patience)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    return Err(error).context("cannot wait for answers");
                }
                _ => {}
            }
            for (count, event) in events.iter().enumerate() {
                match event.token() {
                    WAKER => {}
                    ALARM => self.alarm.rang(),
                    Token(index) => self.hear(index, &mut scratch),
                }
                if count % AT_ONCE == AT_ONCE - 1 {
                    let now = self.seat.clock.now();
                    self.work(now);
                }
            }
        }
    }

    fn is_over(&mut self, now: Moment) -> bool {
        if self.seat.pool.deserted_for(now) > GONE_AFTER {
            self.seat.desk.abandon(now);
            return true;
        }
        self.seat.desk.live() == 0 && !self.seat.schedule.has_more(now)
    }

    /// How long the poll may wait. The alarm covers delays that are too short for it.
    fn patience(&mut self, now: Moment) -> anyhow::Result<Duration> {
        let Seat { schedule, pool, .. } = &self.seat;
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        let next = [timer, schedule.next_at(), schedule.begins_at(now), pool.opens_next_at(now)];
        let next = next.into_iter().flatten().chain([self.tell_at]).min().unwrap_or(now);
        if next <= now {
            return Ok(Duration::ZERO);
        }
        self.alarm.set(next, now)?;
        // The alarm ends the wait; this is the fallback.
        Ok(Duration::from_secs_f64(SWEEP_SECONDS))
    }

    /// Does a bounded part of the work that is due; tells whether there is more.
    fn work(&mut self, now: Moment) -> bool {
        self.seat.desk.expire(now);
        for _ in 0..AT_ONCE {
            if let Some((at, buyer)) = self.next_timer(now) {
                let next = self.seat.desk.step(buyer, BuyerEvent::Woke, at, now);
                self.follow(buyer, next, at, now);
            } else if let Some(arrival) = self.seat.schedule.arrive(now) {
                self.welcome(&arrival, now);
            } else {
                self.mend(now);
                return false;
            }
        }
        self.mend(now);
        true
    }

    /// The earliest timer, if it is due.
    fn next_timer(&mut self, now: Moment) -> Option<(Moment, u32)> {
        let earliest = self.timers.peek_mut()?;
        (earliest.0.0 <= now).then(|| PeekMut::pop(earliest).0)
    }

    fn welcome(&mut self, arrival: &Arrival, now: Moment) {
        let buyer = self.seat.desk.welcome(arrival, now);
        let next = self.seat.desk.step(buyer, BuyerEvent::Came, arrival.at, now);
        self.follow(buyer, next, arrival.at, now);
    }

    /// Carries out a buyer's decision, which could have been carried out at `ready_at`.
    fn follow(&mut self, buyer: u32, next: Next, ready_at: Moment, now: Moment) {
        match next {
            Next::Send(call) => self.send(InLine { buyer, call, ready_at }, now),
            Next::SendTwice(call) => {
                self.send(InLine { buyer, call, ready_at }, now);
                self.send(InLine { buyer, call, ready_at }, now);
            }
            Next::Wait(at) => self.timers.push(Reverse((at, buyer))),
            Next::Solve(puzzle) => match &mut self.seat.solver {
                Some(solver) => solver.solve(buyer, puzzle),
                None => self.seat.desk.dismiss(buyer),
            },
            Next::Listen => {}
            Next::Leave => self.seat.desk.dismiss(buyer),
        }
    }

    fn send(&mut self, request: InLine, now: Moment) {
        let free = if self.line.is_empty() { self.seat.pool.take_free() } else { None };
        match free {
            Some(index) => self.transmit(index, request, now, false),
            None => self.line.push_back(request),
        }
    }

    fn transmit(&mut self, index: usize, request: InLine, now: Moment, waited: bool) {
        let InLine { buyer, call, ready_at } = request;
        let Seat { pool, desk, writer, terms, .. } = &mut self.seat;
        let (Some(connection), Some(sender)) = (pool.get(index), desk.buyer(buyer)) else { return };
        let bytes = writer.write(sender, call, terms);
        let under_way = CallUnderWay { buyer, call, due_at: sender.due_at, sent_at: now };
        let sent = connection.send(under_way, bytes);
        desk.sent(under_way, ready_at, waited);
        self.under_way += 1;
        if sent.is_err() {
            self.lose(index, now);
        }
    }

    /// A connection is lost, and maybe a request with it.
    fn lose(&mut self, index: usize, now: Moment) {
        let Seat { pool, desk, poll, .. } = &mut self.seat;
        if let Some(under_way) = pool.lose(index, poll.registry(), now) {
            desk.tally.connections_lost += 1;
            self.under_way -= 1;
            self.broken.push(under_way.buyer);
        }
    }

    /// Tells buyers that no answer will come.
    fn mend(&mut self, now: Moment) {
        while let Some(buyer) = self.broken.pop() {
            let next = self.seat.desk.step(buyer, BuyerEvent::Unanswered, now, now);
            self.follow(buyer, next, now, now);
        }
    }

    /// Gives free connections to requests in line; in a closed loop newcomers take the rest.
    fn pump(&mut self, now: Moment) {
        while let Some(index) = self.seat.pool.take_free() {
            if let Some(request) = self.line.pop_front() {
                self.transmit(index, request, now, true);
                continue;
            }
            self.seat.pool.put_back(index);
            if self.seat.desk.live() >= MAX_LIVE {
                return;
            }
            let Some(arrival) = self.seat.schedule.arrive_freely(now) else { return };
            self.welcome(&arrival, now);
        }
    }

    /// Reads from a connection that has data.
    fn hear(&mut self, index: usize, scratch: &mut [u8]) {
        let Seat { pool, desk, clock, .. } = &mut self.seat;
        if !pool.is_open(index) {
            return self.check(index);
        }
        let Some(connection) = pool.get(index) else { return };
        let mut heard = None;
        let received = connection.receive(scratch, |under_way, answer| {
            let now = clock.now();
            heard = Some((under_way.buyer, desk.answered(under_way, answer, now), now));
        });
        match (received, heard) {
            (Ok(_), None) => {}
            (Err(_), None) => {
                let now = self.seat.clock.now();
                self.lose(index, now);
            }
            (received, Some((buyer, next, now))) => {
                self.under_way -= 1;
                self.seat.pool.served(index);
                if received.is_err() {
                    // The server announced that it closes after this answer, which is its right.
                    self.lose(index, now);
                }
                self.follow(buyer, next, now, now);
                self.pump(now);
            }
        }
    }

    /// Checks a connection that is being opened.
    fn check(&mut self, index: usize) {
        let now = self.seat.clock.now();
        match self.seat.pool.check(index, now) {
            Ok(true) => self.pump(now),
            Ok(false) => {}
            Err(_) => self.lose(index, now),
        }
    }

    fn take_solved(&mut self, now: Moment) {
        let Some(solver) = &mut self.seat.solver else { return };
        for solved in solver.take() {
            let tally = &mut self.seat.desk.tally;
            tally.solved += 1;
            tally.solving_waited += solved.waited;
            let next = self.seat.desk.step(solved.buyer, BuyerEvent::Solved(solved.answer), now, now);
            self.follow(solved.buyer, next, now, now);
        }
    }

    /// Occasional work: reporting progress, and giving up on overdue answers.
    fn look_after(&mut self, now: Moment) {
        if now < self.tell_at {
            return;
        }
        self.tell_at = now.plus_seconds(TELL_SECONDS);
        if self.opened_at.is_none() && now >= Moment::OPENING {
            self.opened_at = Some(now);
            self.window = (cpu_time(), now);
        }
        self.look_at_oneself(now, WINDOW);
        self.tell();
        if now >= self.sweep_at {
            self.sweep_at = now.plus_seconds(SWEEP_SECONDS);
            for index in self.seat.pool.overdue(now, ANSWER_LIMIT) {
                self.lose(index, now);
            }
            self.mend(now);
        }
    }

    /// Measures how busy this thread was in the window that ends now, if it is at least `at_least` long.
    fn look_at_oneself(&mut self, now: Moment, at_least: Duration) {
        let (cpu_before, since) = self.window;
        let took = now.since(since);
        if self.opened_at.is_none() || took < at_least {
            return;
        }
        let cpu = cpu_time();
        let busy_percent = 100.0 * cpu.saturating_sub(cpu_before).as_secs_f64() / took.as_secs_f64();
        let tally = &mut self.seat.desk.tally;
        tally.busiest_percent = tally.busiest_percent.max(busy_percent);
        self.window = (cpu, now);
    }

    fn tell(&mut self) {
        let desk = &self.seat.desk;
        let mut snapshot = self.seat.snapshot.lock();
        snapshot.came = desk.tally.came;
        snapshot.admitted = desk.findings.admitted;
        snapshot.requests = desk.tally.requests;
        snapshot.refused.clone_from(&desk.tally.refused);
        snapshot.order_latency.clone_from(desk.tally.order_latency());
        snapshot.under_way = self.under_way;
        snapshot.waiting = self.line.len() as u64;
    }

    fn done(mut self) -> SeatResult {
        self.tell();
        let now = self.seat.clock.now();
        self.look_at_oneself(now, SHORTEST_WINDOW);
        let Desk { findings, timeline, mut tally, .. } = self.seat.desk;
        tally.took = self.opened_at.map_or(Duration::ZERO, |since| now.since(since));
        SeatResult { findings, timeline, tally, connections: self.seat.pool.len() }
    }
}
