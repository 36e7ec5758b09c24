//! The lengths of the waitlists. The records are read every few seconds, once for everybody. Only the ledger
//! knows a person's place.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use penstock_domain::{SaleId, SaleState};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{shop::Shop, storefront::Shelf};

const EVERY: Duration = Duration::from_secs(2);
/// Counting takes at most this fraction of a connection's time (1/20), however long the lists are.
const SHARE: u32 = 20;
/// Waiting for the records takes at most this long.
const PATIENCE: Duration = Duration::from_millis(700);
/// Only the newest sales with a waitlist are counted; the others show no length.
const MAX_SALES: usize = 50;

/// Runs until the server stops.
pub async fn run(shop: Arc<Shop>, mut stop: watch::Receiver<bool>) {
    let mut counted = Vec::new();
    let mut wait = EVERY;
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = sleep(wait) => {}
        }
        let began = Instant::now();
        counted = count(&shop, &counted).await;
        wait = EVERY.max(began.elapsed() * SHARE);
    }
}

/// Counts again; returns the sales that may have a waitlist now. Sales in `before` that have none any longer
/// show none.
async fn count(shop: &Shop, before: &[Arc<Shelf>]) -> Vec<Arc<Shelf>> {
    let now = shop.now();
    let is_waited_for = |shelf: &Arc<Shelf>| shelf.status().is_some_and(|status| may_wait(status.state(now)));
    let mut shelves = shop.storefront.on_show();
    shelves.retain(is_waited_for);
    shelves.truncate(MAX_SALES);
    let sales: Vec<SaleId> = shelves.iter().map(|shelf| shelf.id).collect();
    let lengths = timeout(PATIENCE, shop.records.waitlist_lengths(&sales)).await.ok().and_then(Result::ok);
    for shelf in before.iter().filter(|shelf| !sales.contains(&shelf.id)) {
        shelf.put_waitlist(None);
    }
    for shelf in &shelves {
        let length = lengths.as_ref().map(|lengths| lengths.get(&shelf.id).copied().unwrap_or_default());
        shelf.put_waitlist(length);
    }
    shelves
}

/// The number of people on the waitlist of a sale in this state, counted now; empty while the records are
/// unavailable.
pub async fn length_of(shop: &Shop, sale: SaleId, state: SaleState) -> Option<u64> {
    if !may_wait(state) {
        return Some(0);
    }
    let lengths = timeout(PATIENCE, shop.records.waitlist_lengths(&[sale])).await.ok()?.ok()?;
    Some(lengths.get(&sale).copied().unwrap_or_default())
}

/// Whether there can be a waitlist. In other states, remaining units go to the people on it.
pub fn may_wait(state: SaleState) -> bool {
    matches!(state, SaleState::SoldOut | SaleState::Paused)
}
