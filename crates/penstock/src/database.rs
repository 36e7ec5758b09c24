//! Where the database of record is, and its opening. What is in it, the records know.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use penstock_records::{Records, sqlite_url};

use crate::config::Config;

fn records_file(config: &Config) -> PathBuf {
    config.data.join("records.db")
}

/// Opens the records, creating them if there are none.
pub(crate) async fn open(config: &Config) -> anyhow::Result<Records> {
    let url = match config.records.url.as_str() {
        "" => sqlite_url(&records_file(config)),
        url => url.to_owned(),
    };
    let opened = Records::open(&url, config.records.max_connections).await;
    opened.with_context(|| format!("the database of record ({}) can't be opened", shown(&url)))
}

/// Opens the records, which have to exist already.
pub(crate) async fn open_existing(config: &Config) -> anyhow::Result<Records> {
    let file = records_file(config);
    if config.records.url.is_empty() && !file.exists() {
        bail!("there is no database of record at {}", file.display());
    }
    open(config).await
}

/// A database URL without the password in it.
fn shown(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, place))) => format!("{scheme}://…@{place}"),
        _ => url.to_owned(),
    }
}
