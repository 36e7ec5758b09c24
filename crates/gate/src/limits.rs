//! Token buckets by key, such as the address a request comes from. The number of buckets is bounded, and the
//! time is handed in.

use std::{
    fmt,
    hash::Hash,
    net::IpAddr,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use governor::{
    Quota, RateLimiter,
    clock::{Clock, Reference},
    middleware::NoOpMiddleware,
    nanos::Nanos,
    state::keyed::DashMapStateStore,
};
use penstock_domain::Timestamp;

/// How often it is worth looking for buckets that are full again.
const SWEEP_EVERY_MILLIS: i64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitOptions {
    /// So many at once.
    pub burst: NonZeroU32,
    /// Then one more each time this has passed.
    pub one_per: Duration,
    /// So many keys are told apart. A new key that comes on top is refused until others have recovered.
    pub max_keys: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many; try again in {retry_after_seconds} seconds")]
pub struct TooMany {
    pub retry_after_seconds: u32,
}

/// An address as limits see it: a household of IPv6 has a whole /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressKey(u128);

impl AddressKey {
    /// None for loopback: limits don't apply there, so that a rehearsal on one machine works.
    pub fn of(address: IpAddr) -> Option<Self> {
        match address.to_canonical() {
            address if address.is_loopback() => None,
            IpAddr::V4(address) => Some(Self(u128::from(address.to_bits()))),
            IpAddr::V6(address) => Some(Self(address.to_bits() >> 64 << 64)),
        }
    }
}

/// Governor's clock, set by whoever asks.
#[derive(Clone, Debug, Default)]
struct HandedTime(Arc<AtomicU64>);

impl Clock for HandedTime {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::new(self.0.load(Relaxed))
    }
}

type Buckets<K> = RateLimiter<K, DashMapStateStore<K>, HandedTime, NoOpMiddleware<Nanos>>;

pub struct KeyedLimit<K: Hash + Eq + Clone> {
    buckets: Buckets<K>,
    time: HandedTime,
    swept_at: AtomicI64,
    max_keys: usize,
}

impl<K: Hash + Eq + Clone> KeyedLimit<K> {
    pub fn new(options: LimitOptions) -> Self {
        let time = HandedTime::default();
        // A period of zero has no quota; the shortest there is stands for it.
        let one_per = options.one_per.max(Duration::from_nanos(1));
        let quota = Quota::with_period(one_per).unwrap_or(Quota::per_second(NonZeroU32::MIN));
        let buckets = RateLimiter::dashmap_with_clock(quota.allow_burst(options.burst), time.clone());
        Self { buckets, time, swept_at: AtomicI64::new(i64::MIN), max_keys: options.max_keys }
    }

    pub fn check(&self, key: &K, now: Timestamp) -> Result<(), TooMany> {
        let nanoseconds = u64::try_from(now.as_millis()).unwrap_or(0).saturating_mul(1_000_000);
        self.time.0.fetch_max(nanoseconds, Relaxed);
        self.make_room(now)?;
        self.buckets.check_key(key).map_err(|not_until| {
            let wait: Duration = not_until.earliest_possible().duration_since(self.time.now()).into();
            TooMany { retry_after_seconds: u32::try_from(wait.as_secs() + 1).unwrap_or(u32::MAX) }
        })
    }

    fn make_room(&self, now: Timestamp) -> Result<(), TooMany> {
        if self.buckets.len() < self.max_keys {
            return Ok(());
        }
        let swept_at = self.swept_at.load(Relaxed);
        let due = now.as_millis().saturating_sub(swept_at) >= SWEEP_EVERY_MILLIS;
        if due && self.swept_at.compare_exchange(swept_at, now.as_millis(), Relaxed, Relaxed).is_ok() {
            self.buckets.retain_recent();
        }
        if self.buckets.len() < self.max_keys { Ok(()) } else { Err(TooMany { retry_after_seconds: 1 }) }
    }
}

impl<K: Hash + Eq + Clone> fmt::Debug for KeyedLimit<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("KeyedLimit").field("max_keys", &self.max_keys).finish_non_exhaustive()
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
    fn what_is_over_the_burst_is_told_when_to_come_back() {
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
    fn the_number_of_buckets_is_bounded() {
        let limit = limit(1, 10);
        for key in 0..10 {
            assert_eq!(limit.check(&key, at(0)), Ok(()));
        }
        assert!(limit.check(&10, at(2)).is_err());
        assert_eq!(limit.check(&10, at(20)), Ok(()), "the others have recovered and are forgotten");
        assert!(limit.buckets.len() <= 10);
    }

    #[test]
    fn an_address_counts_by_household_and_loopback_not_at_all() {
        let key = |text: &str| AddressKey::of(text.parse().unwrap());
        assert_eq!(key("127.0.0.1"), None);
        assert_eq!(key("::1"), None);
        assert_eq!(key("::ffff:127.0.0.1"), None);
        assert_eq!(key("2001:db8::1"), key("2001:db8::2"));
        assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
        assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
    }
}
