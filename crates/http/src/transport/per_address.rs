//! Counts the open connections of each address, over all workers. It does not know what happens on them, and
//! remembers an address only while it has a connection.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use penstock_gate::AddressKey;

#[derive(Debug)]
pub(crate) struct PerAddress {
    max: usize,
    counts: Mutex<HashMap<AddressKey, usize>>,
}

impl PerAddress {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, counts: Mutex::default() })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<AddressKey, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more connection, if the address may have one. A caller without an address always gets
    /// one.
    pub(crate) fn enter(self: &Arc<Self>, address: Option<AddressKey>) -> Option<AddressPlace> {
        if let Some(address) = address {
            let mut counts = self.counts();
            let count = counts.get(&address).copied().unwrap_or_default();
            if count >= self.max {
                return None;
            }
            counts.insert(address, count + 1);
        }
        Some(AddressPlace { per_address: Arc::clone(self), address })
    }
}

/// The place of one connection, free again when it is dropped.
#[derive(Debug)]
pub(crate) struct AddressPlace {
    per_address: Arc<PerAddress>,
    address: Option<AddressKey>,
}

impl Drop for AddressPlace {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        if let Entry::Occupied(mut count) = self.per_address.counts().entry(address) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(address: &str) -> Option<AddressKey> {
        AddressKey::of(address.parse().unwrap())
    }

    #[test]
    fn an_address_has_at_most_its_number_of_connections() {
        let per_address = PerAddress::new(2);
        let places = [per_address.enter(key("192.0.2.1")), per_address.enter(key("192.0.2.1"))];
        assert!(places.iter().all(Option::is_some));
        assert!(per_address.enter(key("192.0.2.1")).is_none());
        assert!(per_address.enter(key("192.0.2.2")).is_some(), "other addresses are not affected");
        drop(places);
        assert!(per_address.enter(key("192.0.2.1")).is_some());
    }

    #[test]
    fn loopback_is_not_counted() {
        let per_address = PerAddress::new(1);
        let places = [per_address.enter(key("127.0.0.1")), per_address.enter(key("127.0.0.1"))];
        assert!(places.iter().all(Option::is_some));
        assert_eq!(per_address.counts().len(), 0);
    }

    #[test]
    fn an_ipv6_household_is_one_address() {
        let per_address = PerAddress::new(1);
        let place = per_address.enter(key("2001:db8::1"));
        assert!(place.is_some() && per_address.enter(key("2001:db8::2")).is_none());
        assert!(per_address.enter(key("2001:db8:0:ff::1")).is_none());
        assert!(per_address.enter(key("2001:db8:0:100::1")).is_some());
    }

    #[test]
    fn addresses_without_connections_are_forgotten() {
        let per_address = PerAddress::new(8);
        let places: Vec<_> =
            (0..=255).map(|host| per_address.enter(key(&format!("192.0.2.{host}")))).collect();
        assert_eq!(per_address.counts().len(), 256);
        drop(places);
        assert_eq!(per_address.counts().len(), 0);
    }
}
