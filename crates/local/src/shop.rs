//! A whole Penstock cluster: nodes and settlement workers behind nginx, on Redis and MariaDB. Every part can
//! be killed, paused and started again while the others go on.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};

use crate::{
    commands,
    front::start_front,
    mariadb::MariaDb,
    nginx::Nginx,
    plan::{RedisKind, ShopPlan},
    ports::free_address,
    redis::{RedisRole, RedisServer, RedisSettings},
    redis_cluster::RedisCluster,
    sentinel::RedisSentinel,
    shop_process::{ShopProcess, ShopRole},
};

/// The masters of a Redis Cluster.
const MASTERS: usize = 3;
/// How long servers that have just started may take to report their role.
const ROLES_LIMIT: Duration = Duration::from_secs(30);
/// The role of a Redis server that does not report one.
const SILENT: &str = "does not answer";

/// The Redis of a shop.
#[derive(Debug)]
pub enum ShopRedis {
    Single(RedisServer),
    Sentinel(RedisSentinel),
    Cluster(RedisCluster),
}

/// A running cluster. When this value is dropped, it ends from the outside in.
#[derive(Debug)]
pub struct LocalShop {
    // In the order in which they are dropped.
    nginx: Nginx,
    nodes: Vec<ShopProcess>,
    settlers: Vec<ShopProcess>,
    pub redis: ShopRedis,
    pub mariadb: MariaDb,
    configuration: PathBuf,
    listen: SocketAddr,
    plan: ShopPlan,
}

impl LocalShop {
    /// Starts everything and returns when the cluster can sell. `tell` gets the name of each part as it is
    /// started.
    pub fn start(plan: ShopPlan, mut tell: impl FnMut(&str)) -> anyhow::Result<Self> {
        fs::create_dir_all(&plan.folder)
            .with_context(|| format!("cannot create {}", plan.folder.display()))?;
        let folder = plan.folder.canonicalize()?;
        tell("MariaDB");
        let mariadb = MariaDb::start(&folder.join("mariadb"))?;
        tell("Redis");
        let redis = ShopRedis::start(&folder.join("redis"), &plan)?;
        let configuration = folder.join("cluster.toml");
        fs::write(&configuration, configure(&plan, &redis, &mariadb))?;
        let logs = folder.join("logs");
        fs::create_dir_all(&logs)?;
        let mut nodes = Vec::new();
        for number in 1..=plan.nodes {
            let address = free_address()?;
            nodes.push(ShopProcess::new(&plan, &configuration, ShopRole::Node(address), number, &logs));
        }
        let mut settlers = Vec::new();
        for number in 1..=plan.settlers {
            settlers.push(ShopProcess::new(&plan, &configuration, ShopRole::Settler, number, &logs));
        }
        for worker in nodes.iter_mut().chain(&mut settlers) {
            tell(worker.name());
            worker.start()?;
        }
        tell("nginx");
        let listen = plan.listen.map_or_else(free_address, Ok)?;
        let addresses = nodes.iter().map(ShopProcess::address).collect::<anyhow::Result<Vec<_>>>()?;
        let nginx = start_front(&folder.join("nginx"), listen, &addresses)?;
        Ok(Self { nginx, nodes, settlers, redis, mariadb, configuration, listen, plan })
    }

    /// nginx's address, where buyers come in.
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

    /// The process numbers of everything that runs, each with its part of the cluster.
    pub fn processes(&self) -> anyhow::Result<Vec<(&'static str, u32)>> {
        let workers = |part, workers: &[ShopProcess]| {
            workers.iter().filter_map(ShopProcess::process_id).map(|id| (part, id)).collect::<Vec<_>>()
        };
        let mut processes = vec![("nginx", self.nginx.process_id())];
        processes.extend(self.nginx.workers()?.into_iter().map(|id| ("nginx", id)));
        processes.extend(workers("nodes", &self.nodes));
        processes.extend(workers("settlement", &self.settlers));
        processes.extend(self.redis.servers().filter_map(RedisServer::process_id).map(|id| ("redis", id)));
        processes.extend(self.mariadb.process_id().map(|id| ("mariadb", id)));
        Ok(processes)
    }

    pub fn nodes(&self) -> &[ShopProcess] {
        &self.nodes
    }

    /// The node `number`, from 0.
    pub fn node(&mut self, number: usize) -> anyhow::Result<&mut ShopProcess> {
        self.nodes.get_mut(number).with_context(|| format!("there is no node {number}"))
    }

    /// The settlement worker `number`, from 0.
    pub fn settler(&mut self, number: usize) -> anyhow::Result<&mut ShopProcess> {
        self.settlers.get_mut(number).with_context(|| format!("there is no worker {number}"))
    }

    /// Runs `penstock` to its end with these arguments and the cluster's configuration.
    pub fn penstock(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(&self.plan.program);
        commands::without_callers_settings(&mut command);
        command.args(arguments).arg("--config").arg(&self.configuration).env("PENSTOCK_LOG__LEVEL", "warn");
        commands::output(&mut command)
    }

    /// Every process that was started, from the outside in, with its current role.
    pub fn parts(&self) -> Vec<ShopPart> {
        let mut parts = vec![ShopPart {
            kind: ShopPartKind::Nginx,
            name: "nginx".to_owned(),
            role: "visitors come in here".to_owned(),
            address: Some(self.listen),
            process: Some(self.nginx.process_id()),
        }];
        parts.extend(self.workers().map(|(kind, worker)| ShopPart {
            kind,
            name: worker.name().to_owned(),
            role: if worker.address().is_ok() { "sells" } else { "settles" }.to_owned(),
            address: worker.address().ok(),
            process: worker.process_id(),
        }));
        parts.extend(self.redis.servers().enumerate().map(|(number, server)| ShopPart {
            kind: ShopPartKind::Redis(number),
            name: redis_name(number),
            role: match server.role() {
                Some(RedisRole::Master) => "master".to_owned(),
                Some(RedisRole::ReplicaOf(master)) => format!("replica of {}", self.redis.name_of(master)),
                Some(RedisRole::Sentinel) => "sentinel".to_owned(),
                None => SILENT.to_owned(),
            },
            address: Some(server.address()),
            process: server.process_id(),
        }));
        parts.push(ShopPart {
            kind: ShopPartKind::MariaDb,
            name: "mariadb".to_owned(),
            role: "database".to_owned(),
            address: Some(self.mariadb.address()),
            process: self.mariadb.process_id(),
        });
        parts
    }

    /// Like `parts`, once every Redis server has reported its role: on a loaded machine that takes a while.
    pub fn parts_once_known(&self) -> anyhow::Result<Vec<ShopPart>> {
        let began = Instant::now();
        loop {
            let parts = self.parts();
            let silent = parts.iter().find(|part| part.role == SILENT);
            match silent {
                None => return Ok(parts),
                Some(part) if began.elapsed() > ROLES_LIMIT => bail!("{} does not answer", part.name),
                Some(_) => thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    fn workers(&self) -> impl Iterator<Item = (ShopPartKind, &ShopProcess)> {
        let nodes = self.nodes.iter().enumerate().map(|(number, node)| (ShopPartKind::Node(number), node));
        let settlers = self.settlers.iter().enumerate();
        nodes.chain(settlers.map(|(number, settler)| (ShopPartKind::Settler(number), settler)))
    }

    /// How a part has ended, if something has killed it.
    pub fn ended(&mut self, part: ShopPartKind) -> Option<ExitStatus> {
        match part {
            ShopPartKind::Nginx => self.nginx.ended(),
            ShopPartKind::Node(number) => self.nodes.get_mut(number)?.ended(),
            ShopPartKind::Settler(number) => self.settlers.get_mut(number)?.ended(),
            ShopPartKind::Redis(number) => self.redis.servers_mut().nth(number)?.ended(),
            ShopPartKind::MariaDb => self.mariadb.ended(),
        }
    }

    /// Starts a killed part again, as a service supervisor does.
    pub fn start_again(&mut self, part: ShopPartKind) -> anyhow::Result<()> {
        match part {
            ShopPartKind::Nginx => self.nginx.start_again(),
            ShopPartKind::Node(number) => self.node(number)?.start(),
            ShopPartKind::Settler(number) => self.settler(number)?.start(),
            ShopPartKind::Redis(number) => {
                self.redis.servers_mut().nth(number).context("there is no such server")?.restart()
            }
            ShopPartKind::MariaDb => self.mariadb.start_again(),
        }
    }

    /// Records the workers that nginx has started since the last time, so that none is left when its master
    /// is killed.
    pub fn note_workers_of_nginx(&mut self) -> anyhow::Result<()> {
        self.nginx.note_workers()
    }

    /// Stops from the outside in: no new requests, then the nodes drain, then settlement ends, then the
    /// servers.
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

fn redis_name(number: usize) -> String {
    format!("redis-{}", number + 1)
}

/// A process of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShopPartKind {
    Nginx,
    Node(usize),
    Settler(usize),
    /// A Redis server, or a sentinel.
    Redis(usize),
    MariaDb,
}

/// A process of a cluster, as it is shown to people.
#[derive(Clone, Debug)]
pub struct ShopPart {
    pub kind: ShopPartKind,
    pub name: String,
    pub role: String,
    pub address: Option<SocketAddr>,
    pub process: Option<u32>,
}

impl ShopRedis {
    fn start(folder: &Path, plan: &ShopPlan) -> anyhow::Result<Self> {
        let ShopPlan { redis, replicas, redis_variables, .. } = plan;
        Ok(match redis {
            RedisKind::Single => {
                let settings =
                    RedisSettings { variables: redis_variables.clone(), ..RedisSettings::default() };
                Self::Single(RedisServer::start(folder, settings)?)
            }
            RedisKind::Sentinel => Self::Sentinel(RedisSentinel::start(folder, *replicas)?),
            RedisKind::Cluster => Self::Cluster(RedisCluster::start(folder, MASTERS, MASTERS * replicas)?),
        })
    }

    fn mode(&self) -> &'static str {
        match self {
            Self::Single(_) => "single",
            Self::Sentinel(_) => "sentinel",
            Self::Cluster(_) => "cluster",
        }
    }

    /// The value of `redis.servers`.
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

    /// All of them, with the sentinels last.
    fn servers(&self) -> Box<dyn Iterator<Item = &RedisServer> + '_> {
        match self {
            Self::Single(server) => Box::new(std::iter::once(server)),
            Self::Sentinel(sentinel) => Box::new(sentinel.all()),
            Self::Cluster(cluster) => Box::new(cluster.nodes().iter()),
        }
    }

    fn servers_mut(&mut self) -> Box<dyn Iterator<Item = &mut RedisServer> + '_> {
        match self {
            Self::Single(server) => Box::new(std::iter::once(server)),
            Self::Sentinel(sentinel) => Box::new(sentinel.all_mut()),
            Self::Cluster(cluster) => Box::new(cluster.nodes_mut().iter_mut()),
        }
    }

    fn name_of(&self, address: SocketAddr) -> String {
        let number = self.servers().position(|server| server.address() == address);
        number.map_or_else(|| address.to_string(), redis_name)
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Single(server) if server.is_running() => server.stop(),
            // They end when they are dropped.
            _ => Ok(()),
        }
    }
}

/// The settings that all nodes and workers share. The file contains passwords of servers that only this
/// machine can reach.
fn configure(plan: &ShopPlan, redis: &ShopRedis, mariadb: &MariaDb) -> String {
    let servers: Vec<String> = redis.addresses().iter().map(SocketAddr::to_string).collect();
    let sentinel_master = match redis {
        ShopRedis::Sentinel(sentinel) => format!("sentinel_master = \"{}\"\n", sentinel.master_name()),
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
