//! The cache that the nodes share, in Redis. Removing a key leaves an empty value for a moment, so that
//! nobody can put back a value read before the removal.

use std::{fmt, time::Duration};

use futures_util::future::BoxFuture;
use penstock_redis_client::{Link, LinkError, Script};
use penstock_shop::ports::{CacheAway, Kept, SharedCache};
use redis::cmd;

/// KEYS: the key. ARGV: the value, its life in milliseconds. Does nothing if the key was just removed.
const PUT: &str = "if redis.call('GET', KEYS[1]) == '' then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1";

pub struct RedisCache {
    link: Link,
    prefix: String,
    put: Script,
}

impl RedisCache {
    /// All its keys begin with `prefix`.
    pub fn new(link: Link, prefix: &str) -> Self {
        let put = Script::new(PUT);
        link.learn(&put);
        Self { link, prefix: format!("{prefix}penstock:cache:"), put }
    }

    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }
}

impl fmt::Debug for RedisCache {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RedisCache").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

fn away(error: LinkError) -> CacheAway {
    CacheAway(error.to_string())
}

/// Redis accepts no shorter life than one millisecond.
fn millis(life: Duration) -> u64 {
    u64::try_from(life.as_millis()).unwrap_or(u64::MAX).max(1)
}

impl SharedCache for RedisCache {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Kept, CacheAway>> {
        Box::pin(async move {
            let key = self.key(key);
            let get = cmd("GET").arg(&key).take();
            let value: Option<Vec<u8>> = self.link.call(&key, get).await.map_err(away)?;
            Ok(match value {
                None => Kept::Nothing,
                Some(value) if value.is_empty() => Kept::Removed,
                Some(value) => Kept::Value(value),
            })
        })
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Vec<u8>,
        life: Duration,
    ) -> BoxFuture<'a, Result<(), CacheAway>> {
        Box::pin(async move {
            let key = self.key(key);
            let put = self.put.call().arg(1).arg(&key).arg(value).arg(millis(life)).take();
            self.link.call::<i64>(&key, put).await.map_err(away)?;
            Ok(())
        })
    }

    fn remove<'a>(&'a self, key: &'a str, closed_for: Duration) -> BoxFuture<'a, Result<(), CacheAway>> {
        Box::pin(async move {
            let key = self.key(key);
            let close = cmd("SET").arg(&key).arg("").arg("PX").arg(millis(closed_for)).take();
            self.link.call::<()>(&key, close).await.map_err(away)
        })
    }
}
