//! The keep-alive connections of one thread: opened a few at a time, lent out, replaced when lost.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use mio::{Registry, Token};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::connection::Connection;

use super::{Moment, buyer::BuyerCall};

/// The most connections that a thread opens at once: a server's backlog is limited.
const MAX_CONNECTING: usize = 128;
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How often more are opened while there is time before the opening.
const PACE_SECONDS: f64 = 0.01;
/// The pause before more are opened after a failure.
const BACKOFF_SECONDS: f64 = 0.1;
/// A server that closes a connection sooner than this did not want it.
const YOUNG: Duration = Duration::from_secs(1);
/// The most connections from one source address. An address has some 28,000 ports for one server, but the
/// kernel takes long to find a free one when many are taken, also by connections of the run before.
const CONNECTIONS_PER_SOURCE: usize = 500;
/// File descriptors kept for other uses. A server with the same limit keeps fewer, so it can take all our
/// connections.
const OTHER_FILES: u64 = 1_000;
/// Of a low limit, at most one descriptor in this many is kept back.
const OTHER_FILES_SHARE: u64 = 4;

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallUnderWay {
    pub(super) buyer: u32,
    pub(super) call: BuyerCall,
    pub(super) due_at: Moment,
    pub(super) sent_at: Moment,
}

pub(super) type BuyersConnection = Connection<CallUnderWay>;

#[derive(Debug)]
struct Slot {
    connection: Option<BuyersConnection>,
    is_open: bool,
    /// When opening began, or when it was opened.
    since: Moment,
    /// It has received an answer.
    has_served: bool,
}

#[derive(Debug)]
pub(super) struct ConnectionPool {
    address: SocketAddr,
    /// The number of this pool's first connection among those of all threads.
    first: usize,
    slots: Vec<Slot>,
    /// May contain some that have become busy or lost.
    free: VecDeque<usize>,
    to_open: VecDeque<usize>,
    connecting: usize,
    open: usize,
    /// When the first and the last connection are opened. The others are spread over that time.
    opening: [Moment; 2],
    /// The earliest moment to open more.
    open_next_at: Moment,
    last_open_at: Moment,
}

/// How many connections this process may have; raises its limit if necessary and possible.
pub(super) fn allowed_connections(wanted: usize) -> usize {
    let wanted_files = wanted as u64 + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    let allowed = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    if allowed(limit.current) < wanted_files {
        let hard = allowed(limit.maximum).max(wanted_files);
        let raised = Rlimit { current: Some(wanted_files), maximum: limit.maximum.map(|_| hard) };
        // Only root may go beyond the hard limit; everybody else goes up to it.
        if setrlimit(Resource::Nofile, raised).is_err() {
            let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
        }
    }
    let files = usable_files(allowed(getrlimit(Resource::Nofile).current));
    wanted.min(usize::try_from(files).unwrap_or(usize::MAX)).max(1)
}

/// What a limit leaves for connections.
fn usable_files(limit: u64) -> u64 {
    limit.saturating_sub(OTHER_FILES.min(limit / OTHER_FILES_SHARE))
}

impl ConnectionPool {
    /// All connections are open halfway to the opening.
    pub(super) fn new(address: SocketAddr, first: usize, connections: usize, now: Moment) -> Self {
        let slot = |_| Slot { connection: None, is_open: false, since: now, has_served: false };
        Self {
            address,
            first,
            slots: (0..connections).map(slot).collect(),
            free: VecDeque::with_capacity(connections),
            to_open: (0..connections).collect(),
            connecting: 0,
            open: 0,
            opening: [now, Moment(now.0 / 2).max(now)],
            open_next_at: now,
            last_open_at: now,
        }
    }

    /// The address to connect from. On loopback there are several, because one address has too few ports.
    fn source(&self, index: usize) -> Option<IpAddr> {
        let IpAddr::V4(address) = self.address.ip() else { return None };
        let host = u8::try_from((self.first + index) / CONNECTIONS_PER_SOURCE + 1).ok()?;
        address.is_loopback().then_some(IpAddr::V4(Ipv4Addr::new(127, 0, 0, host)))
    }

    /// How many should be open by now.
    fn wanted(&self, now: Moment) -> usize {
        let [start, end] = self.opening;
        if now >= end {
            return self.slots.len();
        }
        let share = now.since(start).as_secs_f64() / end.since(start).as_secs_f64();
        (self.slots.len() as f64 * share) as usize + 1
    }

    fn is_behind(&self, now: Moment) -> bool {
        self.slots.len() - self.to_open.len() < self.wanted(now)
    }

    /// Begins to open missing connections, a bounded number at a time; slowly if nobody waits for one.
    pub(super) fn open_some(&mut self, registry: &Registry, now: Moment, has_line: bool) {
        let may_open = |pool: &Self| pool.connecting < MAX_CONNECTING && now >= pool.open_next_at;
        while may_open(self) && (has_line || self.is_behind(now)) {
            let Some(index) = self.to_open.pop_front() else { return };
            let begun = BuyersConnection::begin(self.address, self.source(index), registry, Token(index));
            let Some(slot) = self.slots.get_mut(index) else { return };
            match begun {
                Ok(connection) => {
                    *slot =
                        Slot { connection: Some(connection), is_open: false, since: now, has_served: false };
                    self.connecting += 1;
                }
                Err(_) => {
                    self.to_open.push_back(index);
                    self.open_next_at = now.plus_seconds(BACKOFF_SECONDS);
                }
            }
        }
    }

    /// When connections may be opened again, if any are missing.
    pub(super) fn opens_next_at(&self, now: Moment) -> Option<Moment> {
        let can_open = !self.to_open.is_empty() && self.connecting < MAX_CONNECTING;
        let paced = if self.is_behind(now) { now } else { now.plus_seconds(PACE_SECONDS) };
        can_open.then(|| self.open_next_at.max(paced))
    }

    /// Whether a connection that was being opened can be used now. An error means that it is lost.
    pub(super) fn check(&mut self, index: usize, now: Moment) -> io::Result<bool> {
        let Some(slot) = self.slots.get_mut(index) else { return Ok(false) };
        let Some(connection) = &slot.connection else { return Ok(false) };
        if slot.is_open {
            return Ok(true);
        }
        if connection.connected()? {
            (slot.is_open, slot.since) = (true, now);
            self.connecting = self.connecting.saturating_sub(1);
            self.open += 1;
            self.last_open_at = now;
            self.free.push_back(index);
            return Ok(true);
        }
        Ok(false)
    }

    pub(super) fn is_open(&self, index: usize) -> bool {
        self.slots.get(index).is_some_and(|slot| slot.is_open)
    }

    pub(super) fn get(&mut self, index: usize) -> Option<&mut BuyersConnection> {
        self.slots.get_mut(index).and_then(|slot| slot.connection.as_mut())
    }

    /// The connection without a request that has rested longest.
    pub(super) fn take_free(&mut self) -> Option<usize> {
        loop {
            let index = self.free.pop_front()?;
            let slot = self.slots.get(index)?;
            let is_idle = slot.connection.as_ref().is_some_and(|connection| connection.under_way.is_none());
            if slot.is_open && is_idle {
                return Some(index);
            }
        }
    }

    /// An answer has arrived over a connection.
    pub(super) fn served(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.has_served = true;
        }
        self.free.push_back(index);
    }

    /// Puts back a connection that was taken and not needed. It is the next to be taken.
    pub(super) fn put_back(&mut self, index: usize) {
        self.free.push_front(index);
    }

    /// Closes a connection and has it opened again; returns the request under way on it.
    pub(super) fn lose(&mut self, index: usize, registry: &Registry, now: Moment) -> Option<CallUnderWay> {
        let slot = self.slots.get_mut(index)?;
        let mut connection = slot.connection.take()?;
        let under_way = connection.under_way.take();
        connection.close(registry);
        if slot.is_open {
            self.open = self.open.saturating_sub(1);
            self.last_open_at = now;
        } else {
            self.connecting = self.connecting.saturating_sub(1);
        }
        let is_unwanted = !slot.has_served && under_way.is_none() && now.since(slot.since) < YOUNG;
        if !slot.is_open || is_unwanted {
            self.open_next_at = now.plus_seconds(BACKOFF_SECONDS);
        }
        slot.is_open = false;
        self.to_open.push_back(index);
        under_way
    }

    /// Connections that have waited too long: for an answer, or to be opened at all.
    pub(super) fn overdue(&self, now: Moment, answer_limit: Duration) -> Vec<usize> {
        let is_overdue = |slot: &Slot| match (&slot.connection, slot.is_open) {
            (Some(connection), true) => {
                connection.under_way.is_some_and(|under_way| now.since(under_way.sent_at) > answer_limit)
            }
            (Some(_), false) => now.since(slot.since) > CONNECT_LIMIT,
            (None, _) => false,
        };
        self.slots.iter().enumerate().filter(|(_, slot)| is_overdue(slot)).map(|(index, _)| index).collect()
    }

    /// How long the pool has had no open connection.
    pub(super) fn deserted_for(&self, now: Moment) -> Duration {
        if self.open > 0 { Duration::ZERO } else { now.since(self.last_open_at) }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_limit_leaves_most_files_for_connections() {
        assert_eq!(usable_files(1_024), 768);
        assert_eq!(usable_files(60_000), 59_000);
    }
}
