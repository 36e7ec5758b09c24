//! Token buckets, one per key (such as the address of a request) or one for all. Memory is bounded, and the
//! caller passes in the time. Does not know what it limits.
//!
//! The buckets of all keys live in a table of fixed size, divided into sets of four. A key belongs to one
//! set. When a set is full, a newcomer replaces the bucket that has recovered furthest. So nobody is locked
//! out because others came first, and keys over their limit are forgotten last.

use std::{
    fmt,
    hash::{BuildHasher, Hash, RandomState},
    marker::PhantomData,
    mem,
    net::IpAddr,
    num::NonZeroU32,
    sync::Arc,
    time::Duration,
};

use governor::{
    NotUntil, Quota, RateLimiter,
    clock::Clock,
    middleware::NoOpMiddleware,
    nanos::Nanos,
    state::{InMemoryState, NotKeyed, StateStore},
};
use parking_lot::Mutex;
use penstock_domain::Timestamp;

use crate::steady_time::SteadyTime;

const WAYS: usize = 4;
const NANOS_PER_MILLI: u64 = 1_000_000;
/// The longest recovery of a bucket: its nanoseconds have to fit into 64 bits.
const LONGEST_RECOVERY: Duration = Duration::from_secs(100 * 365 * 86_400);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitOptions {
    /// The most allowed at once.
    pub burst: NonZeroU32,
    /// Time until one more is allowed.
    pub one_per: Duration,
    /// About how many keys are told apart; this bounds the memory. When more come, those that have recovered
    /// furthest are forgotten first.
    pub max_keys: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many; try again in {retry_after_seconds} seconds")]
pub struct TooMany {
    pub retry_after_seconds: u32,
}

/// An address as the limits see it. An IPv6 household may have a whole /56, which is 256 networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressKey(u128);

impl AddressKey {
    /// None for loopback: limits don't apply there, so that a rehearsal on one machine works.
    pub fn of(address: IpAddr) -> Option<Self> {
        match address.to_canonical() {
            address if address.is_loopback() => None,
            IpAddr::V4(address) => Some(Self(u128::from(address.to_bits()))),
            IpAddr::V6(address) => Some(Self(address.to_bits() >> 72 << 72)),
        }
    }
}

/// Gives the same text on every node.
impl fmt::Display for AddressKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

/// Governor's clock, set by the caller.
#[derive(Clone, Debug, Default)]
struct HandedTime(Arc<SteadyTime>);

impl HandedTime {
    fn advance(&self, now: Timestamp) {
        self.0.advance(now);
    }
}

impl Clock for HandedTime {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::new(self.0.latest_millis().saturating_mul(NANOS_PER_MILLI))
    }
}

fn quota(burst: NonZeroU32, one_per: Duration) -> Quota {
    // A period of zero has no quota, so the shortest period stands in for it.
    let one_per = one_per.clamp(Duration::from_nanos(1), LONGEST_RECOVERY / burst.get());
    Quota::with_period(one_per).unwrap_or(Quota::per_second(NonZeroU32::MIN)).allow_burst(burst)
}

fn too_many(not_until: &NotUntil<Nanos>, now: Nanos) -> TooMany {
    let wait = not_until.wait_time_from(now);
    TooMany { retry_after_seconds: u32::try_from(wait.as_secs() + 1).unwrap_or(u32::MAX) }
}

/// A bucket's place in the table. An unused one looks like one that recovered at the beginning of time.
#[derive(Clone, Copy, Default)]
struct Way {
    fingerprint: u64,
    /// When the bucket will be full again.
    recovered_at: u64,
}

type Set = Mutex<[Way; WAYS]>;

/// Storage for governor's buckets.
struct Table<K> {
    sets: Box<[Set]>,
    /// Seeded at random, so that nobody can aim at another key's set or bucket.
    hasher: RandomState,
    keys: PhantomData<fn(&K)>,
}

impl<K> Table<K> {
    fn for_keys(max_keys: usize) -> Self {
        let sets = (0..max_keys.div_ceil(WAYS).max(1)).map(|_| Set::default()).collect();
        Self { sets, hasher: RandomState::new(), keys: PhantomData }
    }

    fn set(&self, fingerprint: u64) -> &Set {
        let index = (u128::from(fingerprint) * self.sets.len() as u128) >> 64;
        &self.sets[index as usize]
    }

    fn bytes(&self) -> usize {
        mem::size_of_val(&*self.sets)
    }
}

impl<K: Hash> Table<K> {
    /// Makes the bucket recover `nanos` earlier.
    fn recover(&self, key: &K, nanos: u64) {
        let fingerprint = self.hasher.hash_one(key);
        let mut ways = self.set(fingerprint).lock();
        if let Some(way) = ways.iter_mut().find(|way| way.fingerprint == fingerprint) {
            way.recovered_at = way.recovered_at.saturating_sub(nanos);
        }
    }
}

/// The table in the form governor needs.
struct Buckets<K>(Arc<Table<K>>);

impl<K: Hash> StateStore for Buckets<K> {
    type Key = K;

    fn measure_and_replace<T, F, E>(&self, key: &K, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let fingerprint = self.0.hasher.hash_one(key);
        let mut ways = self.0.set(fingerprint).lock();
        let (mut place, mut known) = (0, None);
        for (index, way) in ways.iter().enumerate() {
            if way.fingerprint == fingerprint {
                (place, known) = (index, Some(Nanos::new(way.recovered_at)));
                break;
            }
            if way.recovered_at < ways[place].recovered_at {
                place = index;
            }
        }
        let (outcome, recovered_at) = measure(known)?;
        ways[place] = Way { fingerprint, recovered_at: recovered_at.as_u64() };
        Ok(outcome)
    }
}

/// One bucket per key.
pub struct KeyedLimit<K: Hash + Eq + Clone> {
    buckets: RateLimiter<K, Buckets<K>, HandedTime, NoOpMiddleware<Nanos>>,
    table: Arc<Table<K>>,
    time: HandedTime,
    nanos_for_one: u64,
    table_bytes: usize,
}

impl<K: Hash + Eq + Clone> KeyedLimit<K> {
    pub fn new(options: LimitOptions) -> Self {
        let time = HandedTime::default();
        let table = Arc::new(Table::for_keys(options.max_keys));
        let table_bytes = table.bytes();
        let quota = quota(options.burst, options.one_per);
        let nanos_for_one = u64::try_from(quota.replenish_interval().as_nanos()).unwrap_or(u64::MAX);
        let buckets = RateLimiter::new(quota, Buckets(Arc::clone(&table)), time.clone());
        Self { buckets, table, time, nanos_for_one, table_bytes }
    }

    /// Returns a token, if the checked action did not happen through no fault of the caller.
    pub fn give_back(&self, key: &K) {
        self.table.recover(key, self.nanos_for_one);
    }

    pub fn check(&self, key: &K, now: Timestamp) -> Result<(), TooMany> {
        self.time.advance(now);
        self.buckets.check_key(key).map_err(|not_until| too_many(&not_until, self.time.now()))
    }
}

impl<K: Hash + Eq + Clone> fmt::Debug for KeyedLimit<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("KeyedLimit").field("table_bytes", &self.table_bytes).finish_non_exhaustive()
    }
}

/// One bucket for the whole node. The time comes in milliseconds, so a rate above 1,000 a second needs a
/// burst of at least one millisecond's worth.
pub struct SingleLimit {
    bucket: RateLimiter<NotKeyed, InMemoryState, HandedTime, NoOpMiddleware<Nanos>>,
    time: HandedTime,
}

impl SingleLimit {
    /// Allows `burst` at once, then one more each time `one_per` has passed.
    pub fn new(burst: NonZeroU32, one_per: Duration) -> Self {
        let time = HandedTime::default();
        let bucket = RateLimiter::direct_with_clock(quota(burst, one_per), time.clone());
        Self { bucket, time }
    }

    pub fn check(&self, now: Timestamp) -> Result<(), TooMany> {
        self.time.advance(now);
        self.bucket.check().map_err(|not_until| too_many(&not_until, self.time.now()))
    }
}

impl fmt::Debug for SingleLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SingleLimit").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(burst: u32, max_keys: usize) -> KeyedLimit<u32> {
        let burst = NonZeroU32::new(burst).unwrap();
        KeyedLimit::new(LimitOptions { burst, one_per: Duration::from_secs(10), max_keys })
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + seconds * 1000)
    }

    #[test]
    fn requests_over_the_burst_are_told_when_to_come_back() {
        let limit = limit(3, 100);
        for _ in 0..3 {
            assert_eq!(limit.check(&1, at(0)), Ok(()));
        }
        let refused = limit.check(&1, at(0)).unwrap_err();
        assert!((10..=11).contains(&refused.retry_after_seconds), "{refused:?}");
        assert_eq!(limit.check(&2, at(0)), Ok(()), "another key has its own bucket");
        assert_eq!(limit.check(&1, at(11)), Ok(()));
        assert!(limit.check(&1, at(11)).is_err());
    }

    #[test]
    fn a_returned_token_can_be_used_once_more() {
        let limit = limit(2, 100);
        for _ in 0..20 {
            assert_eq!(limit.check(&1, at(0)), Ok(()));
            limit.give_back(&1);
        }
        assert_eq!([0; 3].map(|_| limit.check(&1, at(0)).is_ok()), [true, true, false]);
        limit.give_back(&2);
        assert_eq!([0; 3].map(|_| limit.check(&2, at(0)).is_ok()), [true, true, false]);
    }

    #[test]
    fn a_million_addresses_neither_fill_the_memory_nor_lock_a_newcomer_out() {
        let limit = limit(3, 1_000);
        for address in 0..1_000_000 {
            assert_eq!(limit.check(&address, at(0)), Ok(()), "{address}");
        }
        assert_eq!(limit.table_bytes, 250 * mem::size_of::<Set>());
        assert!(limit.table_bytes <= 1_000 * 18, "{} bytes", limit.table_bytes);
        let newcomer = 1_000_000;
        for _ in 0..3 {
            assert_eq!(limit.check(&newcomer, at(0)), Ok(()), "a newcomer gets a whole burst");
        }
        assert!(limit.check(&newcomer, at(0)).is_err());
    }

    #[test]
    fn a_heavy_hitter_can_not_hide_among_a_million_addresses() {
        let limit = limit(3, 1_000);
        let heavy = u32::MAX;
        for _ in 0..3 {
            assert_eq!(limit.check(&heavy, at(0)), Ok(()));
        }
        let mut slipped_through = 0;
        for address in 0..1_000_000_u32 {
            // The flood lasts 25 seconds, in which every key recovers two tokens.
            let now = at(i64::from(address / 40_000));
            assert_eq!(limit.check(&address, now), Ok(()));
            if address % 100 == 0 && limit.check(&heavy, now).is_ok() {
                slipped_through += 1;
            }
        }
        assert_eq!(slipped_through, 2);
    }

    #[test]
    fn the_key_furthest_from_recovery_is_forgotten_last() {
        let limit = limit(3, WAYS);
        for (key, times) in [(1, 3), (2, 1), (3, 2), (4, 3)] {
            for _ in 0..times {
                assert_eq!(limit.check(&key, at(0)), Ok(()));
            }
        }
        for _ in 0..2 {
            assert_eq!(limit.check(&5, at(0)), Ok(()), "takes the place of 2");
        }
        assert!(limit.check(&1, at(0)).is_err());
        assert!(limit.check(&4, at(0)).is_err());
        assert_eq!(limit.check(&3, at(0)), Ok(()));
        assert!(limit.check(&3, at(0)).is_err(), "its first two were remembered");
    }

    #[test]
    fn a_limit_for_no_keys_at_all_still_limits() {
        let limit = limit(1, 0);
        assert_eq!(limit.check(&1, at(0)), Ok(()));
        assert!(limit.check(&1, at(0)).is_err());
    }

    #[test]
    fn absurd_settings_overflow_nothing() {
        for one_per in [Duration::ZERO, Duration::MAX] {
            for burst in [NonZeroU32::MIN, NonZeroU32::MAX] {
                let limit = KeyedLimit::new(LimitOptions { burst, one_per, max_keys: 4 });
                assert_eq!(limit.check(&1, at(0)), Ok(()));
                assert_eq!(SingleLimit::new(burst, one_per).check(at(0)), Ok(()));
            }
        }
    }

    #[test]
    fn setting_the_clock_back_gives_nothing_away() {
        let limit = limit(1, 10);
        assert_eq!(limit.check(&1, at(5)), Ok(()));
        assert!(limit.check(&1, at(0)).is_err());
        assert!(limit.check(&1, at(9)).is_err());
        assert_eq!(limit.check(&1, at(10)), Ok(()));
    }

    #[test]
    fn buckets_recover_as_before_while_the_clock_is_set_back_again_and_again() {
        let by_key = limit(1, 10);
        let single = SingleLimit::new(NonZeroU32::MIN, Duration::from_secs(10));
        for step in 0..10 {
            let hours_back = -3_600 * step;
            assert_eq!(by_key.check(&1, at(hours_back + 10)), Ok(()), "step {step}");
            assert_eq!(single.check(at(hours_back + 10)), Ok(()), "step {step}");
            // The next step back starts from this moment.
            for seconds in [10, 15, 19] {
                assert!(by_key.check(&1, at(hours_back + seconds)).is_err(), "step {step}");
                assert!(single.check(at(hours_back + seconds)).is_err(), "step {step}");
            }
            let next_back = hours_back - 3_600;
            assert!(by_key.check(&1, at(next_back + 9)).is_err(), "step {step}");
            assert!(single.check(at(next_back + 9)).is_err(), "step {step}");
        }
    }

    #[test]
    fn many_threads_share_one_burst() {
        let limit = KeyedLimit::new(LimitOptions {
            burst: NonZeroU32::new(1_000).unwrap(),
            one_per: Duration::from_secs(10),
            max_keys: 100,
        });
        let passed = || (0..1_000).filter(|_| limit.check(&1, at(0)).is_ok()).count();
        let total: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(passed)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(total, 1_000);
    }

    #[test]
    fn a_single_limit_lets_a_burst_through_and_then_a_steady_rate() {
        let limit = SingleLimit::new(NonZeroU32::new(50).unwrap(), Duration::from_micros(100));
        let passed_at =
            |millis| (0..200).filter(|_| limit.check(Timestamp::from_millis(millis)).is_ok()).count();
        assert_eq!(passed_at(1_000), 50);
        assert_eq!((1_001..1_101).map(passed_at).sum::<usize>(), 1_000);
        assert_eq!(passed_at(1_200), 50, "unused tokens do not pile up");
        let refused = limit.check(Timestamp::from_millis(1_200)).unwrap_err();
        assert_eq!(refused.retry_after_seconds, 1);
    }

    #[test]
    fn an_address_counts_by_household_and_loopback_not_at_all() {
        let key = |text: &str| AddressKey::of(text.parse().unwrap());
        assert_eq!(key("127.0.0.1"), None);
        assert_eq!(key("::1"), None);
        assert_eq!(key("::ffff:127.0.0.1"), None);
        assert_eq!(key("2001:db8::1"), key("2001:db8::2"));
        assert_eq!(key("2001:db8::1"), key("2001:db8:0:ff::1"));
        assert_ne!(key("2001:db8::1"), key("2001:db8:0:100::1"));
        assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
    }
}
