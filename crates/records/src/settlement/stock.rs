//! The last line of defence. Whatever the ledger decided, units are taken only while there are some, and no
//! buyer gets more than the limit. It shares nothing with the ledger, so that it doesn't share its mistakes.

use std::collections::HashMap;

use penstock_domain::{BuyerId, SaleTerms};

use super::refusal::{Cause, Refusal};

/// The units of a sale, or the changes to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) total: i64,
    pub(super) remaining: i64,
    pub(super) held: i64,
    pub(super) paid: i64,
}

/// What a decision does with units.
#[derive(Clone, Copy, Debug)]
pub(super) enum Movement {
    Add,
    Hold,
    Pay,
    PayLate,
    Release,
}

impl Movement {
    fn of(self, units: u32) -> Counts {
        let units = i64::from(units);
        let none = Counts::default();
        match self {
            Self::Add => Counts { total: units, remaining: units, ..none },
            Self::Hold => Counts { remaining: -units, held: units, ..none },
            Self::Pay => Counts { held: -units, paid: units, ..none },
            Self::PayLate => Counts { remaining: -units, paid: units, ..none },
            Self::Release => Counts { remaining: units, held: -units, ..none },
        }
    }
}

/// The stock of one sale, as stored and as the batch leaves it.
#[derive(Debug)]
pub(super) struct Stock {
    /// The sale was published in this batch, on these terms: the row is new.
    pub(super) published: Option<SaleTerms>,
    stored: Counts,
    counts: Counts,
    limit_per_buyer: u32,
    pub(super) paused: bool,
    pub(super) closed: bool,
    changed: bool,
    /// Held and paid units of the buyers to whom the batch gives some. A missing buyer has none yet.
    owned: HashMap<BuyerId, i64>,
}

impl Stock {
    pub(super) fn stored(counts: Counts, limit_per_buyer: u32, paused: bool, closed: bool) -> Self {
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
        let mut stock = Self::stored(Counts::default(), terms.limit_per_buyer, false, false);
        stock.published = Some(terms);
        stock.changed = true;
        stock
    }

    pub(super) fn add_owned(&mut self, buyer: BuyerId, units: i64) {
        self.owned.insert(buyer, units);
    }

    pub(super) fn is_changed(&self) -> bool {
        self.changed
    }

    /// The counts as the batch leaves them.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// What the batch adds to each count.
    pub(super) fn difference(&self) -> Counts {
        let (now, before) = (self.counts, self.stored);
        Counts {
            total: now.total - before.total,
            remaining: now.remaining - before.remaining,
            held: now.held - before.held,
            paid: now.paid - before.paid,
        }
    }

    pub(super) fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
        self.changed = true;
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
        self.changed = true;
    }

    /// Moves units for `buyer`, or for nobody. If that breaks a promise, nothing is moved.
    pub(super) fn shift(
        &mut self,
        movement: Movement,
        units: u32,
        buyer: Option<&BuyerId>,
    ) -> Result<(), Refusal> {
        let moved = movement.of(units);
        let remaining = self.counts.remaining + moved.remaining;
        if moved.remaining < 0 && remaining < 0 {
            let left = self.counts.remaining;
            let reason = format!("{units} units were sold, but {left} remain");
            return Err(Refusal::new(Cause::Oversold, reason));
        }
        let held = self.counts.held + moved.held;
        if moved.held < 0 && held < 0 {
            let are = self.counts.held;
            let reason = format!("{units} held units were paid or released, but {are} are held");
            return Err(Refusal::new(Cause::NotHeld, reason));
        }
        if let Some(buyer) = buyer {
            self.give(movement, i64::from(units), buyer)?;
        }
        self.counts.remaining = remaining;
        self.counts.held = held;
        self.counts.total += moved.total;
        self.counts.paid += moved.paid;
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
            Movement::Add | Movement::Pay => {}
        }
        Ok(())
    }
}
