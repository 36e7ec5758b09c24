//! Which clients that do not read go first when there is too much memory for unread answers. It knows of a stall only its number.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::pulse::Pulse;

/// A client that has taken nothing for a shorter time may just be about to. We see that a client reads only when the system has room for the
/// next 64 KiB, so that one on a slow network seems to pause.
pub(super) const MIN_STALLED: Duration = Duration::from_secs(5);

/// How many stalls there had been at each of the last sweeps, and at the last that was `MIN_STALLED` ago.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    at_sweeps: VecDeque<(Instant, u64)>,
    old: u64,
}

impl Stalls {
    /// Until now there have been this many stalls.
    pub(super) fn note(&mut self, stalls: u64, now: Instant) {
        self.at_sweeps.push_back((now, stalls));
        while let Some((_, stalls)) =
            self.at_sweeps.pop_front_if(|(then, _)| now.saturating_duration_since(*then) >= MIN_STALLED)
        {
            self.old = stalls;
        }
    }

    /// The smallest goes first: clients that have read nothing for some time; then those that have only just begun to read nothing, the latest
    /// first, so that whoever comes again and again does not push out a slow one that was there before; last those that read for sure.
    pub(super) fn order_of_leaving(&self, pulse: &Pulse) -> (u8, u64) {
        let stall = pulse.last_stall();
        match (pulse.reads_for_sure(), stall <= self.old) {
            (false, true) => (0, stall),
            (false, false) => (1, u64::MAX - stall),
            (true, _) => (2, stall),
        }
    }
}
