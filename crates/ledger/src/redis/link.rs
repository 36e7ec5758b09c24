//! The only way to Redis: it knows which server is master of a key, reconnects by itself, and never repeats a
//! command that may have been run.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use hashbrown::HashMap;
use redis::{Cmd, FromRedisValue, Pipeline, Value};
use tokio::{
    runtime::Handle,
    sync::Mutex as Turn,
    time::{Instant, timeout_at},
};

use super::{
    call::Run,
    options::{LinkError, RedisMode, RedisOptions},
    server::{Credentials, Lane, Server},
    topology::{self, Topology, slot_of},
};

/// How often idle connections are pinged and the masters are looked up.
const TENDING_INTERVAL: Duration = Duration::from_secs(1);

/// A Lua script and the name Redis gives it.
#[derive(Clone, Debug)]
pub struct Script {
    source: Arc<str>,
    sha: Arc<str>,
}

impl Script {
    pub fn new(source: &str) -> Self {
        Self { source: source.into(), sha: redis::Script::new(source).get_hash().into() }
    }

    pub fn sha(&self) -> &str {
        &self.sha
    }

    /// The beginning of a call. The number of keys, the keys and the arguments come next.
    pub fn call(&self) -> Cmd {
        let mut call = redis::cmd("EVALSHA");
        call.arg(self.sha());
        call
    }

    pub(super) fn load(&self) -> Cmd {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(&*self.source);
        load
    }
}

#[derive(Clone)]
pub struct Link {
    shared: Arc<Shared>,
}

struct Shared {
    options: RedisOptions,
    runtime: Handle,
    topology: Mutex<Arc<Topology>>,
    servers: Mutex<HashMap<Arc<str>, Arc<Server>>>,
    sentinels: Vec<Arc<Server>>,
    /// One task asks who is master, the others wait for it. `refreshed` counts the answers.
    refreshing: Turn<()>,
    refreshed: AtomicU64,
    scripts: Mutex<HashMap<Arc<str>, Script>>,
    /// Picks the server that is listened to next.
    rotation: AtomicUsize,
}

impl fmt::Debug for Link {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Link").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl Link {
    /// Finds the masters. The connections live on the current runtime.
    pub async fn connect(options: RedisOptions) -> Result<Self, LinkError> {
        let link = Self::new(options)?;
        let deadline = link.deadline();
        if !matches!(link.shared.options.mode, RedisMode::Single { .. }) {
            link.refresh(deadline).await?;
        }
        link.greet_masters().await?;
        Ok(link)
    }

    /// Greets all masters. If one does not answer, the sales of the others can go on.
    async fn greet_masters(&self) -> Result<(), LinkError> {
        let masters = self.topology().masters();
        let mut silent = Vec::new();
        for master in &masters {
            match self.greet(master).await {
                Err(error) if error.is_silence() => silent.push(error),
                greeted => greeted?,
            }
        }
        if silent.len() == masters.len() {
            return silent.into_iter().next().map_or(Ok(()), Err);
        }
        for error in silent {
            tracing::warn!(%error, "this master's sales wait until it is back; starting for the others");
        }
        Ok(())
    }

    pub(super) async fn greet(&self, master: &str) -> Result<(), LinkError> {
        let mut ping = redis::pipe();
        ping.cmd("PING");
        let answer = self.send_to(master, &ping).await?;
        answered::<String>(master, answer.into_iter().next()).map(drop)
    }

    /// Another link to the same servers, whose connections live on the current runtime. It can be made while
    /// no server is up.
    pub fn on_this_runtime(&self) -> Result<Self, LinkError> {
        let link = Self::new(self.shared.options.clone())?;
        *locked(&link.shared.topology) = self.topology();
        locked(&link.shared.scripts).clone_from(&locked(&self.shared.scripts));
        Ok(link)
    }

    fn new(options: RedisOptions) -> Result<Self, LinkError> {
        options.check()?;
        let runtime = Handle::try_current().map_err(|error| LinkError::Misconfigured(error.to_string()))?;
        let mut sentinels = Vec::new();
        if let RedisMode::Sentinel { addresses, .. } = &options.mode {
            let credentials = Credentials { username: None, password: options.sentinel_password.clone() };
            for address in addresses {
                sentinels.push(Arc::new(Server::new(address, &credentials, runtime.clone())?));
            }
        }
        let topology = match &options.mode {
            RedisMode::Single { address } => Topology::one(address),
            RedisMode::Sentinel { .. } | RedisMode::Cluster { .. } => Topology::default(),
        };
        let link = Self {
            shared: Arc::new(Shared {
                options,
                runtime: runtime.clone(),
                topology: Mutex::new(Arc::new(topology)),
                servers: Mutex::default(),
                sentinels,
                refreshing: Turn::default(),
                refreshed: AtomicU64::new(0),
                scripts: Mutex::default(),
                rotation: AtomicUsize::new(std::process::id() as usize),
            }),
        };
        runtime.spawn(tend(Arc::downgrade(&link.shared)));
        Ok(link)
    }

    pub fn options(&self) -> &RedisOptions {
        &self.shared.options
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.shared.options.mode, RedisMode::Cluster { .. })
    }

    /// Lets this link load the script on servers that lack it. Call this once, before the script is called.
    pub fn learn(&self, script: &Script) {
        locked(&self.shared.scripts).insert(script.sha.clone(), script.clone());
    }

    /// Runs commands of one slot, the slot of `key`, on its master in one round trip, and answers one value
    /// for each. A command that failed on its own has a `Value::ServerError`. With `confirm` the replicas
    /// have to confirm the writes. If a server turns a command away without running it (it is no longer the
    /// master, it lacks the script), the command is sent again to the right server.
    pub async fn run(&self, key: &str, pipeline: Pipeline, confirm: bool) -> Result<Vec<Value>, LinkError> {
        self.run_by(key, pipeline, confirm, self.deadline()).await
    }

    /// Like `run`, with a deadline of the caller's.
    pub(super) async fn run_by(
        &self,
        key: &str,
        pipeline: Pipeline,
        confirm: bool,
        deadline: Instant,
    ) -> Result<Vec<Value>, LinkError> {
        Run::new(self, key, confirm, pipeline.len(), deadline).finish(pipeline).await
    }

    /// The same for commands of several slots that are on one server as far as is known; `key` belongs to one
    /// of the slots. A command that the server turned away was not run and has the error as its value.
    pub(super) async fn run_mixed(
        &self,
        key: &str,
        pipeline: Pipeline,
        confirm: bool,
        deadline: Instant,
    ) -> Result<Vec<Value>, LinkError> {
        Run::new(self, key, confirm, pipeline.len(), deadline).of_several_slots().finish(pipeline).await
    }

    /// Runs one command and converts its answer.
    pub async fn call<T: FromRedisValue>(&self, key: &str, command: Cmd) -> Result<T, LinkError> {
        let mut pipeline = redis::pipe();
        pipeline.add_command(command);
        let values = self.run(key, pipeline, false).await?;
        answered(key, values.into_iter().next())
    }

    /// The masters and replicas, as far as they are known without asking.
    pub(super) fn topology(&self) -> Arc<Topology> {
        locked(&self.shared.topology).clone()
    }

    /// The master of a key, as far as it is known without asking.
    pub(super) fn master_of(&self, key: &str) -> Option<Arc<str>> {
        self.topology().master_of(slot_of(key)).cloned()
    }

    /// All masters and replicas that are known.
    pub(super) fn nodes(&self) -> Vec<Arc<str>> {
        let topology = self.topology();
        topology.masters().into_iter().chain(topology.replicas.iter().cloned()).collect()
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.shared.runtime
    }

    pub(super) fn rotation(&self) -> &AtomicUsize {
        &self.shared.rotation
    }

    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.shared.options.timeout
    }

    /// Sends commands to one server, whatever its role.
    pub(super) async fn send_to(&self, address: &str, pipeline: &Pipeline) -> Result<Vec<Value>, LinkError> {
        self.server(address)?.send(Lane::Plain, pipeline, self.deadline()).await
    }

    pub(super) fn server(&self, address: &str) -> Result<Arc<Server>, LinkError> {
        let mut servers = locked(&self.shared.servers);
        if let Some(server) = servers.get(address) {
            return Ok(server.clone());
        }
        let Shared { options, runtime, .. } = &*self.shared;
        let credentials =
            Credentials { username: options.username.clone(), password: options.password.clone() };
        let server = Arc::new(Server::new(address, &credentials, runtime.clone())?);
        servers.insert(server.address.clone(), server.clone());
        Ok(server)
    }

    /// Asks which servers are masters of which slots. If another task is asking already, its answer is used.
    pub(super) async fn refresh(&self, deadline: Instant) -> Result<(), LinkError> {
        let before = self.shared.refreshed.load(Ordering::Acquire);
        let timed_out = || LinkError::Unreachable {
            server: "topology".into(),
            reason: "no server said in time which one is master".into(),
        };
        let _turn = timeout_at(deadline, self.shared.refreshing.lock()).await.map_err(|_| timed_out())?;
        if self.shared.refreshed.load(Ordering::Acquire) != before {
            return Ok(());
        }
        let known_epoch = self.topology().epoch;
        let found = match &self.shared.options.mode {
            RedisMode::Single { .. } => return Ok(()),
            RedisMode::Sentinel { master, .. } => {
                topology::ask_sentinels(&self.shared.sentinels, master, known_epoch, deadline).await?
            }
            RedisMode::Cluster { addresses } => {
                let mut nodes = self.nodes();
                nodes.extend(addresses.iter().map(|address| Arc::from(address.as_str())));
                nodes.sort_unstable();
                nodes.dedup();
                let nodes: Result<Vec<_>, _> = nodes.iter().map(|address| self.server(address)).collect();
                topology::ask_cluster(&nodes?, known_epoch, deadline).await?
            }
        };
        self.adopt_topology(found);
        self.shared.refreshed.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Starts a `refresh` in the background.
    pub(super) fn refresh_soon(&self) {
        let link = self.clone();
        self.shared.runtime.spawn(async move {
            // It is tried again after the next failure, and every second.
            let _ = link.refresh(link.deadline()).await;
        });
    }

    fn adopt_topology(&self, found: Topology) {
        let mut current = locked(&self.shared.topology);
        if **current == found {
            return;
        }
        if current.masters() != found.masters() {
            tracing::info!(masters = ?found.masters(), "the masters of Redis changed");
        }
        *current = Arc::new(found);
    }

    pub(super) fn point(&self, slot: u16, master: &str) {
        let mut current = locked(&self.shared.topology);
        *current = Arc::new(current.with(slot, master));
    }

    pub(super) fn script(&self, sha: &str) -> Option<Script> {
        locked(&self.shared.scripts).get(sha).cloned()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Converts the value, or returns the server's error.
pub(super) fn answered<T: FromRedisValue>(server: &str, value: Option<Value>) -> Result<T, LinkError> {
    let refused = |reason: String| LinkError::Refused { server: server.into(), reason };
    let value = value.ok_or_else(|| refused("no answer".into()))?;
    let value = value.extract_error().map_err(|error| refused(error.to_string()))?;
    redis::from_redis_value(value).map_err(|error| refused(error.to_string()))
}

/// Pings idle connections and looks up the masters, so that calls seldom meet a dead connection.
async fn tend(shared: std::sync::Weak<Shared>) {
    loop {
        tokio::time::sleep(TENDING_INTERVAL).await;
        let Some(shared) = shared.upgrade() else { return };
        let link = Link { shared };
        // A call that needs the masters now sees the failure itself.
        let _ = link.refresh(link.deadline()).await;
        let servers: Vec<_> = locked(&link.shared.servers).values().cloned().collect();
        let deadline = link.deadline();
        futures_util::future::join_all(servers.iter().map(|server| server.ping(deadline))).await;
        let nodes = link.nodes();
        locked(&link.shared.servers).retain(|address, _| nodes.contains(address));
    }
}
