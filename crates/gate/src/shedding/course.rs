//! Decides the limit after each window of measurements. It knows no threads and no clock.
//!
//! The latency has two parts. One is the queue, which is proportional to the load under way: a lower limit
//! shortens it at no cost. The other is a floor, such as the sync behind a group commit: a lower limit does
//! not change it, and fewer requests are decided in the same time. A single latency does not show which part
//! it is, so the course tries. It halves the load for a window and compares. If the latency falls along with
//! the load, the cut is kept. If not, the cut is taken back, and the latency of that floor is allowed from
//! then on. The target latency is always allowed, without a trial.

/// The allowed latency is at least 5/3 of the latency measured with half the load. If there is a queue, half
/// the load waits half as long, so this is below the present latency. At a floor it is above.
const ALLOWED_TO_HALF: (u64, u64) = (5, 3);
/// Windows between two trials while the limit holds requests back. Doubles as long as trials give the same
/// result …
const FIRST_TRIAL_AFTER: u32 = 8;
/// … up to this.
const MAX_TRIAL_AFTER: u32 = 32;

/// The measurements of one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measured {
    pub(super) limit: u32,
    pub(super) most_in_flight: u32,
    pub(super) mean_micros: u64,
}

impl Measured {
    fn under_way(self) -> u32 {
        self.most_in_flight.min(self.limit)
    }

    /// Whether the rate is at least five sixths of the rate in the `other` window.
    fn keeps_rate_of(self, other: Self) -> bool {
        // The rate is the load divided by the latency.
        let product = |under_way: u32, micros: u64| u128::from(under_way) * u128::from(micros);
        product(self.under_way(), other.mean_micros) * 6 >= product(other.under_way(), self.mean_micros) * 5
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) min: u32,
    pub(super) max: u32,
    pub(super) target_micros: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Course {
    bounds: Bounds,
    step: Step,
    last: Measured,
    /// The latency with half the load at the last trial, if that showed a floor.
    half_micros: Option<u64>,
    /// Windows until the next trial.
    trial_in: u32,
    trial_after: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// `was_over`: the last window took too long. One such window is not enough for a cut, because the
    /// process may have been stopped for a moment.
    Steady { was_over: bool },
    /// The limit is being cut. `start` was measured at the beginning, and `before` at the last cut that was
    /// kept. If the load was still `growing`, that window can't show a floor, because the first requests in
    /// it waited behind fewer others.
    Cutting { start: Measured, before: Measured, growing: bool },
    /// The latency did not follow the cut. The load from before is let in again, to check that the cut made
    /// no difference, rather than that everything became slower meanwhile. The first of the `windows` has not
    /// settled yet.
    Checking { before: Measured, cut: Measured, windows: u32 },
}

impl Course {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            step: Step::Steady { was_over: false },
            last: Measured { limit: 0, most_in_flight: 0, mean_micros: 0 },
            half_micros: None,
            trial_in: FIRST_TRIAL_AFTER,
            trial_after: FIRST_TRIAL_AFTER,
        }
    }

    /// The limit for the next window.
    pub(super) fn next_limit(&mut self, measured: Measured) -> u32 {
        if self.half_micros.is_some_and(|half| measured.mean_micros.max(self.last.mean_micros) < half / 2) {
            // The floor is gone. It takes two windows, because one alone may have been lucky.
            self.half_micros = None;
        }
        self.trial_in = self.trial_in.saturating_sub(1);
        let next = match self.step {
            Step::Steady { was_over } => self.steady(was_over, measured),
            Step::Cutting { start, before, growing } => self.cutting(start, before, growing, measured),
            Step::Checking { before, cut, windows } => self.checking(before, cut, windows, measured),
        };
        self.last = measured;
        next.clamp(1, self.bounds.max)
    }

    fn allowed_micros(&self) -> u64 {
        self.half_micros.map_or(0, allowed_by_half).max(self.bounds.target_micros)
    }

    fn steady(&mut self, was_over: bool, measured: Measured) -> u32 {
        let Measured { limit, most_in_flight, mean_micros } = measured;
        let is_over = mean_micros > self.allowed_micros();
        let is_nearly_reached = u64::from(most_in_flight) * 5 >= u64::from(limit) * 4;
        self.step = Step::Steady { was_over: is_over };
        if is_over && was_over && measured.under_way() > self.bounds.min {
            let growing = most_in_flight / 4 > self.last.most_in_flight / 3;
            self.step = Step::Cutting { start: measured, before: measured, growing };
            return self.lower(measured.under_way(), mean_micros);
        }
        if is_over && was_over && is_nearly_reached {
            // The minimum is let in again after this, however long it waits. So a small cut is useless, even
            // if it helps: only halving the load shows whether there is a floor.
            return self.halve(measured);
        }
        if is_over || !is_nearly_reached {
            // The limit did not hold requests back, so nothing is known about a larger one.
            return limit;
        }
        if self.trial_in == 0 && mean_micros * 2 > self.allowed_micros() {
            return self.halve(measured);
        }
        self.raise(limit, mean_micros)
    }

    fn halve(&mut self, measured: Measured) -> u32 {
        self.step = Step::Cutting { start: measured, before: measured, growing: false };
        measured.under_way() / 2
    }

    fn cutting(&mut self, start: Measured, before: Measured, growing: bool, measured: Measured) -> u32 {
        let Measured { limit, mean_micros, .. } = measured;
        let is_over = mean_micros > self.allowed_micros();
        if limit > before.under_way().div_ceil(2) {
            if is_over {
                return self.lower(limit, mean_micros).max(before.under_way() / 2);
            }
            self.step = Step::Steady { was_over: false };
            return limit.max(self.bounds.min);
        }
        // One window at half the load may have been lucky, so it does not disprove a known floor.
        if self.half_micros.is_none() && allowed_by_half(mean_micros) < before.mean_micros {
            if measured.keeps_rate_of(start) {
                return self.follows(start, measured, before.limit);
            }
            // Each cut has cost little, but together they cost too much. Go back to the last but one, and
            // allow its latency.
            self.tried(false);
            self.half_micros = Some(before.mean_micros * ALLOWED_TO_HALF.1 / ALLOWED_TO_HALF.0 + 1);
            return before.limit;
        }
        if growing && is_over && measured.under_way() > self.bounds.min {
            self.step = Step::Cutting { start: measured, before: measured, growing: false };
            return self.lower(measured.under_way(), mean_micros);
        }
        self.step = Step::Checking { before, cut: measured, windows: 0 };
        // A few more requests than before may have come. Don't turn them away for the sake of a trial.
        before.limit.min(before.most_in_flight.saturating_add(before.most_in_flight / 4))
    }

    fn checking(&mut self, before: Measured, cut: Measured, windows: u32, measured: Measured) -> u32 {
        if windows == 0 {
            self.step = Step::Checking { before, cut, windows: 1 };
            return measured.limit;
        }
        // Fewer may come now, because refused requests return later. Then believe what the cut showed:
        // without the crowd, this window can't show that everything became slower.
        let as_many_came = measured.under_way() > before.under_way() / 4 * 3;
        if as_many_came && allowed_by_half(cut.mean_micros) < measured.mean_micros {
            if windows == 1 {
                // Where commit times vary, a single window may be slow by chance.
                self.step = Step::Checking { before, cut, windows: 2 };
                return measured.limit;
            }
            return self.follows(cut, cut, before.limit);
        }
        self.tried(self.half_micros.is_some());
        self.half_micros = Some(cut.mean_micros);
        before.limit
    }

    /// The latency followed the cut, so the cut shortened a queue. The rest may be a floor. If it is still
    /// too long, the next cut shows that, down to half of the minimum. If not, the fitting limit is known,
    /// and it is not above the one before.
    fn follows(&mut self, start: Measured, cut: Measured, before: u32) -> u32 {
        let is_as_before = self.half_micros.is_none() && cut.mean_micros <= self.bounds.target_micros;
        self.tried(is_as_before);
        self.half_micros = None;
        if cut.mean_micros > self.allowed_micros() && cut.under_way() > self.bounds.min {
            self.step = Step::Cutting { start, before: cut, growing: false };
            return self.lower(cut.under_way(), cut.mean_micros);
        }
        self.fitting(cut.limit, cut.mean_micros).min(before).max(self.bounds.min)
    }

    fn tried(&mut self, is_as_before: bool) {
        self.step = Step::Steady { was_over: false };
        self.trial_after =
            if is_as_before { (self.trial_after * 2).min(MAX_TRIAL_AFTER) } else { FIRST_TRIAL_AFTER };
        self.trial_in = self.trial_after;
    }

    /// Lowers by at least a tenth, so that the limit moves, and by at most a half, until it is known whether
    /// that helps.
    fn lower(&self, under_way: u32, mean_micros: u64) -> u32 {
        self.fitting(under_way, mean_micros).clamp(under_way / 2, under_way - under_way.div_ceil(10))
    }

    /// Raises by at least a tenth and at most a half.
    fn raise(&self, limit: u32, mean_micros: u64) -> u32 {
        let least = limit.saturating_add((limit / 10).max(1));
        self.fitting(limit, mean_micros).clamp(least, limit.saturating_add(limit / 2).max(least))
    }

    /// The load that fits the allowed latency, if latency is proportional to load.
    fn fitting(&self, under_way: u32, mean_micros: u64) -> u32 {
        let fits = u128::from(under_way) * u128::from(self.allowed_micros()) / u128::from(mean_micros.max(1));
        u32::try_from(fits).unwrap_or(u32::MAX)
    }
}

fn allowed_by_half(half_micros: u64) -> u64 {
    half_micros.saturating_mul(ALLOWED_TO_HALF.0) / ALLOWED_TO_HALF.1
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: u64 = 50_000;

    fn course() -> Course {
        Course::new(Bounds { min: 8, max: 1_000, target_micros: TARGET })
    }

    /// The limit after windows of these latencies, in each of which the limit was fully used.
    fn after(course: &mut Course, limit: u32, latencies: &[u64]) -> u32 {
        latencies.iter().fold(limit, |limit, mean_micros| {
            course.next_limit(Measured { limit, most_in_flight: limit, mean_micros: *mean_micros })
        })
    }

    #[test]
    fn one_bad_window_cuts_nothing_and_two_cut_by_a_tenth_to_a_half() {
        assert_eq!(after(&mut course(), 100, &[10_000_000]), 100);
        assert_eq!(after(&mut course(), 100, &[50_001, 50_001]), 90);
        assert_eq!(after(&mut course(), 100, &[75_000, 75_000]), 66);
        assert_eq!(after(&mut course(), 100, &[10_000_000, 10_000_000]), 50);
    }

    #[test]
    fn the_limit_grows_only_when_it_was_nearly_reached() {
        let grown = |limit, most_in_flight, mean_micros| {
            course().next_limit(Measured { limit, most_in_flight, mean_micros })
        };
        assert_eq!(grown(100, 79, TARGET), 100);
        assert_eq!(grown(100, 80, TARGET), 110, "by a tenth at least");
        assert_eq!(grown(100, 80, TARGET * 4 / 5), 125, "as far as the target allows");
        assert_eq!(grown(100, 80, 1), 150, "by a half at most");
        assert_eq!(grown(1, 1, TARGET), 2);
        assert_eq!(grown(999, 999, TARGET), 1_000, "never above the maximum");
    }

    #[test]
    fn a_cut_that_shortens_the_latency_is_kept_and_goes_on_until_the_target_is_met() {
        assert_eq!(after(&mut course(), 800, &[400_000, 400_000]), 400);
        assert_eq!(after(&mut course(), 800, &[400_000, 400_000, 200_000]), 200);
        assert_eq!(after(&mut course(), 800, &[400_000, 400_000, 200_000, 100_000]), 100);
        assert_eq!(after(&mut course(), 800, &[400_000, 400_000, 200_000, 100_000, 50_000]), 100);
    }

    #[test]
    fn a_cut_that_does_not_shorten_the_latency_is_taken_back_and_the_floor_is_allowed() {
        let mut course = course();
        assert_eq!(after(&mut course, 400, &[80_000, 80_000]), 250);
        assert_eq!(after(&mut course, 250, &[80_000]), 200, "deep enough to tell");
        assert_eq!(after(&mut course, 200, &[80_000]), 400);
        assert_eq!(after(&mut course, 400, &[80_000, 80_000]), 400, "it was the cut that made no difference");
        assert_eq!(course.allowed_micros(), 80_000 * 5 / 3);
        assert!(after(&mut course, 400, &[80_000, 80_000, 80_000]) > 400);
        assert_eq!(after(&mut course, 400, &[10_000]), 600);
        assert_eq!(course.allowed_micros(), 80_000 * 5 / 3, "one window alone may have been lucky");
        assert_eq!(after(&mut course, 600, &[10_000]), 900);
        assert_eq!(course.allowed_micros(), TARGET, "the floor is gone");
    }

    #[test]
    fn a_cut_during_which_everything_became_slower_is_kept() {
        let mut course = course();
        assert_eq!(after(&mut course, 400, &[100_000, 100_000]), 200);
        assert_eq!(after(&mut course, 200, &[250_000]), 400, "was it the cut, or the time?");
        assert_eq!(after(&mut course, 400, &[500_000, 500_000]), 400, "one window alone may have been slow");
        assert!(after(&mut course, 400, &[500_000]) < 200, "it was the time");
    }

    #[test]
    fn the_minimum_is_let_in_however_long_it_waits() {
        let mut course = course();
        let slow = Measured { limit: 1_000, most_in_flight: 8, mean_micros: 10_000_000 };
        assert!((0..20).all(|_| course.next_limit(slow) == 1_000));
    }

    #[test]
    fn one_lucky_window_does_not_disprove_a_known_floor() {
        let mut course = course();
        assert_eq!(after(&mut course, 400, &[80_000, 80_000, 80_000]), 200);
        assert_eq!(after(&mut course, 200, &[80_000]), 400);
        assert_eq!(after(&mut course, 400, &[80_000, 80_000]), 400);
        assert_eq!(after(&mut course, 400, &[150_000, 150_000]), 355);
        assert_eq!(after(&mut course, 200, &[75_000]), 400, "is the floor still there?");
        assert_eq!(after(&mut course, 400, &[80_000, 80_000]), 400);
        assert_eq!(course.allowed_micros(), 75_000 * 5 / 3);
    }

    #[test]
    fn at_the_minimum_a_latency_just_over_the_target_leads_to_a_trial_at_half_the_load() {
        let mut course = course();
        assert_eq!(after(&mut course, 8, &[50_100, 50_100]), 4);
        assert_eq!(after(&mut course, 4, &[49_900]), 8, "it is a floor");
        assert_eq!(after(&mut course, 8, &[50_100, 50_100]), 8);
        assert!(after(&mut course, 8, &[50_100]) > 8);
    }

    #[test]
    fn at_the_minimum_a_queue_is_tolerated() {
        let mut course = course();
        assert_eq!(after(&mut course, 8, &[800_000, 800_000]), 4);
        assert_eq!(after(&mut course, 4, &[400_000]), 8);
    }

    #[test]
    fn the_limit_is_never_below_half_of_the_minimum_and_soon_back_at_it() {
        for seed in 1..=50_u64 {
            let (mut course, mut limit, mut windows_below, mut chance) = (course(), 8, 0, seed);
            for _ in 0..2_000 {
                chance =
                    chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Between a hundredth and a hundred times the target, mostly near it.
                let times = ((chance >> 40) as f64 / f64::from(1 << 24) * 2.0 - 1.0).powi(3) * 2.0;
                limit = after(&mut course, limit, &[(TARGET as f64 * 10_f64.powf(times)) as u64]);
                windows_below = if limit < 8 { windows_below + 1 } else { 0 };
                assert!(limit >= 4 && windows_below <= 8, "seed {seed}: {limit}, {windows_below}");
            }
        }
    }
}
