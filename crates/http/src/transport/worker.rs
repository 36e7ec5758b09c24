//! The HTTP server of a settlement worker: `/healthz` and `/metrics`, and nothing else.

use std::{io, net::SocketAddr};

use axum::{Router, routing::get};
use penstock_shop::live::WorkerFigures;
use tokio::{net::TcpListener, task::JoinHandle};

use crate::api::operator::{health::healthz, metrics::worker_metrics};

/// Serves until this is dropped.
#[derive(Debug)]
pub struct WorkerServer {
    address: SocketAddr,
    serving: JoinHandle<io::Result<()>>,
}

impl WorkerServer {
    pub async fn start(listen: SocketAddr, figures: WorkerFigures) -> io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let routes = Router::new()
            .route("/healthz", get(healthz))
            .route("/metrics", get(worker_metrics))
            .with_state(figures);
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await });
        Ok(Self { address, serving })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for WorkerServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
