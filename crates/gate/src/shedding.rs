//! How many requests may be under way at once: as many as get their answer within a target latency. What comes on
//! top is refused at once instead of waiting for an answer that comes too late. Knows nothing of the work, and has
//! no clock.
//!
//! The limit follows the measured latency, window by window: it is cut when the mean is over the target, and grows
//! when the target is met and the limit was nearly reached. It doesn't seek the lowest latency: what commits in
//! groups does more the more is under way, up to the point where the answers come too late. When nobody has come for a
//! while, what was measured is of another rush, and the limit begins again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use penstock_domain::Timestamp;

/// A window is closed when it has lasted so long …
const WINDOW_MILLIS: u64 = 100;
/// … and has so many samples.
const WINDOW_SAMPLES: u32 = 16;
const NOT_STARTED: i64 = i64::MIN;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SheddingOptions {
    /// The limit never falls below this, and never below one: without samples it could not recover.
    pub min: u32,
    pub max: u32,
    pub initial: u32,
    pub target_latency: Duration,
}

#[derive(Debug)]
pub struct Shedding {
    options: SheddingOptions,
    limit: AtomicU32,
    in_flight: AtomicU32,
    window: Window,
    /// The window and its samples at the last look for quiet.
    seen: AtomicU64,
}

/// What is measured between two decisions. All of it is only a measurement: a sample that comes while the window
/// is being closed may count in either or be lost.
#[derive(Debug)]
struct Window {
    /// Who enters in a window is measured in it or not at all. So a window never blames the present limit for
    /// what entered under the one before.
    number: AtomicU32,
    started_at_millis: AtomicI64,
    samples: AtomicU32,
    latency_micros: AtomicU64,
    most_in_flight: AtomicU32,
}

impl Shedding {
    pub fn new(options: SheddingOptions) -> Self {
        let min = options.min.max(1);
        let options = SheddingOptions { min, max: options.max.max(min), ..options };
        Self {
            options,
            limit: AtomicU32::new(options.first_limit()),
            in_flight: AtomicU32::new(0),
            window: Window {
                number: AtomicU32::new(0),
                started_at_millis: AtomicI64::new(NOT_STARTED),
                samples: AtomicU32::new(0),
                latency_micros: AtomicU64::new(0),
                most_in_flight: AtomicU32::new(0),
            },
            seen: AtomicU64::new(0),
        }
    }

    /// To be called now and then: begins again if nobody has come between two calls. The burst of the next sale is not
    /// to be measured by the end of the last.
    pub fn begin_again_if_quiet(&self) {
        let (number, samples) = (self.window.number.load(Relaxed), self.window.samples.load(Relaxed));
        let seen = u64::from(number) << 32 | u64::from(samples);
        if self.seen.swap(seen, Relaxed) == seen && self.in_flight() == 0 {
            self.limit.store(self.options.first_limit(), Relaxed);
        }
    }

    /// None: so many are under way that another one would have to wait too long.
    pub fn try_enter(self: &Arc<Self>) -> Option<InFlight> {
        let limit = self.limit.load(Relaxed);
        // Who is refused only reads, so that a flood of refusals does not slow down those who are let in.
        self.in_flight.fetch_update(Relaxed, Relaxed, |count| (count < limit).then_some(count + 1)).ok()?;
        Some(InFlight { window: self.window.number.load(Relaxed), shedding: Arc::clone(self) })
    }

    /// Whether the next one would be refused.
    pub fn is_full(&self) -> bool {
        self.in_flight() >= self.limit()
    }

    pub fn limit(&self) -> u32 {
        self.limit.load(Relaxed)
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    fn sample(&self, latency: Duration, now: Timestamp) {
        let window = &self.window;
        let micros = u32::try_from(latency.as_micros()).unwrap_or(u32::MAX);
        window.latency_micros.fetch_add(u64::from(micros), Relaxed);
        let samples = window.samples.fetch_add(1, Relaxed) + 1;
        // The count only falls when somebody leaves, so its peaks are seen by those who are about to.
        let in_flight = self.in_flight.load(Relaxed);
        if window.most_in_flight.load(Relaxed) < in_flight {
            window.most_in_flight.fetch_max(in_flight, Relaxed);
        }
        if samples >= WINDOW_SAMPLES && window.is_closed_by_me(now) {
            self.adjust();
        }
    }

    fn adjust(&self) {
        let window = &self.window;
        let samples = window.samples.swap(0, Relaxed);
        let latency_micros = window.latency_micros.swap(0, Relaxed);
        let most_in_flight = window.most_in_flight.swap(0, Relaxed);
        let Some(mean_micros) = latency_micros.checked_div(u64::from(samples)) else { return };
        let limit = self.options.next_limit(self.limit(), mean_micros, most_in_flight);
        self.limit.store(limit, Relaxed);
        window.number.fetch_add(1, Relaxed);
    }
}

impl Window {
    /// True for exactly one of those who ask when it has lasted long enough; the next window begins with it.
    fn is_closed_by_me(&self, now: Timestamp) -> bool {
        let started_at = self.started_at_millis.load(Relaxed);
        // A clock that was set back must not keep the window open, so the direction does not matter.
        if started_at != NOT_STARTED && now.as_millis().abs_diff(started_at) < WINDOW_MILLIS {
            return false;
        }
        let begin = self.started_at_millis.compare_exchange(started_at, now.as_millis(), Relaxed, Relaxed);
        // The very first samples only tell when the first window begins.
        begin.is_ok_and(|started_at| started_at != NOT_STARTED)
    }
}

impl SheddingOptions {
    fn first_limit(&self) -> u32 {
        self.initial.clamp(self.min, self.max)
    }

    fn next_limit(&self, limit: u32, mean_micros: u64, most_in_flight: u32) -> u32 {
        let target_micros = u64::try_from(self.target_latency.as_micros()).unwrap_or(u64::MAX);
        let next = if mean_micros > target_micros {
            // With a queue in front of steady work, the latency is in proportion to what is under way. A tenth at
            // least, so that it moves; a half at most, because one bad window is no proof.
            let proportional = u128::from(limit) * u128::from(target_micros) / u128::from(mean_micros);
            let proportional = u32::try_from(proportional).unwrap_or(limit);
            proportional.clamp(limit / 2, limit - limit.div_ceil(10))
        } else if u64::from(most_in_flight) * 5 >= u64::from(limit) * 4 {
            limit.saturating_add((limit / 10).max(1))
        } else {
            // The limit was not what held anybody back: nothing is known of a larger one.
            limit
        };
        next.clamp(self.min, self.max)
    }
}

/// A place among those under way. Dropping it gives the place back, also when its holder panics.
#[derive(Debug)]
pub struct InFlight {
    shedding: Arc<Shedding>,
    window: u32,
}

impl InFlight {
    /// The answer is known: its latency is a sample. Who is dropped without this (an error, a client that went
    /// away) leaves without one.
    pub fn finished(self, latency: Duration, now: Timestamp) {
        if self.window == self.shedding.window.number.load(Relaxed) {
            self.shedding.sample(latency, now);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.shedding.in_flight.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const TARGET: Duration = Duration::from_millis(50);

    fn shedding(initial: u32) -> Arc<Shedding> {
        Arc::new(Shedding::new(SheddingOptions { min: 8, max: 10_000, initial, target_latency: TARGET }))
    }

    /// A server that commits in groups: it takes what waits, at most `MAX_BATCH`, and answers all of it together.
    struct Simulation {
        shedding: Arc<Shedding>,
        now_micros: u64,
        waiting: VecDeque<(InFlight, u64)>,
        committing: Vec<(InFlight, u64)>,
        commit_ends_at_micros: u64,
        next_arrival_micros: u64,
        /// One while the server is well; so many times as slow while it isn't.
        slowness: u64,
    }

    #[derive(Debug, Default)]
    struct Outcome {
        offered: u64,
        answered: u64,
        latency_micros: u64,
        worst_micros: u64,
        lowest_limit: u32,
        highest_limit: u32,
    }

    impl Outcome {
        fn mean_latency(&self) -> Duration {
            Duration::from_micros(self.latency_micros / self.answered)
        }
    }

    const MAX_BATCH: usize = 64;
    const COMMIT_MICROS: u64 = 2_000;
    const ITEM_MICROS: u64 = 170;
    /// In a second, with every batch full.
    const CAPACITY: u64 = 1_000_000 * MAX_BATCH as u64 / (COMMIT_MICROS + ITEM_MICROS * MAX_BATCH as u64);

    impl Simulation {
        fn new(initial: u32) -> Self {
            Self {
                shedding: shedding(initial),
                now_micros: 0,
                waiting: VecDeque::new(),
                committing: Vec::new(),
                commit_ends_at_micros: u64::MAX,
                next_arrival_micros: 0,
                slowness: 1,
            }
        }

        fn run(&mut self, seconds: u64, per_second: u64) -> Outcome {
            let end = self.now_micros + seconds * 1_000_000;
            let mut outcome = Outcome { lowest_limit: u32::MAX, ..Outcome::default() };
            while self.now_micros < end {
                self.now_micros = self.next_arrival_micros.min(self.commit_ends_at_micros);
                if self.now_micros == self.commit_ends_at_micros {
                    self.answer(&mut outcome);
                } else {
                    self.next_arrival_micros += 1_000_000 / per_second;
                    outcome.offered += 1;
                    self.waiting.extend(self.shedding.try_enter().map(|entered| (entered, self.now_micros)));
                }
                if self.committing.is_empty() && !self.waiting.is_empty() {
                    self.commit();
                }
                outcome.lowest_limit = outcome.lowest_limit.min(self.shedding.limit());
                outcome.highest_limit = outcome.highest_limit.max(self.shedding.limit());
                let under_way = self.waiting.len() + self.committing.len();
                assert_eq!(self.shedding.in_flight() as usize, under_way);
            }
            outcome
        }

        fn commit(&mut self) {
            self.committing.extend(self.waiting.drain(..self.waiting.len().min(MAX_BATCH)));
            let micros = COMMIT_MICROS + ITEM_MICROS * self.committing.len() as u64;
            self.commit_ends_at_micros = self.now_micros + micros * self.slowness;
        }

        fn answer(&mut self, outcome: &mut Outcome) {
            let now = Timestamp::from_millis(self.now_micros as i64 / 1_000);
            for (entered, arrived_at_micros) in self.committing.drain(..) {
                let latency_micros = self.now_micros - arrived_at_micros;
                outcome.answered += 1;
                outcome.latency_micros += latency_micros;
                outcome.worst_micros = outcome.worst_micros.max(latency_micros);
                entered.finished(Duration::from_micros(latency_micros), now);
            }
            self.commit_ends_at_micros = u64::MAX;
        }
    }

    #[test]
    fn at_ten_times_the_load_nine_tenths_of_the_capacity_are_answered_in_time() {
        for initial in [8, 100, 250, 10_000] {
            let mut simulation = Simulation::new(initial);
            simulation.run(10, 10 * CAPACITY);
            let outcome = simulation.run(20, 10 * CAPACITY);
            assert!(outcome.answered * 10 >= 9 * 20 * CAPACITY, "from {initial}: {outcome:?}");
            assert!(outcome.mean_latency() <= TARGET * 11 / 10, "from {initial}: {outcome:?}");
            assert!(outcome.worst_micros <= 75_000, "from {initial}: {outcome:?}");
        }
    }

    #[test]
    fn the_limit_comes_to_the_same_from_below_and_from_above() {
        let fits = (CAPACITY * 50 / 1_000) as u32;
        for initial in [8, 10_000] {
            let mut simulation = Simulation::new(initial);
            simulation.run(10, 10 * CAPACITY);
            let outcome = simulation.run(10, 10 * CAPACITY);
            let around = fits * 7 / 10..=fits * 13 / 10;
            assert!(around.contains(&outcome.lowest_limit), "from {initial}, {fits} fit: {outcome:?}");
            assert!(around.contains(&outcome.highest_limit), "from {initial}, {fits} fit: {outcome:?}");
        }
    }

    #[test]
    fn a_load_the_server_can_bear_is_never_refused() {
        let mut simulation = Simulation::new(250);
        let outcome = simulation.run(10, CAPACITY / 2);
        assert!(outcome.answered + 100 >= outcome.offered, "{outcome:?}");
        assert_eq!((outcome.lowest_limit, outcome.highest_limit), (250, 250), "nothing moves it");
    }

    #[test]
    fn a_slow_phase_lowers_the_limit_and_the_end_of_it_raises_it_again() {
        let mut simulation = Simulation::new(250);
        let before = simulation.run(10, 10 * CAPACITY);
        simulation.slowness = 5;
        simulation.run(10, 10 * CAPACITY);
        let slow = simulation.run(10, 10 * CAPACITY);
        assert!(slow.highest_limit < before.lowest_limit / 2, "{before:?} {slow:?}");
        assert!(slow.mean_latency() <= TARGET * 3 / 2, "{slow:?}");
        simulation.slowness = 1;
        simulation.run(5, 10 * CAPACITY);
        let after = simulation.run(10, 10 * CAPACITY);
        assert!(after.answered * 10 >= 9 * 10 * CAPACITY, "{after:?}");
    }

    #[test]
    fn it_recovers_from_an_outage_that_answered_nothing_for_long() {
        let mut simulation = Simulation::new(250);
        simulation.run(5, 10 * CAPACITY);
        simulation.slowness = 5_000;
        simulation.run(60, 10 * CAPACITY);
        simulation.slowness = 1;
        simulation.run(10, 10 * CAPACITY);
        let after = simulation.run(10, 10 * CAPACITY);
        assert!(after.answered * 10 >= 9 * 10 * CAPACITY, "{after:?}");
    }

    #[test]
    fn one_window_cuts_by_a_tenth_at_least_and_by_a_half_at_most() {
        let options = SheddingOptions { min: 8, max: 1_000, initial: 8, target_latency: TARGET };
        assert_eq!(options.next_limit(100, 50_001, 100), 90);
        assert_eq!(options.next_limit(100, 75_000, 100), 66);
        assert_eq!(options.next_limit(100, 10_000_000, 100), 50);
        assert_eq!(options.next_limit(9, 50_001, 9), 8);
        assert_eq!(options.next_limit(8, 10_000_000, 8), 8, "never below the minimum");
    }

    #[test]
    fn it_grows_only_when_the_limit_was_nearly_reached() {
        let options = SheddingOptions { min: 1, max: 1_000, initial: 8, target_latency: TARGET };
        assert_eq!(options.next_limit(100, 50_000, 79), 100);
        assert_eq!(options.next_limit(100, 50_000, 80), 110);
        assert_eq!(options.next_limit(1, 50_000, 1), 2);
        assert_eq!(options.next_limit(999, 50_000, 999), 1_000, "never above the maximum");
    }

    #[test]
    fn who_entered_under_another_limit_is_no_sample_for_this_one() {
        let shedding = shedding(100);
        let window = |latency: Duration, millis: i64| {
            for _ in 0..WINDOW_SAMPLES {
                shedding.try_enter().unwrap().finished(latency, Timestamp::from_millis(millis));
            }
        };
        window(TARGET * 4, 0);
        let earlier: Vec<InFlight> = (0..WINDOW_SAMPLES).filter_map(|_| shedding.try_enter()).collect();
        window(TARGET * 4, 100);
        assert_eq!(shedding.limit(), 50);
        for entered in earlier {
            entered.finished(TARGET * 4, Timestamp::from_millis(1_000));
        }
        assert_eq!(shedding.limit(), 50);
        window(TARGET * 4, 1_000);
        assert_eq!(shedding.limit(), 25);
    }

    #[test]
    fn the_limit_begins_again_only_after_a_quiet_time() {
        let shedding = shedding(100);
        let rush = |millis: i64| {
            for _ in 0..WINDOW_SAMPLES {
                shedding.try_enter().unwrap().finished(TARGET * 4, Timestamp::from_millis(millis));
            }
        };
        rush(0);
        rush(1_000);
        shedding.begin_again_if_quiet();
        assert_eq!(shedding.limit(), 50, "somebody was here since the last look");
        let place = shedding.try_enter().unwrap();
        shedding.begin_again_if_quiet();
        assert_eq!(shedding.limit(), 50, "somebody is still here");
        drop(place);
        shedding.begin_again_if_quiet();
        assert_eq!(shedding.limit(), 100);
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_hold_the_limit_still() {
        let shedding = shedding(100);
        for millis in [5_000_000, 5_000_000, 1_000] {
            for _ in 0..WINDOW_SAMPLES {
                shedding.try_enter().unwrap().finished(TARGET * 4, Timestamp::from_millis(millis));
            }
        }
        assert_eq!(shedding.limit(), 50);
    }

    #[test]
    fn the_place_of_who_gives_up_or_panics_is_free_again() {
        let shedding = shedding(8);
        let mut places: Vec<InFlight> = std::iter::from_fn(|| shedding.try_enter()).collect();
        assert_eq!((places.len(), shedding.in_flight()), (8, 8));
        places.pop();
        assert_eq!(shedding.in_flight(), 7);
        let place = shedding.try_enter().unwrap();
        let panicked = std::thread::spawn(move || {
            let _place = place;
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
        assert_eq!(shedding.in_flight(), 7);
        places.pop().unwrap().finished(Duration::ZERO, Timestamp::from_millis(0));
        drop(places);
        assert_eq!(shedding.in_flight(), 0);
    }

    #[test]
    fn many_threads_never_exceed_the_limit_and_leave_nothing_behind() {
        let options = SheddingOptions { min: 3, max: 3, initial: 3, target_latency: TARGET };
        let shedding = Arc::new(Shedding::new(options));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..20_000 {
                        let Some(place) = shedding.try_enter() else { continue };
                        assert!(shedding.in_flight() <= 3);
                        if round % 3 == 0 {
                            drop(place);
                        } else {
                            place.finished(TARGET, Timestamp::from_millis(round));
                        }
                    }
                });
            }
        });
        assert_eq!((shedding.in_flight(), shedding.limit()), (0, 3));
    }
}
