//! The suite is passed by an engine with a stream per sale, too.

use penstock_ledger::conformance::PerSale;

penstock_ledger::ledger_conformance_suite!(PerSale::default);
