//! Orders: placing, finding, paying and cancelling them. The ledger decides and is asked first; the records only
//! know settled orders.

mod keeping;
mod placing;

pub use self::{
    keeping::{FoundOrder, OrderError},
    placing::{Attempt, ClaimRequest, OrderRefusal},
};
