//! What Penstock is measured against: real servers from Debian's packages, started here and ended here.

pub mod mariadb;
pub mod nginx;
pub mod redis;
