//! `penstock settle`: a settlement worker of a cluster. Any number of them share the sales.

use anyhow::{Context as _, bail};
use penstock_http::WorkerServer;
use penstock_shop::live::WorkerFigures;

use crate::{
    cluster,
    config::{Config, EngineKind},
    options, output,
    settling::Settling,
    signals::Signals,
};

/// Shows the operator the progress of settlement, if `settle.listen` is set.
async fn serve(config: &Config, figures: WorkerFigures) -> anyhow::Result<Option<WorkerServer>> {
    let Some(listen) = config.settle.listen else { return Ok(None) };
    let server = WorkerServer::start(listen, figures).await;
    let server = server.with_context(|| format!("settle.listen: {listen} can't be listened on"))?;
    tracing::info!(address = %server.address(), "serving metrics");
    Ok(Some(server))
}

/// Runs until a signal tells it to stop.
pub(crate) async fn run(config: Config) -> anyhow::Result<()> {
    if config.engine == EngineKind::Embedded {
        bail!("`penstock serve` settles by itself; a worker is for a cluster (engine = \"cluster\")");
    }
    let mut signals = Signals::take_over()?;
    let worker = cluster::open_worker(&config).await?;
    let figures = WorkerFigures {
        name: worker.name.clone(),
        settlement: options::settlement_view(worker.settlement.stats()),
        parts: vec![worker.settled.clone()],
    };
    let mut settling = Settling::start(worker.settlement);
    let _served = serve(&config, figures.clone()).await?;
    output::write(&format!("penstock settles as {}", worker.name))?;
    let end = tokio::select! {
        signal = signals.next() => Ok(signal),
        () = settling.ended() => Err(anyhow::anyhow!("settlement ended unexpectedly")),
        never = figures.show(&worker.shown) => match never {},
    };
    if let Ok(signal) = end {
        tracing::info!(signal, "stopping: finishing the transaction that is under way");
    }
    tokio::spawn(signals.end_at_next());
    settling.stop().await;
    worker.ledger.stop().await;
    worker.records.close().await;
    end.map(drop)
}
