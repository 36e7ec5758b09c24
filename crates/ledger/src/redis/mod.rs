//! The ledger on Redis, shared by all nodes: a batch is one call of a script for each sale, and the feed is
//! one stream for each sale.

mod adopt;
mod batch;
mod call;
mod clock;
mod codec;
mod coverage;
mod decider;
mod durability;
mod engine;
mod feed;
mod forget;
mod keys;
mod link;
mod news;
mod open;
mod options;
mod plan;
mod polling;
mod preparation;
mod pubsub;
mod rebuilt;
mod recovery;
mod sales;
mod server;
mod settled;
mod stored;
mod topology;

pub use clock::SharedClock;
pub use keys::Keys;
pub use link::{Link, Script};
pub use open::{LedgerOptions, open};
pub use options::{LinkError, RedisMode, RedisOptions};
pub use pubsub::{Following, Heard, Message, Messages};
pub use settled::{NewEpoch, NothingSettled, Reconciled, Settled, SettledSale};
