//! News between nodes: after a batch each node tells the others the sale's new status and the accepted keys.
//! A message may be lost, so every node also polls, and reads from the feed what it missed.
//!
//! `hearing` knows what this node has heard and what the listener may be told, `telling` sends this node's own
//! news, `looking` finds and reads what was missed, `polling` asks the servers, and `coverage` is how much of a
//! sale's history was heard. `tasks` starts all of it.

mod coverage;
mod hearing;
mod looking;
mod polling;
mod tasks;
mod telling;

pub(crate) use hearing::News;
pub(crate) use tasks::start;
