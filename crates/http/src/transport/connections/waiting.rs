//! Bounds the memory of requests that wait: they are incomplete, or come while an earlier one is answered. It
//! does not know unread answers.

use std::cmp::Reverse;

use super::{Dispensable, Open, Watched};
use crate::transport::pulse::ConnectionCommand;

impl Open {
    /// If requests that are incomplete or wait for their turn take more than `max_bytes`, ends some. First go
    /// clients that send on while they are being answered, those with the most bytes first, and then those
    /// that have waited longest.
    pub(super) fn bound_waiting(&self, max_bytes: usize) {
        let mut waiting: Vec<(&Watched, usize)> = self
            .watched
            .values()
            .filter(|watched| watched.pulse.command() == ConnectionCommand::GoOn)
            .map(|watched| (watched, watched.pulse.waiting_bytes()))
            .filter(|(_, bytes)| *bytes > 0)
            .collect();
        let mut bytes: usize = waiting.iter().map(|(_, bytes)| bytes).sum();
        if bytes <= max_bytes {
            return;
        }
        waiting.sort_by_cached_key(|(watched, bytes)| match watched.pulse.arrival() {
            Some(_) => (1, Reverse(0), watched.arriving_since),
            None if watched.pulse.is_working() => (0, Reverse(*bytes), watched.quiet_since),
            None => (1, Reverse(0), watched.quiet_since),
        });
        for (watched, freed) in waiting {
            if bytes <= max_bytes {
                return;
            }
            bytes = bytes.saturating_sub(freed);
            watched.displace(match watched.pulse.arrival() {
                Some(_) => Dispensable::Arriving,
                None if watched.pulse.is_idle() => Dispensable::Idle,
                None => Dispensable::Stalled,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{
        super::tests::{PATIENCE, commands, connections, sweep},
        *,
    };

    #[test]
    fn the_oldest_incomplete_requests_are_given_up_when_they_fill_their_memory() {
        let (_, connections) = connections();
        let begin = Instant::now();
        let listed: Vec<_> = (0..3).map(|number| connections.add(number, begin)).collect();
        for (number, listed) in listed.iter().enumerate() {
            listed.pulse.arriving();
            listed.pulse.keep_in_lane(300);
            connections.sweep(PATIENCE, begin + Duration::from_secs(number as u64 + 1));
        }
        assert!(!listed[0].pulse.is_late(), "900 of 1,000 bytes are taken");
        listed[2].pulse.hold_arrived(200);
        connections.sweep(PATIENCE, begin + Duration::from_secs(4));
        let late: Vec<bool> = listed.iter().map(|listed| listed.pulse.is_late()).collect();
        assert_eq!(late, [true, false, false]);
    }

    #[test]
    fn clients_that_send_on_while_they_are_answered_go_before_incomplete_requests() {
        let (_, connections) = connections();
        let begin = Instant::now();
        let listed: Vec<_> = (0..4).map(|number| connections.add(number, begin)).collect();
        let pulse = |number: usize| &listed[number].pulse;
        pulse(0).arriving();
        pulse(0).keep_in_lane(400);
        let _work: Vec<_> = (1..4).map(|number| pulse(number).working()).collect();
        // What a handler has of a complete request is not waiting.
        pulse(1).hold_arrived(100_000);
        pulse(2).keep_in_lane(300);
        let now = sweep(&connections, begin, 5, || {});
        assert_eq!((commands(&listed), pulse(0).is_late()), (vec![ConnectionCommand::GoOn; 4], false));
        pulse(3).keep_in_lane(500);
        sweep(&connections, now, 1, || {});
        let expected = vec![
            ConnectionCommand::GoOn,
            ConnectionCommand::GoOn,
            ConnectionCommand::GoOn,
            ConnectionCommand::Unread,
        ];
        assert_eq!((commands(&listed), pulse(0).is_late()), (expected, false));
    }
}
