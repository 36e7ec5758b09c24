//! This node's memory of data that is stored elsewhere: bounded, kept for a limited time, loaded once however
//! many ask, and never older than the last known change.

use std::{
    future::Future,
    hash::{BuildHasher as _, Hash, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use moka::{Expiry, future::Cache};

/// How long a value is kept.
const LIFE: Duration = Duration::from_secs(60);
/// How long the absence of a value is remembered.
const LIFE_OF_NOTHING: Duration = Duration::from_secs(2);
/// The approximate size of an entry, apart from its value.
const ENTRY_BYTES: usize = 256;
/// Keys that share a generation are reloaded together, which costs one extra read and nothing else.
const GENERATIONS: usize = 256;

/// The knowledge about a key. No value means that nothing exists under it.
#[derive(Debug)]
struct Known<V> {
    value: Option<Arc<V>>,
    /// The key's generation when loading began.
    generation: u64,
}

impl<V> Clone for Known<V> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), generation: self.generation }
    }
}

/// Shortens a life by up to a fifth, so that entries loaded together do not expire together.
struct Jittered;

pub(super) fn jittered(life: Duration) -> Duration {
    // Without randomness they expire together, which does no harm.
    let random = getrandom::u32().unwrap_or_default();
    life - life.mul_f64(f64::from(random) / f64::from(u32::MAX) / 5.0)
}

impl<K, V> Expiry<K, Known<V>> for Jittered {
    fn expire_after_create(&self, _: &K, known: &Known<V>, _: Instant) -> Option<Duration> {
        Some(jittered(if known.value.is_some() { LIFE } else { LIFE_OF_NOTHING }))
    }

    fn expire_after_update(
        &self,
        key: &K,
        known: &Known<V>,
        updated_at: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        self.expire_after_create(key, known, updated_at)
    }
}

pub(super) struct LocalCache<K, V> {
    cache: Cache<K, Known<V>>,
    /// A counter that grows when the value of one of its keys changes. Values loaded before that no longer
    /// count, even if they arrive later.
    generations: Box<[AtomicU64]>,
    hasher: RandomState,
}

impl<K, V> LocalCache<K, V>
where
    K: Copy + Eq + Hash + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// Keeps values of at most `max_bytes` altogether. `bytes_of` gives the size of a value.
    pub(super) fn new(max_bytes: u64, bytes_of: fn(&V) -> usize) -> Self {
        let weight = move |_: &K, known: &Known<V>| {
            let bytes = ENTRY_BYTES + known.value.as_deref().map_or(0, bytes_of);
            u32::try_from(bytes).unwrap_or(u32::MAX)
        };
        Self {
            cache: Cache::builder().weigher(weight).max_capacity(max_bytes).expire_after(Jittered).build(),
            generations: (0..GENERATIONS).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
        }
    }

    fn generation(&self, key: &K) -> Option<&AtomicU64> {
        self.generations.get(self.hasher.hash_one(key) as usize % GENERATIONS)
    }

    fn generation_of(&self, key: &K) -> u64 {
        self.generation(key).map_or(0, |generation| generation.load(SeqCst))
    }

    /// The cached knowledge about the key; the outer None if there is none.
    pub(super) async fn get(&self, key: &K) -> Option<Option<Arc<V>>> {
        let known = self.cache.get(key).await?;
        (known.generation == self.generation_of(key)).then_some(known.value)
    }

    /// Loads the value. Everybody who asks meanwhile waits for the same answer. Errors are not cached.
    pub(super) async fn load<E, F>(&self, key: K, load: impl Fn() -> F) -> Result<Option<Arc<V>>, Arc<E>>
    where
        E: Send + Sync + 'static,
        F: Future<Output = Result<Option<V>, E>>,
    {
        loop {
            let generation = self.generation_of(&key);
            let loading = async {
                let value = load().await?.map(Arc::new);
                Ok(Known { value, generation })
            };
            let known = self.cache.try_get_with(key, loading).await?;
            // Somebody else may have begun to load it before it changed.
            if known.generation >= generation {
                return Ok(known.value);
            }
            self.cache.invalidate(&key).await;
        }
    }

    /// The value has changed: whatever was loaded before this moment no longer counts.
    pub(super) async fn changed(&self, key: &K) {
        if let Some(generation) = self.generation(key) {
            generation.fetch_add(1, SeqCst);
        }
        self.cache.invalidate(key).await;
    }

    pub(super) fn everything_changed(&self) {
        for generation in &self.generations {
            generation.fetch_add(1, SeqCst);
        }
        self.cache.invalidate_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering::Relaxed},
    };

    use tokio::sync::{Notify, Semaphore};

    use super::*;

    fn cache() -> LocalCache<u64, &'static str> {
        LocalCache::new(1 << 20, |value| value.len())
    }

    async fn found(value: &'static str) -> Result<Option<&'static str>, Infallible> {
        Ok(Some(value))
    }

    #[tokio::test]
    async fn many_simultaneous_requests_cost_one_load() {
        let cache = Arc::new(cache());
        let (loads, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let ask = || {
            let (cache, loads, gate) = (Arc::clone(&cache), Arc::clone(&loads), Arc::clone(&gate));
            tokio::spawn(async move {
                let load = || async {
                    loads.fetch_add(1, Relaxed);
                    let _permit = gate.acquire().await;
                    found("kettle").await
                };
                cache.load(1, load).await.unwrap()
            })
        };
        let asking: Vec<_> = (0..50).map(|_| ask()).collect();
        while loads.load(Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        gate.add_permits(1000);
        for one in asking {
            assert_eq!(one.await.unwrap().as_deref(), Some(&"kettle"));
        }
        assert_eq!(loads.load(Relaxed), 1);
    }

    #[tokio::test]
    async fn absence_is_cached_but_errors_are_not() {
        let cache = cache();
        assert!(cache.load(1, async || Err::<Option<&str>, _>("away")).await.is_err());
        assert_eq!(cache.get(&1).await, None);
        assert_eq!(cache.load(1, async || Ok::<_, Infallible>(None)).await.unwrap(), None);
        assert_eq!(cache.get(&1).await, Some(None));
    }

    #[tokio::test]
    async fn a_value_that_changes_while_it_is_loaded_is_not_cached() {
        let cache = Arc::new(cache());
        let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let tries = Arc::new(AtomicUsize::new(0));
        let early = tokio::spawn({
            let (cache, begun, go, tries) =
                (Arc::clone(&cache), Arc::clone(&begun), Arc::clone(&go), Arc::clone(&tries));
            async move {
                let load = || async {
                    tries.fetch_add(1, Relaxed);
                    begun.notify_one();
                    go.notified().await;
                    found("old").await
                };
                cache.load(1, load).await.unwrap()
            }
        });
        begun.notified().await;
        cache.changed(&1).await;
        go.notify_one();
        early.await.unwrap();
        assert_eq!(tries.load(Relaxed), 1);
        assert_eq!(cache.get(&1).await, None, "the old value must not be found");
        let now = cache.load(1, || found("new")).await.unwrap();
        assert_eq!(now.as_deref(), Some(&"new"));
        assert_eq!(cache.get(&1).await.flatten().as_deref(), Some(&"new"));
    }

    #[tokio::test]
    async fn large_values_get_no_more_memory_than_many_small_ones() {
        const MAX_BYTES: u64 = 100 << 10;
        let cache: LocalCache<u32, Vec<u8>> = LocalCache::new(MAX_BYTES, Vec::len);
        for key in 0..50 {
            cache.load(key, async || Ok::<_, Infallible>(Some(vec![0; 10 << 10]))).await.unwrap();
        }
        for key in 50..1_000 {
            cache.load(key, async || Ok::<_, Infallible>(None)).await.unwrap();
        }
        cache.cache.run_pending_tasks().await;
        let kept: Vec<usize> =
            cache.cache.iter().map(|(_, known)| known.value.map_or(0, |value| value.len())).collect();
        let bytes = kept.iter().map(|bytes| (bytes + ENTRY_BYTES) as u64).sum::<u64>();
        assert!(!kept.is_empty() && bytes <= MAX_BYTES, "{} values take {bytes} bytes", kept.len());
    }

    #[test]
    fn lives_differ_by_at_most_a_fifth() {
        let lives: Vec<Duration> = (0..1000).map(|_| jittered(Duration::from_secs(100))).collect();
        let (shortest, longest) = (lives.iter().min().unwrap(), lives.iter().max().unwrap());
        assert!(*shortest >= Duration::from_secs(80) && *longest <= Duration::from_secs(100), "{lives:?}");
        assert!(*longest - *shortest > Duration::from_secs(5), "{shortest:?} to {longest:?}");
    }
}
