//! The port to the cache that all nodes share. It may be unavailable or forget at any time: it saves reads,
//! and is never the source of truth.

use std::time::Duration;

use futures_util::future::BoxFuture;

/// What the shared cache has under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    Nothing,
    /// The key was removed a moment ago. A node that read the old value before may still be about to put it
    /// here.
    Removed,
    Value(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the shared cache can't be reached: {0}")]
pub struct CacheAway(pub String);

pub trait SharedCache: Send + Sync + 'static {
    /// Whether there is anybody to share with. If not, no value is serialized for it.
    fn is_shared(&self) -> bool {
        true
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Kept, CacheAway>>;

    /// Keeps a value for as long as `life`, unless the key was removed a moment ago.
    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Vec<u8>,
        life: Duration,
    ) -> BoxFuture<'a, Result<(), CacheAway>>;

    /// Removes the value, and accepts none under this key for `closed_for`.
    fn remove<'a>(&'a self, key: &'a str, closed_for: Duration) -> BoxFuture<'a, Result<(), CacheAway>>;
}

/// For a shop with a single node.
#[derive(Clone, Copy, Debug)]
pub struct NoSharedCache;

impl SharedCache for NoSharedCache {
    fn is_shared(&self) -> bool {
        false
    }

    fn get<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Kept, CacheAway>> {
        Box::pin(std::future::ready(Ok(Kept::Nothing)))
    }

    fn put<'a>(&'a self, _: &'a str, _: Vec<u8>, _: Duration) -> BoxFuture<'a, Result<(), CacheAway>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn remove<'a>(&'a self, _: &'a str, _: Duration) -> BoxFuture<'a, Result<(), CacheAway>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
