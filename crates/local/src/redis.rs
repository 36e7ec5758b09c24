//! One Redis server.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    time::Duration,
};

use anyhow::{Context, ensure};

use crate::{commands, ports::free_address, process::ChildProcess, programs::require};

const START_LIMIT: Duration = Duration::from_secs(30);
/// Redis answers much faster than this unless it is busy with something else.
const ROLE_LIMIT: Duration = Duration::from_millis(200);

/// How a server is set up. By default it keeps what it has answered and evicts nothing.
#[derive(Clone, Debug)]
pub struct RedisSettings {
    pub appendonly: bool,
    /// `always`, `everysec` or `no`.
    pub appendfsync: &'static str,
    pub replica_of: Option<SocketAddr>,
    /// Runs as a node of a Redis Cluster, without any slots yet.
    pub cluster: bool,
    pub password: Option<String>,
    /// Also listens on this path, which must be short.
    pub unix_socket: Option<PathBuf>,
    /// Further lines of `redis.conf`, such as `maxmemory 100mb`; they override the ones before.
    pub extra: Vec<String>,
    /// Further environment variables of its process.
    pub variables: Vec<(String, String)>,
}

impl Default for RedisSettings {
    fn default() -> Self {
        Self {
            appendonly: true,
            appendfsync: "always",
            replica_of: None,
            cluster: false,
            password: None,
            unix_socket: None,
            extra: Vec::new(),
            variables: Vec::new(),
        }
    }
}

/// A server's role among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedisRole {
    Master,
    ReplicaOf(SocketAddr),
    Sentinel,
}

/// A Redis server that ends when this value is dropped; its data stays in the folder.
#[derive(Debug)]
pub struct RedisServer {
    folder: PathBuf,
    address: SocketAddr,
    password: Option<String>,
    server: PathBuf,
    /// A further argument of the server, or nothing.
    mode: &'static str,
    client: PathBuf,
    variables: Vec<(String, String)>,
    process: Option<ChildProcess>,
    is_paused: bool,
}

impl RedisServer {
    /// Starts on the data in `folder`, if there is any. A replica is ready when it follows its master.
    pub fn start(folder: &Path, settings: RedisSettings) -> anyhow::Result<Self> {
        let mut redis =
            Self::start_from(folder, "", &configure(&settings)?, settings.password, settings.variables)?;
        if settings.replica_of.is_some() {
            redis.wait_until(|redis| redis.info("master_link_status").is_ok_and(|status| status == "up"))?;
        }
        Ok(redis)
    }

    /// A sentinel is a server that has no data.
    pub(crate) fn start_sentinel(folder: &Path, configuration: &str) -> anyhow::Result<Self> {
        Self::start_from(folder, "--sentinel", configuration, None, Vec::new())
    }

    fn start_from(
        folder: &Path,
        mode: &'static str,
        configuration: &str,
        password: Option<String>,
        variables: Vec<(String, String)>,
    ) -> anyhow::Result<Self> {
        let server = require("redis-server", "redis-server")?;
        let client = require("redis-cli", "redis-tools")?;
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let folder = folder.canonicalize()?;
        let address = free_address()?;
        let place = format!(
            "bind {}\nport {}\ndir {}\nlogfile {}\n",
            address.ip(),
            address.port(),
            quoted(&folder),
            quoted(&folder.join("redis.log")),
        );
        fs::write(folder.join("redis.conf"), place + configuration)?;
        let mut redis = Self {
            folder,
            address,
            password,
            server,
            mode,
            client,
            variables,
            process: None,
            is_paused: false,
        };
        redis.launch()?;
        Ok(redis)
    }

    fn launch(&mut self) -> anyhow::Result<()> {
        let mut command = Command::new(&self.server);
        // The server itself later adds to this file, such as the master it follows after a failover.
        command.arg(self.folder.join("redis.conf"));
        command.args(Some(self.mode).filter(|mode| !mode.is_empty()));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        self.process = Some(ChildProcess::start("Redis", command, &self.folder.join("redis.log"))?);
        self.is_paused = false;
        // It accepts connections before it has read its data, but does not answer them.
        self.wait_until(|redis| redis.cli(&["PING"]).is_ok_and(|answer| answer == "PONG"))
    }

    /// Waits until `ready` returns true; fails if the server ends first.
    pub fn wait_until(&mut self, ready: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        let mut process = self.process.take().context("Redis does not run")?;
        let waited = process.wait_until(START_LIMIT, || ready(self));
        self.process = Some(process);
        waited
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The number of its process, while it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(ChildProcess::id)
    }

    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// Whether it can answer: it runs and is not paused.
    pub(crate) fn answers(&self) -> bool {
        self.is_running() && !self.is_paused
    }

    /// Asks the server with `redis-cli`. An error reply is an error here. Several values come as lines.
    pub fn cli(&self, question: &[&str]) -> anyhow::Result<String> {
        ensure!(!self.is_paused, "Redis is paused");
        let mut command = Command::new(&self.client);
        command.arg("-e").arg("-h").arg(self.address.ip().to_string());
        command.arg("-p").arg(self.address.port().to_string());
        if let Some(password) = &self.password {
            command.env("REDISCLI_AUTH", password);
        }
        let answer = commands::output(command.args(question))?;
        Ok(answer.trim_end().to_owned())
    }

    /// One field of `INFO`, such as `role` or `master_link_status`.
    pub fn info(&self, field: &str) -> anyhow::Result<String> {
        let answer = self.cli(&["INFO"])?;
        let found = answer.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        found.map(|value| value.trim().to_owned()).with_context(|| format!("Redis does not report {field}"))
    }

    /// Sends SIGKILL, which is like a power cut.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.process.take().context("Redis does not run")?.kill()
    }

    /// Sends SIGTERM and waits until the server has ended.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        self.process.take().context("Redis does not run")?.stop()
    }

    /// Starts it with the same port and data, after a `stop` if it still runs.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        if self.is_running() && self.ended().is_none() {
            self.stop()?;
        }
        self.launch()
    }

    /// How it has ended, if something else has killed it.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.as_mut()?.ended()
    }

    /// Its role, if it answers at once. A sentinel has none.
    pub fn role(&self) -> Option<RedisRole> {
        let mut connection = TcpStream::connect_timeout(&self.address, ROLE_LIMIT).ok()?;
        connection.set_read_timeout(Some(ROLE_LIMIT)).ok()?;
        connection.write_all(b"ROLE\r\n").ok()?;
        let mut answer = [0; 256];
        let bytes = connection.read(&mut answer).ok()?;
        read_role(std::str::from_utf8(answer.get(..bytes)?).ok()?)
    }

    /// Stops it answering; its connections stay open.
    pub fn pause(&mut self) -> anyhow::Result<()> {
        self.process.as_mut().context("Redis does not run")?.pause()?;
        self.is_paused = true;
        Ok(())
    }

    /// Goes on after `pause`.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.process.as_mut().context("Redis does not run")?.resume()?;
        self.is_paused = false;
        Ok(())
    }
}

/// Reads the beginning of the answer to `ROLE` in the Redis protocol: lengths and values are alternate lines.
fn read_role(answer: &str) -> Option<RedisRole> {
    let mut lines = answer.lines().skip(1).filter(|line| !line.starts_with('$'));
    match lines.next()? {
        "master" => Some(RedisRole::Master),
        "slave" => {
            let (ip, port) = (lines.next()?, lines.next()?.strip_prefix(':')?);
            Some(RedisRole::ReplicaOf(SocketAddr::new(ip.parse().ok()?, port.parse().ok()?)))
        }
        "sentinel" => Some(RedisRole::Sentinel),
        _ => None,
    }
}

fn configure(settings: &RedisSettings) -> anyhow::Result<String> {
    let mut lines = vec![
        "save \"\"".to_owned(),
        format!("appendonly {}", if settings.appendonly { "yes" } else { "no" }),
        format!("appendfsync {}", settings.appendfsync),
        "maxmemory-policy noeviction".to_owned(),
        // Replicate at once instead of waiting for more replicas.
        "repl-diskless-sync-delay 0".to_owned(),
    ];
    if let Some(master) = settings.replica_of {
        lines.push(format!("replicaof {} {}", master.ip(), master.port()));
    }
    if settings.cluster {
        lines.push("cluster-enabled yes".to_owned());
        lines.push("cluster-config-file nodes.conf".to_owned());
        lines.push("cluster-node-timeout 1500".to_owned());
        // The other masters go on when one dies.
        lines.push("cluster-require-full-coverage no".to_owned());
        // The default port of the cluster bus is 10,000 higher, in the range that Linux gives to clients.
        lines.push(format!("cluster-port {}", free_address()?.port()));
    }
    if let Some(password) = &settings.password {
        let password = quoted(password.as_ref());
        lines.push(format!("requirepass {password}\nmasterauth {password}"));
    }
    if let Some(socket) = &settings.unix_socket {
        lines.push(format!("unixsocket {}", quoted(socket)));
    }
    lines.extend(settings.extra.iter().cloned());
    lines.push(String::new());
    Ok(lines.join("\n"))
}

/// Quotes a value of `redis.conf`, which may contain spaces.
fn quoted(value: &Path) -> String {
    let value = value.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{value}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_read() {
        let replica = "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:7001\r\n$9\r\nconnected\r\n:42\r\n";
        assert_eq!(read_role(replica), Some(RedisRole::ReplicaOf("127.0.0.1:7001".parse().unwrap())));
        assert_eq!(read_role("*3\r\n$6\r\nmaster\r\n:42\r\n*0\r\n"), Some(RedisRole::Master));
        assert_eq!(read_role("*2\r\n$8\r\nsentinel\r\n*1\r\n"), Some(RedisRole::Sentinel));
        assert_eq!(read_role("-NOAUTH Authentication required.\r\n"), None);
    }
}
