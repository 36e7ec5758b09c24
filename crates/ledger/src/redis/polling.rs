//! Polls all sales in Redis: their status, whether their servers may decide them, and whether there are new
//! ones.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::{HashMap, HashSet};
use penstock_domain::{SaleId, SaleTerms};
use redis::Value;

use super::{
    codec::Counts,
    coverage::Lineage,
    keys::Keys,
    link::{Link, answered},
    options::LinkError,
    sales::Sales,
    stored::{SALE_FIELDS, Stored},
};

/// The list of all sales is read when its length has changed, and at least once in this many looks.
const LISTING_INTERVAL_LOOKS: u32 = 20;
/// Sales that are read in one round trip.
const SALES_AT_ONCE: usize = 500;

/// What a look found out about one sale.
#[derive(Clone, Debug)]
pub(super) enum Found {
    Homed(SaleTerms, Counts),
    /// Its server may not decide it until it was compared with the records.
    Unhomed(SaleId),
    /// It was here and is gone.
    Missing(SaleId),
    /// It was closed long ago and is only in the records.
    Forgotten(SaleId),
}

/// Whether the sale still has the history that it had at `counts`. If so, everything that was read since
/// belongs to that history, not to another one on a server that took over meanwhile.
pub(super) async fn is_same_history(
    link: &Link,
    keys: &Keys,
    sale: SaleId,
    counts: &Counts,
) -> Result<bool, LinkError> {
    let key = keys.sale(sale);
    let mut question = redis::cmd("HMGET");
    question.arg(&key).arg("epoch").arg("position");
    let (epoch, position): (Option<u32>, Option<u64>) = link.call(&key, question).await?;
    Ok(epoch == Some(counts.epoch) && position >= Some(counts.position))
}

/// What the sale's epochs have in common, as adopt.lua writes it.
pub(super) async fn lineage(link: &Link, keys: &Keys, sale: SaleId) -> Result<Lineage, LinkError> {
    let key = keys.sale(sale);
    let mut question = redis::cmd("HGET");
    question.arg(&key).arg("lineage");
    let text: Option<String> = link.call(&key, question).await?;
    Ok(Lineage::parse(&text.unwrap_or_default()))
}

/// Looks at the sales of each master separately, so that a silent one does not keep the others from being
/// heard.
pub(super) struct Poller {
    link: Link,
    keys: Keys,
    sales: Arc<Sales>,
    listing: Mutex<Listing>,
    /// What is being asked at the moment (masters and the list), and whether another look was requested
    /// meanwhile.
    busy: Mutex<HashMap<Arc<str>, bool>>,
}

/// The list of all sales, as it was last read. While its server is away, the other servers are polled by this
/// copy.
#[derive(Default)]
struct Listing {
    /// None until the first read.
    sales: Option<HashSet<SaleId>>,
    looks: u32,
}

impl Listing {
    fn may_have(&self, sale: SaleId) -> bool {
        self.sales.as_ref().is_none_or(|sales| sales.contains(&sale))
    }
}

/// A look that is under way until this is dropped.
pub(super) struct Asking {
    poller: Arc<Poller>,
    whom: Arc<str>,
}

impl Asking {
    /// True if another look was requested meanwhile.
    pub(super) fn end(self) -> bool {
        locked(&self.poller.busy).get(&self.whom).copied().unwrap_or(false)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        locked(&self.poller.busy).remove(&self.whom);
    }
}

impl Poller {
    pub(super) fn new(link: Link, keys: Keys, sales: Arc<Sales>) -> Self {
        Self { link, keys, sales, listing: Mutex::default(), busy: Mutex::default() }
    }

    /// None if a look is under way already.
    pub(super) fn begin(self: &Arc<Self>, whom: &Arc<str>) -> Option<Asking> {
        let mut busy = locked(&self.busy);
        if let Some(again) = busy.get_mut(whom) {
            *again = true;
            return None;
        }
        busy.insert(whom.clone(), false);
        Some(Asking { poller: self.clone(), whom: whom.clone() })
    }

    /// The sales to look at, by master. A slot without a master is skipped until it has one again.
    pub(super) fn by_master(&self) -> HashMap<Arc<str>, Vec<SaleId>> {
        let mut sales: HashSet<SaleId> = self.sales.remembered().into_iter().collect();
        sales.extend(locked(&self.listing).sales.iter().flatten());
        let mut by_master: HashMap<Arc<str>, Vec<SaleId>> = HashMap::new();
        for sale in sales {
            if let Some(master) = self.link.master_of(&self.keys.sale(sale)) {
                by_master.entry(master).or_default().push(sale);
            }
        }
        by_master
    }

    /// Whether this node knows the sale, or may still find it in the list.
    pub(super) fn may_know(&self, sale: SaleId) -> bool {
        self.sales.counts(sale).is_some() || locked(&self.listing).may_have(sale)
    }

    /// Looks at these sales of one master.
    pub(super) async fn look(&self, master: &str, sales: &[SaleId]) -> Result<Vec<Found>, LinkError> {
        let known: HashSet<SaleId> = self.sales.remembered().into_iter().collect();
        let mut found = Vec::new();
        for sales in sales.chunks(SALES_AT_ONCE) {
            found.extend(self.look_at(master, sales, &known).await?);
        }
        Ok(found)
    }

    /// Puts found sales back on the list. The list may have been lost with its server while the sales were
    /// not; then new nodes would not find them.
    pub(super) async fn list_again(&self, found: &[Found]) -> Result<(), LinkError> {
        let names: Vec<String> = {
            let listing = locked(&self.listing);
            let unlisted = found.iter().filter_map(|found| match found {
                Found::Homed(terms, counts) if !counts.forgotten => Some(terms.sale),
                _ => None,
            });
            unlisted.filter(|sale| !listing.may_have(*sale)).map(|sale| sale.to_string()).collect()
        };
        if names.is_empty() {
            return Ok(());
        }
        let key = self.keys.sales();
        let mut add = redis::cmd("SADD");
        add.arg(&key).arg(&names);
        self.link.call::<u64>(&key, add).await?;
        Ok(())
    }

    /// Reads the list of all sales if its length has changed or it is time. True if the list has changed.
    pub(super) async fn list(&self) -> Result<bool, LinkError> {
        let key = self.keys.sales();
        let mut count = redis::cmd("SCARD");
        count.arg(&key);
        let count: usize = self.link.call(&key, count).await?;
        let is_time = {
            let mut listing = locked(&self.listing);
            let is_time = listing.looks.is_multiple_of(LISTING_INTERVAL_LOOKS);
            listing.looks = listing.looks.wrapping_add(1);
            is_time || listing.sales.as_ref().is_none_or(|sales| sales.len() != count)
        };
        if !is_time {
            return Ok(false);
        }
        let mut members = redis::cmd("SMEMBERS");
        members.arg(&key);
        let names: Vec<String> = self.link.call(&key, members).await?;
        let listed: Option<HashSet<SaleId>> =
            Some(names.iter().filter_map(|name| name.parse().ok()).collect());
        let mut listing = locked(&self.listing);
        let has_changed = listing.sales != listed;
        listing.sales = listed;
        Ok(has_changed)
    }

    async fn look_at(
        &self,
        master: &str,
        sales: &[SaleId],
        known: &HashSet<SaleId>,
    ) -> Result<Vec<Found>, LinkError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("INFO").arg("replication");
        for sale in sales {
            pipeline.cmd("HMGET").arg(self.keys.sale(*sale)).arg(&SALE_FIELDS);
        }
        let mut answers = self.link.send_to(master, &pipeline).await?.into_iter();
        let info: String = answered(master, answers.next())?;
        let home = info.lines().find_map(|line| line.strip_prefix("master_replid:")).unwrap_or("").trim();
        let found = sales.iter().zip(answers).filter_map(|(sale, answer)| {
            // A slot that has just moved is looked at on its new server next time.
            let Value::Array(fields) = answer else { return None };
            match Stored::read(*sale, &fields) {
                Ok(Some(stored)) => Some(self.judge(&stored, home)),
                Ok(None) => known.contains(sale).then_some(Found::Missing(*sale)),
                Err(error) => {
                    tracing::warn!(%sale, %error, "a sale in Redis is damaged");
                    None
                }
            }
        });
        Ok(found.collect())
    }

    fn judge(&self, stored: &Stored, home: &str) -> Found {
        let sale = stored.terms.sale;
        if stored.counts.forgotten && !locked(&self.listing).may_have(sale) {
            Found::Forgotten(sale)
        } else if stored.counts.forgotten || stored.home == home && !self.sales.is_doubted(sale) {
            Found::Homed(stored.terms, stored.counts)
        } else {
            Found::Unhomed(sale)
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
