//! What only the records know of the shop at the moment.

use std::{collections::HashMap, sync::Arc};

use penstock_domain::{SaleId, SaleState};
use tokio::time::timeout;

use super::{MAX_LISTED_SALES, sample::PATIENCE};
use crate::{app::App, storefront::Shelf};

/// Empty while they are away.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorded {
    pub(super) dead_letters: Option<u64>,
    /// How many wait, of the sales in which somebody can; who has nobody is left out.
    pub(super) waitlists: Option<Arc<HashMap<SaleId, u64>>>,
}

impl Recorded {
    pub(super) async fn read(app: &App) -> Self {
        let now = app.now();
        let is_waited_for =
            |shelf: &Arc<Shelf>| shelf.status().is_some_and(|status| may_wait(status.state(now)));
        let sales = app.storefront.on_show().into_iter().filter(is_waited_for).map(|shelf| shelf.id);
        let sales: Vec<SaleId> = sales.take(MAX_LISTED_SALES).collect();
        let (dead_letters, waitlists) = tokio::join!(
            timeout(PATIENCE, app.records.dead_letter_count()),
            timeout(PATIENCE, app.records.waitlist_lengths(&sales)),
        );
        Self {
            dead_letters: dead_letters.ok().and_then(Result::ok),
            waitlists: waitlists.ok().and_then(Result::ok).map(Arc::new),
        }
    }

    /// How many wait for a sale in this state.
    pub(super) fn waitlist(&self, sale: SaleId, state: SaleState) -> Option<u64> {
        match may_wait(state) {
            true => Some(self.waitlists.as_ref()?.get(&sale).copied().unwrap_or_default()),
            false => Some(0),
        }
    }
}

/// How many wait for a sale in this state, as far as that is settled; empty while the records are away.
pub(crate) async fn waitlist_of(app: &App, sale: SaleId, state: SaleState) -> Option<u64> {
    if !may_wait(state) {
        return Some(0);
    }
    let lengths = timeout(PATIENCE, app.records.waitlist_lengths(&[sale])).await.ok()?.ok()?;
    Some(lengths.get(&sale).copied().unwrap_or_default())
}

/// Whether there can be a waitlist: who waits while units are left gets them.
fn may_wait(state: SaleState) -> bool {
    matches!(state, SaleState::SoldOut | SaleState::Paused)
}
