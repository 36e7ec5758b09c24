//! An audit's result, in sentences that a merchant understands.

use penstock_domain::{OrderId, SaleId};
use serde::Serialize;
use utoipa::ToSchema;

use super::finding::Finding;
use crate::UnitCounts;

/// The most differences that are named; the rest are counted.
pub(super) const MAX_DIFFERENCES: usize = 10_000;

/// Something that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Difference {
    /// Empty: it concerns no sale in particular.
    pub sale: Option<String>,
    pub order: Option<String>,
    /// In a sentence.
    pub what: String,
    #[serde(flatten)]
    pub finding: Finding,
}

/// What ledger, stock log and orders say of each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct AuditReport {
    /// Nothing differs and nothing is left in the dead letters.
    pub ok: bool,
    /// The decision up to which the ledger was compared.
    pub position: u64,
    pub sales: u64,
    pub orders: u64,
    /// Of all sales, by the ledger.
    pub units: UnitCounts,
    /// Units sold that did not exist.
    pub oversold: u64,
    /// Orders of the ledger that are neither in the records nor on their way there.
    pub lost: u64,
    /// Orders of the records that the ledger does not know.
    pub extra: u64,
    /// Orders that exist twice: two for one idempotency key, or held twice in the stock log.
    pub duplicated: u64,
    /// Buyers who have more units than a sale allows.
    pub over_limit: u64,
    /// Decisions that are not settled yet; no difference.
    pub pending: u64,
    /// Unresolved dead letters.
    pub dead_letters: u64,
    pub differences: Vec<Difference>,
    /// Differences found beyond those named.
    pub more_differences: u64,
}

impl AuditReport {
    pub(super) fn differ(&mut self, sale: Option<SaleId>, order: Option<OrderId>, finding: Finding) {
        if self.differences.len() >= MAX_DIFFERENCES {
            self.more_differences += 1;
            return;
        }
        let sale = sale.or(order.map(|order| order.sale)).map(|sale| sale.to_string());
        let order = order.map(|order| order.to_string());
        let what =
            finding.sentence(sale.as_deref().unwrap_or_default(), order.as_deref().unwrap_or_default());
        self.differences.push(Difference { sale, order, what, finding });
    }
}
