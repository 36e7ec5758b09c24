//! Shedding in front of a simulated server, in simulated time. Tests with floors are in `floors`.

use std::collections::VecDeque;

use super::*;

pub(super) const TARGET: Duration = Duration::from_millis(50);
pub(super) const MAX_BATCH: usize = 64;
const COMMIT_MICROS: u64 = 2_000;
const ITEM_MICROS: u64 = 170;
/// Requests per second, with every batch full.
const CAPACITY: u64 = capacity(COMMIT_MICROS, MAX_BATCH);

pub(super) const fn capacity(commit_micros: u64, max_batch: usize) -> u64 {
    1_000_000 * max_batch as u64 / full_commit_micros(commit_micros, max_batch)
}

/// The time of a commit with a full batch.
pub(super) const fn full_commit_micros(commit_micros: u64, max_batch: usize) -> u64 {
    commit_micros + ITEM_MICROS * max_batch as u64
}

/// A server that commits in groups. It takes up to `max_batch` waiting requests and answers all of them
/// together.
pub(super) struct Simulation {
    shedding: Arc<Shedding>,
    now_micros: u64,
    waiting: VecDeque<(InFlight, u64)>,
    committing: Vec<(InFlight, u64)>,
    commit_ends_at_micros: u64,
    next_arrival_micros: u64,
    pub(super) max_batch: usize,
    /// The base time of a commit, however small.
    pub(super) commit_micros: u64,
    /// One while the server is well, or the factor by which it is slower.
    slowness: u64,
    /// Commits take between half and one and a half of their usual time, at random.
    pub(super) is_noisy: bool,
    pub(super) seed: u64,
}

#[derive(Debug, Default)]
pub(super) struct SimulationOutcome {
    offered: u64,
    pub(super) answered: u64,
    latency_micros: u64,
    worst_micros: u64,
    /// The sum of the limits at each arrival.
    limits: u64,
}

impl SimulationOutcome {
    pub(super) fn mean_latency(&self) -> Duration {
        Duration::from_micros(self.latency_micros / self.answered.max(1))
    }

    fn mean_limit(&self) -> u64 {
        self.limits / self.offered.max(1)
    }
}

impl Simulation {
    fn new(initial: u32) -> Self {
        Self::with(SheddingOptions { min: 8, max: 10_000, initial, target_latency: TARGET })
    }

    pub(super) fn with(options: SheddingOptions) -> Self {
        Self {
            shedding: Arc::new(Shedding::new(options)),
            now_micros: 0,
            waiting: VecDeque::new(),
            committing: Vec::new(),
            commit_ends_at_micros: u64::MAX,
            next_arrival_micros: 0,
            max_batch: MAX_BATCH,
            commit_micros: COMMIT_MICROS,
            slowness: 1,
            is_noisy: false,
            seed: 1,
        }
    }

    fn run(&mut self, seconds: u64, per_second: u64) -> SimulationOutcome {
        self.run_for(Duration::from_secs(seconds), per_second)
    }

    pub(super) fn run_for(&mut self, time: Duration, per_second: u64) -> SimulationOutcome {
        let end = self.now_micros + time.as_micros() as u64;
        let mut outcome = SimulationOutcome::default();
        while self.now_micros < end {
            let next_micros = self.next_arrival_micros.min(self.commit_ends_at_micros);
            self.now_micros = self.now_micros.max(next_micros);
            if next_micros == self.commit_ends_at_micros {
                self.answer(&mut outcome);
            } else {
                let between = self.noisy(1_000_000 / per_second);
                self.next_arrival_micros += between;
                outcome.offered += 1;
                outcome.limits += u64::from(self.shedding.limit());
                self.waiting.extend(self.shedding.try_enter().map(|entered| (entered, self.now_micros)));
            }
            if self.committing.is_empty() && !self.waiting.is_empty() {
                self.commit();
            }
            let under_way = self.waiting.len() + self.committing.len();
            assert_eq!(self.shedding.in_flight() as usize, under_way);
        }
        outcome
    }

    fn commit(&mut self) {
        self.committing.extend(self.waiting.drain(..self.waiting.len().min(self.max_batch)));
        let micros = self.commit_micros + ITEM_MICROS * self.committing.len() as u64;
        self.commit_ends_at_micros = self.now_micros + self.noisy(micros * self.slowness);
    }

    fn noisy(&mut self, micros: u64) -> u64 {
        // A linear congruential generator is random enough here.
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if self.is_noisy { micros / 2 + micros * (self.seed >> 54) / 1_024 } else { micros }
    }

    /// The process stands still, and then sees everything that came meanwhile at once.
    fn stop_for(&mut self, time: Duration) {
        self.now_micros += time.as_micros() as u64;
        if self.commit_ends_at_micros != u64::MAX {
            self.commit_ends_at_micros = self.commit_ends_at_micros.max(self.now_micros);
        }
    }

    fn answer(&mut self, outcome: &mut SimulationOutcome) {
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
fn the_limit_converges_from_below_and_from_above() {
    let fits = CAPACITY * 50 / 1_000;
    for initial in [8, 10_000] {
        let mut simulation = Simulation::new(initial);
        simulation.run(10, 10 * CAPACITY);
        let limit = simulation.run(10, 10 * CAPACITY).mean_limit();
        assert!((fits * 7 / 10..=fits * 13 / 10).contains(&limit), "from {initial}, {fits} fit: {limit}");
    }
}

#[test]
fn a_load_the_server_can_bear_is_never_refused() {
    let mut simulation = Simulation::new(250);
    let outcome = simulation.run(10, CAPACITY / 2);
    assert!(outcome.answered + 100 >= outcome.offered, "{outcome:?}");
    assert_eq!(outcome.limits, outcome.offered * 250, "nothing moves it");
}

#[test]
fn a_slow_phase_lowers_the_limit_and_its_end_raises_it_again() {
    let mut simulation = Simulation::new(250);
    let before = simulation.run(10, 10 * CAPACITY);
    simulation.slowness = 5;
    simulation.run(10, 10 * CAPACITY);
    let slow = simulation.run(10, 10 * CAPACITY);
    assert!(slow.mean_limit() < before.mean_limit() / 2, "{before:?} {slow:?}");
    assert!(slow.mean_latency() <= TARGET * 3 / 2, "{slow:?}");
    simulation.slowness = 1;
    simulation.run(5, 10 * CAPACITY);
    let after = simulation.run(10, 10 * CAPACITY);
    assert!(after.answered * 10 >= 9 * 10 * CAPACITY, "{after:?}");
}

#[test]
fn the_limit_recovers_from_a_long_outage() {
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
fn a_passing_floor_refuses_few_requests_and_none_afterwards() {
    for commit_micros in [20_000, 40_000, 80_000] {
        let load = capacity(commit_micros, MAX_BATCH) * 8 / 10;
        let mut simulation = Simulation::new(10_000);
        for round in 0..3 {
            simulation.commit_micros = commit_micros;
            let during = simulation.run(10, load);
            assert!(during.answered * 20 >= during.offered * 19, "{commit_micros}, {round}: {during:?}");
            simulation.commit_micros = COMMIT_MICROS;
            simulation.run(1, load);
            let after = simulation.run(2, load);
            assert!(
                after.answered + MAX_BATCH as u64 >= after.offered,
                "{commit_micros}, {round}: {after:?}"
            );
            assert!(after.worst_micros < 10_000, "{commit_micros}, {round}: {after:?}");
        }
    }
}

#[test]
fn a_process_that_stood_still_goes_on_as_before() {
    for millis in [50, 200, 1_000, 2_000] {
        let mut simulation = Simulation::new(10_000);
        simulation.run(5, CAPACITY / 4);
        simulation.stop_for(Duration::from_millis(millis));
        let catching_up = simulation.run(2, CAPACITY / 4);
        assert!(catching_up.answered * 10 >= catching_up.offered * 9, "{millis}: {catching_up:?}");
        let after = simulation.run(5, CAPACITY / 4);
        assert!(after.answered + MAX_BATCH as u64 >= after.offered, "{millis}: {after:?}");
        assert!(after.mean_latency() < TARGET / 5, "{millis}: {after:?}");
    }
}

#[test]
fn the_target_is_met_even_if_commit_times_vary() {
    for seed in 1..=5 {
        let mut simulation = Simulation::new(10_000);
        (simulation.is_noisy, simulation.seed) = (true, seed);
        simulation.run(10, 10 * CAPACITY);
        let outcome = simulation.run(20, 10 * CAPACITY);
        assert!(outcome.answered * 10 >= 9 * 20 * CAPACITY, "seed {seed}: {outcome:?}");
        assert!(outcome.mean_latency() <= TARGET * 5 / 4, "seed {seed}: {outcome:?}");
    }
}
