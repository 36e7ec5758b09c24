//! How many claims may be decided at once: a limit for each deciding server, so that a slow or hanging one
//! does not block the sales of the others.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use penstock_gate::{Shedding, SheddingOptions};
use penstock_ledger::Home;

pub struct ClaimsInFlight {
    options: SheddingOptions,
    by_home: Mutex<HashMap<Home, Arc<Shedding>>>,
}

impl ClaimsInFlight {
    pub fn new(options: SheddingOptions) -> Self {
        Self { options, by_home: Mutex::default() }
    }

    /// The limit of the home. It is stored in `at_hand`, of a sale that is decided there, because the sale
    /// may have had another home.
    pub fn of(&self, home: Home, at_hand: &ArcSwapOption<Shedding>) -> Arc<Shedding> {
        let new = || Arc::new(Shedding::new(self.options));
        let limit = Arc::clone(self.by_home.lock().entry(home).or_insert_with(new));
        if at_hand.load().as_ref().is_none_or(|current| !Arc::ptr_eq(current, &limit)) {
            at_hand.store(Some(Arc::clone(&limit)));
        }
        limit
    }

    /// Forgets servers that no longer decide any sale. Claims under way there keep their limit until they
    /// end.
    pub fn keep_only(&self, homes: &HashSet<Home>) {
        self.by_home.lock().retain(|home, _| homes.contains(home));
    }

    /// Forgets the measurements of the last rush, so that the next one is let in whole.
    pub fn begin_again_if_quiet(&self) {
        self.by_home.lock().values().for_each(|limit| limit.begin_again_if_quiet());
    }

    /// The claims on all servers together.
    pub fn count(&self) -> u64 {
        self.by_home.lock().values().map(|limit| u64::from(limit.in_flight())).sum()
    }

    /// The limits of all servers together.
    pub fn limit(&self) -> u64 {
        let by_home = self.by_home.lock();
        if by_home.is_empty() {
            // The limit that the first claim will find.
            return Shedding::new(self.options).limit().into();
        }
        by_home.values().map(|limit| u64::from(limit.limit())).sum()
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
    fn a_full_home_does_not_block_another() {
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
        assert_eq!((claims.count(), claims.limit()), (1, 2), "the forgotten home no longer counts");
        assert!(Arc::ptr_eq(&kept, &of(&claims, "kept")));
        assert_eq!(gone.in_flight(), 1, "a claim under way keeps its place");
        drop(place);
        assert_eq!(gone.in_flight(), 0);
        assert!(!Arc::ptr_eq(&gone, &of(&claims, "gone")), "it comes back as a new home");
    }

    #[test]
    fn a_sale_that_moves_has_the_limit_of_its_new_home() {
        let claims = claims(1);
        let at_hand = ArcSwapOption::empty();
        let before = claims.of(home("before"), &at_hand);
        let _place = before.try_enter().unwrap();
        assert!(at_hand.load_full().unwrap().try_enter().is_none());
        let after = claims.of(home("after"), &at_hand);
        assert!(Arc::ptr_eq(&after, &at_hand.load_full().unwrap()));
        assert!(after.try_enter().is_some(), "the claims that the old home still decides don't count");
    }
}
