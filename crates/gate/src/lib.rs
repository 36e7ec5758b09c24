//! Who may try: the latch that refuses what can't succeed, and limits. No I/O, no clock; sees only the domain.

mod accepted_keys;
mod keys;
mod latch;
mod limits;
mod shedding;

pub use keys::KeyRing;
pub use latch::{Latch, QuickRefusal};
pub use limits::{AddressKey, KeyedLimit, LimitOptions, SingleLimit, TooMany};
pub use shedding::{InFlight, Shedding, SheddingOptions};
