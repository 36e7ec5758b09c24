//! Why the gate turned somebody away. One code stands for several reasons, and operators need to know which
//! limit to look at.

use std::{
    array,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

macro_rules! reasons {
    ($($variant:ident = $name:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Reason {
            $($variant,)*
        }

        impl Reason {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

reasons! {
    Address = "address";
    Node = "node";
    Buyer = "buyer";
    ReadsAddress = "reads_address";
    ReadsBuyer = "reads_buyer";
    Tickets = "tickets";
    InFlight = "in_flight";
    IntoLedger = "into_ledger";
    Queue = "queue";
    UsedChallenges = "used_challenges";
    LivePasses = "live_passes";
    Numbers = "numbers";
    Door = "door";
    Watchers = "watchers";
}

/// The gate turned somebody away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnedAway {
    pub reason: Reason,
    /// Known if a limit on a rate was reached.
    pub retry_after_seconds: Option<u32>,
}

/// How many were turned away, by reason.
#[derive(Debug)]
pub struct Turnaways([AtomicU64; Reason::ALL.len()]);

impl Default for Turnaways {
    fn default() -> Self {
        Self(array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Turnaways {
    pub fn count(&self, reason: Reason) {
        self.0[reason as usize].fetch_add(1, Relaxed);
    }

    /// Counts it.
    pub fn because(&self, reason: Reason) -> TurnedAway {
        self.count(reason);
        TurnedAway { reason, retry_after_seconds: None }
    }

    pub fn read(&self, reason: Reason) -> u64 {
        self.0[reason as usize].load(Relaxed)
    }
}
