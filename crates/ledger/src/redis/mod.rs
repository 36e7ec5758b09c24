//! The ledger on Redis, shared by all nodes: what a batch does to a sale is one call of a script, and a stream
//! per sale is its feed.

mod call;
mod durability;
mod link;
mod options;
mod pubsub;
mod server;
mod topology;

pub use link::{Link, Script};
pub use options::{LinkError, RedisMode, RedisOptions};
pub use pubsub::{Following, Heard, Message, Messages};
