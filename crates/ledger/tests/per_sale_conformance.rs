//! An engine with a stream per sale passes the suite, too.

use penstock_ledger::conformance::PerSale;

penstock_ledger::ledger_conformance_suite!(PerSale::default);
