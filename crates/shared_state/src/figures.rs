//! Counters that nodes and settlement workers show each other, in Redis: one value each, and the time it was
//! shown by the clock of Redis. An entry that is not refreshed is removed when the next one is written, or
//! expires with the rest.

use std::{fmt, time::Duration};

use futures_util::future::BoxFuture;
use penstock_redis_client::{Link, LinkError, Script};
use penstock_shop::ports::{FiguresAway, SharedFigures, Shown};

/// KEYS: the times, the values. ARGV: the name, the value, its life in milliseconds. Removes the entries
/// older than that.
const SHOW: &str = "local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[3])) do
  redis.call('ZREM', KEYS[1], gone)
  redis.call('HDEL', KEYS[2], gone)
end
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 1";

/// KEYS: as above. Returns the name, the age in milliseconds and the value of each entry. Changes nothing.
const LOOK: &str = "local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local all = {}
local shown = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for place = 1, #shown, 2 do
  local what = redis.call('HGET', KEYS[2], shown[place])
  if what then
    all[#all + 1] = {shown[place], math.max(0, now - shown[place + 1]), what}
  end
end
return all";

pub struct RedisFigures {
    link: Link,
    /// Both keys have the same hash tag, which no sale has.
    times: String,
    values: String,
    show: Script,
    look: Script,
}

impl RedisFigures {
    /// All its keys begin with `prefix`.
    pub fn new(link: Link, prefix: &str) -> Self {
        let (show, look) = (Script::new(SHOW), Script::new(LOOK));
        link.learn(&show);
        link.learn(&look);
        let times = format!("{prefix}penstock:{{figures}}:times");
        let values = format!("{prefix}penstock:{{figures}}:values");
        Self { link, times, values, show, look }
    }
}

impl fmt::Debug for RedisFigures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RedisFigures").field("values", &self.values).finish_non_exhaustive()
    }
}

fn away(error: LinkError) -> FiguresAway {
    FiguresAway(error.to_string())
}

impl SharedFigures for RedisFigures {
    fn put<'a>(
        &'a self,
        name: &'a str,
        figures: Vec<u8>,
        life: Duration,
    ) -> BoxFuture<'a, Result<(), FiguresAway>> {
        Box::pin(async move {
            let life_millis = u64::try_from(life.as_millis()).unwrap_or(u64::MAX).max(1);
            let mut show = self.show.call();
            show.arg(2).arg(&self.times).arg(&self.values).arg(name).arg(figures).arg(life_millis);
            self.link.call::<i64>(&self.times, show).await.map(drop).map_err(away)
        })
    }

    fn all(&self) -> BoxFuture<'_, Result<Vec<Shown>, FiguresAway>> {
        Box::pin(async move {
            let mut look = self.look.call();
            look.arg(2).arg(&self.times).arg(&self.values);
            let all: Vec<(String, u64, Vec<u8>)> = self.link.call(&self.times, look).await.map_err(away)?;
            let shown =
                |(name, age_millis, figures)| Shown { name, figures, age: Duration::from_millis(age_millis) };
            Ok(all.into_iter().map(shown).collect())
        })
    }
}
