//! The settings of the application, and its ports to everything outside.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicBool},
};

use penstock_ledger::Clock;
use tokio::sync::watch;

use crate::{
    gate::GateOptions,
    identity::IdentityOptions,
    ports::{Neighbours, NoNeighbours, NoSharedCache, NoSharedFigures, NodePart, SharedCache, SharedFigures},
    secrets::Secrets,
};

#[derive(Clone)]
pub struct ShopOptions {
    /// The server's only source of time.
    pub clock: Clock,
    /// Sign sessions, passes, tickets and challenges. A change takes effect at once.
    pub secrets: watch::Receiver<Secrets>,
    /// Whether there may be a newer secret that this node could not learn of. Then a forged session can't be
    /// told from one that another node has just begun.
    pub is_secret_in_doubt: Arc<AtomicBool>,
    /// Sessions, passwords, one-time codes and phones.
    pub identity: IdentityOptions,
    /// Challenges, passes, waiting rooms and limits.
    pub gate: GateOptions,
    /// The progress of settlement, for the metrics.
    pub settlement: Arc<dyn Fn() -> SettlementView + Send + Sync>,
    /// The name of this node; empty for a shop with a single node.
    pub node: String,
    /// The other nodes.
    pub neighbours: Arc<dyn Neighbours>,
    /// The cache for items and sales that the nodes share.
    pub shared_cache: Arc<dyn SharedCache>,
    /// The counters that the nodes show each other.
    pub shared_figures: Arc<dyn SharedFigures>,
    /// Further parts that `/readyz` and `/metrics` show.
    pub parts: Vec<Arc<dyn NodePart>>,
}

impl ShopOptions {
    pub fn new(clock: Clock, secret: [u8; 32]) -> Self {
        Self {
            clock,
            secrets: watch::channel(Secrets { current: secret, previous: None }).1,
            is_secret_in_doubt: Arc::default(),
            identity: IdentityOptions::default(),
            gate: GateOptions::default(),
            settlement: Arc::new(SettlementView::default),
            node: String::new(),
            neighbours: Arc::new(NoNeighbours),
            shared_cache: Arc::new(NoSharedCache),
            shared_figures: Arc::new(NoSharedFigures),
            parts: Vec::new(),
        }
    }
}

impl fmt::Debug for ShopOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ShopOptions")
            .field("node", &self.node)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// The progress of settlement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SettlementView {
    pub position: u64,
    pub lag_decisions: u64,
    pub lag_seconds: f64,
    pub retries: u64,
    pub dead_letters: u64,
    pub expired: u64,
    /// Decisions that would have sold a unit that does not exist, or too many to one buyer.
    pub violations: u64,
    pub takeovers: u64,
    pub diverged: u64,
    /// Why something is not settled at the moment; None if nothing is wrong.
    pub trouble: Option<String>,
}
