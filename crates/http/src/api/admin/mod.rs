//! Calls for the merchant.

pub(crate) mod audit;
pub(crate) mod dead_letters;
pub(crate) mod drafts;
pub(crate) mod items;
pub(crate) mod live;
pub(crate) mod order_table;
pub(crate) mod orders;
pub(crate) mod sales;
