//! Which cluster to start.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use clap::ValueEnum;

/// How Redis is deployed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RedisKind {
    /// One server
    Single,
    /// A master, its replicas and three sentinels
    Sentinel,
    /// Three masters with their replicas
    Cluster,
}

/// What to start.
#[derive(Clone, Debug)]
pub struct ShopPlan {
    /// The program `penstock`.
    pub program: PathBuf,
    /// Holds everything: data, configuration and logs.
    pub folder: PathBuf,
    pub nodes: usize,
    pub settlers: usize,
    pub redis: RedisKind,
    /// Replicas of each master, with Sentinels or in a Redis Cluster.
    pub replicas: usize,
    /// Further environment variables of a single Redis.
    pub redis_variables: Vec<(String, String)>,
    /// Where nginx listens; None: on any free port.
    pub listen: Option<SocketAddr>,
    pub admin_token: String,
    pub jwt_secret: String,
    /// Further environment variables of all nodes and workers, such as `PENSTOCK_LOG__LEVEL`.
    pub variables: Vec<(String, String)>,
}

impl ShopPlan {
    /// Three nodes and two workers on a single Redis.
    pub fn new(program: &Path, folder: &Path) -> Self {
        Self {
            program: program.to_owned(),
            folder: folder.to_owned(),
            nodes: 3,
            settlers: 2,
            redis: RedisKind::Single,
            replicas: 1,
            redis_variables: Vec::new(),
            listen: None,
            admin_token: "local-admin-token".to_owned(),
            jwt_secret: "local-jwt-secret-of-a-rehearsal-32b".to_owned(),
            variables: Vec::new(),
        }
    }
}
