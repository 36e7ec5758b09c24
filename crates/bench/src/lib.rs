//! Penstock's figures, each measured next to its peer on the same cores in the same minutes. Never ships.

mod bench;
mod browser;
mod cluster;
mod cpu;
pub mod figures;
pub mod host;
pub mod load;
mod numbers;
pub mod peers;
mod places;
mod report;
mod server;
