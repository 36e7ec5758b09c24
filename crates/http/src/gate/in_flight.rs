//! How many claims may be decided at once: a limit for each server that decides, so that one that is slow or hangs keeps
//! nobody from the sales of the others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;
use hashbrown::{HashMap, HashSet};
use penstock_gate::{Shedding, SheddingOptions};
use penstock_ledger::Home;

pub(crate) struct ClaimsInFlight {
    options: SheddingOptions,
    by_home: Mutex<HashMap<Home, Arc<Shedding>>>,
}

impl ClaimsInFlight {
    pub(super) fn new(options: SheddingOptions) -> Self {
        Self { options, by_home: Mutex::default() }
    }

    /// The limit of the home. It is kept at hand for a sale that is decided there: that may be another home than before.
    pub(crate) fn of(&self, home: Home, at_hand: &ArcSwapOption<Shedding>) -> Arc<Shedding> {
        let new = || Arc::new(Shedding::new(self.options));
        let limit = Arc::clone(self.locked().entry(home).or_insert_with(new));
        if at_hand.load().as_ref().is_none_or(|current| !Arc::ptr_eq(current, &limit)) {
            at_hand.store(Some(Arc::clone(&limit)));
        }
        limit
    }

    /// Forgets the servers that decide no sale any more. Claims that are under way there keep their limit until they end.
    pub(crate) fn keep_only(&self, homes: &HashSet<Home>) {
        self.locked().retain(|home, _| homes.contains(home));
    }

    /// Lets the next rush in whole, whatever was measured in the last.
    pub(crate) fn begin_again_if_quiet(&self) {
        self.locked().values().for_each(|limit| limit.begin_again_if_quiet());
    }

    /// On all servers together.
    pub(crate) fn count(&self) -> u64 {
        self.locked().values().map(|limit| u64::from(limit.in_flight())).sum()
    }

    /// Of all servers together.
    pub(crate) fn limit(&self) -> u64 {
        let by_home = self.locked();
        if by_home.is_empty() {
            // Whatever comes first will find this.
            return Shedding::new(self.options).limit().into();
        }
        by_home.values().map(|limit| u64::from(limit.limit())).sum()
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Home, Arc<Shedding>>> {
        self.by_home.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn claims(max: u32) -> ClaimsInFlight {
        let target_latency = Duration::from_millis(50);
        ClaimsInFlight::new(SheddingOptions { min: 1, max, initial: max, target_latency })
    }

    fn home(name: &str) -> Home {
        Home(name.into())
    }

    fn of(claims: &ClaimsInFlight, name: &str) -> Arc<Shedding> {
        claims.of(home(name), &ArcSwapOption::empty())
    }

    #[test]
    fn a_home_that_is_full_keeps_nobody_from_another() {
        let claims = claims(1);
        let _place = of(&claims, "a").try_enter().unwrap();
        assert!(of(&claims, "a").try_enter().is_none());
        assert!(of(&claims, "b").try_enter().is_some());
        assert_eq!((claims.count(), claims.limit()), (1, 2));
    }

    #[test]
    fn only_homes_that_decide_a_sale_keep_their_limit() {
        let claims = claims(2);
        let (kept, gone) = (of(&claims, "kept"), of(&claims, "gone"));
        let (_place, place) = (kept.try_enter().unwrap(), gone.try_enter().unwrap());
        claims.keep_only(&HashSet::from_iter([home("kept")]));
        assert_eq!((claims.count(), claims.limit()), (1, 2), "nothing is left of the one that is gone");
        assert!(Arc::ptr_eq(&kept, &of(&claims, "kept")));
        assert_eq!(gone.in_flight(), 1, "whoever is there keeps their place");
        drop(place);
        assert_eq!(gone.in_flight(), 0);
        assert!(!Arc::ptr_eq(&gone, &of(&claims, "gone")), "it comes back as a new one");
    }

    #[test]
    fn a_sale_that_moves_has_the_limit_of_its_new_home() {
        let claims = claims(1);
        let at_hand = ArcSwapOption::empty();
        let before = claims.of(home("before"), &at_hand);
        let _place = before.try_enter().unwrap();
        assert!(at_hand.load_full().unwrap().is_full());
        let after = claims.of(home("after"), &at_hand);
        assert!(Arc::ptr_eq(&after, &at_hand.load_full().unwrap()));
        assert!(after.try_enter().is_some(), "the claims that the old home still decides don't count");
    }
}
