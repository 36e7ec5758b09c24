//! API v1: handlers, identity, errors, metrics, OpenAPI, and the server.
//!
//! It translates between HTTP and the ledger, the records and the gate, and decides nothing itself.

mod accounts;
mod admin_audit;
mod admin_dead_letters;
mod admin_items;
mod admin_orders;
mod admin_sales;
mod app;
mod arriving;
mod challenges;
mod connection;
mod entry;
mod gate;
mod health;
mod housekeeping;
mod identity;
mod items;
mod json;
mod lane;
mod me;
mod metrics;
mod openapi;
mod options;
mod orders;
mod otp;
mod pages;
mod passes;
mod passwords;
mod peer;
mod per_address;
mod phone;
mod problem;
mod pulse;
mod routes;
mod sales;
mod secrets;
mod server;
mod sessions;
mod storefront;
mod tally;
mod tickets;
mod wire;

pub use accounts::{InvalidAccount, new_account, parse_phone};
pub use gate::{GateOptions, Rate, RoomStore, RoomsInMemory};
pub use identity::InvalidJwtKey;
pub use openapi::openapi;
pub use options::{
    CodeSender, JwtKey, JwtOptions, LogSender, OneTimeCodeOptions, Options, SendFailed, SettlementView,
};
pub use problem::Code;
pub use secrets::Secrets;
pub use server::{Server, StartError};
pub use storefront::Storefront;
