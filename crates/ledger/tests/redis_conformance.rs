//! The engine on a single Redis passes the suite that every engine passes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::sync::Arc;

use penstock_ledger::{BatcherOptions, Clock, Ledger, Listener, conformance::Subject};
use support::OneServer;

impl Subject for OneServer {
    async fn open(&self, batcher: BatcherOptions, clock: Clock, listener: Arc<dyn Listener>) -> Ledger {
        self.open_ledger(batcher, Some(clock), listener).await
    }
}

penstock_ledger::ledger_conformance_suite!(OneServer::start);
