//! One sale inside the `Book`: counts, orders, and two tables that find an order by buyer and by key. It uses
//! few bytes per order, because all orders of all published sales are in memory.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::{
    snapshot::{SaleSnapshot, SnapshotOrder},
    waitlist::Waitlist,
};
use crate::{
    Accepted, BuyerId, Claim, ClaimRefusal, Event, KeyDigest, MAX_ORDERS_PER_BUYER, Order, OrderId,
    OrderState, ReleaseReason, SaleStatus, SaleTerms, Timestamp, Waiter,
};

/// "No earlier order" in `OrderRecord::previous_of_buyer`.
const NONE: u32 = u32::MAX;
/// The most orders that a sale reserves memory for when it is published, so that the tables of an ordinary
/// sale never grow while it sells.
const MAX_ROOM: usize = 1 << 20;
/// A debug build recounts the whole sale after every decision, up to this many orders and waiters.
const MAX_RECOUNTED: usize = 2048;

#[derive(Debug)]
struct OrderRecord {
    buyer: BuyerId,
    key: KeyDigest,
    created_at: Timestamp,
    paid_at: Option<Timestamp>,
    quantity: u32,
    previous_of_buyer: u32,
    state: OrderState,
    refund_due: bool,
}

/// The memory of an order: this record, a share of two hash tables (below 32 bytes) and the buyer's name.
const _: () = assert!(size_of::<OrderRecord>() <= 72);

#[derive(Debug)]
struct BuyerEntry {
    latest_order: u32,
    /// Held and paid units.
    units: u32,
}

#[derive(Debug)]
pub(super) struct SaleBook {
    status: SaleStatus,
    /// The sale's number in the order of publishing.
    pub(super) number: u32,
    records: Vec<OrderRecord>,
    by_buyer: HashTable<BuyerEntry>,
    by_key: HashTable<u32>,
    /// All holds before this number have ended: holds of one sale expire in the order of their numbers.
    first_hold: u32,
    /// Orders that memory was reserved for at the beginning.
    room: usize,
    hasher: DefaultHashBuilder,
    waitlist: Waitlist,
}

impl SaleBook {
    /// A sale with no units; its `Published` event adds them. Reserves memory for at most `max_room` orders.
    pub(super) fn new(terms: SaleTerms, number: u32, max_room: usize) -> Self {
        let room = (terms.units as usize).min(MAX_ROOM).min(max_room);
        let (total, available, held, paid) = (0, 0, 0, 0);
        Self {
            status: SaleStatus {
                terms,
                total,
                available,
                held,
                paid,
                paused: false,
                closed: false,
                version: 0,
            },
            number,
            records: Vec::with_capacity(room),
            by_buyer: HashTable::with_capacity(room),
            by_key: HashTable::with_capacity(room),
            first_hold: 0,
            room,
            hasher: DefaultHashBuilder::default(),
            waitlist: Waitlist::default(),
        }
    }

    pub(super) fn status(&self) -> SaleStatus {
        self.status
    }

    /// Orders that memory is reserved for and that may still come.
    pub(super) fn idle_room(&self) -> usize {
        if self.status.closed { 0 } else { self.room.saturating_sub(self.records.len()) }
    }

    fn id(&self, number: u32) -> OrderId {
        OrderId { sale: self.status.terms.sale, number }
    }

    pub(super) fn next_number(&self) -> u32 {
        u32::try_from(self.records.len()).unwrap_or(NONE)
    }

    pub(super) fn order(&self, number: u32) -> Option<Order> {
        let record = self.records.get(number as usize)?;
        Some(Order {
            id: self.id(number),
            buyer: record.buyer.clone(),
            quantity: record.quantity,
            state: record.state,
            created_at: record.created_at,
            pay_before: record.created_at.plus_seconds(self.status.terms.hold_seconds),
            paid_at: record.paid_at,
            refund_due: record.refund_due,
        })
    }

    /// The answer the claim got when it was accepted, whatever happened to the order since. None if its key
    /// is new.
    pub(super) fn first_answer(&self, claim: &Claim) -> Option<Result<Accepted, ClaimRefusal>> {
        let number = *self.by_key.find(self.hash_of_key(&claim.buyer, claim.key), |number| {
            let record = &self.records[*number as usize];
            record.key == claim.key && record.buyer == claim.buyer
        })?;
        let order = self.order(number)?;
        if order.quantity != claim.quantity {
            return Some(Err(ClaimRefusal::KeyReused));
        }
        let order = Order { state: OrderState::Held, paid_at: None, refund_due: false, ..order };
        Some(Ok(Accepted { order, is_repeated: true }))
    }

    pub(super) fn within_limit(&self, buyer: &BuyerId, quantity: u32) -> bool {
        quantity <= self.units_within_limit(buyer)
    }

    /// The units the buyer may still get, besides those they have.
    pub(super) fn units_within_limit(&self, buyer: &BuyerId) -> u32 {
        let owned = self.buyer_entry(buyer).map_or(0, |entry| entry.units);
        less(self.status.terms.limit_per_buyer, owned)
    }

    pub(super) fn waitlist(&self) -> &Waitlist {
        &self.waitlist
    }

    /// Whether the buyer may have one more order, whatever happened to the others.
    pub(super) fn has_room_for_order(&self, buyer: &BuyerId) -> bool {
        // Few buyers have more than one, so walking the chain is cheaper than keeping a count for everybody.
        let mut next = self.buyer_entry(buyer).map_or(NONE, |entry| entry.latest_order);
        for _ in 0..MAX_ORDERS_PER_BUYER {
            let Some(record) = self.records.get(next as usize) else { return true };
            next = record.previous_of_buyer;
        }
        false
    }

    pub(super) fn has_order_of(&self, buyer: &BuyerId) -> bool {
        self.buyer_entry(buyer).is_some()
    }

    /// Everybody who has an order.
    pub(super) fn buyers(&self) -> impl Iterator<Item = &BuyerId> {
        self.by_buyer.iter().map(|entry| &self.records[entry.latest_order as usize].buyer)
    }

    /// Adds the buyer's newest orders, at most `max`, to `orders`.
    pub(super) fn newest_orders_of(&self, buyer: &BuyerId, max: usize, orders: &mut Vec<Order>) {
        let mut next = self.buyer_entry(buyer).map_or(NONE, |entry| entry.latest_order);
        for _ in 0..max {
            let Some(order) = self.order(next) else { return };
            orders.push(order);
            next = self.records[next as usize].previous_of_buyer;
        }
    }

    /// Adds the holds that have run out at `now`, at most `max`, to `due`.
    pub(super) fn due_holds(&self, now: Timestamp, max: usize, due: &mut Vec<(OrderId, u32)>) {
        let open_holds = self.records.iter().enumerate().skip(self.first_hold as usize);
        let due_here = open_holds
            .take_while(|(_, record)| record.created_at.plus_seconds(self.status.terms.hold_seconds) <= now)
            .filter(|(_, record)| record.state == OrderState::Held)
            .map(|(number, record)| (self.id(number as u32), record.quantity))
            .take(max);
        due.extend(due_here);
    }

    pub(super) fn apply(&mut self, event: &Event, at: Timestamp) {
        self.status.version += 1;
        match event {
            Event::Published(terms) => {
                self.status.total = terms.units;
                self.status.available = terms.units;
            }
            Event::Restocked { units, .. } => {
                self.status.total += units;
                self.status.available += units;
            }
            Event::Paused(_) => self.status.paused = true,
            Event::Resumed(_) => self.status.paused = false,
            Event::Closed(_) => self.status.closed = true,
            Event::Held { order, buyer, quantity, key } => {
                assert_eq!(order.number, self.next_number(), "{order} is out of turn");
                assert!(order.number < NONE, "the sale has no order numbers left");
                self.status.available = less(self.status.available, *quantity);
                self.status.held += quantity;
                self.insert(OrderRecord {
                    buyer: buyer.clone(),
                    key: *key,
                    created_at: at,
                    paid_at: None,
                    quantity: *quantity,
                    previous_of_buyer: NONE,
                    state: OrderState::Held,
                    refund_due: false,
                });
            }
            Event::Paid { order, quantity, after_expiry } => {
                let from = if *after_expiry { OrderState::Expired } else { OrderState::Held };
                let record = self.transition(order.number, *quantity, from, OrderState::Paid);
                record.paid_at = Some(at);
                if *after_expiry {
                    self.status.available = less(self.status.available, *quantity);
                    self.change_buyer_units(order.number, |units| units + quantity);
                } else {
                    self.status.held = less(self.status.held, *quantity);
                }
                self.status.paid += quantity;
            }
            Event::Released { order, quantity, reason } => {
                let to = match reason {
                    ReleaseReason::Expired => OrderState::Expired,
                    ReleaseReason::Cancelled => OrderState::Cancelled,
                };
                self.transition(order.number, *quantity, OrderState::Held, to);
                self.status.held = less(self.status.held, *quantity);
                self.status.available += quantity;
                self.change_buyer_units(order.number, |units| less(units, *quantity));
            }
            Event::RefundDue { order } => {
                let record = &mut self.records[order.number as usize];
                assert_eq!(record.state, OrderState::Expired, "{order} is owed no refund");
                record.refund_due = true;
            }
            Event::Joined { number, buyer, quantity, .. } => {
                let (number, buyer, quantity) = (*number, buyer.clone(), *quantity);
                self.waitlist.push(Waiter { number, buyer, quantity, joined_at: at });
            }
            Event::Left { number, buyer, .. } => self.waitlist.remove(buyer, *number),
        }
        while self
            .records
            .get(self.first_hold as usize)
            .is_some_and(|record| record.state != OrderState::Held)
        {
            self.first_hold += 1;
        }
    }

    fn insert(&mut self, mut record: OrderRecord) {
        let number = self.next_number();
        let key_hash = self.hash_of_key(&record.buyer, record.key);
        let buyer_hash = self.hasher.hash_one(record.buyer.as_str());
        let Self { records, by_buyer, by_key, hasher, .. } = self;
        let owns_units = matches!(record.state, OrderState::Held | OrderState::Paid);
        let units = if owns_units { record.quantity } else { 0 };
        match by_buyer.find_mut(buyer_hash, |e| records[e.latest_order as usize].buyer == record.buyer) {
            Some(entry) => {
                record.previous_of_buyer = std::mem::replace(&mut entry.latest_order, number);
                entry.units += units;
                assert!(entry.units <= self.status.terms.limit_per_buyer, "a buyer has more than the limit");
            }
            None => {
                assert!(units <= self.status.terms.limit_per_buyer, "a buyer has more than the limit");
                by_buyer.insert_unique(buyer_hash, BuyerEntry { latest_order: number, units }, |entry| {
                    hasher.hash_one(records[entry.latest_order as usize].buyer.as_str())
                });
            }
        }
        let same_key = |other: &u32| {
            let other = &records[*other as usize];
            other.key == record.key && other.buyer == record.buyer
        };
        assert!(by_key.find(key_hash, same_key).is_none(), "one idempotency key, two orders");
        by_key.insert_unique(key_hash, number, |other| {
            let other = &records[*other as usize];
            hasher.hash_one((other.buyer.as_str(), other.key))
        });
        records.push(record);
    }

    fn transition(
        &mut self,
        number: u32,
        quantity: u32,
        from: OrderState,
        to: OrderState,
    ) -> &mut OrderRecord {
        let record = &mut self.records[number as usize];
        assert_eq!((record.state, record.quantity), (from, quantity), "order {number} is not in that state");
        record.state = to;
        record
    }

    fn change_buyer_units(&mut self, number: u32, change: impl FnOnce(u32) -> u32) {
        let Self { records, by_buyer, hasher, status, .. } = self;
        let buyer = &records[number as usize].buyer;
        let hash = hasher.hash_one(buyer.as_str());
        let entry = by_buyer.find_mut(hash, |e| records[e.latest_order as usize].buyer == *buyer);
        let entry = entry.unwrap_or_else(|| panic!("the buyer of order {number} is unknown"));
        entry.units = change(entry.units);
        assert!(entry.units <= status.terms.limit_per_buyer, "a buyer has more than the limit");
    }

    fn buyer_entry(&self, buyer: &BuyerId) -> Option<&BuyerEntry> {
        let hash = self.hasher.hash_one(buyer.as_str());
        self.by_buyer.find(hash, |entry| self.records[entry.latest_order as usize].buyer == *buyer)
    }

    fn hash_of_key(&self, buyer: &BuyerId, key: KeyDigest) -> u64 {
        self.hasher.hash_one((buyer.as_str(), key))
    }

    /// Units are conserved, nobody is over the limit, and each key has one order. A broken invariant ends the
    /// process: better no sale than a sold unit that does not exist.
    pub(super) fn assert_invariants(&self) {
        let sum =
            u64::from(self.status.available) + u64::from(self.status.held) + u64::from(self.status.paid);
        assert_eq!(
            u64::from(self.status.total),
            sum,
            "units of {:?} are not conserved",
            self.status.terms.sale
        );
        assert_eq!(self.by_key.len(), self.records.len(), "one idempotency key, one order");
        if cfg!(debug_assertions) && self.records.len() + self.waitlist.len() <= MAX_RECOUNTED {
            self.recount();
        }
    }

    fn recount(&self) {
        let units_in =
            |state| self.records.iter().filter(|r| r.state == state).map(|r| r.quantity).sum::<u32>();
        assert_eq!(self.status.held, units_in(OrderState::Held), "held units");
        assert_eq!(self.status.paid, units_in(OrderState::Paid), "paid units");
        let owned: u32 = self.by_buyer.iter().map(|entry| entry.units).sum();
        assert_eq!(owned, self.status.held + self.status.paid, "units of buyers");
        assert!(self.by_buyer.iter().all(|entry| entry.units <= self.status.terms.limit_per_buyer), "limit");
        self.waitlist.assert_consistent();
    }

    pub(super) fn snapshot(&self) -> SaleSnapshot {
        let records = self.records.iter().enumerate();
        let orders = records.filter_map(|(number, record)| {
            Some(SnapshotOrder { order: self.order(number as u32)?, key: record.key })
        });
        let waiters = self.waitlist.waiters().cloned().collect();
        SaleSnapshot { status: self.status(), orders: orders.collect(), waiters }
    }

    pub(super) fn from_snapshot(snapshot: SaleSnapshot, number: u32, max_idle_room: usize) -> Self {
        let (status, next_waiter) = (snapshot.status, snapshot.next_waiter());
        let orders = snapshot.orders.len();
        let mut sale = Self::new(status.terms, number, max_idle_room.saturating_add(orders));
        sale.records.reserve(orders);
        sale.by_buyer.reserve(orders, |_| 0);
        sale.by_key.reserve(orders, |_| 0);
        for SnapshotOrder { order, key } in snapshot.orders {
            sale.insert(OrderRecord {
                buyer: order.buyer,
                key,
                created_at: order.created_at,
                paid_at: order.paid_at,
                quantity: order.quantity,
                previous_of_buyer: NONE,
                state: order.state,
                refund_due: order.refund_due,
            });
        }
        snapshot.waiters.into_iter().for_each(|waiter| sale.waitlist.push(waiter));
        sale.waitlist.skip_to(next_waiter);
        sale.status = status;
        sale.assert_invariants();
        sale
    }
}

/// Subtraction that ends the process rather than sell a unit that does not exist.
fn less(units: u32, taken: u32) -> u32 {
    units.checked_sub(taken).unwrap_or_else(|| panic!("{taken} units taken of {units}"))
}
