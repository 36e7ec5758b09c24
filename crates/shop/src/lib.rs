//! The application: everything that a shop does, apart from how it is asked. Each operation returns a small
//! enum of its own.
//! It must not know HTTP, SQL or Redis.

#![allow(
    missing_debug_implementations,
    reason = "only the transport uses these types, and prints none of them"
)]

mod audit;
mod code;
pub mod complaints;
pub mod gate;
pub mod housekeeping;
pub mod identity;
pub mod live;
mod options;
pub mod orders;
pub mod ports;
mod secrets;
mod shop;
pub mod storefront;
pub mod tally;
pub mod waiting_rooms;

pub use self::{
    audit::{AuditError, audit},
    code::Code,
    options::{SettlementView, ShopOptions},
    secrets::Secrets,
    shop::{SaleMissing, Shop},
};
