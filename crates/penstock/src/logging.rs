//! Logs go to stderr, as text for people or as JSON for machines; stdout is for results.

use std::io::{IsTerminal as _, stderr};

use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, LogSettings};

pub(crate) fn start(log: &LogSettings) -> anyhow::Result<()> {
    let filter: EnvFilter = log.level.0.parse()?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    let started = match log.format {
        LogFormat::Text => builder.with_ansi(stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("logging can't be started: {error}"))
}
