//! `penstock serve`: opens everything, says when it can sell, and drains when it is told to stop.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use penstock_http::Server;
use penstock_ledger::{Health, Ledger};
use penstock_records::Records;

use crate::{
    alone, cluster,
    config::{Config, EngineKind},
    demo::Demo,
    descriptors,
    folder::DataFolder,
    opened::Opened,
    output,
    settling::Settling,
    signals::Signals,
};

const READY_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Runs until a signal tells it to stop and everything that was accepted is answered.
pub(crate) async fn run(config: Config, demo: bool) -> anyhow::Result<()> {
    let mut signals = Signals::take_over()?;
    let begun = Instant::now();
    let mut node = ServingNode::start(&config, demo).await?;
    let address = node.server.addr();
    tracing::info!(%address, engine = ?config.engine, "listening; recovering the state of the last run");
    let end = node.sell_until(&mut signals, begun).await;
    if let Ok(signal) = end {
        tracing::info!(signal, "draining: answering the requests that were accepted");
    }
    tokio::spawn(signals.end_at_next());
    node.stop().await;
    tracing::info!("stopped");
    end.map(drop)
}

/// Everything that runs.
struct ServingNode {
    server: Server,
    ledger: Ledger,
    records: Records,
    settling: Option<Settling>,
    demo: Option<Demo>,
    /// Unlocked last, when nothing writes to it.
    _folder: Option<DataFolder>,
}

impl ServingNode {
    /// Opens everything, and listens. Recovery goes on in the background.
    async fn start(config: &Config, demo: bool) -> anyhow::Result<Self> {
        require_free(config.http.listen)?;
        let max_connections = descriptors::allow_for(config.http.max_connections);
        let Opened { mut http, storefront, ledger, records, settlement, demo, folder } = match config.engine {
            EngineKind::Embedded => alone::open(config, demo).await?,
            EngineKind::Cluster if demo => {
                bail!("--demo is for the embedded engine; `make cluster` shows a cluster")
            }
            EngineKind::Cluster => cluster::open(config).await?,
        };
        http.max_connections = max_connections;
        if http.codes_in_answers {
            tracing::warn!(
                setting = "identity.codes_in_answers",
                "one-time codes are in the answers, so anybody can sign up with any phone number; use this for rehearsals and demos only"
            );
        }
        let server = Server::start(http, storefront, ledger.clone(), records.clone()).await?;
        let settling = settlement.map(Settling::start);
        Ok(Self { server, ledger, records, settling, demo, _folder: folder })
    }

    /// Sells until a signal comes, and returns its name.
    async fn sell_until(&mut self, signals: &mut Signals, begun: Instant) -> anyhow::Result<&'static str> {
        let Self { server, ledger, settling, demo, .. } = self;
        let opening = async {
            if let Some(demo) = &*demo {
                demo.let_rehearsals_in(server.addr())?;
            }
            open_the_doors(server.addr(), ledger, begun).await?;
            if let Some(demo) = demo {
                demo.seed(server.addr()).await.context("the demo could not be seeded")?;
            }
            // The demo is seeded; wait until something else ends the server.
            std::future::pending().await
        };
        let settlement_ended = async {
            match settling {
                Some(settling) => settling.ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            signal = signals.next() => Ok(signal),
            failed = opening => failed,
            () = settlement_ended => bail!("settlement ended unexpectedly"),
        }
    }

    /// Stops from the outside in: no new requests, then no new decisions, then no more settling.
    async fn stop(self) {
        self.server.stop().await;
        self.ledger.stop().await;
        if let Some(settling) = self.settling {
            settling.stop().await;
        }
        self.records.close().await;
    }
}

/// Checked before anything is created: a second server started by mistake leaves no data folder behind.
fn require_free(address: SocketAddr) -> anyhow::Result<()> {
    match TcpListener::bind(address) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => bail!(
            "can't listen on {address}: {error}; end the program that uses it, or choose another --listen ADDR (LISTEN=… of make)"
        ),
        // Any other problem is reported when it is listened on.
        _ => Ok(()),
    }
}

/// Waits for the recovery and says that the server can sell.
async fn open_the_doors(address: SocketAddr, ledger: &Ledger, begun: Instant) -> anyhow::Result<()> {
    match ledger.recovered().await {
        Health::Ready | Health::Recovering => {}
        Health::Unavailable(reason) => {
            // The ledger recovers by itself when the cause, such as a full disk, is gone.
            tracing::error!(reason, "can't sell yet; trying again until it works");
            while ledger.health() != Health::Ready {
                tokio::time::sleep(READY_POLL_INTERVAL).await;
            }
        }
        Health::Stopped => bail!("the ledger has stopped"),
    }
    let recovery_seconds = begun.elapsed().as_secs_f64();
    tracing::info!(recovery_seconds, "recovered");
    output::write(&format!("penstock ready on http://{address}"))
}
