//! Assembles a cluster's node and settlement worker: the ledger and the nodes' shared state on Redis, the
//! records on MySQL. Nothing is kept on the machine itself.

use std::{process, sync::Arc};

use anyhow::Context as _;
use penstock_http::JsonScribe;
use penstock_ledger::{
    Clock, Ledger, Listener, SaleNews,
    redis::{self, Settled, SharedClock},
};
use penstock_records::Records;
use penstock_redis_client::Link;
use penstock_settle::{SettleOptions, Settlement};
use penstock_shared_state::{Changes, RedisCache, RedisFigures, SharedDoors, SharedDoorsOptions};
use penstock_shop::{
    ports::{Neighbours, NodePart},
    storefront::Storefront,
};
use tokio::{runtime::Handle, sync::watch};

use crate::{
    clock, config::Config, database, opened::Opened, options, secrets, settled_in_records::SettledInRecords,
};

/// What both roles need.
struct Base {
    name: String,
    link: Link,
    records: Records,
    clock: Clock,
    settled: Arc<SettledInRecords>,
}

impl Base {
    async fn open(config: &Config) -> anyhow::Result<Self> {
        let link = connect(config).await?;
        tokio::spawn(link.clone().watch_durability());
        let records = database::open_for_node(config).await?;
        let settled = Arc::new(SettledInRecords::new(records.clone()));
        let clock =
            SharedClock::start(&link, clock::system()).await.context("Redis does not tell the time")?;
        let clock = clock.clock();
        Ok(Self { name: name(), link, records, clock, settled })
    }

    fn ledger(&self, config: &Config, listener: Arc<dyn Listener>) -> anyhow::Result<Ledger> {
        let ledger = redis::open(
            options::redis_ledger(config),
            self.link.clone(),
            None,
            listener,
            Arc::clone(&self.settled) as Arc<dyn Settled>,
        );
        ledger.context("the ledger can't be started")
    }
}

/// Connects to Redis, and refuses a server that could lose what it has confirmed.
pub(crate) async fn connect(config: &Config) -> anyhow::Result<Link> {
    let servers = config.redis.servers.join(", ");
    let link = Link::connect(options::redis(config)).await;
    let link = link.with_context(|| format!("redis.servers: {servers} can't be reached"))?;
    link.check_durability().await?;
    Ok(link)
}

/// A name that no other process has, not even the previous one on this machine.
fn name() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let chance = getrandom::u32().unwrap_or_default();
    format!("{host}-{}-{chance:08x}", process::id())
}

/// Opens a node. It may sell as soon as its ledger is ready.
pub(crate) async fn open(config: &Config) -> anyhow::Result<Opened> {
    let base = Base::open(config).await?;
    let prefix = config.redis.prefix.as_str();
    let changes = Arc::new(Changes::join(base.link.clone(), prefix).await);
    let neighbours = Arc::clone(&changes) as Arc<dyn Neighbours>;
    let (told, secrets) = watch::channel(secrets::load_shared(&config.identity, &base.records).await?);
    let is_secret_in_doubt = Arc::default();
    if config.identity.secret.get().is_none() {
        tokio::spawn(secrets::watch_records(base.records.clone(), told, Arc::clone(&is_secret_in_doubt)));
    }
    let mut http = options::server(config, secrets, base.clock.clone())?;
    http.shop.is_secret_in_doubt = is_secret_in_doubt;
    let doors = SharedDoorsOptions { node: base.name.clone(), prefix: prefix.to_owned(), moment: None };
    http.shop.gate.doors = Some(Arc::new(SharedDoors::new(base.link.clone(), Handle::current(), doors)));
    http.shop.node = base.name.clone();
    http.shop.neighbours = neighbours;
    http.shop.shared_cache = Arc::new(RedisCache::new(base.link.clone(), prefix));
    http.shop.shared_figures = Arc::new(RedisFigures::new(base.link.clone(), prefix));
    http.shop.parts = vec![changes, Arc::clone(&base.settled) as Arc<dyn NodePart>];
    let storefront = Storefront::new(JsonScribe);
    let ledger = base.ledger(config, storefront.clone())?;
    let Base { name, records, .. } = base;
    tracing::info!(node = name, "a node of a cluster");
    Ok(Opened { http, storefront, ledger, records, settlement: None, demo: None, folder: None })
}

/// A settlement worker.
pub(crate) struct OpenedWorker {
    pub(crate) name: String,
    pub(crate) ledger: Ledger,
    pub(crate) records: Records,
    pub(crate) settlement: Settlement,
    pub(crate) settled: Arc<SettledInRecords>,
    /// Where the worker shows the nodes its progress.
    pub(crate) shown: RedisFigures,
}

pub(crate) async fn open_worker(config: &Config) -> anyhow::Result<OpenedWorker> {
    let base = Base::open(config).await?;
    let ledger = base.ledger(config, Arc::new(NobodyListens))?;
    let Base { name, link, records, clock, settled } = base;
    let shown = RedisFigures::new(link, &config.redis.prefix);
    let options = SettleOptions { owner: Some(name.clone()), ..options::settle(config) };
    let settlement = Settlement::new(ledger.clone(), records.clone(), clock, options);
    Ok(OpenedWorker { name, ledger, records, settlement, settled, shown })
}

/// Opens the ledger for reading.
pub(crate) async fn open_ledger(config: &Config) -> anyhow::Result<(Ledger, Records)> {
    let base = Base::open(config).await?;
    Ok((base.ledger(config, Arc::new(NobodyListens))?, base.records))
}

struct NobodyListens;

impl Listener for NobodyListens {
    fn sales_changed(&self, _: &[SaleNews]) {}

    fn wants_keys(&self) -> bool {
        false
    }
}
