//! How nodes tell each other about changes, in Redis: a stream holds the latest changes, and a message says
//! "look". A message may be lost, because every node looks twice a second anyway.
//!
//! A node remembers the last stream entry it has read and continues from there. If that entry is gone,
//! because the stream was cut or Redis has lost its end, the node can't know what it has missed. Then it
//! treats everything as changed. A node that joins adds an entry of its own, so that it always has one to
//! start from.

mod listener;
mod teller;

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use futures_util::{
    future::BoxFuture,
    stream::{self, BoxStream},
};
use penstock_redis_client::Link;
use penstock_shop::ports::{Change, Figure, FigureValue, Neighbours, NodePart};
use tokio::{
    sync::{broadcast, mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};

use self::{listener::ChangeListener, teller::Teller};

/// The most changes that may wait to be told. If there are more, one message says that everything has
/// changed.
const MAX_UNTOLD: usize = 1_024;
/// The most changes kept for a follower on this node. A follower further behind hears that everything has
/// changed.
const MAX_UNHEARD: usize = 4_096;
/// How long a caller waits until its change is told. After that it is told in the background.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a stopping node waits for its pending changes to be told: as long as Redis needs to choose a new
/// master.
const LAST_PATIENCE: Duration = Duration::from_secs(10);
/// If Redis has not answered for longer than this, this node may be missing changes.
const QUIET_TOO_LONG: Duration = Duration::from_secs(3);
/// The number of entries the stream keeps, or a few more. A node that is away for longer reads everything
/// again.
const MAX_ENTRIES: usize = 10_000;
/// The field of an entry that holds a change.
const CHANGE: &str = "change";
/// The field of the entry that a joining node adds to mark its position.
const JOINED: &str = "joined";

/// A change to tell, and the caller waiting for it. None: the caller waits only for the changes before it.
type Untold = (Option<Change>, oneshot::Sender<()>);

#[derive(Debug)]
struct State {
    told: AtomicU64,
    heard: AtomicU64,
    /// How often this node had to treat everything as changed.
    missed: AtomicU64,
    untold: AtomicU64,
    /// When the stream was last read.
    looked: Mutex<Option<Instant>>,
}

impl State {
    fn quiet_for(&self) -> Option<Duration> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner).map(|looked| looked.elapsed())
    }

    fn has_looked(&self) {
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

/// The other nodes, by way of Redis.
pub struct Changes {
    outbox: mpsc::Sender<Untold>,
    heard: broadcast::Sender<Change>,
    state: Arc<State>,
    tasks: Vec<JoinHandle<()>>,
}

impl Changes {
    /// Joins the nodes under `prefix`. Changes made from now on are heard; if Redis is away, the node catches
    /// up as soon as Redis is back. The background tasks run on the runtime that calls this.
    pub async fn join(link: Link, prefix: &str) -> Self {
        let (outbox, to_tell) = mpsc::channel(MAX_UNTOLD);
        let (heard, _) = broadcast::channel(MAX_UNHEARD);
        let state = Arc::new(State {
            told: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            untold: AtomicU64::new(0),
            looked: Mutex::new(None),
        });
        // The message goes over a channel with the same name as the stream.
        let name = format!("{prefix}penstock:changes");
        let mut listener = ChangeListener::new(link.clone(), &name, heard.clone(), Arc::clone(&state));
        listener.begin().await;
        let teller = Teller::new(link, &name, to_tell, Arc::clone(&state));
        let tasks = vec![tokio::spawn(listener.run()), tokio::spawn(teller.run())];
        Self { outbox, heard, state, tasks }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Changes").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Changes {
    /// Returns when the change is told, and so are all changes put into the outbox before it.
    async fn put(&self, change: Option<Change>) {
        let (done, is_done) = oneshot::channel();
        // An error means that the node is about to end.
        if self.outbox.send((change, done)).await.is_ok() {
            let _ = is_done.await;
        }
    }
}

impl Neighbours for Changes {
    fn tell(&self, change: Change) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if timeout(PATIENCE, self.put(Some(change))).await.is_err() {
                tracing::debug!("the other nodes will be told in the background");
            }
        })
    }

    fn all_told(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if timeout(LAST_PATIENCE, self.put(None)).await.is_err() {
                tracing::warn!("stopping before the other nodes were told of all changes");
            }
        })
    }

    fn changes(&self) -> BoxStream<'static, Change> {
        let heard = self.heard.subscribe();
        Box::pin(stream::unfold(heard, |mut heard| async move {
            match heard.recv().await {
                Ok(change) => Some((change, heard)),
                Err(broadcast::error::RecvError::Lagged(_)) => Some((Change::Everything, heard)),
                // Callers expect an endless stream. It closes only when the node is about to end.
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }))
    }
}

impl NodePart for Changes {
    fn name(&self) -> &'static str {
        "changes"
    }

    fn trouble(&self) -> Option<String> {
        match self.state.quiet_for() {
            None => Some("Redis has not been reached yet".to_owned()),
            Some(quiet) if quiet > QUIET_TOO_LONG => {
                Some(format!("Redis has not been reached for {} seconds", quiet.as_secs()))
            }
            Some(_) => None,
        }
    }

    fn figures(&self) -> Vec<Figure> {
        let counter = |name, help, count: &AtomicU64| Figure {
            name,
            help,
            value: FigureValue::Counter(count.load(Relaxed)),
        };
        let gauge = |name, help, value| Figure { name, help, value: FigureValue::Gauge(value) };
        let quiet = self.state.quiet_for().map_or(f64::INFINITY, |quiet| quiet.as_secs_f64());
        vec![
            counter("penstock_changes_told", "Changes told to the other nodes", &self.state.told),
            counter("penstock_changes_heard", "Changes heard, including this node's own", &self.state.heard),
            counter(
                "penstock_changes_missed",
                "How often changes may have been missed, so that everything was read again",
                &self.state.missed,
            ),
            gauge(
                "penstock_changes_untold",
                "Changes waiting to be told",
                self.state.untold.load(Relaxed) as f64,
            ),
            gauge("penstock_changes_lag_seconds", "Time since this node last looked for changes", quiet),
        ]
    }
}
