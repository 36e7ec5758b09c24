//! A whole cluster of Penstock: nodes and settlement workers behind nginx, on Redis and MariaDB. Every part can be
//! killed, paused and started again while the others go on.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, bail};

use crate::{
    MariaDb, Nginx, RedisCluster, RedisSentinel, RedisServer, RedisSettings,
    front::start_front,
    ports::free_address,
    process::{self, Process},
};

/// A debug build on a loaded machine may take its time.
const START_LIMIT: Duration = Duration::from_secs(90);

/// How Redis runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedisKind {
    Single,
    Sentinel,
    Cluster,
}

/// The Redis of a shop.
#[derive(Debug)]
pub enum Redis {
    Single(RedisServer),
    Sentinel(RedisSentinel),
    Cluster(RedisCluster),
}

/// What to start.
#[derive(Clone, Debug)]
pub struct ShopPlan {
    /// The program `penstock`.
    pub program: PathBuf,
    /// Everything is kept here: data, configuration and logs.
    pub folder: PathBuf,
    pub nodes: usize,
    pub settlers: usize,
    pub redis: RedisKind,
    /// Where nginx listens; None: on any free port.
    pub listen: Option<SocketAddr>,
    pub admin_token: String,
    pub jwt_secret: String,
    /// Further variables of all nodes and workers, such as `PENSTOCK_LOG__LEVEL`.
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
            listen: None,
            admin_token: "local-admin-token".to_owned(),
            jwt_secret: "local-jwt-secret-of-a-rehearsal-32b".to_owned(),
            variables: Vec::new(),
        }
    }
}

/// A running cluster that dies with this value, from the outside in.
#[derive(Debug)]
pub struct Shop {
    // In the order in which they are dropped.
    nginx: Nginx,
    nodes: Vec<Worker>,
    settlers: Vec<Worker>,
    pub redis: Redis,
    pub mariadb: MariaDb,
    configuration: PathBuf,
    listen: SocketAddr,
    plan: ShopPlan,
}

impl Shop {
    /// Starts everything and returns when it can sell. `tell` hears what is being started.
    pub fn start(plan: ShopPlan, mut tell: impl FnMut(&str)) -> anyhow::Result<Self> {
        fs::create_dir_all(&plan.folder)
            .with_context(|| format!("cannot create {}", plan.folder.display()))?;
        let folder = plan.folder.canonicalize()?;
        tell("MariaDB");
        let mariadb = MariaDb::start(&folder.join("mariadb"))?;
        tell("Redis");
        let redis = Redis::start(&folder.join("redis"), plan.redis)?;
        let configuration = folder.join("cluster.toml");
        fs::write(&configuration, configure(&plan, &redis, &mariadb))?;
        let logs = folder.join("logs");
        fs::create_dir_all(&logs)?;
        let mut nodes = Vec::new();
        for number in 1..=plan.nodes {
            let address = free_address()?;
            nodes.push(Worker::new(&plan, &configuration, Role::Node(address), number, &logs));
        }
        let mut settlers = Vec::new();
        for number in 1..=plan.settlers {
            settlers.push(Worker::new(&plan, &configuration, Role::Settler, number, &logs));
        }
        for worker in nodes.iter_mut().chain(&mut settlers) {
            tell(&worker.name);
            worker.start()?;
        }
        tell("nginx");
        let listen = plan.listen.map_or_else(free_address, Ok)?;
        let addresses = nodes.iter().map(Worker::address).collect::<anyhow::Result<Vec<_>>>()?;
        let nginx = start_front(&folder.join("nginx"), listen, &addresses)?;
        Ok(Self { nginx, nodes, settlers, redis, mariadb, configuration, listen, plan })
    }

    /// Where buyers come in: nginx.
    pub fn address(&self) -> SocketAddr {
        self.listen
    }

    /// The configuration file of the nodes, for `penstock audit --config`.
    pub fn configuration(&self) -> &Path {
        &self.configuration
    }

    pub fn plan(&self) -> &ShopPlan {
        &self.plan
    }

    /// The process numbers of everything that runs, each with the part of the cluster it belongs to.
    pub fn processes(&self) -> anyhow::Result<Vec<(&'static str, u32)>> {
        let workers = |part, workers: &[Worker]| {
            workers.iter().filter_map(Worker::process_id).map(|id| (part, id)).collect::<Vec<_>>()
        };
        let mut processes = vec![("nginx", self.nginx.process_id())];
        processes.extend(self.nginx.workers()?.into_iter().map(|id| ("nginx", id)));
        processes.extend(workers("nodes", &self.nodes));
        processes.extend(workers("settlement", &self.settlers));
        processes
            .extend(self.redis.servers().iter().filter_map(RedisServer::process_id).map(|id| ("redis", id)));
        processes.extend(self.mariadb.process_id().map(|id| ("mariadb", id)));
        Ok(processes)
    }

    pub fn nodes(&self) -> &[Worker] {
        &self.nodes
    }

    /// The node `number`, from 0.
    pub fn node(&mut self, number: usize) -> anyhow::Result<&mut Worker> {
        self.nodes.get_mut(number).with_context(|| format!("there is no node {number}"))
    }

    /// The settlement worker `number`, from 0.
    pub fn settler(&mut self, number: usize) -> anyhow::Result<&mut Worker> {
        self.settlers.get_mut(number).with_context(|| format!("there is no worker {number}"))
    }

    /// Runs `penstock` with these arguments and the cluster's configuration, to its end.
    pub fn penstock(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(&self.plan.program);
        command.args(arguments).arg("--config").arg(&self.configuration).env("PENSTOCK_LOG__LEVEL", "warn");
        process::output(&mut command)
    }

    /// Starts again what somebody has killed, as a supervisor of services does, and names it.
    pub fn revive(&mut self) -> anyhow::Result<Vec<String>> {
        let mut revived = Vec::new();
        if self.mariadb.revive()? {
            revived.push("MariaDB".to_owned());
        }
        for server in self.redis.servers_mut() {
            if server.revive()? {
                revived.push(format!("Redis {}", server.address()));
            }
        }
        for worker in self.nodes.iter_mut().chain(&mut self.settlers) {
            if worker.revive()? {
                revived.push(worker.name.clone());
            }
        }
        Ok(revived)
    }

    /// From the outside in: no new requests, then the nodes drain, then settlement ends, then the servers.
    pub fn stop(self) -> anyhow::Result<()> {
        let Self { nginx, nodes, settlers, mut redis, mut mariadb, configuration, .. } = self;
        nginx.stop()?;
        for mut worker in nodes.into_iter().chain(settlers) {
            if worker.is_running() {
                worker.stop()?;
            }
        }
        redis.stop()?;
        mariadb.stop()?;
        // It would lead to servers that are gone.
        fs::remove_file(configuration).context("cannot remove the configuration")
    }
}

impl Redis {
    fn start(folder: &Path, kind: RedisKind) -> anyhow::Result<Self> {
        Ok(match kind {
            RedisKind::Single => Self::Single(RedisServer::start(folder, RedisSettings::default())?),
            RedisKind::Sentinel => Self::Sentinel(RedisSentinel::start(folder, 1)?),
            RedisKind::Cluster => Self::Cluster(RedisCluster::start(folder, 3, 3)?),
        })
    }

    fn mode(&self) -> &'static str {
        match self {
            Self::Single(_) => "single",
            Self::Sentinel(_) => "sentinel",
            Self::Cluster(_) => "cluster",
        }
    }

    /// What `redis.servers` names.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Self::Single(server) => vec![server.address()],
            Self::Sentinel(sentinel) => sentinel.addresses(),
            Self::Cluster(cluster) => cluster.addresses(),
        }
    }

    /// The only server.
    pub fn single(&mut self) -> anyhow::Result<&mut RedisServer> {
        match self {
            Self::Single(server) => Ok(server),
            _ => bail!("this shop has more than one Redis server"),
        }
    }

    pub fn cluster(&mut self) -> anyhow::Result<&mut RedisCluster> {
        match self {
            Self::Cluster(cluster) => Ok(cluster),
            _ => bail!("this shop has no Redis Cluster"),
        }
    }

    pub fn sentinel(&mut self) -> anyhow::Result<&mut RedisSentinel> {
        match self {
            Self::Sentinel(sentinel) => Ok(sentinel),
            _ => bail!("this shop has no Sentinels"),
        }
    }

    fn servers(&self) -> &[RedisServer] {
        match self {
            Self::Single(server) => std::slice::from_ref(server),
            Self::Sentinel(sentinel) => sentinel.servers(),
            Self::Cluster(cluster) => cluster.nodes(),
        }
    }

    fn servers_mut(&mut self) -> &mut [RedisServer] {
        match self {
            Self::Single(server) => std::slice::from_mut(server),
            Self::Sentinel(sentinel) => sentinel.servers_mut(),
            Self::Cluster(cluster) => cluster.nodes_mut(),
        }
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Single(server) if server.is_running() => server.stop(),
            // They end when they are dropped.
            _ => Ok(()),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Role {
    Node(SocketAddr),
    Settler,
}

/// A node or a settlement worker.
#[derive(Debug)]
pub struct Worker {
    name: String,
    role: Role,
    program: PathBuf,
    configuration: PathBuf,
    log: PathBuf,
    variables: Vec<(String, String)>,
    process: Option<Process>,
}

impl Worker {
    fn new(plan: &ShopPlan, configuration: &Path, role: Role, number: usize, logs: &Path) -> Self {
        let name = match role {
            Role::Node(_) => format!("node-{number}"),
            Role::Settler => format!("settle-{number}"),
        };
        Self {
            log: logs.join(format!("{name}.log")),
            name,
            role,
            program: plan.program.clone(),
            configuration: configuration.to_owned(),
            variables: plan.variables.clone(),
            process: None,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Where a node listens.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        match self.role {
            Role::Node(address) => Ok(address),
            Role::Settler => bail!("{} does not listen", self.name),
        }
    }

    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Sets a variable for its next start, such as `PENSTOCK_REDIS__SERVERS`.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Returns when it says that it is ready.
    pub fn start(&mut self) -> anyhow::Result<()> {
        if self.process.is_some() {
            bail!("{} runs already", self.name);
        }
        let mut command = Command::new(&self.program);
        let ready = match self.role {
            Role::Node(address) => {
                command.arg("serve").arg("--listen").arg(address.to_string());
                "penstock ready on "
            }
            Role::Settler => {
                command.arg("settle");
                "penstock settles "
            }
        };
        command.arg("--config").arg(&self.configuration);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let mut process = Process::start("penstock", command, &self.log)?;
        process
            .wait_for_line(START_LIMIT, move |line| line.starts_with(ready).then_some(()))
            .with_context(|| format!("{} does not start", self.name))?;
        self.process = Some(process);
        Ok(())
    }

    fn revive(&mut self) -> anyhow::Result<bool> {
        if !self.process.as_mut().is_some_and(Process::has_ended) {
            return Ok(false);
        }
        self.process = None;
        self.start().map(|()| true)
    }

    /// SIGTERM, and waits for its end.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        self.running()?;
        self.process.take().context("it does not run")?.stop()
    }

    /// SIGKILL, as a power cut would.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.running()?;
        self.process.take().context("it does not run")?.kill()
    }

    /// It does nothing, but its connections stay open.
    pub fn pause(&mut self) -> anyhow::Result<()> {
        self.running()?.pause()
    }

    /// Goes on after `pause`.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.running()?.resume()
    }

    fn running(&mut self) -> anyhow::Result<&mut Process> {
        self.process.as_mut().with_context(|| format!("{} does not run", self.name))
    }
}

/// What all nodes and workers have in common. The file names passwords of servers that only this machine can reach.
fn configure(plan: &ShopPlan, redis: &Redis, mariadb: &MariaDb) -> String {
    let servers: Vec<String> = redis.addresses().iter().map(SocketAddr::to_string).collect();
    let sentinel_master = match redis {
        Redis::Sentinel(sentinel) => format!("sentinel_master = \"{}\"\n", sentinel.master_name()),
        _ => String::new(),
    };
    format!(
        "engine = \"cluster\"\n\n\
         [http]\ntrusted_proxies = \"127.0.0.1\"\n\n\
         [identity]\nadmin_token = \"{admin}\"\ncodes_in_answers = true\n\n\
         [identity.jwt]\nsecret = \"{jwt}\"\n\n\
         [redis]\nmode = \"{mode}\"\nservers = \"{servers}\"\n{sentinel_master}\n\
         [records]\nurl = \"{url}\"\n",
        admin = plan.admin_token,
        jwt = plan.jwt_secret,
        mode = redis.mode(),
        servers = servers.join(","),
        url = mariadb.url(),
    )
}
