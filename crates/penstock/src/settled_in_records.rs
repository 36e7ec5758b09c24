//! Answers the ledger's questions about what the records have settled, and counts what was brought back from
//! them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use futures_util::future::BoxFuture;
use penstock_domain::{Cursor, NewEpoch, SaleId, SettledSale};
use penstock_ledger::{
    Unavailable,
    redis::{Reconciled, Settled},
};
use penstock_records::{Records, RecordsError};
use penstock_shop::ports::{Figure, FigureValue, NodePart};

/// What the records know of sales whose Redis was replaced, and how often that was needed.
#[derive(Debug)]
pub(crate) struct SettledInRecords {
    records: Records,
    reconciled: AtomicU64,
    brought_back: AtomicU64,
    given_up: AtomicU64,
    lost: AtomicU64,
}

impl SettledInRecords {
    pub(crate) fn new(records: Records) -> Self {
        let [reconciled, brought_back, given_up, lost] = [const { AtomicU64::new(0) }; 4];
        Self { records, reconciled, brought_back, given_up, lost }
    }
}

fn unavailable(error: RecordsError) -> Unavailable {
    Unavailable::new(error)
}

impl Settled for SettledInRecords {
    fn begin_epoch(&self, sale: SaleId, at_least: u64) -> BoxFuture<'_, Result<NewEpoch, Unavailable>> {
        Box::pin(async move {
            self.records.settled_cursor(&sale.to_string(), at_least).await.map_err(unavailable)
        })
    }

    fn sale(&self, sale: SaleId, at_least: u64) -> BoxFuture<'_, Result<Option<SettledSale>, Unavailable>> {
        Box::pin(async move {
            self.records.settled_sale(&sale.to_string(), sale, at_least).await.map_err(unavailable)
        })
    }

    fn complete_up_to(&self, sale: SaleId) -> BoxFuture<'_, Result<Option<Cursor>, Unavailable>> {
        Box::pin(
            async move { self.records.complete_up_to(&sale.to_string(), sale).await.map_err(unavailable) },
        )
    }

    fn open_sales(&self) -> BoxFuture<'_, Result<Vec<SaleId>, Unavailable>> {
        Box::pin(async move { self.records.open_sales().await.map_err(unavailable) })
    }

    fn reconciled(&self, reconciled: Reconciled) {
        self.reconciled.fetch_add(1, Relaxed);
        self.brought_back.fetch_add(reconciled.brought_back, Relaxed);
        self.given_up.fetch_add(reconciled.given_up, Relaxed);
    }

    fn lost(&self, _: SaleId, decisions: u64) {
        self.lost.fetch_add(decisions, Relaxed);
    }
}

impl NodePart for SettledInRecords {
    fn name(&self) -> &'static str {
        "reconciliation"
    }

    fn trouble(&self) -> Option<String> {
        None
    }

    fn figures(&self) -> Vec<Figure> {
        let counter = |name, help, count: &AtomicU64| {
            let value = FigureValue::Counter(count.load(Relaxed));
            Figure { name, help, value }
        };
        vec![
            counter(
                "penstock_ledger_reconciled",
                "Sales that were brought back from the records because Redis had lost the end of their history.",
                &self.reconciled,
            ),
            counter(
                "penstock_ledger_decisions_brought_back",
                "Decisions that Redis had lost and the records still had.",
                &self.brought_back,
            ),
            counter(
                "penstock_ledger_decisions_given_up",
                "Decisions of Redis that were dropped because the records had settled others in their place.",
                &self.given_up,
            ),
            counter(
                "penstock_ledger_decisions_lost",
                "Decisions that a node had heard of and that neither Redis nor the records still have.",
                &self.lost,
            ),
        ]
    }
}
