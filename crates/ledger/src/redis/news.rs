//! News between nodes: after a batch each node tells the others the sale's new status and the accepted keys.
//! A message may be lost, so every node also polls, and reads from the feed what it missed.
//!
//! It runs on the writer's thread, so that the listener hears everything from one thread.

use std::{
    fmt,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::FutureExt;
use hashbrown::{HashMap, HashSet};
use penstock_domain::{Event, KeyDigest, SaleId, SaleStatus, SaleTerms};
use tokio::{
    sync::{Notify, Semaphore, mpsc},
    time::{sleep, timeout},
};

use super::{
    adopt::Adoption,
    batch::Outcome,
    codec::{Counts, Message, epoch_of_version, pack_message, position_of_version, unpack_message},
    coverage::{Coverage, Heard},
    decider::Adopt as _,
    feed::read_entries,
    keys::Keys,
    link::Link,
    polling::{Asking, Found, Poller, is_same_history, lineage},
    pubsub,
    recovery::accepted_keys,
    sales::Sales,
};
use crate::{Listener, SaleNews, Unavailable, batcher::or_abort};

/// How often a node polls.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Messages that are under way arrive within this time. Only what is missing afterwards is read.
const ON_ITS_WAY: Duration = Duration::from_millis(50);
/// How long to wait before trying again to adopt a sale.
const ADOPTION_INTERVAL: Duration = Duration::from_secs(1);
/// The most messages that wait to be sent. Further ones are dropped: the other nodes find out when they poll.
const MAX_UNTOLD: usize = 4_096;
/// The most sales whose missed news is read at once.
const READ_AT_ONCE: usize = 16;
/// Entries of a feed read in one call.
const ENTRIES_AT_ONCE: usize = 64;

#[derive(Clone)]
pub(super) struct News {
    inner: Arc<Inner>,
}

struct Inner {
    /// This node's id in its messages. A node ignores its own messages.
    node: u64,
    link: Link,
    keys: Keys,
    sales: Arc<Sales>,
    listener: Arc<dyn Listener>,
    adoption: Adoption,
    coverage: Mutex<HashMap<SaleId, Coverage>>,
    adopting: Mutex<HashSet<SaleId>>,
    /// Sales whose missed news is being read. `room` limits how many are read at once.
    reading: Mutex<HashSet<SaleId>>,
    room: Semaphore,
    untold: mpsc::Sender<Message>,
    /// Starts the next poll early.
    look: Notify,
}

impl fmt::Debug for News {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("News").field("node", &self.inner.node).finish_non_exhaustive()
    }
}

impl News {
    /// Starts telling and listening on the current runtime.
    pub(super) fn start(
        link: Link,
        keys: Keys,
        sales: Arc<Sales>,
        listener: Arc<dyn Listener>,
        adoption: Adoption,
    ) -> Result<Self, Unavailable> {
        let mut node = [0; 8];
        getrandom::fill(&mut node).map_err(Unavailable::new)?;
        let (untold, told) = mpsc::channel(MAX_UNTOLD);
        let news = Self {
            inner: Arc::new(Inner {
                node: u64::from_le_bytes(node),
                link,
                keys,
                sales,
                listener,
                adoption,
                coverage: Mutex::default(),
                adopting: Mutex::default(),
                reading: Mutex::default(),
                room: Semaphore::new(READ_AT_ONCE),
                untold,
                look: Notify::new(),
            }),
        };
        spawn_or_abort(tell(news.inner.link.clone(), news.inner.keys.clone(), told));
        spawn_or_abort(listen(news.clone()));
        spawn_or_abort(poll(news.clone()));
        Ok(news)
    }

    /// The listener is about to hear all keys of these sales, up to these statuses.
    pub(super) fn recovered(&self, news: &[SaleNews]) {
        let mut coverage = self.coverage();
        for SaleNews { status, .. } in news {
            coverage.insert(status.terms.sale, Coverage::new(*status));
        }
    }

    /// Tells the other nodes about this node's own batch. Returns what the listener may hear; None if nothing
    /// was decided.
    pub(super) fn decided(&self, outcome: &Outcome) -> Option<SaleNews> {
        let (terms, counts) = outcome.sale.filter(|(_, counts)| counts.position > outcome.before)?;
        let (node, before, accepted) = (self.inner.node, outcome.before, outcome.accepted.clone());
        let message = Message { node, before, terms, counts, accepted };
        let news = self.hear(&message);
        // If too many wait, the others find out when they poll.
        let _ = self.inner.untold.try_send(message);
        news
    }

    /// What the listener may hear after this message: its keys, and the sale's status up to the first gap.
    /// None if the listener has to hear the whole sale first, or the message is outdated.
    fn hear(&self, Message { before, terms, counts, accepted, .. }: &Message) -> Option<SaleNews> {
        let status = counts.status(*terms);
        let mut coverage = self.coverage();
        let heard = match coverage.get_mut(&terms.sale) {
            Some(known) => Some(known.hear(*before, status)),
            // Its history begins here.
            None if *before == 0 => {
                coverage.insert(terms.sale, Coverage::new(status));
                Some(Heard::Known(status))
            }
            None => None,
        };
        if matches!(heard, None | Some(Heard::NewHistory(_))) {
            self.inner.look.notify_one();
        }
        match heard? {
            Heard::Known(status) | Heard::Gap(status) | Heard::NewHistory(status) => {
                Some(SaleNews { status, accepted: accepted.clone() })
            }
            Heard::Outdated => None,
        }
    }

    fn tell_listener(&self, news: SaleNews) {
        self.inner.listener.sales_changed(&[news]);
    }

    fn take_message(&self, payload: &[u8]) {
        match unpack_message(payload) {
            Ok(message) if message.node == self.inner.node => {}
            Ok(message) => {
                self.inner.sales.learn(message.terms, message.counts);
                if let Some(news) = self.hear(&message) {
                    self.tell_listener(news);
                }
            }
            Err(error) => tracing::warn!(%error, "a message from another node can't be read"),
        }
    }

    /// Acts on what a poll has found.
    async fn take(&self, found: Vec<Found>) {
        let mut homed = Vec::new();
        for found in found {
            match found {
                Found::Homed(terms, counts) => {
                    self.inner.sales.learn(terms, counts);
                    homed.push((terms, counts));
                }
                Found::Unhomed(sale) => self.adopt(sale, false),
                Found::Missing(sale) => self.adopt(sale, true),
                Found::Forgotten(sale) => self.forget(sale),
            }
        }
        sleep(ON_ITS_WAY).await;
        for (terms, counts) in homed {
            if self.has_missed(terms.sale, counts.version()) && locked(&self.inner.reading).insert(terms.sale)
            {
                spawn_or_abort(self.clone().read_missed(terms, counts));
            }
        }
    }

    fn has_missed(&self, sale: SaleId, version: u64) -> bool {
        self.coverage().get(&sale).is_none_or(|known| known.status().version < version)
    }

    async fn read_missed(self, terms: SaleTerms, counts: Counts) {
        let room = self.inner.room.acquire().await;
        if let Err(error) = self.catch_up(terms, counts).await {
            tracing::debug!(sale = %terms.sale, %error, "missed news of a sale can't be read yet");
        }
        drop(room);
        locked(&self.inner.reading).remove(&terms.sale);
    }

    /// Reads what this node has missed up to `counts`, and tells the listener.
    async fn catch_up(&self, terms: SaleTerms, counts: Counts) -> Result<(), Unavailable> {
        let (sale, status) = (terms.sale, counts.status(terms));
        let Inner { link, keys, listener, .. } = &*self.inner;
        let known = self.coverage().get(&sale).map(Coverage::status);
        let common = match known {
            Some(known) if listener.wants_keys() => self.common(sale, known, &counts).await?,
            _ => None,
        };
        let missed = match common {
            Some(position) => self.keys_after(sale, position, counts.position).await?,
            None => None,
        };
        let accepted = match missed {
            Some(accepted) => accepted,
            None if counts.forgotten || !listener.wants_keys() => Vec::new(),
            None => accepted_keys(link, keys, sale).await?,
        };
        if !is_same_history(link, keys, sale, &counts).await? {
            return Err(Unavailable::new("the sale's server was replaced meanwhile"));
        }
        let status = self.cover(status);
        self.tell_listener(SaleNews { status, accepted });
        Ok(())
    }

    /// The position up to which the history that this node has heard is that of `counts`; None if they may
    /// differ.
    async fn common(
        &self,
        sale: SaleId,
        known: SaleStatus,
        counts: &Counts,
    ) -> Result<Option<u64>, Unavailable> {
        let (epoch, position) = (epoch_of_version(known.version), position_of_version(known.version));
        if epoch == u64::from(counts.epoch) {
            return Ok(Some(position));
        }
        let lineage = lineage(&self.inner.link, &self.inner.keys, sale).await?;
        Ok((position <= counts.position && lineage.contains(epoch, position)).then_some(position))
    }

    /// Notes that everything up to `status` was heard, and returns the status that may be told.
    fn cover(&self, status: SaleStatus) -> SaleStatus {
        let mut coverage = self.coverage();
        let known = coverage.entry(status.terms.sale).or_insert_with(|| Coverage::new(status));
        known.reach(status);
        known.status()
    }

    /// The keys accepted after `after` up to `upto`, from the feed; None if the feed no longer has all of
    /// them.
    async fn keys_after(
        &self,
        sale: SaleId,
        after: u64,
        upto: u64,
    ) -> Result<Option<Vec<KeyDigest>>, Unavailable> {
        let (mut accepted, mut reached) = (Vec::new(), after);
        while reached < upto {
            let Inner { link, keys, .. } = &*self.inner;
            let entries = read_entries(link, keys, sale, reached + 1, ENTRIES_AT_ONCE).await?;
            let Some(last) = entries.last().map(|entry| entry.last) else { return Ok(None) };
            for entry in entries {
                if entry.first > reached + 1 {
                    return Ok(None);
                }
                let new = entry.decisions.iter().filter(|decision| decision.position > reached);
                accepted.extend(new.filter_map(|decision| match &decision.event {
                    Event::Held { key, .. } if key.offered_to().is_none() => Some(*key),
                    _ => None,
                }));
                reached = entry.last;
            }
            reached = reached.max(last);
        }
        Ok(Some(accepted))
    }

    /// Gives the sale a home in the background.
    fn adopt(&self, sale: SaleId, is_missing: bool) {
        if !locked(&self.inner.adopting).insert(sale) {
            return;
        }
        let news = self.clone();
        tokio::spawn(async move {
            match news.inner.adoption.adopt(sale).await {
                Ok(()) => {
                    // If the records had it, it is found again like a new sale.
                    if is_missing {
                        news.forget(sale);
                    }
                    news.inner.look.notify_one();
                }
                Err(error) => {
                    tracing::warn!(%sale, %error, "a sale has no home yet");
                    sleep(ADOPTION_INTERVAL).await;
                }
            }
            locked(&news.inner.adopting).remove(&sale);
        });
    }

    fn forget(&self, sale: SaleId) {
        self.inner.sales.forget(sale);
        self.coverage().remove(&sale);
    }

    fn coverage(&self) -> MutexGuard<'_, HashMap<SaleId, Coverage>> {
        locked(&self.inner.coverage)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A panic of the listener ends the process here, too, as it does in the writer.
fn spawn_or_abort(work: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(async move {
        if AssertUnwindSafe(work).catch_unwind().await.is_err() {
            or_abort("the news between nodes", || std::panic::resume_unwind(Box::new("it panicked")));
        }
    });
}

/// Tells the other nodes. Messages that gather while one is being sent go together; those that follow each
/// other are merged.
async fn tell(link: Link, keys: Keys, mut told: mpsc::Receiver<Message>) {
    let channel = keys.news();
    while let Some(message) = told.recv().await {
        let mut messages = vec![message];
        while let Ok(message) = told.try_recv() {
            add(&mut messages, message);
        }
        let key = messages.first().map(|message| keys.sale(message.terms.sale)).unwrap_or_default();
        let mut pipeline = redis::pipe();
        for message in &messages {
            pipeline.cmd("PUBLISH").arg(&channel).arg(pack_message(message));
        }
        // A message reaches all servers, whichever one it was sent to.
        if let Err(error) = link.run(&key, pipeline, false).await {
            tracing::debug!(%error, "the other nodes were not told");
        }
    }
}

fn add(messages: &mut Vec<Message>, message: Message) {
    let follows = |earlier: &&mut Message| {
        earlier.terms.sale == message.terms.sale
            && earlier.counts.position == message.before
            && earlier.counts.epoch == message.counts.epoch
    };
    match messages.iter_mut().find(follows) {
        Some(earlier) => {
            earlier.counts = message.counts;
            earlier.accepted.extend(message.accepted);
        }
        None => messages.push(message),
    }
}

async fn listen(news: News) {
    let channel = news.inner.keys.news();
    let mut following = news.inner.link.follow(&[&channel]);
    loop {
        match following.next().await {
            pubsub::Heard::Joined => news.inner.look.notify_one(),
            pubsub::Heard::Message((_, payload)) => news.take_message(&payload),
        }
    }
}

async fn poll(news: News) {
    let Inner { link, keys, sales, .. } = &*news.inner;
    let poller = Arc::new(Poller::new(link.clone(), keys.clone(), sales.clone()));
    let list: Arc<str> = keys.sales().into();
    loop {
        // A nudge ends the wait early.
        let _ = timeout(POLL_INTERVAL, news.inner.look.notified()).await;
        news.coverage().retain(|sale, _| poller.may_know(*sale));
        if let Some(asking) = poller.begin(&list) {
            spawn_or_abort(look_at_list(news.clone(), poller.clone(), asking));
        }
        for (master, sales) in poller.by_master() {
            if let Some(asking) = poller.begin(&master) {
                spawn_or_abort(look_at_master(news.clone(), poller.clone(), asking, master, sales));
            }
        }
    }
}

async fn look_at_list(news: News, poller: Arc<Poller>, asking: Asking) {
    let has_changed = poller.list().await.unwrap_or_else(|error| {
        tracing::debug!(%error, "the list of all sales can't be read");
        false
    });
    if asking.end() || has_changed {
        news.inner.look.notify_one();
    }
}

async fn look_at_master(
    news: News,
    poller: Arc<Poller>,
    asking: Asking,
    master: Arc<str>,
    sales: Vec<SaleId>,
) {
    let found = poller.look(&master, &sales).await.unwrap_or_else(|error| {
        tracing::debug!(%error, "some sales can't be looked at");
        Vec::new()
    });
    // Another look was asked for while this one was under way.
    if asking.end() {
        news.inner.look.notify_one();
    }
    if let Err(error) = poller.list_again(&found).await {
        tracing::debug!(%error, "the list of all sales can't be repaired");
    }
    news.take(found).await;
}
