//! Reads the stream from this node's position and passes on the new changes.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use penstock_redis_client::{Link, LinkError};
use penstock_shop::ports::Change;
use redis::{cmd, streams::StreamRangeReply};
use tokio::{
    sync::{Notify, broadcast},
    time::{MissedTickBehavior, interval},
};

use super::{CHANGE, JOINED, MAX_ENTRIES, State};

/// How often a node looks without a message, which makes up for a lost one within a second.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const MAX_READ: usize = 1_000;

pub(super) struct ChangeListener {
    link: Link,
    name: String,
    heard: broadcast::Sender<Change>,
    state: Arc<State>,
    /// The last entry that was read. None: the position is not known.
    position: Option<String>,
}

impl ChangeListener {
    pub(super) fn new(link: Link, name: &str, heard: broadcast::Sender<Change>, state: Arc<State>) -> Self {
        Self { link, name: name.to_owned(), heard, state, position: None }
    }

    /// Marks this node's position before it reads anything else, so that no change is missed.
    pub(super) async fn begin(&mut self) {
        match self.join().await {
            Ok(()) => self.state.has_looked(),
            Err(error) => tracing::warn!(%error, "can't read the changes of other nodes yet; trying again"),
        }
    }

    pub(super) async fn run(mut self) {
        let nudges = Arc::new(Notify::new());
        let nudged = tokio::spawn(listen(self.link.clone(), self.name.clone(), Arc::clone(&nudges)));
        let _end = AbortOnDrop(nudged);
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = nudges.notified() => {}
                _ = ticks.tick() => {}
            }
            match self.look().await {
                Ok(()) => self.state.has_looked(),
                Err(error) => tracing::debug!(%error, "can't read the changes of other nodes; trying again"),
            }
        }
    }

    /// Adds an entry at the end of the stream as this node's position.
    async fn join(&mut self) -> Result<(), LinkError> {
        let mut join = cmd("XADD");
        join.arg(&self.name).arg("MAXLEN").arg("~").arg(MAX_ENTRIES).arg("*").arg(JOINED).arg("");
        self.position = Some(self.link.call(&self.name, join).await?);
        Ok(())
    }

    async fn look(&mut self) -> Result<(), LinkError> {
        loop {
            let Some(position) = self.position.clone() else {
                self.join().await?;
                self.state.missed.fetch_add(1, Relaxed);
                tracing::warn!("may have missed changes of other nodes; reading everything again");
                self.hand_on(Change::Everything);
                return Ok(());
            };
            let mut read = cmd("XRANGE");
            read.arg(&self.name).arg(&position).arg("+").arg("COUNT").arg(MAX_READ);
            let entries: StreamRangeReply = self.link.call(&self.name, read).await?;
            if entries.ids.first().is_none_or(|first| first.id != position) {
                self.position = None;
                continue;
            }
            for entry in entries.ids.iter().skip(1) {
                if let Some(text) = entry.get::<Vec<u8>>(CHANGE) {
                    self.state.heard.fetch_add(1, Relaxed);
                    // A node of a newer version may tell changes that this one does not know.
                    self.hand_on(serde_json::from_slice(&text).unwrap_or(Change::Everything));
                }
                self.position = Some(entry.id.clone());
            }
            if entries.ids.len() < MAX_READ {
                return Ok(());
            }
        }
    }

    fn hand_on(&self, change: Change) {
        // An error means that there is no follower yet.
        let _ = self.heard.send(change);
    }
}

/// Passes on every message. A reconnection is a reason to look, too.
async fn listen(link: Link, name: String, nudges: Arc<Notify>) {
    let mut following = link.follow(&[&name]);
    loop {
        following.next().await;
        nudges.notify_one();
    }
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
