//! The secrets that tokens are signed with: from the configuration, or created once and kept in the data
//! folder or in a cluster's records. They change without a restart: `penstock admin rotate-secret` writes a
//! new one beside the old.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow, bail};
use penstock_records::{Records, StoredSecrets};
use penstock_shop::Secrets;
use sha2::{Digest as _, Sha256};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, timeout},
};

use crate::{
    config::IdentitySettings,
    secret_file::{self, KeptSecrets},
};

/// How soon a running server notices that the secret has been rotated.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_AT_RECORDS_EVERY: Duration = Duration::from_millis(500);
/// How long a cluster's new secret is only accepted and does not sign. By then all nodes have seen it, even
/// one that had to try again.
const ANNOUNCED_MILLISECONDS: u64 = 3_000;
/// A node that has not read the secrets for longer than this may meet a signature that it can't check. Well
/// below the time until a new secret signs.
const IN_DOUBT_AFTER: Duration = Duration::from_millis(1_500);
/// Longer than the announcement: by then even the slowest node signs with the new secret.
const ROTATED_AGAIN_AFTER_MILLISECONDS: u64 = 10_000;
const LOOK_PATIENCE: Duration = Duration::from_secs(1);

/// The current secrets; created if there are none.
pub(crate) fn load(identity: &IdentitySettings, data: &Path) -> anyhow::Result<Secrets> {
    match identity.secret.get() {
        Some(secret) => Ok(secrets(secret, identity.previous_secret.get())),
        None => secret_file::load_or_make(data).map(|kept| of_kept(&kept)),
    }
}

fn of_kept(kept: &KeptSecrets) -> Secrets {
    secrets(&kept.current, kept.previous.as_deref())
}

/// Derives secrets of the required length.
fn secrets(current: &str, previous: Option<&str>) -> Secrets {
    let digest = |secret: &str| Sha256::digest(secret.as_bytes()).into();
    Secrets { current: digest(current), previous: previous.map(digest) }
}

/// The current secrets of a cluster: from the configuration, or from the records, where the first node to
/// start puts one.
pub(crate) async fn load_shared(identity: &IdentitySettings, records: &Records) -> anyhow::Result<Secrets> {
    if let Some(secret) = identity.secret.get() {
        return Ok(secrets(secret, identity.previous_secret.get()));
    }
    stored(records).await.context("the secret of the cluster can't be read")
}

async fn stored(records: &Records) -> anyhow::Result<Secrets> {
    Ok(of_stored(&records.secrets_or(&secret_file::random_secret()?).await?))
}

/// A new secret is known for a while before any node signs with it: every node has to accept what any other
/// signs.
fn of_stored(stored: &StoredSecrets) -> Secrets {
    match &stored.previous {
        Some(previous) if stored.age_milliseconds < ANNOUNCED_MILLISECONDS => {
            secrets(previous, Some(&stored.current))
        }
        previous => secrets(&stored.current, previous.as_deref()),
    }
}

/// Puts a new secret into the records, but not while the last one is still being announced. Only two are
/// valid at a time, and the one that signs now would not be among them.
pub(crate) async fn rotate_in(records: &Records) -> anyhow::Result<()> {
    match records.secrets().await? {
        None => bail!("there is no secret in the records yet: the first node that starts makes it"),
        Some(stored)
            if stored.previous.is_some() && stored.age_milliseconds < ROTATED_AGAIN_AFTER_MILLISECONDS =>
        {
            bail!(
                "the secret was replaced just now, and another one would sign everybody out: wait ten seconds"
            )
        }
        Some(_) => records.rotate_secret(&secret_file::random_secret()?).await.map(drop).map_err(Into::into),
    }
}

/// Reports every rotation in the data folder, until nobody listens.
pub(crate) async fn watch_folder(data: PathBuf, told: watch::Sender<Secrets>) {
    let mut watcher = Watcher { told, is_blind: false };
    let mut look = tokio::time::interval(LOOK_EVERY);
    loop {
        tokio::select! {
            () = watcher.told.closed() => return,
            _ = look.tick() => watcher.take(secret_file::load(&data).map(|kept| of_kept(&kept))),
        }
    }
}

/// Reports every rotation in the records, until nobody listens. Sets `is_in_doubt` while it may be missing
/// one.
pub(crate) async fn watch_records(
    records: Records,
    told: watch::Sender<Secrets>,
    is_in_doubt: Arc<AtomicBool>,
) {
    let mut watcher = Watcher { told, is_blind: false };
    let mut seen = Instant::now();
    let mut look = tokio::time::interval(LOOK_AT_RECORDS_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = watcher.told.closed() => return,
            _ = look.tick() => {}
        }
        let stored = match timeout(LOOK_PATIENCE, records.secrets()).await {
            Ok(Ok(Some(stored))) => Ok(of_stored(&stored)),
            Ok(Ok(None)) => Err(anyhow!("the records no longer contain it")),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(anyhow!("the database of record is too slow")),
        };
        if stored.is_ok() {
            seen = Instant::now();
        }
        watcher.take(stored);
        is_in_doubt.store(seen.elapsed() > IN_DOUBT_AFTER, Relaxed);
    }
}

struct Watcher {
    told: watch::Sender<Secrets>,
    /// The last attempt to read them failed, and that was logged.
    is_blind: bool,
}

impl Watcher {
    /// The secrets in use stay valid even if the stored ones can't be read.
    fn take(&mut self, read: anyhow::Result<Secrets>) {
        match read {
            Ok(secrets) => {
                self.is_blind = false;
                let is_new = self.told.send_if_modified(|known| std::mem::replace(known, secrets) != secrets);
                if is_new {
                    tracing::info!("the secret was rotated; what the previous one signed is still valid");
                }
            }
            Err(error) => {
                if !self.is_blind {
                    let error = format!("{error:#}");
                    tracing::warn!(error, "the secret can't be read; the one in use stays valid");
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
    fn a_running_server_keeps_its_secrets_whatever_happens_to_the_file() {
        let place = tempfile::tempdir().unwrap();
        let (data, file) = (place.path(), place.path().join("secret"));
        let first = of_kept(&secret_file::load_or_make(data).unwrap());
        let (told, known) = watch::channel(first);
        let mut watcher = Watcher { told, is_blind: false };
        // It never creates a secret.
        let mut look = || {
            watcher.take(secret_file::load(data).map(|kept| of_kept(&kept)));
            watcher.is_blind
        };
        assert!(!look());
        let text = fs::read(&file).unwrap();

        fs::remove_file(&file).unwrap();
        assert!(look() && !file.exists(), "it creates no secret");
        for damage in ["", "short", "\n\n"] {
            fs::write(&file, damage).unwrap();
            assert!(look(), "{damage:?}");
        }
        assert!(!known.has_changed().unwrap());

        fs::write(&file, text).unwrap();
        assert!(!look() && !known.has_changed().unwrap(), "it is the same as before");
        secret_file::rotate(data).unwrap();
        look();
        assert_eq!(known.borrow().previous, Some(first.current));
    }

    #[test]
    fn a_new_secret_of_a_cluster_is_accepted_before_it_signs() {
        let stored = |version, previous: Option<&str>, age_milliseconds| StoredSecrets {
            current: "the new one".to_owned(),
            previous: previous.map(str::to_owned),
            version,
            age_milliseconds,
        };
        let (old, new) = ("the old one", "the new one");
        assert_eq!(
            of_stored(&stored(1, None, 0)),
            secrets(new, None),
            "the first one has nobody to wait for"
        );
        assert_eq!(of_stored(&stored(2, Some(old), 0)), secrets(old, Some(new)));
        assert_eq!(of_stored(&stored(2, Some(old), ANNOUNCED_MILLISECONDS)), secrets(new, Some(old)));
    }

    #[tokio::test]
    async fn two_nodes_share_a_secret_and_take_up_its_rotation() {
        let place = tempfile::tempdir().unwrap();
        let url = penstock_records::sqlite_url(&place.path().join("records.db"));
        let records = Records::open(&url, 2).await.unwrap();
        let first = stored(&records).await.unwrap();
        assert_eq!(stored(&records).await.unwrap(), first);
        let (told, mut known) = watch::channel(first);
        let is_in_doubt = Arc::new(AtomicBool::new(false));
        let watching = tokio::spawn(watch_records(records.clone(), told, Arc::clone(&is_in_doubt)));
        rotate_in(&records).await.unwrap();
        let again = rotate_in(&records).await.unwrap_err().to_string();
        assert!(again.contains("would sign everybody out"), "{again}");
        let rotated = *known.wait_for(|secrets| secrets.current != first.current).await.unwrap();
        assert_eq!(rotated.previous, Some(first.current));
        assert!(!is_in_doubt.load(Relaxed));
        records.close().await;
        while !is_in_doubt.load(Relaxed) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drop(known);
        watching.await.unwrap();
    }
}
