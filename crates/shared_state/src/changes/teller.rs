//! Writes all pending changes into the stream in one call, and tries again until it works.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use penstock_redis_client::{Link, LinkError};
use penstock_shop::ports::Change;
use redis::{Value, pipe};
use tokio::{sync::mpsc, time::sleep};

use super::{CHANGE, MAX_ENTRIES, MAX_UNTOLD, State, Untold};

const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// More changes than this in one call are replaced by "everything has changed".
const MAX_TOGETHER: usize = 256;

pub(super) struct Teller {
    link: Link,
    name: String,
    to_tell: mpsc::Receiver<Untold>,
    state: Arc<State>,
}

impl Teller {
    pub(super) fn new(link: Link, name: &str, to_tell: mpsc::Receiver<Untold>, state: Arc<State>) -> Self {
        Self { link, name: name.to_owned(), to_tell, state }
    }

    pub(super) async fn run(mut self) {
        let mut untold = Vec::new();
        while self.to_tell.recv_many(&mut untold, MAX_UNTOLD).await > 0 {
            while let Err(error) = self.tell(&untold).await {
                self.state.untold.store(untold.len() as u64, Relaxed);
                tracing::debug!(%error, changes = untold.len(), "can't tell the other nodes yet");
                sleep(RETRY_INTERVAL).await;
                self.take_more(&mut untold);
            }
            self.state.untold.store(0, Relaxed);
            self.state
                .told
                .fetch_add(untold.iter().filter(|(change, _)| change.is_some()).count() as u64, Relaxed);
            for (_, done) in untold.drain(..) {
                // The caller may have stopped waiting.
                let _ = done.send(());
            }
        }
    }

    fn take_more(&mut self, untold: &mut Vec<Untold>) {
        while untold.len() < MAX_UNTOLD
            && let Ok(more) = self.to_tell.try_recv()
        {
            untold.push(more);
        }
    }

    /// May write a change twice if an answer was lost, which does no harm.
    async fn tell(&self, untold: &[Untold]) -> Result<(), LinkError> {
        let everything = [Change::Everything];
        let changes: Vec<&Change> = match untold.len() {
            0..=MAX_TOGETHER => untold.iter().filter_map(|(change, _)| change.as_ref()).collect(),
            _ => everything.iter().collect(),
        };
        if changes.is_empty() {
            return Ok(());
        }
        let mut commands = pipe();
        for change in changes {
            let text = serde_json::to_vec(change).unwrap_or_default();
            let add = commands.cmd("XADD").arg(&self.name);
            add.arg("MAXLEN").arg("~").arg(MAX_ENTRIES).arg("*").arg(CHANGE).arg(text);
        }
        commands.cmd("PUBLISH").arg(&self.name).arg("");
        // Waits for the replicas, so that the changes are not lost with a master. If the replicas don't
        // confirm them, they are in the stream all the same and every node finds them there. Writing them
        // again would only duplicate them.
        let values = match self.link.run(&self.name, commands, true).await {
            Err(error @ LinkError::Unconfirmed { .. }) => {
                tracing::debug!(%error, "told the other nodes; the changes could be lost with the master");
                return Ok(());
            }
            told => told?,
        };
        match values.into_iter().find(|value| matches!(value, Value::ServerError(_))) {
            Some(refused) => {
                Err(LinkError::Refused { server: self.name.clone(), reason: format!("{refused:?}") })
            }
            None => Ok(()),
        }
    }
}
