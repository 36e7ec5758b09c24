//! The servers that Penstock is measured against: real ones from Debian's packages, started and stopped here.

pub mod mariadb;
pub mod nginx;
pub mod redis;
