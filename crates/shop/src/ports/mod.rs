//! What the application needs from outside, besides the ledger and the records. A single node needs none of it.

mod neighbours;
mod parts;
mod shared_cache;
mod shared_figures;

pub use self::{
    neighbours::{Change, Neighbours, NoNeighbours},
    parts::{Figure, FigureValue, NodePart},
    shared_cache::{CacheAway, Kept, NoSharedCache, SharedCache},
    shared_figures::{FiguresAway, NoSharedFigures, SharedFigures, Shown},
};
