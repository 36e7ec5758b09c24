//! Tells in which sales a buyer has orders, so that a lookup need not go through every sale. It does not hold
//! the orders themselves.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::{BuyerId, SaleId};

/// A table that grows has to move all its entries, and the ledger decides nothing meanwhile. With many small
/// tables each move is short.
const TABLES: usize = 1 << 12;
/// Spreads 32 bits over the 64 that a table needs.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// One buyer in one sale. Only a few bytes, because there is one for nearly every order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BuyerInSale {
    /// A part of the hash of the buyer's name. Two buyers may share it; then one sale is searched for
    /// nothing.
    buyer: u32,
    /// The sale's number in the order of publishing.
    sale: u32,
}

impl BuyerInSale {
    fn hash(buyer: u32) -> u64 {
        u64::from(buyer).wrapping_mul(SPREAD)
    }
}

#[derive(Debug)]
pub(super) struct Buyers {
    tables: Box<[HashTable<BuyerInSale>]>,
    /// In the order of publishing.
    sales: Vec<SaleId>,
    hasher: DefaultHashBuilder,
}

impl Default for Buyers {
    fn default() -> Self {
        let tables = (0..TABLES).map(|_| HashTable::new()).collect();
        Self { tables, sales: Vec::new(), hasher: DefaultHashBuilder::default() }
    }
}

impl Buyers {
    /// Adds a published sale and returns its number.
    pub(super) fn publish(&mut self, sale: SaleId) -> u32 {
        self.sales.push(sale);
        self.sales.len() as u32 - 1
    }

    /// Notes that the buyer has their first order in the sale with this number.
    pub(super) fn add(&mut self, buyer: &BuyerId, sale: u32) {
        let (table, buyer) = self.place(buyer);
        let hash_of = |entry: &BuyerInSale| BuyerInSale::hash(entry.buyer);
        self.tables[table].insert_unique(BuyerInSale::hash(buyer), BuyerInSale { buyer, sale }, hash_of);
    }

    /// The sales in which the buyer has orders. In rare cases also one in which they have none.
    pub(super) fn sales_of(&self, buyer: &BuyerId) -> impl Iterator<Item = SaleId> + '_ {
        let (table, buyer) = self.place(buyer);
        let entries = self.tables[table].iter_hash(BuyerInSale::hash(buyer));
        entries.filter(move |entry| entry.buyer == buyer).map(|entry| self.sales[entry.sale as usize])
    }

    fn place(&self, buyer: &BuyerId) -> (usize, u32) {
        let hash = self.hasher.hash_one(buyer.as_str());
        ((hash >> 32) as usize % TABLES, hash as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buyer_is_found_in_every_sale_with_an_order_and_rarely_in_another() {
        let mut buyers = Buyers::default();
        let sales: Vec<SaleId> = (0..40).map(SaleId::from_random).collect();
        let numbers: Vec<u32> = sales.iter().map(|sale| buyers.publish(*sale)).collect();
        let name = |number: usize| BuyerId::of_subject(&format!("buyer-{number}")).unwrap();
        let has_order = |buyer: usize, sale: usize| (buyer + sale).is_multiple_of(7);
        for buyer in 0..2_000 {
            for sale in (0..sales.len()).filter(|sale| has_order(buyer, *sale)) {
                buyers.add(&name(buyer), numbers[sale]);
            }
        }
        let mut in_vain = 0;
        for buyer in 0..2_000 {
            let found: Vec<SaleId> = buyers.sales_of(&name(buyer)).collect();
            let expected: Vec<SaleId> =
                (0..sales.len()).filter(|sale| has_order(buyer, *sale)).map(|sale| sales[sale]).collect();
            assert!(expected.iter().all(|sale| found.contains(sale)), "buyer {buyer}");
            in_vain += found.len() - expected.len();
        }
        assert!(in_vain < 50, "{in_vain} sales would be searched for nothing");
        assert_eq!(buyers.sales_of(&BuyerId::of_subject("nobody").unwrap()).count(), 0);
    }
}
