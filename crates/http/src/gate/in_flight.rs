//! How many claims may be decided at once: a limit for each server that decides, so that one that is slow or hangs keeps
//! nobody from the sales of the others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

    pub(crate) fn of(&self, home: Home) -> Arc<Shedding> {
        let new = || Arc::new(Shedding::new(self.options));
        Arc::clone(self.locked().entry(home).or_insert_with(new))
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
