//! Real processes for tests, a raw HTTP client, and an independent auditor. It uses only the public API and
//! the command line, and no other crate of the workspace, so that it can't share their mistakes.

mod auditor;
mod client;
mod identity;
mod merchant;
mod patient;
mod process;
mod random;
mod slow;
mod slow_sync;
mod tools;

pub use auditor::{AuditVerdict, Auditor};
pub use client::{AnswerLost, Client, ClientAnswer};
pub use identity::{JWT_SECRET, buyer_token, sign};
pub use merchant::{ADMIN_TOKEN, Merchant, OfferTerms};
pub use patient::{longest_order, sell_behind_slow_syncs};
pub use process::{CommandRun, Penstock, Stopped};
pub use random::{Random, seed_of_the_day};
pub use slow::SlowConnections;
pub use slow_sync::SlowSync;
pub use tools::{done, from_npm, from_pypi, please_promtool};
