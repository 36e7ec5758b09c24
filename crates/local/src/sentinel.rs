//! A Redis master with replicas, and the sentinels that promote a replica when the master is gone.

use std::{net::SocketAddr, path::Path, time::Duration};

use anyhow::Context;

use crate::{
    process::wait_for,
    redis::{RedisServer, RedisSettings},
};

/// The sentinels' name for the master.
const NAME: &str = "penstock";
const SENTINELS: usize = 3;
const QUORUM: usize = 2;
const DOWN_AFTER_MILLISECONDS: u32 = 1000;
/// After a failed vote, the sentinels wait twice this long.
const FAILOVER_TIMEOUT_MILLISECONDS: u32 = 3000;
/// How often the sentinels exchange what they know and ask the servers: ten times as often as by default.
/// They wait some periods before they turn a returning master into a replica; by default that takes ten
/// seconds.
const PUBLISH_PERIOD_MILLISECONDS: &str = "200";
const INFO_PERIOD_MILLISECONDS: &str = "1000";
const LIMIT: Duration = Duration::from_secs(60);

/// Servers and sentinels that end when this value is dropped. The servers are numbered; the first master is
/// 0.
#[derive(Debug)]
pub struct RedisSentinel {
    // Dropped first, so that they do not see the servers end.
    sentinels: Vec<RedisServer>,
    servers: Vec<RedisServer>,
}

impl RedisSentinel {
    /// Returns when every sentinel knows the replicas and the other sentinels, so that a failover is
    /// possible.
    pub fn start(folder: &Path, replicas: usize) -> anyhow::Result<Self> {
        let master = RedisServer::start(&folder.join("server-0"), RedisSettings::default())?;
        let first = master.address();
        let mut servers = vec![master];
        for number in 1..=replicas {
            let settings = RedisSettings { replica_of: Some(first), ..RedisSettings::default() };
            servers.push(RedisServer::start(&folder.join(format!("server-{number}")), settings)?);
        }
        let mut sentinels = Vec::new();
        for number in 0..SENTINELS {
            let folder = folder.join(format!("sentinel-{number}"));
            let sentinel = RedisServer::start_sentinel(&folder, &watch_over(first))?;
            sentinel.cli(&["SENTINEL", "DEBUG", "PUBLISH-PERIOD", PUBLISH_PERIOD_MILLISECONDS])?;
            sentinel.cli(&["SENTINEL", "DEBUG", "INFO-PERIOD", INFO_PERIOD_MILLISECONDS])?;
            sentinels.push(sentinel);
        }
        let set = Self { sentinels, servers };
        let ready = |sentinel: &RedisServer| {
            let known = sentinel.cli(&["SENTINEL", "MASTER", NAME]).unwrap_or_default();
            has(&known, "num-slaves", replicas) && has(&known, "num-other-sentinels", SENTINELS - 1)
        };
        wait_for("Sentinel", LIMIT, || set.sentinels.iter().all(ready))?;
        Ok(set)
    }

    /// The addresses of the sentinels.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sentinels.iter().map(RedisServer::address).collect()
    }

    pub fn master_name(&self) -> &'static str {
        NAME
    }

    /// The number of the server that all sentinels call the master, if they agree.
    pub fn master(&self) -> Option<usize> {
        let mut named = self.sentinels.iter().filter(|sentinel| sentinel.answers()).map(|sentinel| {
            let answer = sentinel.cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]).ok()?;
            let (ip, port) = answer.split_once('\n')?;
            format!("{ip}:{port}").parse::<SocketAddr>().ok()
        });
        let first = named.next()??;
        if !named.all(|other| other == Some(first)) {
            return None;
        }
        self.servers.iter().position(|server| server.address() == first)
    }

    /// Waits until a server other than `former` is the master; returns its number.
    pub fn wait_for_failover(&self, former: usize) -> anyhow::Result<usize> {
        let mut found = None;
        wait_for("the failover", LIMIT, || {
            let is_master = |number: &usize| {
                let server = self.servers.get(*number);
                server.is_some_and(|server| server.info("role").is_ok_and(|role| role == "master"))
            };
            found = self.master().filter(|number| *number != former).filter(is_master);
            found.is_some()
        })?;
        found.context("there is no other master")
    }

    /// The servers, then the sentinels.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut RedisServer> {
        self.servers.iter_mut().chain(&mut self.sentinels)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &RedisServer> {
        self.servers.iter().chain(&self.sentinels)
    }

    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// For a test to kill, pause or restart. A server that comes back becomes a replica.
    pub fn server(&mut self, number: usize) -> anyhow::Result<&mut RedisServer> {
        self.servers.get_mut(number).with_context(|| format!("there is no server {number}"))
    }
}

fn watch_over(master: SocketAddr) -> String {
    format!(
        "sentinel monitor {NAME} {} {} {QUORUM}
sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MILLISECONDS}
sentinel failover-timeout {NAME} {FAILOVER_TIMEOUT_MILLISECONDS}
sentinel parallel-syncs {NAME} 1
",
        master.ip(),
        master.port()
    )
}

/// Names and values are alternate lines.
fn has(lines: &str, name: &str, value: usize) -> bool {
    lines.lines().skip_while(|line| *line != name).nth(1) == Some(&value.to_string())
}
