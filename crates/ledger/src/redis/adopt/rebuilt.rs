//! A sale from the records, in the forms that the ledger uses in Redis. It needs no connection.

use hashbrown::HashMap;
use penstock_domain::{OrderState, SaleSnapshot, SaleStatus, SnapshotOrder, Timestamp, Waiter};
use redis::Cmd;

use crate::redis::layout::{PAGE, pack_buyer, pack_names, pack_terms, pack_waiter};

/// Buyers, pages of orders, or waiters written in one step: a step must not hold up the server.
const AT_ONCE: usize = 500;

#[derive(Debug)]
pub(crate) struct Rebuilt {
    status: SaleStatus,
    buyers: Vec<(String, Vec<u8>)>,
    order_count: usize,
    /// The buyers of each page's orders.
    orders: Vec<(u32, Vec<u8>)>,
    waiters: Vec<(String, Vec<u8>)>,
    next_waiter: u32,
    /// The number of the first held order. All orders before it are finished.
    first_hold: u32,
    due: Option<Timestamp>,
    /// The latest time in the sale.
    clock: i64,
}

/// A part of the buyers, of the orders or of the waiters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chunk<'a> {
    buyers: &'a [(String, Vec<u8>)],
    orders: &'a [(u32, Vec<u8>)],
    waiters: &'a [(String, Vec<u8>)],
}

impl Rebuilt {
    pub(crate) fn of(sale: &SaleSnapshot) -> Self {
        let mut entries: HashMap<&str, (u32, Vec<&SnapshotOrder>)> = HashMap::new();
        let mut clock = 0;
        for known in &sale.orders {
            let order = &known.order;
            let (units, orders) = entries.entry(order.buyer.as_str()).or_default();
            orders.push(known);
            if matches!(order.state, OrderState::Held | OrderState::Paid) {
                *units += order.quantity;
            }
            clock = clock
                .max(order.created_at.as_millis())
                .max(order.paid_at.map_or(0, |paid_at| paid_at.as_millis()));
        }
        clock = sale.waiters.iter().map(|waiter| waiter.joined_at.as_millis()).fold(clock, i64::max);
        let held = sale.orders.iter().find(|known| known.order.state == OrderState::Held);
        let next_number = sale.orders.last().map_or(0, |known| known.order.id.number.saturating_add(1));
        Self {
            status: sale.status,
            buyers: entries
                .into_iter()
                .map(|(buyer, (units, orders))| (buyer.into(), pack_buyer(units, orders.into_iter())))
                .collect(),
            order_count: sale.orders.len(),
            orders: (0..).zip(sale.orders.chunks(PAGE)).map(pack_page).collect(),
            waiters: sale.waiters.iter().map(entry_of).collect(),
            next_waiter: sale.next_waiter(),
            first_hold: held.map_or(next_number, |known| known.order.id.number),
            due: held.map(|known| known.order.pay_before),
            clock,
        }
    }

    pub(crate) fn chunks(&self) -> impl Iterator<Item = Chunk<'_>> {
        let buyers = self.buyers.chunks(AT_ONCE).map(|buyers| Chunk { buyers, ..Chunk::default() });
        let orders = self.orders.chunks(AT_ONCE).map(|orders| Chunk { orders, ..Chunk::default() });
        let waiters = self.waiters.chunks(AT_ONCE).map(|waiters| Chunk { waiters, ..Chunk::default() });
        buyers.chain(orders).chain(waiters)
    }

    /// Adds the arguments from the terms to the next waiter's number, as the step `finish` of adopt.lua
    /// expects them.
    pub(crate) fn add_to(&self, call: &mut Cmd) {
        let SaleStatus { terms, total, available, held, paid, paused, closed, .. } = self.status;
        call.arg(pack_terms(&terms)).arg(&[total, available, held, paid]);
        call.arg(u8::from(paused)).arg(u8::from(closed)).arg(self.order_count).arg(self.first_hold);
        match self.due {
            Some(due) => call.arg(due.as_millis()),
            None => call.arg(""),
        };
        call.arg(self.clock).arg(self.buyers.len()).arg(self.waiters.len()).arg(self.next_waiter);
    }
}

/// Orders are numbered without gaps, so a page holds orders in a row.
fn pack_page((page, orders): (u32, &[SnapshotOrder])) -> (u32, Vec<u8>) {
    (page, pack_names(orders.iter().map(|known| &known.order.buyer)))
}

fn entry_of(waiter: &Waiter) -> (String, Vec<u8>) {
    (waiter.buyer.as_str().into(), pack_waiter(waiter))
}

impl Chunk<'_> {
    pub(crate) fn add_to(&self, call: &mut Cmd) {
        call.arg(self.buyers.len()).arg(self.orders.len()).arg(self.waiters.len());
        for (buyer, entry) in self.buyers {
            call.arg(buyer).arg(entry);
        }
        for (number, order) in self.orders {
            call.arg(number).arg(order);
        }
        for (buyer, entry) in self.waiters {
            call.arg(buyer).arg(entry);
        }
    }
}
