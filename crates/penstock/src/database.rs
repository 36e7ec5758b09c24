//! Where the database of record is, and its opening. What is in it, the records know.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use penstock_records::{Records, sqlite_url};

use crate::config::{Config, Engine};

fn file(config: &Config) -> PathBuf {
    config.data.join("records.db")
}

/// Opens the records for writing, creating them if there are none.
pub(crate) async fn open(config: &Config) -> anyhow::Result<Records> {
    connect(config, "").await
}

/// Opens the records, which have to exist already.
pub(crate) async fn open_existing(config: &Config) -> anyhow::Result<Records> {
    require(config)?;
    connect(config, "").await
}

/// Opens the records so that nothing in them can be changed.
pub(crate) async fn open_to_read(config: &Config) -> anyhow::Result<Records> {
    require(config)?;
    connect(config, "?mode=ro").await
}

fn require(config: &Config) -> anyhow::Result<()> {
    if config.engine == Engine::Cluster {
        return Ok(());
    }
    let file = file(config);
    if !file.exists() {
        bail!("there is no database of record at {}", file.display());
    }
    Ok(())
}

async fn connect(config: &Config, mode: &str) -> anyhow::Result<Records> {
    if let Some(url) = config.records.url.get() {
        let opened = Records::open(url, config.records.max_connections).await;
        // The URL has a password in it.
        return opened.context("records.url: the database of record can't be opened");
    }
    let file = file(config);
    let url = format!("{}{mode}", sqlite_url(&file));
    let opened = Records::open(&url, config.records.max_connections).await;
    opened.with_context(|| format!("the database of record {} can't be opened", file.display()))
}
