//! Limits how many requests may be under way at once, so that each of them gets its answer within a target
//! latency. Further requests are refused at once instead of waiting for an answer that comes too late.
//! Knows nothing of the work, and has no clock.
//!
//! The limit follows the measured latency, window by window (`course`). It is cut when the mean is too long
//! and a cut shortens it. It grows when the mean is not too long and the limit was nearly reached. It does
//! not seek the lowest latency: group commits do more with more requests under way, up to the point where
//! answers come too late. After a quiet time the old measurements belong to another rush, and the limit
//! starts over.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;
use penstock_domain::Timestamp;

mod course;
#[cfg(test)]
mod floors;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod simulation;

use course::{Bounds, Course, Measured};

/// The shortest time a window stays open.
const WINDOW_MILLIS: u64 = 100;
/// The fewest samples after which a window can end.
const WINDOW_SAMPLES: u32 = 16;
const NOT_STARTED: i64 = i64::MIN;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SheddingOptions {
    /// The lowest lasting limit; a trial may go down to half of it for a moment. It is at least one, because
    /// without samples the limit could not recover.
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
    course: Mutex<Course>,
    /// The window and its samples at the last check for quiet.
    seen: AtomicU64,
}

/// The measurements between two decisions. They are only approximate: a sample that comes while the window
/// closes may count in either window or be lost.
#[derive(Debug, Default)]
struct Window {
    /// A request is measured in the window it entered, or not at all. So the present limit is never blamed
    /// for requests that entered under the one before.
    number: AtomicU32,
    started_at_millis: AtomicI64,
    /// The window has all the samples it needs, and ends when the next request enters. It does not end with
    /// the last sample, because requests answered together have waited for different times, and all of them
    /// have to count.
    is_complete: AtomicBool,
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
            window: Window { started_at_millis: AtomicI64::new(NOT_STARTED), ..Window::default() },
            course: Mutex::new(options.course()),
            seen: AtomicU64::new(0),
        }
    }

    /// Call this now and then. Starts over if no request came between two calls, so that the end of the last
    /// sale does not decide about the burst of the next.
    pub fn begin_again_if_quiet(&self) {
        let (number, samples) = (self.window.number.load(Relaxed), self.window.samples.load(Relaxed));
        let seen = u64::from(number) << 32 | u64::from(samples);
        if self.seen.swap(seen, Relaxed) == seen && self.in_flight() == 0 {
            self.window.is_complete.store(false, Relaxed);
            *self.course.lock() = self.options.course();
            self.limit.store(self.options.first_limit(), Relaxed);
        }
    }

    /// None: too many requests are under way, so this one would wait too long.
    pub fn try_enter(self: &Arc<Self>) -> Option<InFlight> {
        if self.window.is_complete.load(Relaxed) && self.window.is_complete.swap(false, Relaxed) {
            self.adjust();
        }
        let limit = self.limit.load(Relaxed);
        // A refused request only reads, so that a flood of refusals does not slow down the admitted requests.
        self.in_flight.fetch_update(Relaxed, Relaxed, |count| (count < limit).then_some(count + 1)).ok()?;
        Some(InFlight { window: self.window.number.load(Relaxed), shedding: Arc::clone(self) })
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
        // The count falls only when a request leaves, so a request that is about to leave sees every peak.
        let in_flight = self.in_flight.load(Relaxed);
        if window.most_in_flight.load(Relaxed) < in_flight {
            window.most_in_flight.fetch_max(in_flight, Relaxed);
        }
        if samples >= WINDOW_SAMPLES && window.is_completed_by_me(now) {
            window.is_complete.store(true, Relaxed);
        }
    }

    fn adjust(&self) {
        let window = &self.window;
        let samples = window.samples.swap(0, Relaxed);
        let latency_micros = window.latency_micros.swap(0, Relaxed);
        let most_in_flight = window.most_in_flight.swap(0, Relaxed);
        let Some(mean_micros) = latency_micros.checked_div(u64::from(samples)) else { return };
        let measured = Measured { limit: self.limit(), most_in_flight, mean_micros };
        let mut course = self.course.lock();
        self.limit.store(course.next_limit(measured), Relaxed);
        window.number.fetch_add(1, Relaxed);
    }
}

impl Window {
    /// True for exactly one caller, once the window has lasted long enough. The next window begins then.
    fn is_completed_by_me(&self, now: Timestamp) -> bool {
        let started_at = self.started_at_millis.load(Relaxed);
        // A clock that was set back must not keep the window open, so the direction does not matter.
        if started_at != NOT_STARTED && now.as_millis().abs_diff(started_at) < WINDOW_MILLIS {
            return false;
        }
        let begin = self.started_at_millis.compare_exchange(started_at, now.as_millis(), Relaxed, Relaxed);
        // The very first samples only mark the beginning of the first window.
        begin.is_ok_and(|started_at| started_at != NOT_STARTED)
    }
}

impl SheddingOptions {
    fn first_limit(&self) -> u32 {
        self.initial.clamp(self.min, self.max)
    }

    fn course(&self) -> Course {
        let target_micros = u64::try_from(self.target_latency.as_micros()).unwrap_or(u64::MAX);
        Course::new(Bounds { min: self.min, max: self.max, target_micros })
    }
}

/// A place among the requests under way. Dropping it frees the place, even if its holder panics.
#[derive(Debug)]
pub struct InFlight {
    shedding: Arc<Shedding>,
    window: u32,
}

impl InFlight {
    /// The answer is known, and its latency is a sample. A request dropped without this call (after an error,
    /// or when the client is gone) leaves no sample.
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
    use super::*;

    const TARGET: Duration = Duration::from_millis(50);

    fn shedding(initial: u32) -> Arc<Shedding> {
        Arc::new(Shedding::new(SheddingOptions { min: 8, max: 10_000, initial, target_latency: TARGET }))
    }

    /// A window of this latency at each of the times, and a request that enters after each one, because that
    /// ends the window.
    fn windows(shedding: &Arc<Shedding>, latency: Duration, millis: impl IntoIterator<Item = i64>) {
        for millis in millis {
            let places: Vec<InFlight> = std::iter::from_fn(|| shedding.try_enter()).collect();
            for place in places {
                place.finished(latency, Timestamp::from_millis(millis));
            }
        }
        drop(shedding.try_enter());
    }

    #[test]
    fn a_request_that_entered_under_another_limit_is_not_a_sample() {
        let shedding = shedding(100);
        windows(&shedding, TARGET * 4, [0, 100]);
        let earlier: Vec<InFlight> = (0..40).filter_map(|_| shedding.try_enter()).collect();
        windows(&shedding, TARGET * 4, [200]);
        assert_eq!(shedding.limit(), 50);
        for entered in earlier {
            entered.finished(TARGET * 4, Timestamp::from_millis(1_000));
        }
        drop(shedding.try_enter());
        assert_eq!(shedding.limit(), 50);
        windows(&shedding, TARGET * 2, [1_000]);
        assert_eq!(shedding.limit(), 25);
    }

    #[test]
    fn the_limit_begins_again_only_after_a_quiet_time() {
        let shedding = shedding(100);
        windows(&shedding, TARGET * 4, [0, 1_000, 2_000]);
        shedding.begin_again_if_quiet();
        assert_eq!(shedding.limit(), 50, "a request has come since the last look");
        let place = shedding.try_enter().unwrap();
        shedding.begin_again_if_quiet();
        assert_eq!(shedding.limit(), 50, "a request is still under way");
        drop(place);
        shedding.begin_again_if_quiet();
        assert_eq!(shedding.limit(), 100);
    }

    #[test]
    fn setting_the_clock_back_does_not_freeze_the_limit() {
        let shedding = shedding(100);
        windows(&shedding, TARGET * 4, [5_000_000, 5_000_100, 1_000]);
        assert_eq!(shedding.limit(), 50);
    }

    #[test]
    fn a_request_that_gives_up_or_panics_frees_its_place() {
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
