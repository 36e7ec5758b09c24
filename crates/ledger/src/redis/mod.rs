//! The ledger on Redis, shared by all nodes: what a batch does to a sale is one call of a script, and a stream
//! per sale is its feed.

mod batch;
mod call;
mod codec;
mod decider;
mod durability;
mod engine;
mod keys;
mod link;
mod options;
mod plan;
mod pubsub;
mod recovery;
mod sales;
mod server;
mod topology;

pub use keys::Keys;
pub use link::{Link, Script};
pub use options::{LinkError, RedisMode, RedisOptions};
pub use pubsub::{Following, Heard, Message, Messages};
