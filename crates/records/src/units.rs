//! The units of a sale, counted by what has become of them.

use penstock_domain::SaleStatus;
use serde::Serialize;
use sqlx::any::AnyRow;
use utoipa::ToSchema;

use crate::{RecordsError, columns::integer};

/// `total = available + held + paid`. Signed, because a stored count may be wrong, and because a decision
/// adds to some counts and takes from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct UnitCounts {
    pub total: i64,
    pub available: i64,
    pub held: i64,
    pub paid: i64,
}

impl UnitCounts {
    /// The counts of a row of `sale_stock`.
    pub(crate) fn stored(row: &AnyRow) -> Result<Self, RecordsError> {
        Ok(Self {
            total: integer(row, "total")?,
            available: integer(row, "remaining")?,
            held: integer(row, "held")?,
            paid: integer(row, "paid")?,
        })
    }

    pub(crate) fn of(status: &SaleStatus) -> Self {
        let [total, available, held, paid] =
            [status.total, status.available, status.held, status.paid].map(i64::from);
        Self { total, available, held, paid }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.total += other.total;
        self.available += other.available;
        self.held += other.held;
        self.paid += other.paid;
    }

    pub(crate) fn less(self, other: Self) -> Self {
        Self {
            total: self.total - other.total,
            available: self.available - other.available,
            held: self.held - other.held,
            paid: self.paid - other.paid,
        }
    }

    pub(crate) fn is_conserved(self) -> bool {
        let none_negative = self.available >= 0 && self.held >= 0 && self.paid >= 0;
        none_negative && self.total == self.available + self.held + self.paid
    }
}

impl std::fmt::Display for UnitCounts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { total, available, held, paid } = self;
        write!(formatter, "{total} units: {available} available, {held} held, {paid} paid")
    }
}
