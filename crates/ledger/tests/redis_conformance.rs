//! The engine on Redis passes the suite that every engine passes: on one server, with sentinels, and on a
//! Cluster.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use support::{Corner, Servers, Shared};

static ONE: Shared = Shared::new(Servers::one);
static SENTINEL: Shared = Shared::new(Servers::sentinel);
static CLUSTER: Shared = Shared::new(Servers::cluster);

mod one {
    fn make() -> super::Corner {
        super::Corner::of(super::ONE.take())
    }

    penstock_ledger::ledger_conformance_suite!(make);
}

mod sentinel {
    fn make() -> super::Corner {
        super::Corner::of(super::SENTINEL.take())
    }

    penstock_ledger::ledger_conformance_suite!(make);
}

mod cluster {
    fn make() -> super::Corner {
        super::Corner::of(super::CLUSTER.take())
    }

    penstock_ledger::ledger_conformance_suite!(make);
}
