//! The state that nodes share beside the ledger, on Redis. Each module implements a port that `penstock-shop`
//! defines.

mod cache;
mod changes;
mod doors;
mod figures;
mod gate_calls;
mod numbers;
mod passes;
mod rooms;

pub use cache::RedisCache;
pub use changes::Changes;
pub use doors::{SharedDoors, SharedDoorsOptions};
pub use figures::RedisFigures;
