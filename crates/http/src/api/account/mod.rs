//! Accounts: registering, signing in, and the caller's own data.

pub(crate) mod accounts;
pub(crate) mod countries;
pub(crate) mod me;
pub(crate) mod otp;
pub(crate) mod sessions;
