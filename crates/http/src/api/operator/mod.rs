//! Calls for operators.

pub(crate) mod health;
pub(crate) mod metrics;
