//! When the requests of an open loop are due, and the line of requests that wait for a connection. Knows no
//! sockets and reads no clock.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Arrivals at a rate that does not depend on the answers.
#[derive(Clone, Copy, Debug)]
pub struct OpenLoop {
    /// Requests due in a second.
    pub per_second: f64,
    /// The most requests that wait for a free connection. Requests over the limit are counted as not sent.
    pub max_waiting: usize,
}

/// The outcome of the arrivals of an open loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrivalCounts {
    pub due: u64,
    pub sent: u64,
    /// Sent more than a millisecond after they were due, because no connection was free or the generator was
    /// too slow.
    pub late: u64,
    /// Never sent, because too many were waiting or the time was up.
    pub not_sent: u64,
}

impl ArrivalCounts {
    pub(super) fn add(&mut self, other: &Self) {
        self.due += other.due;
        self.sent += other.sent;
        self.late += other.late;
        self.not_sent += other.not_sent;
    }
}

const LATE_AFTER: Duration = Duration::from_millis(1);

/// The requests of an open loop that are still to come, and those that wait.
#[derive(Debug)]
pub(super) struct OpenSchedule {
    started_at: Instant,
    seconds_between: f64,
    arrivals: u64,
    line: VecDeque<Instant>,
    max_waiting: usize,
}

impl OpenSchedule {
    pub(super) fn new(open: OpenLoop, now: Instant) -> Self {
        Self {
            started_at: now,
            seconds_between: open.per_second.max(f64::MIN_POSITIVE).recip(),
            arrivals: 0,
            line: VecDeque::new(),
            max_waiting: open.max_waiting,
        }
    }

    fn next_due(&self) -> Instant {
        self.started_at + seconds(self.seconds_between * self.arrivals as f64)
    }

    pub(super) fn until_next(&self, now: Instant) -> Duration {
        self.next_due().saturating_duration_since(now)
    }

    /// The next arrival that is due by `now`.
    pub(super) fn arrive(&mut self, now: Instant, counts: &mut ArrivalCounts) -> Option<Instant> {
        let due_at = self.next_due();
        if due_at > now {
            return None;
        }
        self.arrivals += 1;
        counts.due += 1;
        Some(due_at)
    }

    /// Puts an arrival in line, because no connection is free.
    pub(super) fn wait(&mut self, due_at: Instant, counts: &mut ArrivalCounts) {
        if self.line.len() < self.max_waiting {
            self.line.push_back(due_at);
        } else {
            counts.not_sent += 1;
        }
    }

    /// The request that has waited longest.
    pub(super) fn next_waiting(&mut self) -> Option<Instant> {
        self.line.pop_front()
    }

    /// The time is up: requests in line are never sent.
    pub(super) fn end(&mut self, counts: &mut ArrivalCounts) {
        counts.not_sent += self.line.len() as u64;
        self.line.clear();
    }
}

/// Counts a request that leaves now.
pub(super) fn count_sent(due_at: Instant, now: Instant, counts: &mut ArrivalCounts) {
    counts.sent += 1;
    counts.late += u64::from(now.saturating_duration_since(due_at) > LATE_AFTER);
}

/// At most a year, so that a rate near zero does not overflow.
fn seconds(seconds: f64) -> Duration {
    const YEAR_SECONDS: f64 = 365.0 * 86_400.0;
    Duration::from_secs_f64(seconds.clamp(0.0, YEAR_SECONDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// The arrivals by `now`, in milliseconds after the start.
    fn arrivals(schedule: &mut OpenSchedule, start: Instant, now: Instant) -> Vec<u128> {
        let mut counts = ArrivalCounts::default();
        std::iter::from_fn(|| schedule.arrive(now, &mut counts))
            .map(|due| (due - start).as_millis())
            .collect()
    }

    #[test]
    fn arrivals_keep_their_times_even_if_noticed_late() {
        let start = Instant::now();
        let open = OpenLoop { per_second: 100.0, max_waiting: 9 };
        let mut schedule = OpenSchedule::new(open, start);
        assert_eq!(arrivals(&mut schedule, start, start), [0]);
        assert_eq!(schedule.until_next(start + milliseconds(4)), milliseconds(6));
        assert_eq!(arrivals(&mut schedule, start, start + milliseconds(35)), [10, 20, 30]);
    }

    #[test]
    fn the_line_is_bounded_and_every_arrival_is_accounted_for() {
        let start = Instant::now();
        let mut schedule = OpenSchedule::new(OpenLoop { per_second: 1000.0, max_waiting: 2 }, start);
        let mut counts = ArrivalCounts::default();
        let now = start + milliseconds(5);
        while let Some(due_at) = schedule.arrive(now, &mut counts) {
            schedule.wait(due_at, &mut counts);
        }
        assert_eq!(schedule.next_waiting(), Some(start));
        count_sent(start, now, &mut counts);
        schedule.end(&mut counts);
        assert_eq!(counts, ArrivalCounts { due: 6, sent: 1, late: 1, not_sent: 5 });
        assert_eq!(schedule.next_waiting(), None);
    }
}
