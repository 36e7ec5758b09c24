//! Connections: accepting them, reading requests and writing answers, and giving them up. It does not know what
//! is requested.

mod answers;
mod arriving;
mod connection;
mod connections;
mod entry;
mod held;
mod lane;
mod limits;
mod peer;
mod per_address;
mod pulse;
pub(crate) mod server;
pub(crate) mod worker;
