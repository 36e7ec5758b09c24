//! Locates and opens the database of record. The records know what is in it.

use std::{path::PathBuf, thread, time::Duration};

use anyhow::{Context as _, bail};
use penstock_records::{Records, RecordsError, sqlite_url};

use crate::{
    config::{Config, EngineKind},
    folder,
};

const RETRY_INTERVAL: Duration = Duration::from_secs(1);

fn file(config: &Config) -> PathBuf {
    config.data.join(folder::RECORDS_FILE)
}

/// Opens the records for writing, creating them if there are none.
pub(crate) async fn open(config: &Config) -> anyhow::Result<Records> {
    connect(config, "").await
}

/// Opens the records of a cluster even if their server can't be reached: a node sells without them.
pub(crate) async fn open_for_node(config: &Config) -> anyhow::Result<Records> {
    match (config.records.url.get(), open(config).await) {
        (Some(config_url), Err(error)) if is_unavailable(&error) => {
            let error = format!("{error:#}");
            tracing::error!(
                error,
                "starting without the database of record; trying again until it can be reached"
            );
            let url = config_url.to_owned();
            // On its own thread, because the future of a migration is bound to one.
            thread::Builder::new().name("records".to_owned()).spawn(move || open_when_back(&url))?;
            Ok(Records::open_later(config_url, config.records.max_connections)?)
        }
        (_, opened) => opened,
    }
}

fn is_unavailable(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(RecordsError::Unavailable(_)))
}

/// Brings the schema up to date as soon as the server is back; it may be older than this program.
fn open_when_back(url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let opened = runtime.map(|runtime| runtime.block_on(open_until_it_works(url)));
    match opened {
        Ok(Ok(())) => tracing::info!("the database of record can be reached"),
        Ok(Err(error)) => tracing::error!(%error, "the database of record can't be used"),
        Err(error) => {
            tracing::error!(%error, "can't check whether the database of record is back; restart this node when it is")
        }
    }
}

async fn open_until_it_works(url: &str) -> Result<(), RecordsError> {
    loop {
        tokio::time::sleep(RETRY_INTERVAL).await;
        match Records::open(url, 1).await {
            Err(RecordsError::Unavailable(_)) => {}
            opened => {
                opened?.close().await;
                return Ok(());
            }
        }
    }
}

/// Opens the records, which have to exist already.
pub(crate) async fn open_existing(config: &Config) -> anyhow::Result<Records> {
    require(config)?;
    connect(config, "").await
}

/// Opens the records read-only.
pub(crate) async fn open_to_read(config: &Config) -> anyhow::Result<Records> {
    require(config)?;
    connect(config, "?mode=ro").await
}

fn require(config: &Config) -> anyhow::Result<()> {
    if config.engine == EngineKind::Cluster {
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
        // The URL contains a password.
        return opened.context("records.url: the database of record can't be opened");
    }
    let file = file(config);
    let url = format!("{}{mode}", sqlite_url(&file));
    let opened = Records::open(&url, config.records.max_connections).await;
    opened.with_context(|| format!("the database of record {} can't be opened", file.display()))
}
