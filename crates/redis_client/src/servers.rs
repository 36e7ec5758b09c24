//! All servers that a link knows: their connections, and which of them is master of which slots. It asks
//! again every second, and whenever a call has met a server that is not the master.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use hashbrown::HashMap;
use parking_lot::Mutex;
use redis::{Pipeline, RedisConnectionInfo};
use tokio::{
    runtime::Handle,
    sync::Mutex as AsyncMutex,
    time::{Instant, sleep, timeout_at},
};

use crate::{
    error::LinkError,
    options::{RedisMode, RedisOptions},
    script::Script,
    server::ServerConnections,
    topology::{Topology, ask_cluster, ask_sentinels},
};

/// How often idle connections are pinged and the masters are looked up.
const TENDING_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct Servers {
    pub(crate) options: RedisOptions,
    pub(crate) runtime: Handle,
    topology: Mutex<Arc<Topology>>,
    by_address: Mutex<HashMap<Arc<str>, Arc<ServerConnections>>>,
    sentinels: Vec<Arc<ServerConnections>>,
    /// One task asks who is master, the others wait for it. `refreshed` counts the answers.
    refreshing: AsyncMutex<()>,
    refreshed: AtomicU64,
    scripts: Mutex<HashMap<Arc<str>, Script>>,
}

impl Servers {
    /// The connections live on the current runtime.
    pub(crate) fn new(options: RedisOptions) -> Result<Arc<Self>, LinkError> {
        options.check()?;
        let runtime = Handle::try_current().map_err(|error| LinkError::Misconfigured(error.to_string()))?;
        let mut sentinels = Vec::new();
        let mut topology = Topology::default();
        match &options.mode {
            RedisMode::Single { address } => topology = Topology::one(address),
            RedisMode::Sentinel { addresses, .. } => {
                for address in addresses {
                    let login = login(None, options.sentinel_password.as_deref());
                    sentinels.push(Arc::new(ServerConnections::new(address, login, runtime.clone())?));
                }
            }
            RedisMode::Cluster { .. } => {}
        }
        let servers = Arc::new(Self {
            options,
            runtime: runtime.clone(),
            topology: Mutex::new(Arc::new(topology)),
            by_address: Mutex::default(),
            sentinels,
            refreshing: AsyncMutex::default(),
            refreshed: AtomicU64::new(0),
            scripts: Mutex::default(),
        });
        runtime.spawn(tend(Arc::downgrade(&servers)));
        Ok(servers)
    }

    /// The same servers, with connections on the current runtime.
    pub(crate) fn on_this_runtime(&self) -> Result<Arc<Self>, LinkError> {
        let copy = Self::new(self.options.clone())?;
        *copy.topology.lock() = self.topology();
        copy.scripts.lock().clone_from(&self.scripts.lock());
        Ok(copy)
    }

    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.options.timeout
    }

    /// The masters and replicas, as far as they are known without asking.
    pub(crate) fn topology(&self) -> Arc<Topology> {
        self.topology.lock().clone()
    }

    pub(crate) fn learn(&self, script: &Script) {
        self.scripts.lock().insert(script.sha().clone(), script.clone());
    }

    pub(crate) fn load_scripts(&self) -> Pipeline {
        let mut load = redis::pipe();
        for script in self.scripts.lock().values() {
            load.add_command(script.load());
        }
        load
    }

    pub(crate) fn at(&self, address: &str) -> Result<Arc<ServerConnections>, LinkError> {
        let mut servers = self.by_address.lock();
        if let Some(server) = servers.get(address) {
            return Ok(server.clone());
        }
        let login = login(self.options.username.as_deref(), self.options.password.as_deref());
        let server = Arc::new(ServerConnections::new(address, login, self.runtime.clone())?);
        servers.insert(server.address.clone(), server.clone());
        Ok(server)
    }

    /// Notes that a slot has moved.
    pub(crate) fn point(&self, slot: u16, master: &str) {
        let mut current = self.topology.lock();
        *current = Arc::new(current.with(slot, master));
    }

    /// Asks which servers are masters of which slots. If another task is asking already, its answer is used.
    pub(crate) async fn refresh(&self, deadline: Instant) -> Result<(), LinkError> {
        let before = self.refreshed.load(Ordering::Acquire);
        let late = |_| LinkError::unreachable("topology", "no server said in time which one is master");
        let _alone = timeout_at(deadline, self.refreshing.lock()).await.map_err(late)?;
        if self.refreshed.load(Ordering::Acquire) != before {
            return Ok(());
        }
        let known = self.topology();
        let found = match &self.options.mode {
            RedisMode::Single { .. } => return Ok(()),
            RedisMode::Sentinel { master, .. } => {
                ask_sentinels(&self.sentinels, master, known.epoch, deadline).await?
            }
            RedisMode::Cluster { addresses } => {
                let mut nodes = known.nodes();
                nodes.extend(addresses.iter().map(|address| Arc::from(address.as_str())));
                nodes.sort_unstable();
                nodes.dedup();
                let nodes = nodes.iter().map(|address| self.at(address)).collect::<Result<Vec<_>, _>>()?;
                ask_cluster(&nodes, known.epoch, deadline).await?
            }
        };
        if known.masters() != found.masters() {
            tracing::info!(masters = ?found.masters(), "the masters of Redis changed");
        }
        *self.topology.lock() = Arc::new(found);
        self.refreshed.fetch_add(1, Ordering::Release);
        Ok(())
    }

    pub(crate) fn refresh_soon(self: &Arc<Self>) {
        let servers = self.clone();
        self.runtime.spawn(async move {
            // If it fails, the next failure of a call and the next second try again.
            let _ = servers.refresh(servers.deadline()).await;
        });
    }
}

fn login(username: Option<&str>, password: Option<&str>) -> RedisConnectionInfo {
    let mut login = RedisConnectionInfo::default();
    if let Some(username) = username {
        login = login.set_username(username);
    }
    if let Some(password) = password {
        login = login.set_password(password);
    }
    login
}

/// Pings idle connections and looks up the masters, so that calls seldom meet a dead connection.
async fn tend(servers: Weak<Servers>) {
    loop {
        sleep(TENDING_INTERVAL).await;
        let Some(servers) = servers.upgrade() else { return };
        // A call that needs the masters now sees the failure itself.
        let _ = servers.refresh(servers.deadline()).await;
        let connected: Vec<_> = servers.by_address.lock().values().cloned().collect();
        let deadline = servers.deadline();
        join_all(connected.iter().map(|server| server.ping(deadline))).await;
        let nodes = servers.topology().nodes();
        servers.by_address.lock().retain(|address, _| nodes.contains(address));
    }
}
