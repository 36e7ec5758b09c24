//! How a batch of commands is decided in Redis: `plan` sorts the commands by sale, `preparation` finds out
//! what some of them need first, `sale_batch` turns those of one sale into a script call and its answers into
//! replies, `decider` sends the calls and lets failing sales rest, and `committer` does all of this in order.

mod committer;
mod decider;
mod plan;
mod preparation;
mod sale_batch;

pub(crate) use committer::Committer;
pub(crate) use decider::{Decider, SaleFailure};
pub(crate) use sale_batch::{SaleBatch, SaleOutcome};

#[cfg(test)]
pub(crate) use sale_batch::{SaleAnswer, decide_script};
