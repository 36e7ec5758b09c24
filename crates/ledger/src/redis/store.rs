//! What every part of the ledger on Redis works with: the link, the names of the keys, and what this node has
//! heard of all sales. Questions about one sale's history are asked here, too.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use penstock_domain::{KeyDigest, SaleId, Timestamp};
use penstock_redis_client::{Link, LinkError, answered};
use redis::Value;
use tokio::time::Instant;

use super::layout::{Damaged, FoundSale, Keys, Lineage, keys_of_buyer, text};
use crate::Unavailable;

/// Buyers read in one step: a step must not hold up the server.
const BUYERS_AT_ONCE: usize = 2_000;

#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) link: Link,
    pub(crate) keys: Keys,
    pub(crate) sales: Arc<Sales>,
}

impl Store {
    /// The same, with connections on the current runtime.
    pub(crate) fn on_this_runtime(&self) -> Result<Self, LinkError> {
        Ok(Self { link: self.link.on_this_runtime()?, ..self.clone() })
    }

    /// The master that has the sale, as far as it is known without asking.
    pub(crate) fn master_of(&self, sale: SaleId) -> Option<Arc<str>> {
        self.link.master_of(&self.keys.sale(sale))
    }

    /// Groups sales, or what belongs to them, by server as far as is known. A group can be asked in one round
    /// trip.
    pub(crate) fn by_server<T>(&self, all: Vec<T>, sale_of: impl Fn(&T) -> SaleId) -> Vec<Vec<T>> {
        if all.is_empty() || !self.link.is_cluster() {
            return vec![all];
        }
        let mut groups: HashMap<Option<Arc<str>>, Vec<T>> = HashMap::new();
        for one in all {
            groups.entry(self.master_of(sale_of(&one))).or_default().push(one);
        }
        groups.into_values().collect()
    }

    /// Adds sales to the list of all sales, which may be on another server than they are. `confirm`: the
    /// replicas have to confirm it.
    pub(crate) async fn list(
        &self,
        sales: &[SaleId],
        confirm: bool,
        deadline: Instant,
    ) -> Result<(), LinkError> {
        if sales.is_empty() {
            return Ok(());
        }
        let (key, mut pipeline) = (self.keys.sales(), redis::pipe());
        pipeline.sadd(&key, sales.iter().map(SaleId::to_string).collect::<Vec<_>>());
        let answer = self.link.run_by(&key, pipeline, confirm, deadline).await?.pop();
        answered::<u64>(&key, answer).map(drop)
    }

    /// The sales on the list of all sales.
    pub(crate) async fn listed(&self) -> Result<Vec<SaleId>, LinkError> {
        let key = self.keys.sales();
        let mut members = redis::cmd("SMEMBERS");
        members.arg(&key);
        let names: Vec<String> = self.link.call(&key, members).await?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Whether the sale still has the history in which it was found. If so, everything that was read since
    /// belongs to that history, not to another one on a server that took over meanwhile.
    pub(crate) async fn is_same_history(&self, found: &FoundSale) -> Result<bool, LinkError> {
        let key = self.keys.sale(found.sale());
        let mut question = redis::cmd("HMGET");
        question.arg(&key).arg("epoch").arg("position");
        let (epoch, position): (Option<u64>, Option<u64>) = self.link.call(&key, question).await?;
        Ok(epoch == Some(found.epoch()) && position >= Some(found.position()))
    }

    /// What the sale's epochs have in common.
    pub(crate) async fn lineage(&self, sale: SaleId) -> Result<Lineage, LinkError> {
        let key = self.keys.sale(sale);
        let mut question = redis::cmd("HGET");
        question.arg(&key).arg("lineage");
        let text: Option<String> = self.link.call(&key, question).await?;
        Ok(Lineage::parse(&text.unwrap_or_default()))
    }

    /// The keys of all orders of a sale. Keys accepted during the read may be missing.
    pub(crate) async fn accepted_keys(&self, sale: SaleId) -> Result<Vec<KeyDigest>, Unavailable> {
        let (key, mut accepted, mut place) = (self.keys.buyers(sale), Vec::new(), b"0".to_vec());
        loop {
            let mut step = redis::cmd("HSCAN");
            step.arg(&key).arg(&place).arg("COUNT").arg(BUYERS_AT_ONCE);
            let (next, buyers): (Vec<u8>, Vec<Value>) = self.link.call(&key, step).await?;
            for pair in buyers.chunks(2) {
                let [_, entry] = pair else { return Err(Damaged("a buyer without an entry").into()) };
                accepted.extend(keys_of_buyer(text(entry)?)?);
            }
            place = next;
            if place == b"0" {
                return Ok(accepted);
            }
        }
    }
}

/// What this node has heard of all sales. The engine, the feed and the news between nodes share it.

#[derive(Debug, Default)]
pub(crate) struct Sales {
    known: Mutex<HashMap<SaleId, FoundSale>>,
    /// Sales that have a home, but a history that the records can't follow.
    doubted: Mutex<HashSet<SaleId>>,
}

impl Sales {
    /// Remembers the state of a sale, unless a newer one is known.
    pub(crate) fn learn(&self, found: FoundSale) {
        let mut known = self.known.lock();
        let latest = known.entry(found.sale()).or_insert(found);
        // The same version may come with a later due time.
        if found.status.version >= latest.status.version {
            *latest = found;
        }
    }

    pub(crate) fn forget(&self, sale: SaleId) {
        self.known.lock().remove(&sale);
        self.believe(sale);
    }

    /// Marks the sale to be compared with the records again, although it has a home.
    pub(crate) fn doubt(&self, sale: SaleId) {
        self.doubted.lock().insert(sale);
    }

    pub(crate) fn is_doubted(&self, sale: SaleId) -> bool {
        self.doubted.lock().contains(&sale)
    }

    pub(crate) fn believe(&self, sale: SaleId) {
        self.doubted.lock().remove(&sale);
    }

    pub(crate) fn get(&self, sale: SaleId) -> Option<FoundSale> {
        self.known.lock().get(&sale).copied()
    }

    /// All sales whose orders are still in Redis.
    pub(crate) fn remembered(&self) -> Vec<SaleId> {
        let known = self.known.lock();
        known.values().filter(|known| !known.forgotten).map(FoundSale::sale).collect()
    }

    /// The sales without holds that are over at `now`, because their window has ended or they were closed.
    pub(crate) fn over(&self, now: Timestamp) -> Vec<SaleId> {
        let known = self.known.lock();
        let is_over = |FoundSale { status, .. }: &&FoundSale| {
            let has_ended = status.terms.closes_at.is_some_and(|closes_at| closes_at <= now);
            status.held == 0 && (status.closed || has_ended)
        };
        known.values().filter(is_over).map(FoundSale::sale).collect()
    }

    /// The sales that may have overdue holds at `now`, the longest overdue first.
    pub(crate) fn due(&self, now: Timestamp) -> Vec<SaleId> {
        let known = self.known.lock();
        let due = known.values().filter_map(|known| Some((known.due?, known.sale())));
        let mut due: Vec<_> = due.filter(|(due, _)| *due <= now).collect();
        due.sort_unstable();
        due.into_iter().map(|(_, sale)| sale).collect()
    }
}
