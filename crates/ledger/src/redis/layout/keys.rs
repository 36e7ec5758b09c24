//! The names of everything the ledger has in Redis. All keys of a sale share a hash tag, so that a Cluster
//! keeps them on one server.

use std::sync::Arc;

use penstock_domain::SaleId;
use penstock_redis_client::LinkError;

/// The names of keys, with a prefix if Redis is shared with others. The prefix comes before the hash tag, so
/// it must not contain one.
#[derive(Clone, Debug)]
pub struct Keys {
    prefix: Arc<str>,
}

impl Keys {
    /// Refuses a brace in the prefix: it would make the prefix the hash tag and put all sales into one slot.
    pub fn new(prefix: &str) -> Result<Self, LinkError> {
        match prefix.contains(['{', '}']) {
            true => Err(LinkError::Misconfigured(format!("the key prefix {prefix:?} contains a brace"))),
            false => Ok(Self { prefix: prefix.into() }),
        }
    }

    /// A set of the ids of all sales in the ledger, and perhaps of some that were never published.
    pub fn sales(&self) -> String {
        format!("{}penstock:sales", self.prefix)
    }

    /// The channel on which nodes tell each other what they decided.
    pub fn news(&self) -> String {
        format!("{}penstock:news", self.prefix)
    }

    /// A hash: terms, counts and related fields.
    pub fn sale(&self, sale: SaleId) -> String {
        self.of(sale, "sale")
    }

    /// A hash from buyer to the buyer's units and orders, packed.
    pub fn buyers(&self, sale: SaleId) -> String {
        self.of(sale, "buyers")
    }

    /// A hash from page to the buyers of its orders, so that an order is found by its number.
    pub fn orders(&self, sale: SaleId) -> String {
        self.of(sale, "orders")
    }

    /// A stream with an entry for each batch that decided something.
    pub fn feed(&self, sale: SaleId) -> String {
        self.of(sale, "feed")
    }

    /// A sorted set: the waiters, in the order in which they joined.
    pub fn waitlist(&self, sale: SaleId) -> String {
        self.of(sale, "waitlist")
    }

    /// A hash from waiter to number, wanted quantity and time of joining, packed.
    pub fn waiters(&self, sale: SaleId) -> String {
        self.of(sale, "waiters")
    }

    /// Written to make replicas confirm that they follow. It is gone soon after.
    pub(crate) fn proof(&self, sale: SaleId) -> String {
        self.of(sale, "proof")
    }

    /// The keys of `decide`, in its order.
    pub(crate) fn of_decide(&self, sale: SaleId) -> [String; 6] {
        let (waitlist, waiters) = (self.waitlist(sale), self.waiters(sale));
        [self.sale(sale), self.buyers(sale), self.orders(sale), self.feed(sale), waitlist, waiters]
    }

    /// The same, and where buyers, orders and waiters are put while they are being brought back: the keys of
    /// `adopt` and `forget`.
    pub(crate) fn of_adopt(&self, sale: SaleId) -> [String; 10] {
        let [hash, buyers, orders, feed, waitlist, waiters] = self.of_decide(sale);
        let new = [&buyers, &orders, &waitlist, &waiters].map(|key| format!("{key}:new"));
        let [new_buyers, new_orders, new_waitlist, new_waiters] = new;
        [hash, buyers, orders, feed, waitlist, waiters, new_buyers, new_orders, new_waitlist, new_waiters]
    }

    fn of(&self, sale: SaleId, what: &str) -> String {
        format!("{}{{{sale}}}:{what}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_leaves_the_hash_tag_alone() {
        let (keys, sale) = (Keys::new("shop7:").unwrap(), SaleId::from_random(1));
        assert!(keys.of_adopt(sale).iter().all(|key| key.starts_with("shop7:{0000000000001}:")));
        for prefix in ["shop{7}:", "{", "}"] {
            assert!(Keys::new(prefix).is_err(), "{prefix} would be another hash tag");
        }
    }
}
