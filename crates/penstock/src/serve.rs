//! `penstock serve`: opens everything, tells when it can sell, and drains when it is asked to stop.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use penstock_http::{Server, Storefront};
use penstock_ledger::{Health, Ledger, Turn, embedded, take_turn};
use penstock_records::Records;
use penstock_settle::Settlement;
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    clock, config::Config, database, demo::Demo, demo_file::DemoFile, descriptors, folder::DataFolder,
    options, output, secrets, signals::Signals,
};

/// Settlement finishes its transaction within this or is left; what it did not do, the next start does.
const SETTLEMENT_STOP_TIMEOUT: Duration = Duration::from_secs(15);
const READY_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Runs until a signal asks it to stop and everything that was accepted is answered.
pub(crate) async fn run(config: Config, demo: bool) -> anyhow::Result<()> {
    let mut signals = Signals::take_over()?;
    let begun = Instant::now();
    let mut node = Node::start(&config, demo).await?;
    let address = node.server.addr();
    tracing::info!(%address, data = %config.data.display(), "listening; recovering what the last run left");
    let end = node.sell_until(&mut signals, begun).await;
    if let Ok(signal) = end {
        tracing::info!(signal, "draining: answering what was accepted");
    }
    tokio::spawn(signals.end_at_next());
    node.stop().await;
    tracing::info!("stopped");
    end.map(drop)
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
        let max_connections = descriptors::allow_for(config.http.max_connections);
        let folder = DataFolder::open(&config.data)?;
        let clock = clock::system();
        let (told, secrets) = watch::channel(secrets::load(&config.identity, &config.data)?);
        if config.identity.secret.get().is_none() {
            tokio::spawn(secrets::watch_folder(config.data.clone(), told));
        }
        let mut http = options::http(config, secrets, clock.clone())?;
        http.max_connections = max_connections;
        let demo = if demo {
            Some(Demo::prepare(&mut http, &config.data)?)
        } else {
            DemoFile::remove(&config.data)?;
            None
        };
        if http.codes_in_answers {
            tracing::warn!(
                setting = "identity.codes_in_answers",
                "one-time codes are told to whoever asks, so any phone can be signed up; fine for a rehearsal or a demo only"
            );
        }
        let storefront = Storefront::new();
        let ledger = embedded::open(options::ledger(config), clock.clone(), storefront.clone())?;
        // The threads that are started from here on inherit it.
        take_turn(Turn::Settling);
        let records = database::open(config).await?;
        let settlement = Settlement::new(ledger.clone(), records.clone(), clock, options::settle(config));
        http.settlement = options::settlement_view(settlement.stats());
        let server = Server::start(http, storefront, ledger.clone(), records.clone()).await?;
        let (stop_settlement, stopped) = watch::channel(false);
        let settlement = tokio::spawn(async move { settlement.run(stopped).await });
        Ok(Self { server, ledger, records, settlement, stop_settlement, demo, _folder: folder })
    }

    /// Sells until a signal comes, and gives its name.
    async fn sell_until(&mut self, signals: &mut Signals, begun: Instant) -> anyhow::Result<&'static str> {
        let Self { server, ledger, records, settlement, demo, .. } = self;
        let opening = async {
            open_the_doors(server.addr(), ledger, begun).await?;
            if let Some(demo) = demo {
                demo.seed(server.addr(), records).await.context("the demo could not be seeded")?;
            }
            // Open until somebody else ends it.
            std::future::pending().await
        };
        tokio::select! {
            signal = signals.next() => Ok(signal),
            failed = opening => failed,
            // It runs until it is told to stop; that it has ended means that it panicked.
            _ = settlement => bail!("settlement has ended by itself"),
        }
    }

    /// From the outside in: no new requests, then no new decisions, then no more settling.
    async fn stop(self) {
        self.server.stop().await;
        self.ledger.stop().await;
        // Nobody listens only if settlement has ended already.
        let _ = self.stop_settlement.send(true);
        let has_ended = self.settlement.is_finished();
        if !has_ended && tokio::time::timeout(SETTLEMENT_STOP_TIMEOUT, self.settlement).await.is_err() {
            tracing::warn!("settlement is stuck in the database; the next start goes on where it is");
        }
        self.records.close().await;
    }
}

/// Waits for the recovery and says that it can sell.
async fn open_the_doors(address: SocketAddr, ledger: &Ledger, begun: Instant) -> anyhow::Result<()> {
    match ledger.recovered().await {
        Health::Ready | Health::Recovering => {}
        Health::Unavailable(reason) => {
            // It comes back by itself when the reason is gone, a full disk for example.
            tracing::error!(reason, "can't sell yet; trying again until it works");
            while ledger.health() != Health::Ready {
                tokio::time::sleep(READY_POLL_INTERVAL).await;
            }
        }
        Health::Stopped => bail!("the ledger has stopped"),
    }
    let recovery_seconds = begun.elapsed().as_secs_f64();
    tracing::info!(position = ledger.feed().head(embedded::STREAM), recovery_seconds, "recovered");
    output::write(&format!("penstock ready on http://{address}"))
}
