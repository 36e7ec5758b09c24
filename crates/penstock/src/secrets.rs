//! The secrets that tokens are signed with: from the configuration, or made once and kept in the data folder.
//! They change without a restart: `penstock admin rotate-secret` writes a new one beside the old.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use penstock_http::Secrets;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::{
    config::Identity,
    folder::{self, KeptSecrets},
};

/// How soon a running server notices that the secret has been rotated.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The secrets as they are now, made if there are none.
pub(crate) fn load(identity: &Identity, data: &Path) -> anyhow::Result<Secrets> {
    match identity.secret.get() {
        Some(secret) => Ok(secrets(secret, identity.previous_secret.get())),
        None => folder::secrets_or_new(data).map(|kept| of_kept(&kept)),
    }
}

fn of_kept(kept: &KeptSecrets) -> Secrets {
    secrets(&kept.current, kept.previous.as_deref())
}

/// Brings them to the length that is needed.
fn secrets(current: &str, previous: Option<&str>) -> Secrets {
    let digest = |secret: &str| Sha256::digest(secret.as_bytes()).into();
    Secrets { current: digest(current), previous: previous.map(digest) }
}

/// Tells of every rotation in the data folder, until nobody listens any more.
pub(crate) async fn watch_folder(data: PathBuf, told: watch::Sender<Secrets>) {
    let mut watcher = Watcher { data, told, is_blind: false };
    let mut look = tokio::time::interval(LOOK_EVERY);
    loop {
        tokio::select! {
            () = watcher.told.closed() => return,
            _ = look.tick() => watcher.look(),
        }
    }
}

struct Watcher {
    data: PathBuf,
    told: watch::Sender<Secrets>,
    /// The file could not be read the last time, and the log says so.
    is_blind: bool,
}

impl Watcher {
    /// Never makes a secret: those in use stay good, whatever became of the file.
    fn look(&mut self) {
        match folder::secrets(&self.data) {
            Ok(kept) => {
                self.is_blind = false;
                let secrets = of_kept(&kept);
                let is_new = self.told.send_if_modified(|known| std::mem::replace(known, secrets) != secrets);
                if is_new {
                    tracing::info!("the secret was rotated; what the one before signed is still good");
                }
            }
            Err(error) => {
                if !self.is_blind {
                    let error = format!("{error:#}");
                    tracing::warn!(error, "the secret can't be read again; the one in use stays");
                }
                self.is_blind = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_running_server_keeps_its_secrets_whatever_becomes_of_the_file() {
        let place = tempfile::tempdir().unwrap();
        let (data, file) = (place.path(), place.path().join("secret"));
        let first = of_kept(&folder::secrets_or_new(data).unwrap());
        let (told, known) = watch::channel(first);
        let mut watcher = Watcher { data: data.to_owned(), told, is_blind: false };
        watcher.look();
        let text = fs::read(&file).unwrap();

        fs::remove_file(&file).unwrap();
        watcher.look();
        assert!(watcher.is_blind && !file.exists(), "it makes no secret of its own");
        for damage in ["", "short", "\n\n"] {
            fs::write(&file, damage).unwrap();
            watcher.look();
            assert!(watcher.is_blind, "{damage:?}");
        }
        assert!(!known.has_changed().unwrap());

        fs::write(&file, text).unwrap();
        watcher.look();
        assert!(!watcher.is_blind && !known.has_changed().unwrap(), "it is the same again");
        folder::rotate_secret(data).unwrap();
        watcher.look();
        assert_eq!(known.borrow().previous, Some(first.current));
    }
}
