//! The ledger's state machine. It takes a command and the time, decides, and reports its decisions as events.
//! It is rebuilt by applying those events again. It knows no clock, no disk and no runtime.

mod buyers;
mod execution;
mod sale_book;
mod snapshot;
mod waiting;
mod waitlist;

use buyers::Buyers;
use execution::Execution;
use hashbrown::HashMap;
use sale_book::SaleBook;
pub use snapshot::{BookSnapshot, SaleSnapshot, SnapshotOrder};

use crate::{BuyerId, Command, Decision, Event, Order, OrderId, Reply, SaleId, SaleStatus, Timestamp};

/// The most orders, over all sales, that memory is reserved for in advance. Without this limit a thousand
/// large sales would take the memory of a billion orders, and spread the few orders they get over all of it.
const MAX_IDLE_ROOM: usize = 1 << 22;

/// All published sales with their stock, their orders and their idempotency keys.
#[derive(Debug)]
pub struct Book {
    sales: HashMap<SaleId, SaleBook>,
    buyers: Buyers,
    /// The position of the last applied decision; 0 before the first.
    position: u64,
    /// The latest time seen. Time never runs backwards here, whatever the caller's clock does, so that a
    /// sale's holds come due in the order of their numbers.
    clock: Timestamp,
    /// Orders that the sales have reserved memory for and not received yet.
    idle_room: usize,
}

impl Default for Book {
    fn default() -> Self {
        let clock = Timestamp::from_millis(i64::MIN);
        Self { sales: HashMap::new(), buyers: Buyers::default(), position: 0, clock, idle_room: 0 }
    }
}

impl Book {
    pub fn position(&self) -> u64 {
        self.position
    }

    pub fn status(&self, sale: SaleId) -> Option<SaleStatus> {
        self.sales.get(&sale).map(SaleBook::status)
    }

    pub fn statuses(&self) -> impl Iterator<Item = SaleStatus> + '_ {
        self.sales.values().map(SaleBook::status)
    }

    /// Decides `command` at the time `now`, applies what follows, and appends it to `decisions`.
    pub fn execute(&mut self, command: Command, now: Timestamp, decisions: &mut Vec<Decision>) -> Reply {
        let now = now.max(self.clock);
        self.clock = now;
        Execution { book: self, now, decisions }.run(command)
    }

    /// Applies a decision that was made before, to get back to the state it led to.
    ///
    /// # Panics
    /// If the decision does not follow from the state. Then the feed is not ours, and selling on would be
    /// wrong.
    pub fn apply(&mut self, decision: &Decision) {
        assert_eq!(decision.position, self.position + 1, "the feed has a gap");
        self.position = decision.position;
        self.clock = self.clock.max(decision.at);
        if let Event::Published(terms) = &decision.event {
            let number = self.buyers.publish(terms.sale);
            let sale = SaleBook::new(*terms, number, MAX_IDLE_ROOM.saturating_sub(self.idle_room));
            self.idle_room += sale.idle_room();
            let earlier = self.sales.insert(terms.sale, sale);
            assert!(earlier.is_none(), "{:?} was published twice", terms.sale);
        }
        let sale_id = decision.event.sale();
        let sale = self.sales.get_mut(&sale_id).unwrap_or_else(|| panic!("{sale_id:?} was never published"));
        if let Event::Held { buyer, .. } = &decision.event
            && !sale.has_order_of(buyer)
        {
            self.buyers.add(buyer, sale.number);
        }
        self.idle_room -= sale.idle_room();
        sale.apply(&decision.event, decision.at);
        self.idle_room += sale.idle_room();
        sale.assert_invariants();
    }

    /// A buyer's newest orders over all sales, at most `max`.
    fn orders_of(&self, buyer: &BuyerId, max: usize) -> Vec<Order> {
        let mut orders: Vec<Order> = Vec::new();
        for sale in self.buyers.sales_of(buyer).filter_map(|sale| self.sales.get(&sale)) {
            sale.newest_orders_of(buyer, max, &mut orders);
        }
        orders.sort_by_key(|order| std::cmp::Reverse((order.created_at, order.id)));
        orders.truncate(max);
        orders
    }

    /// The order, if it exists and belongs to `buyer`; None matches any buyer.
    fn find(&self, order: OrderId, buyer: Option<&BuyerId>) -> Option<Order> {
        let found = self.sales.get(&order.sale)?.order(order.number)?;
        buyer.is_none_or(|buyer| *buyer == found.buyer).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Claim, KeyDigest, MAX_UNITS, SaleTerms};

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn publish(book: &mut Book, number: u64) -> SaleId {
        let sale = SaleId::from_random(number);
        let terms = SaleTerms {
            sale,
            units: MAX_UNITS,
            limit_per_buyer: 1,
            opens_at: None,
            closes_at: None,
            hold_seconds: 60,
        };
        assert!(matches!(book.execute(Command::Publish(terms), NOW, &mut Vec::new()), Reply::Sale(Ok(_))));
        sale
    }

    fn claim(book: &mut Book, sale: SaleId, number: u32) {
        let name = number.to_string();
        let buyer = BuyerId::of_subject(&name).unwrap();
        let key = KeyDigest::of(name.as_bytes()).unwrap();
        let claim = Command::Claim(Claim { sale, buyer, quantity: 1, key });
        assert!(matches!(book.execute(claim, NOW, &mut Vec::new()), Reply::Verdict(Ok(_))));
    }

    #[test]
    fn a_buyers_orders_are_searched_only_in_sales_where_they_have_some() {
        let mut book = Book::default();
        let sales: Vec<SaleId> = (1..=500).map(|number| publish(&mut book, number)).collect();
        sales.iter().for_each(|sale| claim(&mut book, *sale, 1));
        [7, 300].into_iter().for_each(|place| claim(&mut book, sales[place], 2));
        let buyer = BuyerId::of_subject("2").unwrap();
        for mut book in [Book::from_snapshot(book.snapshot()), book] {
            assert_eq!(book.buyers.sales_of(&buyer).count(), 2, "sales that are searched");
            let command = Command::OrdersOf { buyer: buyer.clone(), max: 10 };
            let Reply::Orders(orders) = book.execute(command, NOW, &mut Vec::new()) else {
                panic!("no list")
            };
            let mut found: Vec<SaleId> = orders.iter().map(|order| order.id.sale).collect();
            found.sort();
            let mut expected = vec![sales[7], sales[300]];
            expected.sort();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn many_large_sales_share_the_memory_reserved_in_advance() {
        let mut book = Book::default();
        let sales: Vec<SaleId> = (1..=20).map(|number| publish(&mut book, number)).collect();
        assert_eq!(book.idle_room, MAX_IDLE_ROOM);
        // A sale that got no share sells as well as any other.
        let last = sales[sales.len() - 1];
        assert_eq!(book.sales[&last].idle_room(), 0);
        (0..1_000).for_each(|number| claim(&mut book, last, number));
        assert_eq!(book.idle_room, MAX_IDLE_ROOM);
        // A share that is used or given up goes to the next sale.
        claim(&mut book, sales[0], 0);
        assert_eq!(book.idle_room, MAX_IDLE_ROOM - 1);
        book.execute(Command::Close(sales[0]), NOW, &mut Vec::new());
        assert!(book.idle_room < MAX_IDLE_ROOM - 1);
        publish(&mut book, 21);
        assert_eq!(book.idle_room, MAX_IDLE_ROOM);
        assert_eq!(Book::from_snapshot(book.snapshot()).idle_room, MAX_IDLE_ROOM);
    }
}
