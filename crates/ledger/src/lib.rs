//! The only authority on stock: the port, the batcher, the embedded engine, the engine on Redis, and the
//! suite every engine passes.

pub mod batcher;
pub mod conformance;
pub mod embedded;
mod handle;
mod niceness;
mod port;
mod queue;
pub mod redis;
mod rush;
mod stats;

pub use batcher::BatcherOptions;
pub use handle::Ledger;
pub use niceness::{Precedence, take_precedence};
pub use port::{
    Clock, Committed, Engine, Feed, FeedError, Health, Home, Homes, LedgerError, Listener, Piece, SaleNews,
    Unavailable, decisions_between,
};
pub use rush::Rush;
pub use stats::{BATCH_SIZE_BOUNDS, LedgerStats};
