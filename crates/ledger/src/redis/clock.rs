//! The time all nodes agree on: this machine's clock, corrected by its distance from Redis' clock. It never
//! runs backwards.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use penstock_domain::Timestamp;
use penstock_redis_client::{Link, LinkError, answered};
use tokio::time::{Instant, sleep};

use crate::Clock;

/// Samples taken at the start, so that the first correction is a good one.
const FIRST_SAMPLES: usize = 5;
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// A clock that is off by more than this was set, or belongs to another server: it is followed at once.
const JUMP_MICROSECONDS: i64 = 250_000;
/// Each sample corrects this fraction of a small difference.
const SMOOTHING: i64 = 8;
/// The best round trip grows by this fraction with each sample, since the way may have become longer.
const FADING: i64 = 16;
/// The master of this key is asked: one server for all nodes.
const KEY: &str = "penstock:clock";

pub struct SharedClock {
    system: Clock,
    offset_microseconds: AtomicI64,
    /// The latest time that was told.
    told_milliseconds: AtomicI64,
    best_round_trip_microseconds: Mutex<Option<i64>>,
}

impl fmt::Debug for SharedClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = self.offset_microseconds.load(Ordering::Relaxed);
        formatter.debug_struct("SharedClock").field("offset_microseconds", &offset).finish_non_exhaustive()
    }
}

impl SharedClock {
    /// Asks Redis for its time, and then every second while the clock is in use. `system` is this machine's
    /// clock.
    pub async fn start(link: &Link, system: Clock) -> Result<Arc<Self>, LinkError> {
        let clock = Arc::new(Self::new(system));
        for _ in 0..FIRST_SAMPLES {
            if let Err(error) = clock.sample(link).await {
                clock.sample_any(link).await.ok_or(error)?;
                break;
            }
        }
        let (following, link) = (Arc::downgrade(&clock), link.clone());
        link.runtime().clone().spawn(async move {
            loop {
                sleep(SAMPLE_INTERVAL).await;
                let Some(clock) = following.upgrade() else { return };
                // While Redis can't be asked, the last correction stays in place.
                let _ = clock.sample(&link).await;
            }
        });
        Ok(clock)
    }

    fn new(system: Clock) -> Self {
        Self {
            system,
            offset_microseconds: AtomicI64::new(0),
            told_milliseconds: AtomicI64::new(i64::MIN),
            best_round_trip_microseconds: Mutex::default(),
        }
    }

    pub fn now(&self) -> Timestamp {
        let offset = self.offset_microseconds.load(Ordering::Relaxed);
        let now = (self.system)().as_millis().saturating_add(offset.div_euclid(1_000));
        let before = self.told_milliseconds.fetch_max(now, Ordering::Relaxed);
        Timestamp::from_millis(now.max(before))
    }

    /// The same clock as a function.
    pub fn clock(self: &Arc<Self>) -> Clock {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }

    async fn sample(&self, link: &Link) -> Result<(), LinkError> {
        let asked = Instant::now();
        self.take_time(link.call(KEY, redis::cmd("TIME")).await?, asked);
        Ok(())
    }

    /// While the master that all nodes ask is away, a node that starts takes the time of any other master:
    /// better than none. None if no master answers.
    async fn sample_any(&self, link: &Link) -> Option<()> {
        for master in link.masters() {
            let (asked, mut question) = (Instant::now(), redis::pipe());
            question.cmd("TIME");
            if let Ok(mut answers) = link.send_to(&master, &question).await
                && let Ok(time) = answered(&master, answers.pop())
            {
                self.take_time(time, asked);
                return Some(());
            }
        }
        None
    }

    fn take_time(&self, (seconds, microseconds): (i64, i64), asked: Instant) {
        let round_trip = i64::try_from(asked.elapsed().as_micros()).unwrap_or(i64::MAX);
        let system = (self.system)().as_millis().saturating_mul(1_000);
        self.take(seconds.saturating_mul(1_000_000).saturating_add(microseconds), round_trip, system);
    }

    /// Redis told its time half a round trip before the system's clock said `system`.
    fn take(&self, redis: i64, round_trip: i64, system: i64) {
        let difference = redis.saturating_add(round_trip / 2).saturating_sub(system);
        let mut known_best = self.best_round_trip_microseconds.lock();
        let Some(best) = *known_best else {
            *known_best = Some(round_trip);
            self.offset_microseconds.store(difference, Ordering::Relaxed);
            return;
        };
        let faded = best.saturating_add(best / FADING + 1);
        *known_best = Some(round_trip.min(faded));
        let offset = self.offset_microseconds.load(Ordering::Relaxed);
        let change = difference.saturating_sub(offset);
        // A slow answer says little about the time: it can be wrong by half the round trip.
        let is_clear = change.saturating_abs() > JUMP_MICROSECONDS.saturating_add(round_trip / 2);
        if is_clear {
            self.offset_microseconds.store(difference, Ordering::Relaxed);
        } else if round_trip <= faded.saturating_mul(2) {
            self.offset_microseconds.store(offset + change / SMOOTHING, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn stopped_at(milliseconds: i64) -> (SharedClock, Arc<AtomicI64>) {
        let system = Arc::new(AtomicI64::new(milliseconds));
        let read = system.clone();
        let clock = SharedClock::new(Arc::new(move || Timestamp::from_millis(read.load(Ordering::Relaxed))));
        (clock, system)
    }

    #[test]
    fn a_machine_with_a_wrong_clock_tells_the_time_of_redis() {
        let (clock, system) = stopped_at(1_000_000);
        clock.take(1_090 * SECOND, 200, 1_000 * SECOND);
        assert_eq!(clock.now(), Timestamp::from_millis(1_090_000));
        system.fetch_add(500, Ordering::Relaxed);
        assert_eq!(clock.now(), Timestamp::from_millis(1_090_500));
    }

    #[test]
    fn time_never_runs_backwards() {
        let (clock, system) = stopped_at(1_000_000);
        assert_eq!(clock.now(), Timestamp::from_millis(1_000_000));
        clock.take(900 * SECOND, 200, 1_000 * SECOND);
        assert_eq!(clock.now(), Timestamp::from_millis(1_000_000));
        system.fetch_sub(500_000, Ordering::Relaxed);
        assert_eq!(clock.now(), Timestamp::from_millis(1_000_000));
    }

    #[test]
    fn small_differences_are_corrected_slowly_and_slow_answers_are_ignored() {
        let (clock, _) = stopped_at(1_000_000);
        clock.take(1_000 * SECOND, 200, 1_000 * SECOND);
        clock.take(1_000 * SECOND + 8_000, 200, 1_000 * SECOND);
        let offset = clock.offset_microseconds.load(Ordering::Relaxed);
        assert!((900..2_000).contains(&offset), "{offset}");
        clock.take(1_000 * SECOND + 200_000, 400_000, 1_000 * SECOND);
        assert_eq!(clock.offset_microseconds.load(Ordering::Relaxed), offset);
        clock.take(1_002 * SECOND, 200, 1_000 * SECOND);
        assert!(clock.offset_microseconds.load(Ordering::Relaxed) >= 2 * SECOND);
    }
}
