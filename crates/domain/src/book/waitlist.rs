//! The waitlist of one sale in memory: first come, first served. Finding a buyer's place takes a few steps,
//! however long the list is.

use hashbrown::HashMap;

use crate::{BuyerId, MAX_WAITERS, Place, Waiter};

/// Gaps are closed only when there are more of them than waiters and this number together.
const MIN_GAPS: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Waitlist {
    /// In the order of their numbers. An entry is None when the buyer has left.
    places: Vec<Option<Waiter>>,
    /// All places before this one are empty.
    first: usize,
    /// Waiters per span of places: a binary indexed tree. Entry `i` covers as many places as the lowest set
    /// bit of `i + 1` says, up to and including `i`.
    counts: Vec<u32>,
    /// The place of each buyer.
    by_buyer: HashMap<BuyerId, usize>,
    next_number: u32,
}

impl Waitlist {
    pub(super) fn len(&self) -> usize {
        self.by_buyer.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_buyer.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= MAX_WAITERS as usize || self.next_number == u32::MAX
    }

    pub(super) fn next_number(&self) -> u32 {
        self.next_number
    }

    /// The next waiter to get an offer.
    pub(super) fn front(&self) -> Option<&Waiter> {
        self.places.get(self.first)?.as_ref()
    }

    pub(super) fn find(&self, buyer: &BuyerId) -> Option<&Waiter> {
        self.places.get(*self.by_buyer.get(buyer)?)?.as_ref()
    }

    pub(super) fn place(&self, buyer: &BuyerId) -> Option<Place> {
        let waiter = self.find(buyer)?;
        let position = self.count_up_to(*self.by_buyer.get(buyer)?);
        Some(Place { position, quantity: waiter.quantity, joined_at: waiter.joined_at })
    }

    pub(super) fn waiters(&self) -> impl Iterator<Item = &Waiter> {
        self.places.iter().flatten()
    }

    /// # Panics
    /// If the buyer is already on the list, or the waiter's number is not higher than all before.
    pub(super) fn push(&mut self, waiter: Waiter) {
        assert!(waiter.number >= self.next_number, "waiter {} is out of turn", waiter.number);
        assert!(!self.is_full(), "the waitlist is full");
        self.next_number = waiter.number + 1;
        let place = self.places.len();
        let known = self.by_buyer.insert(waiter.buyer.clone(), place);
        assert!(known.is_none(), "one buyer, two places on the waitlist");
        self.places.push(Some(waiter));
        // The new entry covers its own place and the spans that end right before it.
        let (mut count, mut before) = (1, place);
        let span_begins = place + 1 - lowest_bit(place + 1);
        while before > span_begins {
            count += self.counts[before - 1];
            before -= lowest_bit(before);
        }
        self.counts.push(count);
    }

    /// # Panics
    /// If the buyer is not on the list with this number.
    pub(super) fn remove(&mut self, buyer: &BuyerId, number: u32) {
        let place =
            self.by_buyer.remove(buyer).unwrap_or_else(|| panic!("waiter {number} is not on the list"));
        let waiter = self.places.get_mut(place).and_then(Option::take);
        assert_eq!(waiter.map(|waiter| waiter.number), Some(number), "the waiter has another number");
        let mut entry = place + 1;
        while let Some(count) = self.counts.get_mut(entry - 1) {
            *count -= 1;
            entry += lowest_bit(entry);
        }
        while matches!(self.places.get(self.first), Some(None)) {
            self.first += 1;
        }
        if self.places.len() > 2 * self.len() + MIN_GAPS {
            self.close_gaps();
        }
    }

    /// Raises the next number to this one, if it is lower.
    pub(super) fn skip_to(&mut self, next_number: u32) {
        self.next_number = self.next_number.max(next_number);
    }

    fn close_gaps(&mut self) {
        let next_number = self.next_number;
        let places = std::mem::take(self).places;
        for waiter in places.into_iter().flatten() {
            self.push(waiter);
        }
        self.next_number = next_number;
    }

    /// The number of waiters at the places up to and including this one.
    fn count_up_to(&self, place: usize) -> u32 {
        let (mut count, mut entry) = (0, place + 1);
        while entry > 0 {
            count += self.counts[entry - 1];
            entry -= lowest_bit(entry);
        }
        count
    }

    /// Recounts everything.
    pub(super) fn assert_consistent(&self) {
        let mut waiting = 0;
        for (place, waiter) in self.places.iter().enumerate() {
            let Some(waiter) = waiter else { continue };
            waiting += 1;
            assert_eq!(self.by_buyer.get(&waiter.buyer), Some(&place), "every waiter is found by name");
            assert_eq!(self.count_up_to(place), waiting, "a place on the waitlist");
        }
        assert_eq!(self.len(), waiting as usize, "the length of the waitlist");
        assert!(self.waiters().is_sorted_by_key(|waiter| waiter.number), "the order of the waitlist");
        assert_eq!(self.front(), self.waiters().next(), "the first waiter");
    }
}

const fn lowest_bit(number: usize) -> usize {
    number & number.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    fn buyer(number: u32) -> BuyerId {
        BuyerId::of_subject(&number.to_string()).unwrap()
    }

    fn push(list: &mut Waitlist, number: u32) {
        let joined_at = Timestamp::from_millis(0);
        list.push(Waiter { number, buyer: buyer(number), quantity: 1, joined_at });
    }

    #[test]
    fn places_stay_right_when_anybody_leaves() {
        let mut list = Waitlist::default();
        (0..1_000).for_each(|number| push(&mut list, number));
        for step in [7, 3, 2] {
            for number in (0..1_000)
                .step_by(step)
                .filter(|number| list.find(&buyer(*number)).is_some())
                .collect::<Vec<_>>()
            {
                list.remove(&buyer(number), number);
            }
            list.assert_consistent();
            let next = list.next_number();
            (next..next + 10).for_each(|number| push(&mut list, number));
            list.assert_consistent();
        }
        assert_eq!(list.front().map(|waiter| waiter.number), Some(1));
        assert_eq!(list.place(&buyer(1)).map(|place| place.position), Some(1));
        assert_eq!(list.place(&buyer(0)), None);
    }

    #[test]
    fn waiters_who_leave_free_their_places() {
        let mut list = Waitlist::default();
        push(&mut list, 0);
        for number in 1..10_000 {
            push(&mut list, number);
            list.remove(&buyer(number), number);
        }
        assert_eq!((list.len(), list.next_number()), (1, 10_000));
        assert!(list.places.len() <= MIN_GAPS + 4, "{}", list.places.len());
    }
}
