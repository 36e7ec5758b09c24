//! The rules of a flash sale: ids, money, sales, claims, orders and the `Book` that decides.
//! No I/O, no clock, no async; it depends on no other crate of the workspace.

mod book;
mod command;
mod cursor;
mod event;
mod gate;
mod ids;
mod money;
mod order;
mod sale;
mod settled;
mod time;
mod waitlist;

pub use book::{Book, BookSnapshot, SaleSnapshot, SnapshotOrder};
pub use command::{CancelRefusal, ClaimRefusal, Command, JoinRefusal, PaymentRefusal, Reply, SaleRefusal};
pub use cursor::{Cursor, Mark};
pub use event::{Decision, Event, LeaveReason, ReleaseReason};
pub use gate::{ChallengeKind, GateTerms};
pub use ids::{AccountId, BuyerId, InvalidId, ItemId, MAX_BUYER_BYTES, OrderId, SaleId};
pub use money::{Currency, InvalidMoney, MAX_MINOR, Money};
pub use order::{Accepted, Claim, InvalidKey, KeyDigest, MAX_KEY_BYTES, Order, OrderState};
pub use sale::{
    MAX_HOLD_SECONDS, MAX_LIMIT_PER_BUYER, MAX_ORDERS_PER_BUYER, MAX_UNITS, SaleState, SaleStatus, SaleTerms,
};
pub use settled::{NewEpoch, SettledSale};
pub use time::Timestamp;
pub use waitlist::{MAX_WAITERS, Place, Waiter};
