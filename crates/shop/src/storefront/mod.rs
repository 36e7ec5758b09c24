//! The published sales as buyers see them, in memory. It joins the ledger's news with the records' details.
//! Readers take no lock.

mod catalogue;
mod loads;
mod local_cache;
mod pictures;
mod shelf;
mod writing;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use arc_swap::ArcSwap;
use futures_util::{StreamExt as _, stream};
use hashbrown::HashMap;
use parking_lot::Mutex;
use penstock_domain::{ItemId, SaleId, Timestamp};
use penstock_ledger::{Listener, SaleNews};
use penstock_records::{Item, Records, RecordsError, SaleRow};

pub use self::{
    catalogue::{Catalogue, CatalogueStats},
    loads::Loads,
    pictures::{PictureCache, PictureRefusal},
    shelf::{Details, Shelf},
    writing::{OrderForm, SaleFacts, Scribe, WrittenSale},
};
use crate::tally::{SaleTally, Tally};

/// How many sales are read from the records in one page.
const LOAD_PAGE: u32 = 500;
/// How many single sales are loaded at once.
const LOADS_AT_ONCE: usize = 16;

#[derive(Default)]
struct Shelves {
    by_id: HashMap<SaleId, Arc<Shelf>>,
}

/// All sales that were ever published.
pub struct Storefront {
    shelves: ArcSwap<Shelves>,
    /// Held while a shelf is added.
    adding: Mutex<()>,
    /// The state of the sales is unknown.
    is_dark: AtomicBool,
    scribe: Arc<dyn Scribe>,
}

impl Storefront {
    pub fn new(scribe: impl Scribe) -> Arc<Self> {
        Arc::new(Self {
            shelves: ArcSwap::default(),
            adding: Mutex::default(),
            is_dark: AtomicBool::new(false),
            scribe: Arc::new(scribe),
        })
    }

    pub fn shelf(&self, sale: SaleId) -> Option<Arc<Shelf>> {
        self.shelves.load().by_id.get(&sale).cloned()
    }

    /// Passes on the sale's shelf without touching a reference count that all cores share.
    pub fn with_shelf<T>(&self, sale: SaleId, see: impl FnOnce(&Arc<Shelf>) -> T) -> Option<T> {
        self.shelves.load().by_id.get(&sale).map(see)
    }

    /// The counters of a sale for the worker with this tally.
    pub fn sale_tally(&self, sale: SaleId, tally: &Tally) -> Option<Arc<SaleTally>> {
        self.with_shelf(sale, |shelf| Arc::clone(shelf.tallies.of(tally)))
    }

    /// Passes on a sale if it is on show.
    pub fn with_sale<T>(
        &self,
        sale: SaleId,
        now: Timestamp,
        see: impl FnOnce(&WrittenSale) -> T,
    ) -> Option<T> {
        if self.is_dark() {
            return None;
        }
        self.shelves.load().by_id.get(&sale)?.with_written(now, see)
    }

    /// Hides all sales, or shows them again.
    pub fn darken(&self, is_dark: bool) {
        self.is_dark.store(is_dark, Relaxed);
    }

    /// Whether nothing is shown because it may be out of date.
    pub fn is_dark(&self) -> bool {
        self.is_dark.load(Relaxed)
    }

    /// Every known sale.
    pub fn all(&self) -> Vec<Arc<Shelf>> {
        self.shelves.load().by_id.values().cloned().collect()
    }

    /// The sales that buyers see, newest first.
    pub fn on_show(&self) -> Vec<Arc<Shelf>> {
        let shelves = self.shelves.load();
        let mut on_show: Vec<(Timestamp, Arc<Shelf>)> = shelves
            .by_id
            .values()
            .filter(|shelf| shelf.is_on_show())
            .filter_map(|shelf| Some((shelf.details()?.row.created_at, Arc::clone(shelf))))
            .collect();
        on_show.sort_unstable_by_key(|(created_at, shelf)| std::cmp::Reverse((*created_at, shelf.id)));
        on_show.into_iter().map(|(_, shelf)| shelf).collect()
    }

    fn shelf_or_new(&self, sale: SaleId) -> Arc<Shelf> {
        if let Some(shelf) = self.shelf(sale) {
            return shelf;
        }
        let _adding = self.adding.lock();
        if let Some(shelf) = self.shelf(sale) {
            return shelf;
        }
        let shelf = Arc::new(Shelf::new(sale, Arc::clone(&self.scribe)));
        let mut by_id = self.shelves.load().by_id.clone();
        by_id.insert(sale, Arc::clone(&shelf));
        self.shelves.store(Arc::new(Shelves { by_id }));
        shelf
    }

    /// Adds the records' part of a sale. Buyers see the sale once the ledger has it, too.
    pub fn put(&self, row: SaleRow, item: Item) -> Arc<Shelf> {
        let shelf = self.shelf_or_new(row.id);
        shelf.put_details(row, item);
        shelf
    }

    /// Shows the current item wherever it is on sale.
    pub fn item_changed(&self, item: &Item) {
        let is_behind = |details: &Arc<Details>| details.item.id == item.id && details.item != *item;
        for shelf in self.shelves.load().by_id.values() {
            if let Some(details) = shelf.details().filter(is_behind) {
                shelf.put_details(details.row.clone(), item.clone());
            }
        }
    }

    /// Sales that the ledger has announced but whose details are not loaded.
    pub fn incomplete(&self) -> Vec<SaleId> {
        let shelves = self.shelves.load();
        let lacking = shelves.by_id.values().filter(|shelf| !shelf.has_details());
        lacking.map(|shelf| shelf.id).collect()
    }

    /// Loads the details of all published sales.
    pub async fn load(&self, records: &Records) -> Result<(), RecordsError> {
        let mut items: HashMap<ItemId, Item> = HashMap::new();
        let mut after = None;
        loop {
            let rows = records.sales(true, after, LOAD_PAGE).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = Some(last.id);
            for row in rows {
                self.load_one(records, row, &mut items).await?;
            }
        }
    }

    /// Loads the missing details, for example of a sale that another node has published. A failure does not
    /// hold up other sales.
    pub async fn complete(&self, catalogue: &Catalogue) -> Result<(), Arc<RecordsError>> {
        let loads = self.incomplete().into_iter().map(|sale| self.load_from(catalogue, sale));
        let loads: Vec<_> = stream::iter(loads).buffer_unordered(LOADS_AT_ONCE).collect().await;
        loads.into_iter().collect()
    }

    /// Adds the catalogue's part of a sale.
    pub async fn load_from(&self, catalogue: &Catalogue, sale: SaleId) -> Result<(), Arc<RecordsError>> {
        if let Some(row) = catalogue.sale(sale).await?
            && let Some(item) = catalogue.item(row.item_id).await?
        {
            self.put(SaleRow::clone(&row), Item::clone(&item));
        }
        Ok(())
    }

    async fn load_one(
        &self,
        records: &Records,
        row: SaleRow,
        items: &mut HashMap<ItemId, Item>,
    ) -> Result<(), RecordsError> {
        if !items.contains_key(&row.item_id)
            && let Some(item) = records.item(row.item_id).await?
        {
            items.insert(row.item_id, item);
        }
        if let Some(item) = items.get(&row.item_id) {
            self.put(row, item.clone());
        }
        Ok(())
    }
}

impl Listener for Storefront {
    fn sales_changed(&self, news: &[SaleNews]) {
        // Loaded once for all of them: there may be a thousand, and the writer waits.
        let shelves = self.shelves.load();
        for news in news {
            match shelves.by_id.get(&news.status.terms.sale) {
                Some(shelf) => shelf.take_news(news),
                None => self.shelf_or_new(news.status.terms.sale).take_news(news),
            }
        }
    }
}

impl fmt::Debug for Storefront {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Storefront").field("sales", &self.shelves.load().by_id.len()).finish()
    }
}
