//! `penstock serve`: opens everything, tells when it can sell, and drains when it is asked to stop.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use penstock_http::{Server, Storefront};
use penstock_ledger::{Health, Ledger, embedded};
use penstock_records::Records;
use penstock_settle::Settlement;
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    clock, config::Config, database, demo::Demo, folder::DataFolder, options, output, signals::Signals,
};

/// Settlement finishes its transaction within this or is left; what it did not do, the next start does.
const SETTLEMENT_STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// Runs until a signal asks it to stop and everything that was accepted is answered.
pub(crate) async fn run(config: Config, demo: bool) -> anyhow::Result<()> {
    let mut signals = Signals::take_over()?;
    let begun = Instant::now();
    let node = Node::start(&config, demo).await?;
    let address = node.server.addr();
    tracing::info!(%address, data = %config.data.display(), "listening; recovering what the last run left");
    let stop_signal = tokio::select! {
        signal = signals.next() => signal,
        sold = node.sell(address, begun) => {
            sold?;
            signals.next().await
        }
    };
    tracing::info!(signal = stop_signal, "draining: answering what was accepted");
    tokio::spawn(signals.end_at_next());
    node.stop().await;
    tracing::info!("stopped");
    Ok(())
}

/// Everything that runs.
struct Node {
    server: Server,
    ledger: Ledger,
    records: Records,
    settlement: JoinHandle<()>,
    stop_settlement: watch::Sender<bool>,
    demo: Option<Demo>,
    /// Last, so that the folder is free only when nobody writes to it any more.
    _folder: DataFolder,
}

impl Node {
    /// Opens the folder and everything in it, and listens. Recovery goes on in the background.
    async fn start(config: &Config, demo: bool) -> anyhow::Result<Self> {
        let folder = DataFolder::open(&config.data)?;
        let clock = clock::system();
        let mut http = options::http(config, &folder, clock.clone())?;
        let demo = demo.then(|| Demo::prepare(&mut http)).transpose()?;
        let records = database::open(config).await?;
        let storefront = Storefront::new();
        let ledger = embedded::open(options::ledger(config), clock.clone(), storefront.clone())?;
        let settlement = Settlement::new(ledger.clone(), records.clone(), clock, options::settle(config));
        http.settlement = options::settlement_view(settlement.stats());
        let server = Server::start(http, storefront, ledger.clone(), records.clone()).await?;
        let (stop_settlement, stopped) = watch::channel(false);
        let settlement = tokio::spawn(async move { settlement.run(stopped).await });
        Ok(Self { server, ledger, records, settlement, stop_settlement, demo, _folder: folder })
    }

    /// Waits for the recovery, says so, and seeds the demo.
    async fn sell(&self, address: SocketAddr, begun: Instant) -> anyhow::Result<()> {
        match self.ledger.recovered().await {
            Health::Ready | Health::Recovering => {}
            // It comes back by itself when the reason is gone, a full disk for example.
            Health::Unavailable(reason) => self.wait_until_ready(&reason).await,
            Health::Stopped => bail!("the ledger has stopped"),
        }
        let recovery_seconds = begun.elapsed().as_secs_f64();
        tracing::info!(position = self.ledger.feed().head(), recovery_seconds, "recovered");
        output::write(&format!("penstock ready on http://{address}"))?;
        if let Some(demo) = &self.demo {
            demo.seed(address, &self.records).await.context("the demo could not be seeded")?;
        }
        Ok(())
    }

    async fn wait_until_ready(&self, reason: &str) {
        tracing::error!(reason, "can't sell yet; trying again until it works");
        while self.ledger.health() != Health::Ready {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// From the outside in: no new requests, then no new decisions, then no more settling.
    async fn stop(self) {
        self.server.stop().await;
        self.ledger.stop().await;
        // Nobody listens only if settlement has ended already.
        let _ = self.stop_settlement.send(true);
        if tokio::time::timeout(SETTLEMENT_STOP_TIMEOUT, self.settlement).await.is_err() {
            tracing::warn!("settlement is stuck in the database; the next start goes on where it is");
        }
        self.records.close().await;
    }
}
