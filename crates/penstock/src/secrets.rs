//! The secrets that tokens are signed with: from the configuration, or made once and kept in the data folder.
//! They change without a restart: `penstock admin rotate-secret` writes a new one beside the old.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use penstock_http::Secrets;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::{config::Identity, folder};

/// How soon a running server notices that the secret has been rotated.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The secrets as they are now, made if there are none.
pub(crate) fn load(identity: &Identity, data: &Path) -> anyhow::Result<Secrets> {
    match identity.secret.get() {
        Some(secret) => Ok(secrets(secret, identity.previous_secret.get())),
        None => of_folder(data),
    }
}

fn of_folder(data: &Path) -> anyhow::Result<Secrets> {
    let kept = folder::secrets(data)?;
    Ok(secrets(&kept.current, kept.previous.as_deref()))
}

/// Brings them to the length that is needed.
fn secrets(current: &str, previous: Option<&str>) -> Secrets {
    let digest = |secret: &str| Sha256::digest(secret.as_bytes()).into();
    Secrets { current: digest(current), previous: previous.map(digest) }
}

/// Tells of every rotation in the data folder, until nobody listens any more.
pub(crate) async fn watch_folder(data: PathBuf, told: watch::Sender<Secrets>) {
    let mut look = tokio::time::interval(LOOK_EVERY);
    loop {
        tokio::select! {
            () = told.closed() => return,
            _ = look.tick() => {}
        }
        match of_folder(&data) {
            Ok(secrets) => {
                let is_new = told.send_if_modified(|known| std::mem::replace(known, secrets) != secrets);
                if is_new {
                    tracing::info!("the secret was rotated; what the one before signed is still good");
                }
            }
            // The secrets in use stay good; `serve` complains about a broken file when it starts.
            Err(error) => tracing::warn!(error = format!("{error:#}"), "the secret can't be read again"),
        }
    }
}
