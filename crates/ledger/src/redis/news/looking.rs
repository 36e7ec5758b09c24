//! Looks regularly for news that this node has missed, and acts on what it finds: reads the missed part from
//! the feed, adopts sales without a home, forgets sales that are gone.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use penstock_domain::{KeyDigest, SaleId, SaleStatus};
use tokio::time::{sleep, timeout};

use super::{
    coverage::Coverage,
    hearing::News,
    polling::{Asking, Found, Poller},
};
use crate::{
    SaleNews, Unavailable,
    batcher::or_abort,
    redis::{
        feed::read_entries,
        layout::{FoundSale, epoch_of_version, position_of_version},
    },
};

/// How often a node polls.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Messages that are under way arrive within this time. Only what is missing afterwards is read.
const ON_ITS_WAY: Duration = Duration::from_millis(50);
/// How long to wait before trying again to adopt a sale.
const ADOPTION_INTERVAL: Duration = Duration::from_secs(1);
/// Entries of a feed read in one call.
const ENTRIES_AT_ONCE: usize = 64;

pub(super) async fn poll(news: Arc<News>) {
    let poller = Poller::new(news.store.clone());
    let list: Arc<str> = news.store.keys.sales().into();
    loop {
        // A nudge ends the wait early.
        let _ = timeout(POLL_INTERVAL, news.look.notified()).await;
        news.coverage.lock().retain(|sale, _| poller.may_know(*sale));
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

async fn look_at_list(news: Arc<News>, poller: Arc<Poller>, asking: Asking) {
    let has_changed = poller.list().await.unwrap_or_else(|error| {
        tracing::debug!(%error, "the list of all sales can't be read");
        false
    });
    if asking.end() || has_changed {
        news.look.notify_one();
    }
}

async fn look_at_master(
    news: Arc<News>,
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
        news.look.notify_one();
    }
    if let Err(error) = poller.list_again(&found).await {
        tracing::debug!(%error, "the list of all sales can't be repaired");
    }
    news.take(found).await;
}

impl News {
    /// Acts on what a poll has found.
    async fn take(self: &Arc<Self>, found: Vec<Found>) {
        let mut homed = Vec::new();
        for found in found {
            match found {
                Found::Homed(known) => {
                    self.store.sales.learn(known);
                    homed.push(known);
                }
                Found::Unhomed(sale) => self.adopt(sale, false),
                Found::Missing(sale) => self.adopt(sale, true),
                Found::Forgotten(sale) => self.forget(sale),
            }
        }
        sleep(ON_ITS_WAY).await;
        for found in homed {
            if self.has_missed(found) && self.reading.lock().insert(found.sale()) {
                spawn_or_abort(self.clone().read_missed(found));
            }
        }
    }

    fn has_missed(&self, found: FoundSale) -> bool {
        let coverage = self.coverage.lock();
        coverage.get(&found.sale()).is_none_or(|known| known.status().version < found.status.version)
    }

    async fn read_missed(self: Arc<Self>, found: FoundSale) {
        let room = self.room.acquire().await;
        if let Err(error) = self.catch_up(found).await {
            tracing::debug!(sale = %found.sale(), %error, "missed news of a sale can't be read yet");
        }
        drop(room);
        self.reading.lock().remove(&found.sale());
    }

    /// Reads what this node has missed up to what was found, and tells the listener.
    async fn catch_up(&self, found: FoundSale) -> Result<(), Unavailable> {
        let sale = found.sale();
        let wants_keys = self.listener.wants_keys();
        let known = self.coverage.lock().get(&sale).map(Coverage::status);
        let common = match known {
            Some(known) if wants_keys => self.common(known, &found).await?,
            _ => None,
        };
        let missed = match common {
            Some(position) => self.keys_after(sale, position, found.position()).await?,
            None => None,
        };
        let accepted = match missed {
            Some(accepted) => accepted,
            None if found.forgotten || !wants_keys => Vec::new(),
            None => self.store.accepted_keys(sale).await?,
        };
        if !self.store.is_same_history(&found).await? {
            return Err(Unavailable::new("the sale's server was replaced meanwhile"));
        }
        let status = self.cover(found.status);
        self.tell_listener(SaleNews { status, accepted });
        Ok(())
    }

    /// The last position up to which the history that this node has heard agrees with the one that was found;
    /// None if they may differ.
    async fn common(&self, known: SaleStatus, found: &FoundSale) -> Result<Option<u64>, Unavailable> {
        let (epoch, position) = (epoch_of_version(known.version), position_of_version(known.version));
        if epoch == found.epoch() {
            return Ok(Some(position));
        }
        let lineage = self.store.lineage(found.sale()).await?;
        Ok((position <= found.position() && lineage.contains(epoch, position)).then_some(position))
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
            let entries = read_entries(&self.store, sale, reached + 1, ENTRIES_AT_ONCE).await?;
            if entries.is_empty() {
                return Ok(None);
            }
            for entry in entries {
                if entry.first > reached + 1 {
                    return Ok(None);
                }
                let new = entry.decisions.iter().filter(|decision| decision.position > reached);
                accepted.extend(new.filter_map(|decision| decision.event.claimed_key()));
                reached = entry.last;
            }
        }
        Ok(Some(accepted))
    }

    /// Gives the sale a home in the background.
    fn adopt(self: &Arc<Self>, sale: SaleId, is_missing: bool) {
        if !self.adopting.lock().insert(sale) {
            return;
        }
        let news = self.clone();
        tokio::spawn(async move {
            match news.adoption.adopt(sale).await {
                Ok(()) => {
                    // If the records had it, it is found again like a new sale.
                    if is_missing {
                        news.forget(sale);
                    }
                    news.look.notify_one();
                }
                Err(error) => {
                    tracing::warn!(%sale, %error, "a sale has no home yet");
                    sleep(ADOPTION_INTERVAL).await;
                }
            }
            news.adopting.lock().remove(&sale);
        });
    }
}

/// A panic of the listener ends the process here, too, as it does in the writer.
pub(super) fn spawn_or_abort(work: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(async move {
        if AssertUnwindSafe(work).catch_unwind().await.is_err() {
            or_abort("the news between nodes", || std::panic::resume_unwind(Box::new("it panicked")));
        }
    });
}
