//! API v1: handlers, identity, errors, metrics, OpenAPI, and the server.
//!
//! It translates between HTTP and the ledger, the records and the gate. It decides nothing itself.

mod accept;
mod accounts;
mod admin_audit;
mod admin_dead_letters;
mod admin_drafts;
mod admin_items;
mod admin_orders;
mod admin_sales;
mod app;
mod arriving;
mod attempts;
mod audit;
mod catalogue;
mod challenges;
mod connection;
mod connections;
mod countries;
mod docs;
mod entry;
mod error_pages;
mod following;
mod gate;
mod health;
mod held;
mod housekeeping;
mod identity;
mod items;
mod json;
mod lane;
mod live;
mod loads;
mod local_cache;
mod me;
mod metrics;
mod neighbours;
mod one_time_code;
mod openapi;
mod options;
mod order_table;
mod orders;
mod otp;
mod page;
mod pages;
mod parts;
mod passes;
mod passwords;
mod peer;
mod per_address;
mod phone;
mod pictures;
mod problem;
mod pulse;
mod routes;
mod sale_tally;
mod sales;
mod secrets;
mod server;
mod sessions;
mod shared_cache;
mod shared_figures;
mod signed_out;
mod storefront;
mod tally;
mod tickets;
mod time;
mod waitlist;
mod waitlists;
mod wire;
mod words;
mod worker;

pub use accounts::{InvalidAccount, new_account, phone_forms};
pub use audit::{AuditError, audit};
pub use gate::{
    Applicant, Door, DoorOptions, DoorRefusal, Doors, GateOptions, PassFigures, Rate, RoomArchive, RoomStore,
    RoomsInMemory,
};
pub use identity::InvalidJwtKey;
pub use metrics::WorkerFigures;
pub use neighbours::{Alone, Change, Neighbours};
pub use openapi::openapi;
pub use options::{
    CodeSender, JwtKey, JwtOptions, LogSender, OneTimeCodeOptions, Options, SendFailed, SettlementView,
};
pub use pages::PageFile;
pub use parts::{Figure, FigureValue, Part};
pub use penstock_records::StoredRoom;
pub use phone::{Country, UnknownCountry};
pub use problem::Code;
pub use secrets::Secrets;
pub use server::{Server, StartError};
pub use shared_cache::{CacheAway, Kept, NoSharedCache, SharedCache};
pub use shared_figures::{FiguresAway, NoSharedFigures, SharedFigures, Shown};
pub use storefront::Storefront;
pub use worker::WorkerServer;
