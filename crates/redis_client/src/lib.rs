//! The way to Redis for everything that nodes share: one server, Sentinel or Cluster. A `Link` finds the
//! master of a key, sends it a pipeline that runs once, waits for the replicas if asked to, and follows
//! channels. It does not know what the keys are for. ADR 12 says why it does not use the Cluster client of
//! redis-rs.
//!
//! - `link`, `call`: what callers use, and one call until each of its commands has run.
//! - `topology` asks Redis which servers are masters, `servers` remembers the answer, and `server` has the
//!   connections to one of them.
//! - `pubsub`: channels. `durability`: the settings that could lose what was confirmed.

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
