//! Signs of life of one connection, and the commands it is given. It knows nothing of sockets or of HTTP.
//!
//! The connection's task and the sweep over all connections meet here. Nothing here waits: a sign is an
//! addition, a check is a load.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    task::Waker,
};

use futures_util::task::AtomicWaker;
use penstock_shop::tally::ConnectionEnd;

/// A command to a connection. A later variant outweighs those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ConnectionCommand {
    GoOn,
    /// Answer the current request, then close.
    Finish,
    /// Like `Finish`, for a connection without a request: a newcomer gets its place.
    Displaced,
    /// Like `Finish`, for a connection that has had no request for a long time.
    Idle,
    /// Close at once: the client does not read our answers.
    Unread,
    Cut,
}

/// Higher than any number of a stall.
const READS_FOR_SURE: u64 = 1 << 63;

/// Signs of life of a connection.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    beats: AtomicU64,
    working: AtomicU32,
    /// Whether the work is a claim of the lane's own.
    deciding: AtomicBool,
    /// The numbers of requests that went to hyper whole, of requests that hyper passed on to be handled, and
    /// of answers that hyper has taken completely.
    passed: AtomicU64,
    called: AtomicU64,
    answered: AtomicU64,
    /// Whether the answer is a stream of events, which ends when its client leaves.
    streaming: AtomicBool,
    /// Odd while a request is arriving, with a different number for each request.
    arrivals: AtomicU64,
    is_late: AtomicBool,
    /// Memory of bodies that hyper has taken but not written yet.
    body_bytes: AtomicUsize,
    /// Whether hyper has nothing to do: it has answered everything it was given.
    without_hyper: AtomicBool,
    /// Memory of requests that are incomplete or wait for their turn: in the lane, in hyper between two
    /// requests, and in bodies that handlers have begun to read.
    lane_bytes: AtomicUsize,
    hyper_bytes: AtomicUsize,
    arrived_bytes: AtomicUsize,
    /// All memory that waits for the client to read, as far as it is counted.
    unread_bytes: AtomicUsize,
    /// The connection is given up because of that memory.
    is_leaving: AtomicBool,
    /// When the client last stopped reading what was written: larger numbers are later, and 0 means never.
    /// The highest bit tells whether the client is a proven reader.
    last_stall: AtomicU64,
    command: AtomicU8,
    /// Why we end the connection, if we do: the number of the reason plus one.
    end: AtomicU8,
    waker: AtomicWaker,
}

impl Pulse {
    /// Work on a request has begun, or a part of an answer is on its way.
    pub(crate) fn beat(&self) {
        self.beats.fetch_add(1, Relaxed);
    }

    pub(crate) fn beats(&self) -> u64 {
        self.beats.load(Relaxed)
    }

    /// A request goes to hyper.
    pub(crate) fn pass(&self) {
        self.passed.fetch_add(1, Relaxed);
    }

    /// Hyper has read the head of a request and wants it answered.
    pub(crate) fn call(&self) {
        self.hyper_bytes.store(0, Relaxed);
        self.called.fetch_add(1, Relaxed);
        self.beat();
    }

    /// Whether the lane is between two requests, so that hyper is not needed.
    pub(crate) fn do_without_hyper(&self, is_without: bool) {
        self.without_hyper.store(is_without, Relaxed);
    }

    pub(crate) fn is_without_hyper(&self) -> bool {
        self.without_hyper.load(Relaxed)
    }

    /// The answer is a stream of events.
    pub(crate) fn stream(&self) {
        self.streaming.store(true, Relaxed);
    }

    pub(crate) fn is_streaming(&self) -> bool {
        self.streaming.load(Relaxed)
    }

    /// Hyper has taken an answer completely.
    pub(crate) fn answer(&self) {
        self.streaming.store(false, Relaxed);
        self.answered.fetch_add(1, Relaxed);
    }

    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Relaxed)
    }

    /// Whether hyper has answered everything that was passed to it.
    pub(crate) fn has_answered(&self) -> bool {
        self.answered() == self.passed.load(Relaxed)
    }

    /// Whether a request is being handled on hyper's side.
    pub(crate) fn is_handling(&self) -> bool {
        self.answered() != self.called.load(Relaxed)
    }

    /// Whether a request is under way from its client's point of view.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_working() || self.is_handling() || self.unread_bytes() > 0
    }

    /// Whether nothing is under way in either direction, and the connection was not told to end.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_busy() && self.arrival().is_none() && self.command() == ConnectionCommand::GoOn
    }

    /// Hyper has taken these bytes of a body that was made for this connection.
    pub(crate) fn hold_body(&self, bytes: usize) {
        self.body_bytes.fetch_add(bytes, Relaxed);
    }

    /// These bytes were written, or never will be.
    pub(crate) fn let_body_go(&self, bytes: usize) {
        self.body_bytes.fetch_sub(bytes, Relaxed);
    }

    pub(crate) fn body_bytes(&self) -> usize {
        self.body_bytes.load(Relaxed)
    }

    /// The lane holds this much of the data that has come in.
    pub(crate) fn keep_in_lane(&self, bytes: usize) {
        self.lane_bytes.store(bytes, Relaxed);
    }

    /// Hyper keeps this much between two requests.
    pub(crate) fn keep_in_hyper(&self, bytes: usize) {
        self.hyper_bytes.store(bytes, Relaxed);
    }

    /// A handler has read this much of a body and waits for the rest.
    pub(crate) fn hold_arrived(&self, bytes: usize) {
        self.arrived_bytes.fetch_add(bytes, Relaxed);
    }

    /// The body is complete, or nobody wants the rest.
    pub(crate) fn let_arrived_go(&self, bytes: usize) {
        self.arrived_bytes.fetch_sub(bytes, Relaxed);
    }

    /// Memory of requests that have begun but can't be answered yet. Requests that wait because the client
    /// does not read count as unread instead, and a complete body belongs to its handler.
    pub(crate) fn waiting_bytes(&self) -> usize {
        if self.unread_bytes() > 0 {
            return 0;
        }
        let is_complete = self.arrival().is_none() && self.is_working();
        let arrived_bytes = if is_complete { 0 } else { self.arrived_bytes.load(Relaxed) };
        self.lane_bytes.load(Relaxed) + self.hyper_bytes.load(Relaxed) + arrived_bytes
    }

    /// Sets the memory that waits for the client to read; returns the previous amount.
    pub(crate) fn hold_unread(&self, bytes: usize) -> usize {
        self.unread_bytes.swap(bytes, Relaxed)
    }

    pub(crate) fn unread_bytes(&self) -> usize {
        self.unread_bytes.load(Relaxed)
    }

    /// Gives the connection up; returns the memory that this will free.
    pub(crate) fn leave(&self) -> usize {
        self.is_leaving.store(true, Relaxed);
        self.unread_bytes()
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Relaxed)
    }

    /// The client has read some and then stopped; `number` counts such stalls on this worker. Reading, even
    /// slowly, is a sign of life. A client that stalls for the second time is a proven reader; the first
    /// time, the system may have buffered everything.
    pub(crate) fn stall(&self, number: u64) {
        let reads = if self.last_stall.load(Relaxed) == 0 { 0 } else { READS_FOR_SURE };
        self.last_stall.store(number | reads, Relaxed);
        self.beat();
    }

    pub(crate) fn last_stall(&self) -> u64 {
        self.last_stall.load(Relaxed) & !READS_FOR_SURE
    }

    pub(crate) fn reads_for_sure(&self) -> bool {
        self.last_stall.load(Relaxed) & READS_FOR_SURE != 0
    }

    /// A part of a request is here, and the rest is awaited. Further parts change nothing: only the complete
    /// request counts.
    pub(crate) fn arriving(&self) {
        let arrivals = self.arrivals.load(Relaxed);
        self.arrivals.store(arrivals | 1, Relaxed);
    }

    /// Nothing more of the request is awaited.
    pub(crate) fn arrived(&self) {
        let arrivals = self.arrivals.load(Relaxed);
        if arrivals % 2 == 1 {
            self.arrivals.store(arrivals + 1, Relaxed);
            self.is_late.store(false, Relaxed);
        }
    }

    /// The number of the request that is arriving.
    pub(crate) fn arrival(&self) -> Option<u64> {
        Some(self.arrivals.load(Relaxed)).filter(|arrivals| arrivals % 2 == 1)
    }

    /// The arriving request is no longer waited for.
    pub(crate) fn give_up_waiting(&self) {
        self.is_late.store(true, Relaxed);
        self.waker.wake();
    }

    pub(crate) fn is_late(&self) -> bool {
        self.is_late.load(Relaxed)
    }

    /// While the guard lives, the connection waits for us, not for the client.
    pub(crate) fn working(self: &Arc<Self>) -> Working {
        self.working.fetch_add(1, Relaxed);
        Working(Arc::clone(self))
    }

    pub(crate) fn is_working(&self) -> bool {
        self.working.load(Relaxed) > 0
    }

    /// Like `working`, for a claim that hyper does not know about and that a shutdown has to wait for.
    pub(crate) fn deciding(self: &Arc<Self>) -> Working {
        self.deciding.store(true, Relaxed);
        self.working()
    }

    pub(crate) fn is_deciding(&self) -> bool {
        self.deciding.load(Relaxed)
    }

    pub(crate) fn is_finishing(&self) -> bool {
        self.command() != ConnectionCommand::GoOn
    }

    pub(crate) fn tell(&self, command: ConnectionCommand) {
        self.command.fetch_max(command as u8, Relaxed);
        self.waker.wake();
    }

    pub(crate) fn command(&self) -> ConnectionCommand {
        match self.command.load(Relaxed) {
            0 => ConnectionCommand::GoOn,
            1 => ConnectionCommand::Finish,
            2 => ConnectionCommand::Displaced,
            3 => ConnectionCommand::Idle,
            4 => ConnectionCommand::Unread,
            _ => ConnectionCommand::Cut,
        }
    }

    /// Sets the reason why we end the connection. The first reason counts.
    pub(crate) fn end_because(&self, end: ConnectionEnd) {
        // This fails if there already is a reason, which is fine.
        let _ = self.end.compare_exchange(0, end as u8 + 1, Relaxed, Relaxed);
    }

    /// How the connection ended: by the client, unless we had a reason to end it.
    pub(crate) fn end(&self) -> ConnectionEnd {
        let reason = usize::from(self.end.load(Relaxed)).checked_sub(1);
        reason.map_or(ConnectionEnd::Client, |reason| ConnectionEnd::ALL[reason])
    }

    /// The waker to call when the connection is told something.
    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }
}

#[derive(Debug)]
pub(crate) struct Working(Arc<Pulse>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.beat();
        self.0.working.fetch_sub(1, Relaxed);
        self.0.deciding.store(false, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_of_the_same_request_is_not_a_new_request() {
        let pulse = Pulse::default();
        assert_eq!(pulse.arrival(), None);
        pulse.arriving();
        let first = pulse.arrival();
        pulse.arriving();
        assert_eq!(pulse.arrival(), first);
        pulse.arrived();
        pulse.arrived();
        assert_eq!(pulse.arrival(), None);
        pulse.arriving();
        assert!(pulse.arrival() > first);
    }

    #[test]
    fn a_request_that_arrives_at_the_last_moment_is_not_late() {
        let pulse = Pulse::default();
        pulse.arriving();
        pulse.give_up_waiting();
        assert!(pulse.is_late());
        pulse.arrived();
        assert!(!pulse.is_late());
    }

    #[test]
    fn a_connection_ends_for_the_first_reason() {
        let pulse = Pulse::default();
        assert_eq!(pulse.end(), ConnectionEnd::Client);
        for (number, end) in ConnectionEnd::ALL.iter().enumerate() {
            assert_eq!(*end as usize, number);
            let pulse = Pulse::default();
            pulse.end_because(*end);
            pulse.end_because(ConnectionEnd::Cut);
            assert_eq!(pulse.end(), *end);
        }
    }

    #[test]
    fn the_strongest_command_holds() {
        let pulse = Pulse::default();
        let rising = [
            ConnectionCommand::GoOn,
            ConnectionCommand::Finish,
            ConnectionCommand::Displaced,
            ConnectionCommand::Idle,
            ConnectionCommand::Unread,
            ConnectionCommand::Cut,
        ];
        for command in rising {
            pulse.tell(command);
            pulse.tell(ConnectionCommand::GoOn);
            assert_eq!(pulse.command(), command);
        }
    }
}
