//! What this node has heard of each sale, and what the listener may be told. It runs on the writer's thread,
//! so that the listener hears everything from one thread.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use penstock_domain::{SaleId, SaleStatus};
use tokio::sync::{Notify, Semaphore, mpsc};

use super::coverage::{Coverage, NewsFit};
use crate::{
    Listener, SaleNews, Unavailable,
    redis::{
        adopt::Adoption,
        decide::SaleOutcome,
        layout::{NodeMessage, unpack_message},
        store::Store,
    },
};

/// The most sales whose missed news is read at once.
const READ_AT_ONCE: usize = 16;

pub(crate) struct News {
    /// This node's id in its messages. A node ignores its own messages.
    node: u64,
    pub(super) store: Store,
    pub(super) listener: Arc<dyn Listener>,
    pub(super) adoption: Arc<Adoption>,
    pub(super) coverage: Mutex<HashMap<SaleId, Coverage>>,
    pub(super) adopting: Mutex<HashSet<SaleId>>,
    /// Sales whose missed news is being read. `room` limits how many are read at once.
    pub(super) reading: Mutex<HashSet<SaleId>>,
    pub(super) room: Semaphore,
    untold: mpsc::Sender<NodeMessage>,
    /// Starts the next poll early.
    pub(super) look: Notify,
}

impl News {
    /// `untold` takes the messages for the other nodes.
    pub(super) fn new(
        store: Store,
        listener: Arc<dyn Listener>,
        adoption: Arc<Adoption>,
        untold: mpsc::Sender<NodeMessage>,
    ) -> Result<Arc<Self>, Unavailable> {
        Ok(Arc::new(Self {
            node: getrandom::u64().map_err(Unavailable::new)?,
            store,
            listener,
            adoption,
            coverage: Mutex::default(),
            adopting: Mutex::default(),
            reading: Mutex::default(),
            room: Semaphore::new(READ_AT_ONCE),
            untold,
            look: Notify::new(),
        }))
    }

    /// The listener is about to hear all keys of these sales, up to these statuses.
    pub(crate) fn recovered(&self, news: &[SaleNews]) {
        let mut coverage = self.coverage.lock();
        for SaleNews { status, .. } in news {
            coverage.insert(status.terms.sale, Coverage::new(*status));
        }
    }

    /// Tells the other nodes about this node's own batch. Returns what the listener may hear: one piece of
    /// news for each sale that changed, with its status after its last outcome.
    pub(crate) fn decided(&self, outcomes: &[SaleOutcome]) -> Vec<SaleNews> {
        let mut all: Vec<SaleNews> = Vec::new();
        for latest in outcomes.iter().filter_map(|outcome| self.decided_one(outcome)) {
            match all.iter_mut().find(|earlier| earlier.status.terms.sale == latest.status.terms.sale) {
                Some(earlier) => {
                    earlier.status = latest.status;
                    earlier.accepted.extend(latest.accepted);
                }
                None => all.push(latest),
            }
        }
        all
    }

    /// None if nothing was decided, or the listener may not hear it yet.
    fn decided_one(&self, outcome: &SaleOutcome) -> Option<SaleNews> {
        let known = outcome.sale.filter(|known| known.position() > outcome.before)?;
        let (node, before, accepted) = (self.node, outcome.before, outcome.accepted.clone());
        let message = NodeMessage { node, before, known, accepted };
        let news = self.hear(&message);
        // If too many wait, the others find out when they poll.
        let _ = self.untold.try_send(message);
        news
    }

    /// What the listener may hear after this message: its keys, and the sale's status up to the first gap.
    /// None if the listener has to hear the whole sale first, or the message is outdated.
    fn hear(&self, NodeMessage { before, known, accepted, .. }: &NodeMessage) -> Option<SaleNews> {
        let (sale, status) = (known.sale(), known.status);
        let mut coverage = self.coverage.lock();
        let fit = match coverage.get_mut(&sale) {
            Some(known) => Some(known.hear(*before, status)),
            // Its history begins here.
            None if *before == 0 => {
                coverage.insert(sale, Coverage::new(status));
                Some(NewsFit::Known(status))
            }
            None => None,
        };
        if matches!(fit, None | Some(NewsFit::NewHistory(_))) {
            self.look.notify_one();
        }
        match fit? {
            NewsFit::Known(status) | NewsFit::Gap(status) | NewsFit::NewHistory(status) => {
                Some(SaleNews { status, accepted: accepted.clone() })
            }
            NewsFit::Outdated => None,
        }
    }

    pub(super) fn tell_listener(&self, news: SaleNews) {
        self.listener.sales_changed(&[news]);
    }

    pub(super) fn take_message(&self, payload: &[u8]) {
        match unpack_message(payload) {
            Ok(message) if message.node == self.node => {}
            Ok(message) => {
                self.store.sales.learn(message.known);
                if let Some(news) = self.hear(&message) {
                    self.tell_listener(news);
                }
            }
            Err(error) => tracing::warn!(%error, "a message from another node can't be read"),
        }
    }

    /// Notes that everything up to `status` was heard, and returns the status that may be told.
    pub(super) fn cover(&self, status: SaleStatus) -> SaleStatus {
        let mut coverage = self.coverage.lock();
        let known = coverage.entry(status.terms.sale).or_insert_with(|| Coverage::new(status));
        known.reach(status);
        known.status()
    }

    pub(super) fn forget(&self, sale: SaleId) {
        self.store.sales.forget(sale);
        self.coverage.lock().remove(&sale);
    }
}
