//! What a demo leaves in its data folder for `penstock rush` on the same machine and for its own next start:
//! its address and credentials. Only the owner can read it.

use std::{fs, io, path::Path};

use anyhow::Context as _;
use penstock_rush::api::ShopApi;
use serde::{Deserialize, Serialize};

use crate::folder::{self, DEMO_FILE};

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct DemoFile {
    pub(crate) url: String,
    /// None: the operator configured one, which must not be written down here.
    pub(crate) admin_token: Option<String>,
    pub(crate) jwt_secret: Option<String>,
}

impl DemoFile {
    pub(crate) fn write(&self, data: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        folder::write_durably(data, DEMO_FILE, text.as_bytes(), 0o600)
            .with_context(|| format!("{} can't be written", data.join(DEMO_FILE).display()))
    }

    /// The file of a demo in this folder, at any address.
    pub(crate) fn read(data: &Path) -> Option<Self> {
        let text = fs::read_to_string(data.join(DEMO_FILE)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// The file of the demo at `url`; a demo at another address does not count.
    pub(crate) fn of(data: &Path, url: &str) -> Option<Self> {
        let file = Self::read(data)?;
        // One server may have many names.
        let address = |url: &str| ShopApi::at(url, "").ok().map(|api| api.address);
        (address(&file.url)? == address(url)?).then_some(file)
    }

    /// Removes the file: a server without `--demo` does not know these secrets.
    pub(crate) fn remove(data: &Path) -> anyhow::Result<()> {
        let file = data.join(DEMO_FILE);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("{} can't be removed", file.display()))
            }
            _ => Ok(()),
        }
    }
}
