//! The published sales as buyers see them, in memory. It joins the ledger's news with the records' details.
//! Readers take no lock.

use std::{
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use arc_swap::{ArcSwap, ArcSwapOption};
use futures_util::{StreamExt as _, stream};
use hashbrown::HashMap;
use penstock_domain::{ItemId, SaleId, SaleState, SaleStatus, Timestamp};
use penstock_gate::{DrawView, Latch, Shedding};
use penstock_ledger::{Listener, SaleNews};
use penstock_records::{Item, Records, RecordsError, SaleRow};

use crate::{
    catalogue::Catalogue,
    gate::SaleGate,
    sale_tally::{SaleTallies, SaleTally},
    tally::Tally,
    wire::{OrderTemplate, RenderedSale},
};

/// How many sales are read from the records in one page.
const LOAD_PAGE: u32 = 500;
/// How many single sales are loaded at once.
const LOADS_AT_ONCE: usize = 16;

/// Stands for an unknown length of a waitlist.
const UNKNOWN: u64 = u64::MAX;

/// The records' part of a sale.
pub(crate) struct Details {
    pub(crate) row: SaleRow,
    pub(crate) item: Item,
    pub(crate) order_template: OrderTemplate,
}

impl Details {
    pub(crate) fn new(row: SaleRow, item: Item) -> Self {
        let order_template = OrderTemplate::new(&row, &item);
        Self { row, item, order_template }
    }
}

/// One sale. The most frequently used fields come first: there may be more sales than fit into a processor
/// cache.
#[repr(C)]
pub(crate) struct Shelf {
    details: ArcSwapOption<Details>,
    /// Empty until the ledger has announced the sale.
    latch: OnceLock<Latch>,
    /// The limit on claims of the server that decides the sale. Empty until first used.
    pub(crate) limit: ArcSwapOption<Shedding>,
    /// Empty until first used, and for a sale without a gate.
    pub(crate) gate: OnceLock<SaleGate>,
    rendered: ArcSwapOption<RenderedSale>,
    /// The number of people on the waitlist.
    waitlist: AtomicU64,
    /// The outcomes of claims and reads.
    pub(crate) tallies: SaleTallies,
    pub(crate) id: SaleId,
}

impl Shelf {
    fn new(id: SaleId) -> Self {
        Self {
            id,
            latch: OnceLock::new(),
            details: ArcSwapOption::empty(),
            limit: ArcSwapOption::empty(),
            gate: OnceLock::new(),
            rendered: ArcSwapOption::empty(),
            waitlist: AtomicU64::new(UNKNOWN),
            tallies: SaleTallies::default(),
        }
    }

    /// None until the ledger has announced the sale. Until then only the ledger knows.
    pub(crate) fn latch(&self) -> Option<&Latch> {
        self.latch.get()
    }

    pub(crate) fn details(&self) -> Option<Arc<Details>> {
        self.details.load_full()
    }

    /// Passes on the sale as the API shows it, serialised again only if something changed. None if it can't
    /// be shown yet.
    pub(crate) fn with_rendered<T>(&self, now: Timestamp, see: impl FnOnce(&RenderedSale) -> T) -> Option<T> {
        let status = self.latch()?.status();
        let state = status.state(now);
        let (draw, waitlist) = (self.draw(), self.waitlist());
        // No reference is counted, because all cores would contend for the count.
        let rendered = self.rendered.load();
        let is_shown =
            |rendered: &&Arc<RenderedSale>| rendered.shows(status.version, state, draw.as_ref(), waitlist);
        match rendered.as_ref().filter(is_shown) {
            Some(rendered) => Some(see(rendered)),
            None => self.render(&status, state, draw, waitlist).map(|rendered| see(&rendered)),
        }
    }

    fn render(
        &self,
        status: &SaleStatus,
        state: SaleState,
        draw: Option<DrawView>,
        waitlist: Option<u64>,
    ) -> Option<Arc<RenderedSale>> {
        let details = self.details()?;
        let rendered = RenderedSale::new(&details.row, &details.item, Some(status), state, draw, waitlist);
        let rendered = Arc::new(rendered);
        self.rendered.store(Some(Arc::clone(&rendered)));
        // The details may have been replaced between reading them and storing the result.
        if self.details.load().as_ref().is_none_or(|current| !Arc::ptr_eq(current, &details)) {
            self.rendered.store(None);
        }
        Some(rendered)
    }

    /// The public data of the draw, if the sale has a waiting room.
    fn draw(&self) -> Option<DrawView> {
        self.gate.get()?.room.get().map(|room| room.waiting.draw())
    }

    /// The number of people on the waitlist when it was last read; empty if there is none, or if it is
    /// unknown.
    pub(crate) fn waitlist(&self) -> Option<u64> {
        Some(self.waitlist.load(Relaxed)).filter(|length| *length != UNKNOWN)
    }

    pub(crate) fn put_waitlist(&self, length: Option<u64>) {
        self.waitlist.store(length.unwrap_or(UNKNOWN), Relaxed);
    }

    fn take_news(&self, SaleNews { status, accepted }: &SaleNews) {
        let mut is_new = false;
        let latch = self.latch.get_or_init(|| {
            is_new = true;
            Latch::new(*status, accepted)
        });
        if !is_new {
            latch.update(*status, accepted);
        }
    }

    fn put_details(&self, details: Details) {
        self.details.store(Some(Arc::new(details)));
        self.rendered.store(None);
    }

    pub(crate) fn status(&self) -> Option<SaleStatus> {
        self.latch().map(Latch::status)
    }

    /// Whether buyers see it: the ledger has announced it, and its details are loaded.
    fn is_on_show(&self) -> bool {
        self.latch().is_some() && self.details.load().is_some()
    }
}

#[derive(Default)]
struct Shelves {
    by_id: HashMap<SaleId, Arc<Shelf>>,
}

/// All sales that were ever published.
#[derive(Default)]
pub struct Storefront {
    shelves: ArcSwap<Shelves>,
    /// Held while a shelf is added.
    adding: Mutex<()>,
    /// The state of the sales is unknown.
    is_dark: AtomicBool,
}

impl Storefront {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn shelf(&self, sale: SaleId) -> Option<Arc<Shelf>> {
        self.shelves.load().by_id.get(&sale).cloned()
    }

    /// Passes on the sale's shelf without touching a reference count that all cores share.
    pub(crate) fn with_shelf<T>(&self, sale: SaleId, see: impl FnOnce(&Arc<Shelf>) -> T) -> Option<T> {
        self.shelves.load().by_id.get(&sale).map(see)
    }

    /// The counters of a sale for the worker with this tally.
    pub(crate) fn sale_tally(&self, sale: SaleId, tally: &Tally) -> Option<Arc<SaleTally>> {
        self.with_shelf(sale, |shelf| Arc::clone(shelf.tallies.of(tally)))
    }

    /// Passes on a sale if it is on show.
    pub(crate) fn with_sale<T>(
        &self,
        sale: SaleId,
        now: Timestamp,
        see: impl FnOnce(&RenderedSale) -> T,
    ) -> Option<T> {
        if self.is_dark() {
            return None;
        }
        self.shelves.load().by_id.get(&sale)?.with_rendered(now, see)
    }

    /// Hides all sales, or shows them again.
    pub(crate) fn darken(&self, is_dark: bool) {
        self.is_dark.store(is_dark, Relaxed);
    }

    /// Whether nothing is shown because it may be out of date.
    pub(crate) fn is_dark(&self) -> bool {
        self.is_dark.load(Relaxed)
    }

    /// Every known sale.
    pub(crate) fn all(&self) -> Vec<Arc<Shelf>> {
        self.shelves.load().by_id.values().cloned().collect()
    }

    /// The sales that buyers see, newest first.
    pub(crate) fn on_show(&self) -> Vec<Arc<Shelf>> {
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
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shelf) = self.shelf(sale) {
            return shelf;
        }
        let shelf = Arc::new(Shelf::new(sale));
        let mut by_id = self.shelves.load().by_id.clone();
        by_id.insert(sale, Arc::clone(&shelf));
        self.shelves.store(Arc::new(Shelves { by_id }));
        shelf
    }

    /// Adds the records' part of a sale. Buyers see the sale once the ledger has it, too.
    pub(crate) fn put(&self, row: SaleRow, item: Item) -> Arc<Shelf> {
        let shelf = self.shelf_or_new(row.id);
        shelf.put_details(Details::new(row, item));
        shelf
    }

    /// Shows the current item wherever it is on sale.
    pub(crate) fn item_changed(&self, item: &Item) {
        let is_behind = |details: &Arc<Details>| details.item.id == item.id && details.item != *item;
        for shelf in self.shelves.load().by_id.values() {
            if let Some(details) = shelf.details().filter(is_behind) {
                shelf.put_details(Details::new(details.row.clone(), item.clone()));
            }
        }
    }

    /// Sales that the ledger has announced but whose details are not loaded.
    pub(crate) fn incomplete(&self) -> Vec<SaleId> {
        let shelves = self.shelves.load();
        let lacking = shelves.by_id.values().filter(|shelf| shelf.details.load().is_none());
        lacking.map(|shelf| shelf.id).collect()
    }

    /// Loads the details of all published sales.
    pub(crate) async fn load(&self, records: &Records) -> Result<(), RecordsError> {
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
    pub(crate) async fn complete(&self, catalogue: &Catalogue) -> Result<(), Arc<RecordsError>> {
        let loads = self.incomplete().into_iter().map(|sale| self.load_from(catalogue, sale));
        let loads: Vec<_> = stream::iter(loads).buffer_unordered(LOADS_AT_ONCE).collect().await;
        loads.into_iter().collect()
    }

    /// Adds the catalogue's part of a sale.
    pub(crate) async fn load_from(
        &self,
        catalogue: &Catalogue,
        sale: SaleId,
    ) -> Result<(), Arc<RecordsError>> {
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
