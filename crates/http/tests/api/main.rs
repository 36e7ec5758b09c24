//! The API as a client sees it: a real server on a free port, a real ledger and a real database in a
//! temporary folder, and a clock that the test sets.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "test helpers may panic like tests")]

mod accounts;
mod admin;
mod admin_orders;
mod connections;
mod documented;
mod doors;
mod drafts;
mod gate;
mod identity;
mod lane;
mod limits;
mod live;
mod nodes;
mod operation;
mod orders;
mod pages;
mod pictures;
mod protocol;
mod recovery;
mod sales;
mod strangers;
mod support;
mod waiting;
mod waitlist;
