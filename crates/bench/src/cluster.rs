//! A whole cluster under measurement: three nodes and two settlement workers behind nginx, on Redis and
//! MariaDB, all of them on this machine.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use penstock_local::{LocalShop, RedisKind, ShopPlan, ShopProcess};
use penstock_rush::{api::ShopApi, token::TokenSigner};

use crate::{
    bench::Bench,
    load::{BuyerTape, Tape, TapeCall, bearers, orders_path},
    server::Settings,
};

/// The longest time until a node hears what another has sold.
const NEWS_LIMIT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Cluster {
    shop: LocalShop,
    /// The first node, asked directly: nginx keeps a sale's page for a second.
    pub(crate) api: ShopApi,
    pub(crate) nodes: Vec<ShopApi>,
}

impl Cluster {
    /// Starts on an empty folder, with `settings` for all nodes and workers.
    pub(crate) fn start(bench: &Bench<'_>, redis: RedisKind, settings: &Settings) -> anyhow::Result<Self> {
        let folder = bench.fresh_folder("cluster")?;
        // At the default level, lines about settlement being behind would drown the rest.
        let quiet = ("PENSTOCK_LOG__LEVEL", "warn");
        let variables =
            settings.iter().chain([&quiet]).map(|(name, value)| (name.to_string(), value.to_string()));
        let variables = variables.collect();
        let plan = ShopPlan { redis, variables, ..ShopPlan::new(&bench.options.server, &folder) };
        let shop = LocalShop::start(plan, |_| {})?;
        let api = |node: &ShopProcess| Ok(ShopApi::new(node.address()?, &shop.plan().admin_token));
        let nodes = shop.nodes().iter().map(api).collect::<anyhow::Result<Vec<ShopApi>>>()?;
        let api = nodes.first().context("a cluster without nodes")?.clone();
        Ok(Self { shop, api, nodes })
    }

    /// The ids of all running processes, each with the part of the cluster it belongs to.
    pub(crate) fn processes(&self) -> anyhow::Result<Vec<(&'static str, u32)>> {
        self.shop.processes()
    }

    /// How many decisions of the busiest sale are in the records.
    pub(crate) fn settled(&self) -> anyhow::Result<u64> {
        let position = self.shop.mariadb.sql("SELECT COALESCE(MAX(position), 0) FROM settlement_cursors")?;
        position.parse().with_context(|| format!("MariaDB answered {position:?}"))
    }

    /// Where buyers connect: nginx.
    pub(crate) fn entrance(&self) -> SocketAddr {
        self.shop.address()
    }

    /// `call` with one buyer for each request, sent to `address`; the first buyer is number `first_buyer`.
    pub(crate) fn calls(
        &self,
        address: SocketAddr,
        call: &TapeCall<'_>,
        first_buyer: u64,
        count: usize,
    ) -> anyhow::Result<Tape> {
        let identity = &bearers(self.shop.plan().jwt_secret.as_bytes());
        BuyerTape { address, identity, first_buyer, buyers: u64::MAX, count }.build(call)
    }

    /// A buyer's token.
    pub(crate) fn token(&self, subject: &str) -> String {
        TokenSigner::lasting(self.shop.plan().jwt_secret.as_bytes()).token(subject)
    }

    /// Orders of one unit of `sale`, likewise.
    pub(crate) fn orders(
        &self,
        address: SocketAddr,
        sale: &str,
        first_buyer: u64,
        count: usize,
    ) -> anyhow::Result<Tape> {
        self.calls(address, &TapeCall::order(&orders_path(sale)), first_buyer, count)
    }

    /// Fails unless the units gone are the units accepted, and the audit is clean. A request that was
    /// answered `unavailable` may have been decided all the same.
    pub(crate) fn verify(
        &self,
        sale: &str,
        units: u64,
        accepted: u64,
        unavailable: u64,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + NEWS_LIMIT;
        loop {
            let gone = units.saturating_sub(self.api.available(sale)?);
            if (accepted..=accepted + unavailable).contains(&gone) {
                return self.api.audit();
            }
            ensure!(
                Instant::now() < deadline,
                "{accepted} of {units} units were accepted and {unavailable} are unknown, but {gone} are gone"
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn stop(self) -> anyhow::Result<()> {
        self.shop.stop()
    }
}
