//! Applies the changes that neighbours announce: reads the changed data again and shows it. Whatever can't be
//! read yet stays overdue until it can.

use std::{collections::HashSet, mem::take, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, StreamExt as _, stream::BoxStream};
use penstock_domain::{ItemId, SaleId, SaleState};
use penstock_records::RecordsError;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use crate::{
    ports::Change,
    shop::Shop,
    storefront::Shelf,
    waiting_rooms::{self, RoomTroubles},
};

/// How often overdue changes are tried again.
const TRY_EVERY: Duration = Duration::from_millis(250);
/// How often a node checks that it shows what the others have. This heals changes that were never announced,
/// because the announcing node died.
const COMPARE_EVERY: Duration = Duration::from_secs(30);

/// Changes that were announced but not applied yet.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Overdue {
    everything: bool,
    rooms: bool,
    items: HashSet<ItemId>,
    sales: HashSet<SaleId>,
}

impl Overdue {
    /// For a node that could not load everything when it started.
    pub fn everything() -> Self {
        Self { everything: true, ..Self::default() }
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    async fn note(&mut self, shop: &Shop, change: Change) {
        match change {
            Change::NewItem(item) => shop.catalogue.item_made(item).await,
            Change::Item(item) => drop(self.items.insert(item)),
            Change::Sale(sale) => drop(self.sales.insert(sale)),
            Change::Room(_) => self.rooms = true,
            // Nothing here depends on them: other code follows them.
            Change::SessionEnded { .. } | Change::SessionsEnded { .. } => {}
            Change::Everything => {
                shop.catalogue.everything_changed();
                self.everything = true;
            }
        }
    }

    /// Applies the changes that can be applied; the rest stays.
    async fn take_up(&mut self, shop: &Shop, complaints: &RoomTroubles) {
        if self.everything {
            self.everything = load(shop).await.is_err();
        }
        for sale in take(&mut self.sales) {
            shop.catalogue.sale_published(sale).await;
            let _turn = shop.refreshing.lock().await;
            match shop.storefront.load_from(&shop.catalogue, sale).await {
                Ok(()) => self.rooms = true,
                Err(_) => drop(self.sales.insert(sale)),
            }
        }
        for item in take(&mut self.items) {
            if !matches!(refresh_item(shop, item).await, Ok(true)) {
                self.items.insert(item);
            }
        }
        if take(&mut self.rooms) {
            waiting_rooms::open_missing(shop, complaints).await;
        }
    }
}

/// Reads an item again and shows it wherever it is on sale. False if the shared cache may still have the old
/// one.
pub async fn refresh_item(shop: &Shop, id: ItemId) -> Result<bool, Arc<RecordsError>> {
    // One at a time, so that the last one read is the last one shown.
    let _turn = shop.refreshing.lock().await;
    let everywhere = shop.catalogue.item_changed(id).await;
    if let Some(item) = shop.catalogue.reload_item(id).await? {
        shop.storefront.item_changed(&item);
    }
    Ok(everywhere)
}

/// Loads the details of the published sales.
pub async fn load(shop: &Shop) -> Result<(), RecordsError> {
    let _turn = shop.refreshing.lock().await;
    shop.storefront.load(&shop.records).await
}

/// Applies the neighbours' changes until the server stops.
pub async fn run(
    shop: Arc<Shop>,
    mut changes: BoxStream<'static, Change>,
    mut overdue: Overdue,
    mut stop: watch::Receiver<bool>,
) {
    let complaints = RoomTroubles::default();
    let mut is_behind = !overdue.is_empty();
    let mut ticks = interval(TRY_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let mut told = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            Some(change) = changes.next() => Some(change),
            _ = ticks.tick(), if !overdue.is_empty() => None,
        };
        // Changes that arrive together are read once.
        while let Some(change) = told {
            overdue.note(&shop, change).await;
            told = changes.next().now_or_never().flatten();
        }
        overdue.take_up(&shop, &complaints).await;
        // Logged once, not four times a second.
        if is_behind == overdue.is_empty() {
            is_behind = !is_behind;
            match is_behind {
                true => tracing::warn!(?overdue, "changes can't be read yet; trying again until they can"),
                false => tracing::info!("all changes have been read"),
            }
        }
    }
}

/// Compares the sales on show with the catalogue, until the server stops. This also keeps everything in the
/// shared cache that a node needs if it starts while the records are away.
pub async fn compare(shop: Arc<Shop>, mut stop: watch::Receiver<bool>) {
    if !shop.catalogue.is_shared() {
        return;
    }
    let mut ticks = interval(COMPARE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            _ = ticks.tick() => {}
        }
        for shelf in shop.storefront.all() {
            if let Err(error) = compare_one(&shop, &shelf).await {
                tracing::debug!(%error, sale = %shelf.id, "a sale can't be compared with the catalogue");
                break;
            }
        }
    }
}

async fn compare_one(shop: &Shop, shelf: &Shelf) -> Result<(), Arc<RecordsError>> {
    let is_over = shelf.status().is_none_or(|status| status.state(shop.now()) == SaleState::Closed);
    let Some(details) = shelf.details().filter(|_| !is_over) else { return Ok(()) };
    shop.catalogue.sale(shelf.id).await?;
    let _turn = shop.refreshing.lock().await;
    if let Some(item) = shop.catalogue.item(details.item.id).await? {
        shop.storefront.item_changed(&item);
    }
    Ok(())
}
