//! Settlement while it runs, in the server or in a worker of its own.

use std::time::Duration;

use penstock_settle::Settlement;
use tokio::{sync::watch, task::JoinHandle};

/// How long settlement may take to finish its transaction. If it takes longer, the next start or another worker
/// does the rest.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

pub(crate) struct Settling {
    task: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl Settling {
    pub(crate) fn start(settlement: Settlement) -> Self {
        let (stop, stopped) = watch::channel(false);
        Self { task: tokio::spawn(async move { settlement.run(stopped).await }), stop }
    }

    /// Returns if it ends without being told to, which means that it has panicked.
    pub(crate) async fn ended(&mut self) {
        // The panic has been printed already.
        let _ = (&mut self.task).await;
    }

    /// Lets it finish its transaction, but does not wait for a database that is stuck.
    pub(crate) async fn stop(self) {
        // The receiver is gone only if settlement has ended already.
        let _ = self.stop.send(true);
        if !self.task.is_finished() && tokio::time::timeout(STOP_TIMEOUT, self.task).await.is_err() {
            tracing::warn!(
                "settlement is stuck in the database; after the next start it goes on where it stopped"
            );
        }
    }
}
