//! Real servers on this machine for tests, benchmarks and demonstrations. Each one listens on loopback only,
//! keeps its data and logs in the folder it is given, and ends when its value is dropped. Only `shop.rs`
//! knows of Penstock, and only as a program.

mod commands;
mod cut_proxy;
mod front;
mod identity;
mod leftovers;
mod mariadb;
mod nginx;
mod plan;
mod ports;
mod process;
mod programs;
mod redis;
mod redis_cluster;
mod sentinel;
mod shop;
mod shop_process;
mod supervisor;

pub use commands::{command, output, without_callers_settings};
pub use cut_proxy::{Cut, CutProxy};
pub use front::start_front;
pub use leftovers::end_leftovers;
pub use mariadb::{MariaDb, MariaDbSettings};
pub use nginx::Nginx;
pub use plan::{RedisKind, ShopPlan};
pub use ports::{accepts, free_address};
pub use process::{ChildProcess, supervise};
pub use programs::{find, require, require_packages};
pub use redis::{RedisRole, RedisServer, RedisSettings};
pub use redis_cluster::RedisCluster;
pub use sentinel::RedisSentinel;
pub use shop::{LocalShop, ShopPart, ShopPartKind, ShopRedis};
pub use shop_process::ShopProcess;
pub use supervisor::Supervisor;
