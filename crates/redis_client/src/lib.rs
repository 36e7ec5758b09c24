//! The way to Redis for everything that nodes share: one server, Sentinel or Cluster. A `Link` finds the
//! master of a key, sends it a pipeline that runs once, waits for the replicas if asked to, and follows
//! channels. It knows nothing of sales. ADR 12 says why it does not use the Cluster client of redis-rs.

mod call;
mod durability;
mod error;
mod link;
mod options;
mod pubsub;
mod script;
mod server;
mod servers;
mod topology;

pub use call::is_turned_away;
pub use error::{LinkError, answered};
pub use link::Link;
pub use options::{DEFAULT_TIMEOUT, RedisMode, RedisOptions};
pub use pubsub::{Following, Heard, Message};
pub use script::Script;
