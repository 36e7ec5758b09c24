//! What a ledger that may have lost the end of a sale's history asks the records, and what it tells them. It
//! needs no database.

use futures_util::future::BoxFuture;
use penstock_domain::{Cursor, NewEpoch, SaleId, SettledSale};

use crate::Unavailable;

/// How the history of a sale on its new server differed from the records, which won.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconciled {
    pub sale: SaleId,
    /// Decisions that the records had and the ledger had lost.
    pub brought_back: u64,
    /// Decisions that the ledger had made in place of lost ones, and that were dropped in favour of the
    /// records'.
    pub given_up: u64,
}

/// The records' knowledge of sales, for a ledger that may have lost the end of their history.
pub trait Settled: Send + Sync + 'static {
    /// How far the sale's decisions are settled (the default cursor if none is), and a new epoch, which is
    /// larger than any before and at least `at_least`. From now on only decisions of the new epoch can be
    /// settled, so the answer stays true until the ledger goes on in that epoch.
    fn begin_epoch(&self, sale: SaleId, at_least: u64) -> BoxFuture<'_, Result<NewEpoch, Unavailable>>;

    /// The same, with the whole sale at that place; None if no decision of it is settled.
    fn sale(&self, sale: SaleId, at_least: u64) -> BoxFuture<'_, Result<Option<SettledSale>, Unavailable>>;

    /// How far the records have everything of the sale; None if some of it was put aside. Settlement goes on.
    fn complete_up_to(&self, sale: SaleId) -> BoxFuture<'_, Result<Option<Cursor>, Unavailable>>;

    /// Every sale that is published and not over.
    fn open_sales(&self) -> BoxFuture<'_, Result<Vec<SaleId>, Unavailable>>;

    /// Called when a sale was brought back, after it is on sale again.
    fn reconciled(&self, reconciled: Reconciled) {
        let _ = reconciled;
    }

    /// Called when this many decisions that the node had heard of are in neither the ledger nor the records.
    fn lost(&self, sale: SaleId, decisions: u64) {
        let _ = (sale, decisions);
    }
}

/// For ledgers without records: whatever the ledger has is right.
#[derive(Clone, Copy, Debug, Default)]
pub struct NothingSettled;

impl Settled for NothingSettled {
    fn begin_epoch(&self, _: SaleId, at_least: u64) -> BoxFuture<'_, Result<NewEpoch, Unavailable>> {
        Box::pin(async move { Ok(NewEpoch { cursor: Cursor::default(), epoch: at_least }) })
    }

    fn sale(&self, _: SaleId, _: u64) -> BoxFuture<'_, Result<Option<SettledSale>, Unavailable>> {
        Box::pin(async { Ok(None) })
    }

    fn complete_up_to(&self, _: SaleId) -> BoxFuture<'_, Result<Option<Cursor>, Unavailable>> {
        Box::pin(async { Ok(None) })
    }

    fn open_sales(&self) -> BoxFuture<'_, Result<Vec<SaleId>, Unavailable>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
