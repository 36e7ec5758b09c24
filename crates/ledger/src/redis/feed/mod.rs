//! The feed on Redis: every sale is a stream of its own, named by the sale's id, and its entries are batches.
//! The entry's random mark tells its history from others that were lost. `entries` reads a stream, `state` the
//! sale as a whole, and `trimming` deletes what is settled.

mod entries;
mod redis_feed;
mod state;
mod trimming;

pub(crate) use entries::read_entries;
pub(crate) use redis_feed::RedisFeed;
