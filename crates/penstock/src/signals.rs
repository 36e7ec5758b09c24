//! SIGTERM and SIGINT: the first one asks to drain, a second one ends the process at once.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What shells report for a process that SIGINT ended.
const EXIT_INTERRUPTED: i32 = 130;

#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes over the signals; from here on they don't kill the process.
    pub(crate) fn take_over() -> anyhow::Result<Self> {
        let take = |kind| signal(kind).context("signals can't be handled");
        Ok(Self { terminate: take(SignalKind::terminate())?, interrupt: take(SignalKind::interrupt())? })
    }

    /// Waits for either signal and returns its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// Ends the process at the next signal. Whatever was answered is durable, so nothing is lost.
    pub(crate) async fn end_at_next(mut self) {
        let name = self.next().await;
        tracing::warn!(signal = name, "ending at once, without draining");
        std::process::exit(EXIT_INTERRUPTED);
    }
}
