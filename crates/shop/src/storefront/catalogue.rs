//! Items and sales for readers: from this node's memory, else from the cache that the nodes share, else from
//! the records. Code that is about to change something asks the records themselves.

use std::{
    collections::HashMap,
    fmt::Display,
    future::Future,
    hash::Hash,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use penstock_domain::{ItemId, SaleId, Timestamp};
use penstock_ledger::Clock;
use penstock_records::{Item, Records, RecordsError, SaleRow};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    loads::Loads,
    local_cache::{LocalCache, jittered},
};
use crate::ports::{CacheAway, Kept, SharedCache};

/// The most memory a node uses for each.
const MAX_ITEM_BYTES: u64 = 64 << 20;
const MAX_SALE_BYTES: u64 = 8 << 20;
const MAX_PAGE_BYTES: u64 = 64 << 20;
/// With fewer items on pages, items that have left all pages are not looked for.
const FEW_ITEMS: usize = 10_000;
/// How long the shared cache keeps something: as long as a database might be away.
const SHARED_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);
/// Older values are read from the records again, and used only if those are away: a node that died between
/// changing something and announcing it leaves a stale value behind.
const SHARED_FRESH_MILLIS: i64 = 5 * 60 * 1000;
/// For this long after a change, the shared cache takes no value: it might have been read before the change.
const CLOSED_FOR: Duration = Duration::from_secs(5);
/// A value that took longer to read is not put there. By then the cache may take values again, and this one
/// may be stale.
const MAX_READ_TIME: Duration = Duration::from_secs(3);

/// Something that can be looked up by its id.
trait Entity: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    type Id: Copy + Eq + Hash + Display + Send + Sync + 'static;
    /// The prefix of its keys in the shared cache. It has to change when the fields change.
    const KIND: &str;

    fn read(
        records: &Records,
        id: Self::Id,
    ) -> impl Future<Output = Result<Option<Self>, RecordsError>> + Send;
}

impl Entity for Item {
    type Id = ItemId;
    const KIND: &str = "item1";

    async fn read(records: &Records, id: ItemId) -> Result<Option<Self>, RecordsError> {
        records.item(id).await
    }
}

impl Entity for SaleRow {
    type Id = SaleId;
    const KIND: &str = "sale1";

    async fn read(records: &Records, id: SaleId) -> Result<Option<Self>, RecordsError> {
        records.sale(id).await
    }
}

fn key<E: Entity>(id: E::Id) -> String {
    format!("{}:{id}", E::KIND)
}

/// A value in the shared cache.
#[derive(Serialize, Deserialize)]
struct Written<E> {
    read_at: Timestamp,
    value: E,
}

/// On whose behalf the records are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    /// Anybody. They wait for one of a few turns, because anybody can ask for anything.
    Anybody,
    /// The shop itself, which does not wait behind them.
    Shop,
}

/// How often each level was asked, and with what result.
#[derive(Debug, Default)]
pub struct CatalogueStats {
    pub local_hits: AtomicU64,
    pub local_misses: AtomicU64,
    pub shared_hits: AtomicU64,
    pub shared_misses: AtomicU64,
    pub shared_failures: AtomicU64,
    pub records_loads: AtomicU64,
    pub records_failures: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

#[derive(Default)]
struct OnPages {
    items: HashMap<ItemId, Weak<Item>>,
    /// How many there were after the last tidying.
    last_kept: usize,
}

impl OnPages {
    /// The same item as on another page, if it has not changed since.
    fn share(&mut self, item: Item) -> Arc<Item> {
        let known = self.items.get(&item.id).and_then(Weak::upgrade).filter(|known| **known == item);
        known.unwrap_or_else(|| {
            let item = Arc::new(item);
            self.items.insert(item.id, Arc::downgrade(&item));
            item
        })
    }

    /// Drops the items that are no longer on any page. Looks through all of them only when they have doubled
    /// since the last time.
    fn tidy(&mut self) {
        if self.items.len() > 2 * self.last_kept.max(FEW_ITEMS) {
            self.items.retain(|_, item| item.strong_count() > 0);
            self.last_kept = self.items.len();
        }
    }
}

fn bytes_of(item: &Item) -> usize {
    let picture = item.picture.as_ref().map_or(0, String::len);
    size_of::<Item>() + item.title.len() + item.description.len() + picture
}

pub struct Catalogue {
    records: Records,
    shared: Arc<dyn SharedCache>,
    clock: Clock,
    items: LocalCache<ItemId, Item>,
    sales: LocalCache<SaleId, SaleRow>,
    pages: LocalCache<(Option<ItemId>, u32), Vec<Arc<Item>>>,
    /// The items that are on some page. A client chooses where a page begins and ends, and may read it
    /// slowly, so pages share their items.
    on_pages: Mutex<OnPages>,
    loads: Arc<Loads>,
    pub stats: CatalogueStats,
}

impl Catalogue {
    pub fn new(records: Records, shared: Arc<dyn SharedCache>, clock: Clock, loads: Arc<Loads>) -> Self {
        Self {
            records,
            shared,
            clock,
            items: LocalCache::new(MAX_ITEM_BYTES, bytes_of),
            sales: LocalCache::new(MAX_SALE_BYTES, |_| size_of::<SaleRow>()),
            pages: LocalCache::new(MAX_PAGE_BYTES, |page| page.iter().map(|item| bytes_of(item)).sum()),
            on_pages: Mutex::default(),
            loads,
            stats: CatalogueStats::default(),
        }
    }

    /// Whether there is a level between this node and the records.
    pub fn is_shared(&self) -> bool {
        self.shared.is_shared()
    }

    /// An item that the shop itself needs: for a sale, or for an order.
    pub async fn item(&self, id: ItemId) -> Result<Option<Arc<Item>>, Arc<RecordsError>> {
        self.find(&self.items, id, Asking::Shop).await
    }

    /// An item that anybody asks for.
    pub async fn item_for_anybody(&self, id: ItemId) -> Result<Option<Arc<Item>>, Arc<RecordsError>> {
        self.find(&self.items, id, Asking::Anybody).await
    }

    pub async fn sale(&self, id: SaleId) -> Result<Option<Arc<SaleRow>>, Arc<RecordsError>> {
        self.find(&self.sales, id, Asking::Shop).await
    }

    /// A page of items, newest first, for anybody; only in this node's memory.
    pub async fn items(
        &self,
        after: Option<ItemId>,
        limit: u32,
    ) -> Result<Arc<Vec<Arc<Item>>>, Arc<RecordsError>> {
        let key = (after, limit);
        if let Some(Some(page)) = self.pages.get(&key).await {
            count(&self.stats.local_hits);
            return Ok(page);
        }
        count(&self.stats.local_misses);
        let load = async || {
            let items = self.load(Asking::Anybody, self.records.items(after, limit)).await?;
            Ok(Some(self.shared_by_pages(items)))
        };
        Ok(self.pages.load(key, load).await?.unwrap_or_default())
    }

    fn shared_by_pages(&self, items: Vec<Item>) -> Vec<Arc<Item>> {
        let mut on_pages = self.on_pages.lock();
        on_pages.tidy();
        items.into_iter().map(|item| on_pages.share(item)).collect()
    }

    async fn find<E: Entity>(
        &self,
        local: &LocalCache<E::Id, E>,
        id: E::Id,
        asking: Asking,
    ) -> Result<Option<Arc<E>>, Arc<RecordsError>> {
        if let Some(known) = local.get(&id).await {
            count(&self.stats.local_hits);
            return Ok(known);
        }
        count(&self.stats.local_misses);
        local.load(id, || self.load_shared(id, asking)).await
    }

    /// From the shared cache, or from the records and into the shared cache.
    async fn load_shared<E: Entity>(&self, id: E::Id, asking: Asking) -> Result<Option<E>, RecordsError> {
        if !self.shared.is_shared() {
            return self.load(asking, E::read(&self.records, id)).await;
        }
        let key = key::<E>(id);
        let began = Instant::now();
        let now = (self.clock)();
        let (kept, may_put) = match self.shared.get(&key).await {
            Ok(Kept::Value(bytes)) => (serde_json::from_slice::<Written<E>>(&bytes).ok(), true),
            Ok(Kept::Nothing) => (None, true),
            Ok(Kept::Removed) => (None, false),
            Err(error) => {
                self.shared_failed(&error);
                (None, false)
            }
        };
        let is_fresh = |written: &Written<E>| {
            now.as_millis().abs_diff(written.read_at.as_millis()) <= SHARED_FRESH_MILLIS.unsigned_abs()
        };
        let stale = match kept {
            Some(written) if is_fresh(&written) => {
                count(&self.stats.shared_hits);
                return Ok(Some(written.value));
            }
            Some(written) => Some(written.value),
            None => None,
        };
        count(&self.stats.shared_misses);
        let value = match (self.load(asking, E::read(&self.records, id)).await, stale) {
            (Err(RecordsError::Unavailable(_)), Some(stale)) => return Ok(Some(stale)),
            (read, _) => read?,
        };
        if let Some(value) = value.as_ref().filter(|_| may_put && began.elapsed() < MAX_READ_TIME) {
            self.put(&key, value, now).await;
        }
        Ok(value)
    }

    async fn put<E: Entity>(&self, key: &str, value: &E, read_at: Timestamp) {
        let written = Written { read_at, value };
        let Ok(bytes) = serde_json::to_vec(&written) else { return };
        if let Err(error) = self.shared.put(key, bytes, jittered(SHARED_LIFE)).await {
            self.shared_failed(&error);
        }
    }

    /// Puts a sale and its item where every node finds them, because many will soon ask for them. Both were
    /// just read from the records.
    pub async fn preload(&self, row: &SaleRow, item: &Item) {
        if self.shared.is_shared() {
            let now = (self.clock)();
            self.put(&key::<SaleRow>(row.id), row, now).await;
            self.put(&key::<Item>(item.id), item, now).await;
        }
    }

    /// An item was created: cached pages and the knowledge that it did not exist no longer hold.
    pub async fn item_made(&self, id: ItemId) {
        self.items.changed(&id).await;
        self.pages.everything_changed();
    }

    /// An item was changed in the records: values read earlier no longer hold. False if the shared cache may
    /// still have one.
    pub async fn item_changed(&self, id: ItemId) -> bool {
        let removed = self.shared.remove(&key::<Item>(id), CLOSED_FOR).await;
        self.item_made(id).await;
        removed.inspect_err(|error| self.shared_failed(error)).is_ok()
    }

    /// The item as it is in the records now.
    pub async fn reload_item(&self, id: ItemId) -> Result<Option<Arc<Item>>, Arc<RecordsError>> {
        self.items.load(id, async || self.load(Asking::Shop, self.records.item(id)).await).await
    }

    /// A sale was published. Its row never changes from then on, so the shared cache can't be wrong.
    pub async fn sale_published(&self, id: SaleId) {
        self.sales.changed(&id).await;
    }

    /// Forgets everything that this node has cached.
    pub fn everything_changed(&self) {
        self.items.everything_changed();
        self.sales.everything_changed();
        self.pages.everything_changed();
    }

    async fn load<T>(
        &self,
        asking: Asking,
        question: impl Future<Output = Result<T, RecordsError>>,
    ) -> Result<T, RecordsError> {
        let loaded = match asking {
            Asking::Anybody => self.loads.read(question).await,
            Asking::Shop => question.await,
        };
        count(if loaded.is_ok() { &self.stats.records_loads } else { &self.stats.records_failures });
        loaded
    }

    fn shared_failed(&self, error: &CacheAway) {
        count(&self.stats.shared_failures);
        tracing::debug!(%error, "the shared cache can't be used; the catalogue goes on without it");
    }
}

#[cfg(test)]
mod tests {
    use penstock_domain::Money;

    use super::*;

    fn item(id: u64) -> Item {
        Item {
            id: ItemId::from_random(id),
            title: "Kettle".to_owned(),
            description: String::new(),
            picture: None,
            regular_price: Money::parse("19.90", "EUR").unwrap(),
            created_at: Timestamp::from_millis(0),
        }
    }

    #[test]
    fn pages_share_their_items_and_items_on_no_page_are_forgotten() {
        let mut on_pages = OnPages::default();
        let page: Vec<Arc<Item>> = (0..200).map(|id| on_pages.share(item(id))).collect();
        assert!(Arc::ptr_eq(&page[7], &on_pages.share(item(7))));
        let changed = Item { title: "Teapot".to_owned(), ..item(7) };
        assert_eq!(on_pages.share(changed).title, "Teapot");
        for id in 0..100_000 {
            on_pages.tidy();
            on_pages.share(item(id));
        }
        assert!(on_pages.items.len() <= 2 * FEW_ITEMS + 1, "{}", on_pages.items.len());
        assert!(Arc::ptr_eq(&page[8], &on_pages.share(item(8))), "still on a page");
    }
}
