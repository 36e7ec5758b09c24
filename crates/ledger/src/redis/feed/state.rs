//! The state of a sale at one position, for an audit. A large sale is read in steps.

use penstock_domain::{BookSnapshot, SaleId, SaleSnapshot, SnapshotOrder, Timestamp, Waiter};
use penstock_redis_client::Script;
use redis::Value;

use crate::{
    Unavailable,
    redis::{
        layout::{Damaged, PAGE, SALE_FIELDS, SaleHash, text, unpack_order, unpack_waiter},
        store::Store,
    },
};

/// A state is read in steps of this many orders and waiters. If the sale changes between two steps, they
/// grow.
const FIRST_STEP: usize = 64 * PAGE;
const MAX_STEP: usize = 2_048 * PAGE;

pub(super) struct StateReader {
    store: Store,
    script: Script,
}

impl StateReader {
    pub(super) fn new(store: Store) -> Self {
        let script = Script::new(include_str!("../scripts/state.lua"));
        store.link.learn(&script);
        Self { store, script }
    }

    pub(super) async fn read(&self, sale: SaleId) -> Result<BookSnapshot, Unavailable> {
        let mut step = FIRST_STEP;
        while step <= MAX_STEP {
            if let Some(snapshot) = self.read_in_steps(sale, step).await? {
                return Ok(snapshot);
            }
            step *= 2;
        }
        Err(Unavailable::new("the sale changes too quickly to be read at one moment"))
    }

    /// None if the sale changed between two steps.
    async fn read_in_steps(&self, sale: SaleId, step: usize) -> Result<Option<BookSnapshot>, Unavailable> {
        let Some((stored, mut orders, mut waiters)) = self.read_step(sale, 0, step).await? else {
            let clock = Timestamp::from_millis(0);
            return Ok(Some(BookSnapshot { position: 0, clock, sales: Vec::new() }));
        };
        if stored.known.forgotten {
            // Its orders are gone from Redis: only the records have them.
            let position = stored.known.position();
            return Ok(Some(BookSnapshot { position, clock: stored.clock, sales: Vec::new() }));
        }
        for first in (step..stored.orders.max(stored.waiting) as usize).step_by(step) {
            match self.read_step(sale, first, step).await? {
                Some((same, more_orders, more_waiters)) if same == stored => {
                    orders.extend(more_orders);
                    waiters.extend(more_waiters);
                }
                _ => return Ok(None),
            }
        }
        if (orders.len(), waiters.len()) != (stored.orders as usize, stored.waiting as usize) {
            return Err(Damaged("a sale's orders or waiters don't match its counts").into());
        }
        let sales = vec![SaleSnapshot { status: stored.known.status, orders, waiters }];
        Ok(Some(BookSnapshot { position: stored.known.position(), clock: stored.clock, sales }))
    }

    async fn read_step(
        &self,
        sale: SaleId,
        first: usize,
        step: usize,
    ) -> Result<Option<(SaleHash, Vec<SnapshotOrder>, Vec<Waiter>)>, Unavailable> {
        let keys = &self.store.keys;
        let mut call = self.script.call();
        call.arg(5).arg(keys.sale(sale)).arg(keys.buyers(sale)).arg(keys.orders(sale));
        call.arg(keys.waitlist(sale)).arg(keys.waiters(sale));
        call.arg(first).arg(step).arg(&SALE_FIELDS);
        let (fields, orders, waiters): (Vec<Value>, Vec<Value>, Vec<Value>) =
            self.store.link.call_confirmed(&keys.sale(sale), call).await?;
        let Some(stored) = SaleHash::read(sale, &fields)? else { return Ok(None) };
        // Only the counts of a forgotten sale are left.
        let orders = if stored.known.forgotten { Vec::new() } else { orders };
        let unpack =
            |packed: &Value| unpack_order(sale, stored.known.status.terms.hold_seconds, text(packed)?);
        let orders = orders.iter().map(unpack).collect::<Result<_, Damaged>>()?;
        let unpack = |pair: &[Value]| match pair {
            [buyer, entry] => unpack_waiter(text(buyer)?, text(entry)?),
            _ => Err(Damaged("a waiter without an entry")),
        };
        let waiters = waiters.chunks(2).map(unpack).collect::<Result<_, Damaged>>()?;
        Ok(Some((stored, orders, waiters)))
    }
}
