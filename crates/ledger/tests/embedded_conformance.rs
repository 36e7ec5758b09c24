//! The embedded engine passes the suite that every engine passes.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::sync::Arc;

use penstock_ledger::{
    BatcherOptions, Clock, Ledger, Listener,
    conformance::Subject,
    embedded::{self, EmbeddedOptions},
};
use tempfile::TempDir;

struct Embedded {
    folder: TempDir,
}

impl Subject for Embedded {
    async fn open(&self, batcher: BatcherOptions, clock: Clock, listener: Arc<dyn Listener>) -> Ledger {
        // Small enough that snapshots are made during the tests.
        let options = EmbeddedOptions {
            batcher,
            compact_after_decisions: 10,
            ..EmbeddedOptions::new(self.folder.path())
        };
        embedded::open(options, clock, listener).unwrap()
    }
}

fn embedded_engine() -> Embedded {
    Embedded { folder: TempDir::new().unwrap() }
}

penstock_ledger::ledger_conformance_suite!(embedded_engine);
