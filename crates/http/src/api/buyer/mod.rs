//! Calls for buyers: looking, waiting and ordering.

pub(crate) mod challenges;
pub(crate) mod items;
pub(crate) mod orders;
pub(crate) mod passes;
pub(crate) mod sales;
pub(crate) mod tickets;
pub(crate) mod time;
pub(crate) mod waitlist;
