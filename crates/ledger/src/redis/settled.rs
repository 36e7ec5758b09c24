//! What the records know of sales, as a ledger needs it that may have lost the end of their history. It knows no
//! database.

use futures_util::future::BoxFuture;
use penstock_domain::{Cursor, SaleId, SaleSnapshot};

use crate::Unavailable;

/// How far a sale is settled, and the epoch in which it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewEpoch {
    /// The last decision that is settled.
    pub cursor: Cursor,
    pub epoch: u64,
}

/// A sale as the records have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledSale {
    pub begun: NewEpoch,
    pub sale: SaleSnapshot,
}

/// How a sale was found after its server was replaced, where the records knew better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconciled {
    pub sale: SaleId,
    /// Decisions that the records had and the ledger had lost.
    pub brought_back: u64,
    /// Decisions that the ledger had made anew in place of lost ones, and that gave way to the records'.
    pub given_up: u64,
}

/// What the records know of sales, for a ledger that may have lost the end of their history.
pub trait Settled: Send + Sync + 'static {
    /// How far the sale's decisions are settled; the default cursor if none is. From now on nothing can be settled but what
    /// is of the new epoch, which is larger than any before and at least `at_least`: so the answer stays true
    /// until the ledger goes on in that epoch.
    fn begin_epoch(&self, sale: SaleId, at_least: u64) -> BoxFuture<'_, Result<NewEpoch, Unavailable>>;

    /// The same, and the whole sale at that place; None if no decision of it is settled.
    fn sale(&self, sale: SaleId, at_least: u64) -> BoxFuture<'_, Result<Option<SettledSale>, Unavailable>>;

    /// How far everything of the sale is in the records; None if some of it was put aside. It stops nobody.
    fn complete_up_to(&self, sale: SaleId) -> BoxFuture<'_, Result<Option<Cursor>, Unavailable>>;

    /// Every sale that is published and not over.
    fn open_sales(&self) -> BoxFuture<'_, Result<Vec<SaleId>, Unavailable>>;

    /// A sale was brought back; called after it is on sale again.
    fn reconciled(&self, reconciled: Reconciled) {
        let _ = reconciled;
    }

    /// So many decisions that this node had heard of are neither in the ledger any more nor in the records.
    fn lost(&self, sale: SaleId, decisions: u64) {
        let _ = (sale, decisions);
    }
}

/// For those who have no records: whatever the ledger has is right.
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
