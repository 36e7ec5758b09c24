//! The last line of defence. Whatever the ledger decided, units are taken only while there are some, and no
//! buyer gets more than the limit. It shares nothing with the ledger, so that it doesn't share its mistakes.

use std::collections::HashMap;

use penstock_domain::{BuyerId, SaleTerms};

use crate::{
    UnitCounts,
    refusal::{Cause, Refusal},
};

/// What a decision does with units.
#[derive(Clone, Copy, Debug)]
pub(super) enum Movement {
    Publish,
    Restock,
    Hold,
    Pay,
    PayLate,
    Release,
}

impl Movement {
    /// The name in the stock log.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Restock => "restock",
            Self::Hold => "hold",
            Self::Pay => "pay",
            Self::PayLate => "pay_late",
            Self::Release => "release",
        }
    }

    fn of(self, units: u32) -> UnitCounts {
        let units = i64::from(units);
        let none = UnitCounts::default();
        match self {
            Self::Publish | Self::Restock => UnitCounts { total: units, available: units, ..none },
            Self::Hold => UnitCounts { available: -units, held: units, ..none },
            Self::Pay => UnitCounts { held: -units, paid: units, ..none },
            Self::PayLate => UnitCounts { available: -units, paid: units, ..none },
            Self::Release => UnitCounts { available: units, held: -units, ..none },
        }
    }
}

/// The stock of one sale, as stored and as the batch leaves it.
#[derive(Debug)]
pub(super) struct Stock {
    /// The sale was published in this batch, on these terms: the row is new.
    pub(super) published: Option<SaleTerms>,
    stored: UnitCounts,
    /// The counts as the batch leaves them.
    pub(super) counts: UnitCounts,
    limit_per_buyer: u32,
    pub(super) paused: bool,
    pub(super) closed: bool,
    /// The row has to be written.
    pub(super) changed: bool,
    /// Held and paid units of the buyers to whom the batch gives some. A missing buyer has none yet.
    pub(super) owned: HashMap<BuyerId, i64>,
}

impl Stock {
    pub(super) fn stored(counts: UnitCounts, limit_per_buyer: u32, paused: bool, closed: bool) -> Self {
        let owned = HashMap::new();
        Self {
            published: None,
            stored: counts,
            counts,
            limit_per_buyer,
            paused,
            closed,
            changed: false,
            owned,
        }
    }

    pub(super) fn published(terms: SaleTerms) -> Self {
        let mut stock = Self::stored(UnitCounts::default(), terms.limit_per_buyer, false, false);
        stock.published = Some(terms);
        stock.changed = true;
        stock
    }

    /// What the batch adds to each count.
    pub(super) fn difference(&self) -> UnitCounts {
        self.counts.less(self.stored)
    }

    /// Moves units for `buyer`, or for nobody. If that breaks a promise, nothing is moved.
    pub(super) fn shift(
        &mut self,
        movement: Movement,
        units: u32,
        buyer: Option<&BuyerId>,
    ) -> Result<(), Refusal> {
        let moved = movement.of(units);
        let mut counts = self.counts;
        counts.add(moved);
        if moved.available < 0 && counts.available < 0 {
            let left = self.counts.available;
            let reason = format!("{units} units were sold, but {left} remain");
            return Err(Refusal::new(Cause::Oversold, reason));
        }
        if moved.held < 0 && counts.held < 0 {
            let are = self.counts.held;
            let reason = format!("{units} held units were paid or released, but {are} are held");
            return Err(Refusal::new(Cause::NotHeld, reason));
        }
        if let Some(buyer) = buyer {
            self.give(movement, i64::from(units), buyer)?;
        }
        self.counts = counts;
        self.changed = true;
        Ok(())
    }

    fn give(&mut self, movement: Movement, units: i64, buyer: &BuyerId) -> Result<(), Refusal> {
        match movement {
            Movement::Hold | Movement::PayLate => {
                let limit = i64::from(self.limit_per_buyer);
                let owned = self.owned.get(buyer).copied().unwrap_or(0);
                if owned + units > limit {
                    let reason = format!(
                        "buyer {buyer} has {owned} units and got {units} more, but the limit is {limit}"
                    );
                    return Err(Refusal::new(Cause::OverLimit, reason));
                }
                self.owned.insert(buyer.clone(), owned + units);
            }
            Movement::Release => {
                // Buyers to whom the batch gives nothing are not counted.
                if let Some(owned) = self.owned.get_mut(buyer) {
                    *owned -= units;
                }
            }
            Movement::Publish | Movement::Restock | Movement::Pay => {}
        }
        Ok(())
    }
}
