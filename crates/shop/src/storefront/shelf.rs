//! One sale as buyers see it: the records' details, the ledger's news, and what was written of them for readers.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use arc_swap::ArcSwapOption;
use penstock_domain::{SaleId, SaleState, SaleStatus, Timestamp};
use penstock_gate::{DrawView, Latch, Shedding};
use penstock_ledger::SaleNews;
use penstock_records::{Item, SaleRow};

use super::writing::{OrderForm, SaleFacts, Scribe, WrittenSale};
use crate::{
    gate::{GateFigures, SaleGate},
    tally::SaleTallies,
};

/// Stands for an unknown length of a waitlist.
const UNKNOWN: u64 = u64::MAX;

/// The records' part of a sale.
pub struct Details {
    pub row: SaleRow,
    pub item: Item,
    /// How its orders are written.
    pub order_form: OrderForm,
}

/// What a written sale shows. If none of it has changed, the text is still right.
#[derive(Debug, PartialEq)]
struct Shows {
    version: u64,
    state: SaleState,
    draw: Option<DrawView>,
    waitlist: Option<u64>,
}

struct ShownSale {
    shows: Shows,
    written: WrittenSale,
}

/// One sale. The most frequently used fields come first: there may be more sales than fit into a processor
/// cache.
#[repr(C)]
pub struct Shelf {
    details: ArcSwapOption<Details>,
    /// Empty until the ledger has announced the sale.
    latch: OnceLock<Latch>,
    /// The limit on claims of the server that decides the sale. Empty until first used.
    pub limit: ArcSwapOption<Shedding>,
    /// Empty until first used, and for a sale without a gate.
    pub gate: OnceLock<SaleGate>,
    shown: ArcSwapOption<ShownSale>,
    /// The number of people on the waitlist.
    waitlist: AtomicU64,
    /// The outcomes of claims and reads.
    pub tallies: SaleTallies,
    pub id: SaleId,
    scribe: Arc<dyn Scribe>,
}

impl Shelf {
    pub(super) fn new(id: SaleId, scribe: Arc<dyn Scribe>) -> Self {
        Self {
            id,
            scribe,
            latch: OnceLock::new(),
            details: ArcSwapOption::empty(),
            limit: ArcSwapOption::empty(),
            gate: OnceLock::new(),
            shown: ArcSwapOption::empty(),
            waitlist: AtomicU64::new(UNKNOWN),
            tallies: SaleTallies::default(),
        }
    }

    /// None until the ledger has announced the sale. Until then only the ledger knows.
    pub fn latch(&self) -> Option<&Latch> {
        self.latch.get()
    }

    pub fn details(&self) -> Option<Arc<Details>> {
        self.details.load_full()
    }

    /// Passes on the sale as readers get it, written again only if something has changed. None if it can't be
    /// shown yet.
    pub fn with_written<T>(&self, now: Timestamp, see: impl FnOnce(&WrittenSale) -> T) -> Option<T> {
        let status = self.latch()?.status();
        let state = status.state(now);
        let shows = Shows { version: status.version, state, draw: self.draw(), waitlist: self.waitlist() };
        // No reference is counted, because all cores would contend for the count.
        let shown = self.shown.load();
        match shown.as_ref().filter(|shown| shown.shows == shows) {
            Some(shown) => Some(see(&shown.written)),
            None => self.write(&status, shows).map(|shown| see(&shown.written)),
        }
    }

    fn write(&self, status: &SaleStatus, shows: Shows) -> Option<Arc<ShownSale>> {
        let details = self.details()?;
        let written = self.scribe.sale(SaleFacts {
            row: &details.row,
            item: &details.item,
            status: Some(status),
            state: shows.state,
            draw: shows.draw.as_ref(),
            waitlist: shows.waitlist,
        });
        let shown = Arc::new(ShownSale { shows, written });
        self.shown.store(Some(Arc::clone(&shown)));
        // The details may have been replaced between reading them and storing the result.
        if self.details.load().as_ref().is_none_or(|current| !Arc::ptr_eq(current, &details)) {
            self.shown.store(None);
        }
        Some(shown)
    }

    /// The public data of the draw, if the sale has a waiting room.
    fn draw(&self) -> Option<DrawView> {
        self.gate.get()?.room.get().map(|room| room.waiting.draw())
    }

    /// The number of people on the waitlist when it was last read; empty if there is none, or if it is
    /// unknown.
    pub fn waitlist(&self) -> Option<u64> {
        Some(self.waitlist.load(Relaxed)).filter(|length| *length != UNKNOWN)
    }

    pub fn put_waitlist(&self, length: Option<u64>) {
        self.waitlist.store(length.unwrap_or(UNKNOWN), Relaxed);
    }

    pub(super) fn take_news(&self, SaleNews { status, accepted }: &SaleNews) {
        let mut is_new = false;
        let latch = self.latch.get_or_init(|| {
            is_new = true;
            Latch::new(*status, accepted)
        });
        if !is_new {
            latch.update(*status, accepted);
        }
    }

    pub(super) fn put_details(&self, row: SaleRow, item: Item) {
        let order_form = self.scribe.order_form(&row, &item);
        self.details.store(Some(Arc::new(Details { row, item, order_form })));
        self.shown.store(None);
    }

    pub fn status(&self) -> Option<SaleStatus> {
        self.latch().map(Latch::status)
    }

    /// The people at its gate.
    pub fn gate_figures(&self, now: Timestamp) -> GateFigures {
        self.gate.get().map(|gate| gate.figures(now)).unwrap_or_default()
    }

    /// Whether its details are loaded.
    pub(super) fn has_details(&self) -> bool {
        self.details.load().is_some()
    }

    /// Whether buyers see it: the ledger has announced it, and its details are loaded.
    pub(super) fn is_on_show(&self) -> bool {
        self.latch().is_some() && self.has_details()
    }
}
