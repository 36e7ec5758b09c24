//! Why the gate turned somebody away. One code stands for several reasons, and operators need to know which
//! limit to look at.

use std::{
    array,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::problem::{Code, Problem};

macro_rules! reasons {
    ($($variant:ident = $name:literal, $code:ident;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Reason {
            $($variant,)*
        }

        impl Reason {
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            pub(crate) const fn code(self) -> Code {
                match self { $(Self::$variant => Code::$code,)* }
            }
        }
    };
}

reasons! {
    Address = "address", RateLimited;
    Node = "node", RateLimited;
    Buyer = "buyer", RateLimited;
    ReadsAddress = "reads_address", RateLimited;
    ReadsBuyer = "reads_buyer", RateLimited;
    Tickets = "tickets", RateLimited;
    InFlight = "in_flight", Busy;
    IntoLedger = "into_ledger", Busy;
    Queue = "queue", Busy;
    UsedChallenges = "used_challenges", Busy;
    LivePasses = "live_passes", Busy;
    Numbers = "numbers", Busy;
    Door = "door", Busy;
    Watchers = "watchers", Busy;
}

#[derive(Debug)]
pub(crate) struct TurnedAway([AtomicU64; Reason::ALL.len()]);

impl Default for TurnedAway {
    fn default() -> Self {
        Self(array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl TurnedAway {
    pub(crate) fn count(&self, reason: Reason) {
        self.0[reason as usize].fetch_add(1, Relaxed);
    }

    /// Counts the refusal and returns the problem to answer with.
    pub(crate) fn because(&self, reason: Reason) -> Problem {
        self.count(reason);
        reason.code().into()
    }

    pub(crate) fn read(&self, reason: Reason) -> u64 {
        self.0[reason as usize].load(Relaxed)
    }
}
