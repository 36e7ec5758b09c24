//! Polls all sales in Redis: their status, whether their servers may decide them, and whether there are new
//! ones.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use penstock_domain::SaleId;
use penstock_redis_client::{LinkError, answered};
use redis::{InfoDict, Value};

use crate::redis::{
    layout::{FoundSale, SALE_FIELDS, SaleHash},
    store::Store,
};

/// The list of all sales is read when its length has changed, and at least once in this many looks.
const LISTING_INTERVAL_LOOKS: u32 = 20;
/// Sales that are read in one round trip.
const SALES_AT_ONCE: usize = 500;

/// What a look found out about one sale.
#[derive(Clone, Debug)]
pub(super) enum Found {
    Homed(FoundSale),
    /// Its server may not decide it until it was compared with the records.
    Unhomed(SaleId),
    /// It was here and is gone.
    Missing(SaleId),
    /// It was closed long ago and is only in the records.
    Forgotten(SaleId),
}

/// Looks at the sales of each master separately, so that a silent one does not keep the others from being
/// heard.
pub(super) struct Poller {
    store: Store,
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
        self.poller.busy.lock().get(&self.whom).copied().unwrap_or(false)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.poller.busy.lock().remove(&self.whom);
    }
}

impl Poller {
    pub(super) fn new(store: Store) -> Arc<Self> {
        Arc::new(Self { store, listing: Mutex::default(), busy: Mutex::default() })
    }

    /// None if a look is under way already.
    pub(super) fn begin(self: &Arc<Self>, whom: &Arc<str>) -> Option<Asking> {
        let mut busy = self.busy.lock();
        if let Some(again) = busy.get_mut(whom) {
            *again = true;
            return None;
        }
        busy.insert(whom.clone(), false);
        Some(Asking { poller: self.clone(), whom: whom.clone() })
    }

    /// The sales to look at, by master. A slot without a master is skipped until it has one again.
    pub(super) fn by_master(&self) -> HashMap<Arc<str>, Vec<SaleId>> {
        let mut sales: HashSet<SaleId> = self.store.sales.remembered().into_iter().collect();
        sales.extend(self.listing.lock().sales.iter().flatten());
        let mut by_master: HashMap<Arc<str>, Vec<SaleId>> = HashMap::new();
        for sale in sales {
            if let Some(master) = self.store.master_of(sale) {
                by_master.entry(master).or_default().push(sale);
            }
        }
        by_master
    }

    /// Whether this node knows the sale, or may still find it in the list.
    pub(super) fn may_know(&self, sale: SaleId) -> bool {
        self.store.sales.get(sale).is_some() || self.listing.lock().may_have(sale)
    }

    /// Looks at these sales of one master.
    pub(super) async fn look(&self, master: &str, sales: &[SaleId]) -> Result<Vec<Found>, LinkError> {
        let known: HashSet<SaleId> = self.store.sales.remembered().into_iter().collect();
        let mut found = Vec::new();
        for sales in sales.chunks(SALES_AT_ONCE) {
            found.extend(self.look_at(master, sales, &known).await?);
        }
        Ok(found)
    }

    /// Puts found sales back on the list. The list may have been lost with its server while the sales were
    /// not; then new nodes would not find them.
    pub(super) async fn list_again(&self, found: &[Found]) -> Result<(), LinkError> {
        let unlisted: Vec<SaleId> = {
            let listing = self.listing.lock();
            let unlisted = found.iter().filter_map(|found| match found {
                Found::Homed(known) if !known.forgotten => Some(known.sale()),
                _ => None,
            });
            unlisted.filter(|sale| !listing.may_have(*sale)).collect()
        };
        self.store.list(&unlisted, false, self.store.link.deadline()).await
    }

    /// Reads the list of all sales if its length has changed or it is time. True if the list has changed.
    pub(super) async fn list(&self) -> Result<bool, LinkError> {
        let key = self.store.keys.sales();
        let mut count = redis::cmd("SCARD");
        count.arg(&key);
        let count: usize = self.store.link.call(&key, count).await?;
        let is_time = {
            let mut listing = self.listing.lock();
            let is_time = listing.looks.is_multiple_of(LISTING_INTERVAL_LOOKS);
            listing.looks = listing.looks.wrapping_add(1);
            is_time || listing.sales.as_ref().is_none_or(|sales| sales.len() != count)
        };
        if !is_time {
            return Ok(false);
        }
        let listed: Option<HashSet<SaleId>> = Some(self.store.listed().await?.into_iter().collect());
        let mut listing = self.listing.lock();
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
            pipeline.cmd("HMGET").arg(self.store.keys.sale(*sale)).arg(&SALE_FIELDS);
        }
        let mut answers = self.store.link.send_to(master, &pipeline).await?.into_iter();
        let info: InfoDict = answered(master, answers.next())?;
        let home: String = info.get("master_replid").unwrap_or_default();
        let found = sales.iter().zip(answers).filter_map(|(sale, answer)| {
            // A slot that has just moved is looked at on its new server next time.
            let Value::Array(fields) = answer else { return None };
            match SaleHash::read(*sale, &fields) {
                Ok(Some(stored)) => Some(self.judge(&stored, &home)),
                Ok(None) => known.contains(sale).then_some(Found::Missing(*sale)),
                Err(error) => {
                    tracing::warn!(%sale, %error, "a sale in Redis is damaged");
                    None
                }
            }
        });
        Ok(found.collect())
    }

    fn judge(&self, stored: &SaleHash, home: &str) -> Found {
        let (sale, is_forgotten) = (stored.known.sale(), stored.known.forgotten);
        if is_forgotten && !self.listing.lock().may_have(sale) {
            Found::Forgotten(sale)
        } else if is_forgotten || stored.home == home && !self.store.sales.is_doubted(sale) {
            Found::Homed(stored.known)
        } else {
            Found::Unhomed(sale)
        }
    }
}
