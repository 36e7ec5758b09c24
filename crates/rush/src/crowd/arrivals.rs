//! The arrival times of buyers and bots, computed in closed form: one number is remembered for each kind of
//! arrival, however many people come. Knows no clock.

use crate::scenario;

use super::{Moment, Who};

/// How long before the opening the last people of a burst come: they have to sign in and look around first.
/// If the run is short, it is this share of the time until the opening.
const SETTLE_SECONDS: f64 = 2.0;
const SETTLE_SHARE: f64 = 0.25;

/// The crowd of a run, as seen by one thread, which plays every `step`th of it.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    arrivals: scenario::Arrivals,
    buyers: u64,
    bots: u64,
    burst: u64,
    /// From the start of the run to the opening.
    lead_seconds: f64,
    step: u64,
    next_of_burst: u64,
    next_of_rest: u64,
}

/// Somebody who comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arrival {
    pub(super) at: Moment,
    pub(super) who: Who,
    /// Waits for the opening and presses then.
    pub(super) in_burst: bool,
}

pub(super) fn bots_of(crowd: &scenario::Crowd) -> u64 {
    (crowd.buyers as f64 * crowd.bots).round() as u64
}

impl Schedule {
    /// The part of the crowd that thread `index` of `threads` plays.
    pub(super) fn new(
        crowd: &scenario::Crowd,
        arrivals: &scenario::Arrivals,
        lead_seconds: f64,
        (index, threads): (u64, u64),
    ) -> Self {
        let (buyers, bots) = (crowd.buyers, bots_of(crowd));
        let total = buyers + bots;
        let burst = ((total as f64 * arrivals.burst_at_opening).round() as u64).min(total);
        let step = threads.max(1);
        // The first of the rest who belongs to this thread.
        let next_of_rest = burst + (index + step - burst % step) % step;
        Self {
            arrivals: arrivals.clone(),
            buyers,
            bots,
            burst,
            lead_seconds: lead_seconds.max(0.0),
            step,
            next_of_burst: index,
            next_of_rest,
        }
    }

    fn total(&self) -> u64 {
        self.buyers + self.bots
    }

    /// Bots are spread evenly among the people.
    fn who(&self, index: u64) -> Who {
        let bots_before = |index: u64| {
            let bots = u128::from(index) * u128::from(self.bots) / u128::from(self.total().max(1));
            u64::try_from(bots).unwrap_or(u64::MAX)
        };
        let before = bots_before(index);
        if bots_before(index + 1) > before {
            Who { number: before, is_bot: true }
        } else {
            Who { number: index - before, is_bot: false }
        }
    }

    fn burst_at(&self, index: u64) -> Moment {
        let settle_seconds = SETTLE_SECONDS.min(self.lead_seconds * SETTLE_SHARE);
        let share = index as f64 / self.burst.max(1) as f64;
        Moment::from_seconds((self.lead_seconds - settle_seconds) * share - self.lead_seconds)
    }

    /// When the rest has reached this position: the area under the rate is a triangle while it grows, a
    /// rectangle after.
    fn rest_at_seconds(&self, position: u64) -> f64 {
        let scenario::Arrivals { rate, ramp_seconds, .. } = self.arrivals;
        let position = position as f64;
        if position < rate * ramp_seconds / 2.0 {
            (2.0 * position * ramp_seconds / rate).sqrt()
        } else {
            position / rate + ramp_seconds / 2.0
        }
    }

    fn is_closed_loop(&self) -> bool {
        self.arrivals.rate <= 0.0
    }

    fn is_too_late(&self, seconds: f64) -> bool {
        self.arrivals.duration_seconds > 0.0 && seconds > self.arrivals.duration_seconds
    }

    fn next_in_burst(&self) -> Option<Arrival> {
        let index = self.next_of_burst;
        (index < self.burst).then(|| Arrival {
            at: self.burst_at(index),
            who: self.who(index),
            in_burst: true,
        })
    }

    fn next_by_rate(&self) -> Option<Arrival> {
        let index = self.next_of_rest;
        if self.is_closed_loop() || index >= self.total() {
            return None;
        }
        let seconds = self.rest_at_seconds(index - self.burst);
        let at = Moment::from_seconds(seconds);
        (!self.is_too_late(seconds)).then(|| Arrival { at, who: self.who(index), in_burst: false })
    }

    /// When the next person comes who does not wait for a free connection.
    pub(super) fn next_at(&self) -> Option<Moment> {
        let (burst, rest) = (self.next_in_burst(), self.next_by_rate());
        burst.into_iter().chain(rest).map(|arrival| arrival.at).min()
    }

    /// The next person who has come by `now`.
    pub(super) fn arrive(&mut self, now: Moment) -> Option<Arrival> {
        if let Some(arrival) = self.next_in_burst().filter(|arrival| arrival.at <= now) {
            self.next_of_burst += self.step;
            return Some(arrival);
        }
        let arrival = self.next_by_rate().filter(|arrival| arrival.at <= now)?;
        self.next_of_rest += self.step;
        Some(arrival)
    }

    /// In a closed loop: the next person, once a connection is free.
    pub(super) fn arrive_freely(&mut self, now: Moment) -> Option<Arrival> {
        if !self.has_free_arrivals(now) || now < Moment::OPENING {
            return None;
        }
        let arrival = Arrival { at: now, who: self.who(self.next_of_rest), in_burst: false };
        self.next_of_rest += self.step;
        Some(arrival)
    }

    fn has_free_arrivals(&self, now: Moment) -> bool {
        self.is_closed_loop() && self.next_of_rest < self.total() && !self.is_too_late(now.seconds())
    }

    /// Whether anybody is still to come.
    pub(super) fn has_more(&self, now: Moment) -> bool {
        self.next_at().is_some() || self.has_free_arrivals(now)
    }

    /// When a closed loop begins, if it has not.
    pub(super) fn begins_at(&self, now: Moment) -> Option<Moment> {
        (self.has_free_arrivals(now) && now < Moment::OPENING).then_some(Moment::OPENING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd(buyers: u64, bots: f64) -> scenario::Crowd {
        scenario::Crowd { buyers, bots, connections: 0, forwarded_addresses: false }
    }

    fn all(schedules: &mut [Schedule], until: Moment) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for schedule in schedules {
            arrivals.extend(std::iter::from_fn(|| schedule.arrive(until)));
        }
        arrivals
    }

    #[test]
    fn everybody_comes_once_whatever_the_number_of_threads() {
        for threads in 1..=3 {
            let arrivals = scenario::Arrivals {
                burst_at_opening: 0.3,
                rate: 100.0,
                ramp_seconds: 1.0,
                ..Default::default()
            };
            let part = |index| Schedule::new(&crowd(100, 0.5), &arrivals, 4.0, (index, threads));
            let mut schedules: Vec<_> = (0..threads).map(part).collect();
            let came = all(&mut schedules, Moment::from_seconds(1e6));
            let mut people: Vec<_> = came.iter().filter(|a| !a.who.is_bot).map(|a| a.who.number).collect();
            let mut bots: Vec<_> = came.iter().filter(|a| a.who.is_bot).map(|a| a.who.number).collect();
            people.sort_unstable();
            bots.sort_unstable();
            assert_eq!(people, (0..100).collect::<Vec<_>>());
            assert_eq!(bots, (0..50).collect::<Vec<_>>());
            assert_eq!(came.iter().filter(|arrival| arrival.in_burst).count(), 45);
            assert!(schedules.iter().all(|schedule| !schedule.has_more(Moment::from_seconds(1e6))));
        }
    }

    #[test]
    fn a_burst_is_there_before_the_opening() {
        let arrivals = scenario::Arrivals { burst_at_opening: 1.0, ..Default::default() };
        let mut schedule = Schedule::new(&crowd(10, 0.0), &arrivals, 20.0, (0, 1));
        let came = all(std::slice::from_mut(&mut schedule), Moment::OPENING);
        assert_eq!(came.len(), 10);
        assert_eq!(came[0].at, Moment::from_seconds(-20.0));
        assert!(came.windows(2).all(|pair| pair[0].at < pair[1].at));
        assert!(came[9].at < Moment::from_seconds(-SETTLE_SECONDS));
    }

    #[test]
    fn the_rate_grows_along_its_ramp() {
        let arrivals = scenario::Arrivals { rate: 100.0, ramp_seconds: 2.0, ..Default::default() };
        let schedule = Schedule::new(&crowd(1_000, 0.0), &arrivals, 0.0, (0, 1));
        let by = |seconds: f64| all(&mut [schedule.clone()], Moment::from_seconds(seconds)).len();
        // Half of the height at half of the ramp: a quarter of the 100 who come during the whole ramp.
        assert_eq!(by(0.999), 25);
        assert_eq!(by(1.999), 100);
        assert_eq!(by(2.999), 200);
    }

    #[test]
    fn nobody_comes_when_the_time_is_over() {
        let arrivals = scenario::Arrivals { rate: 10.0, duration_seconds: 2.0, ..Default::default() };
        let mut schedule = Schedule::new(&crowd(1_000, 0.0), &arrivals, 0.0, (0, 1));
        let came = all(std::slice::from_mut(&mut schedule), Moment::from_seconds(100.0));
        assert_eq!(came.len(), 21);
        assert!(!schedule.has_more(Moment::from_seconds(100.0)));
    }

    #[test]
    fn a_closed_loop_waits_for_the_opening_and_for_nothing_else() {
        let mut schedule = Schedule::new(&crowd(3, 0.0), &scenario::Arrivals::default(), 5.0, (0, 1));
        let early = Moment::from_seconds(-1.0);
        assert_eq!(schedule.arrive_freely(early), None);
        assert_eq!(schedule.begins_at(early), Some(Moment::OPENING));
        let numbers: Vec<_> = std::iter::from_fn(|| schedule.arrive_freely(Moment(1)))
            .map(|arrival| arrival.who.number)
            .collect();
        assert_eq!(numbers, [0, 1, 2]);
        assert!(!schedule.has_more(Moment(1)));
    }
}
