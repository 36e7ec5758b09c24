//! Hashing passwords with argon2id. It is slow and takes memory on purpose, so it runs on threads of its own,
//! a few at a time, with a bounded queue in front.

use std::sync::{
    Arc, LazyLock,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use argon2::{Argon2, Params, PasswordHasher as _, PasswordVerifier as _};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
};

use crate::{
    options::Options,
    problem::{Code, Problem},
};

/// OWASP's recommendation: 19 MiB, two passes, one lane.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

pub(crate) const MIN_PASSWORD_CHARACTERS: usize = 8;
pub(crate) const MAX_PASSWORD_BYTES: usize = 256;

/// What the password of an unknown phone is compared with, so that it takes as long as that of a known one.
static NOBODY: LazyLock<String> = LazyLock::new(|| hash(b"nobody has this password").unwrap_or_default());

pub(crate) struct Passwords {
    at_once: Arc<Semaphore>,
    waiting: AtomicUsize,
    max_waiting: usize,
}

/// The right to hash now.
pub(crate) struct Turn(OwnedSemaphorePermit);

impl Passwords {
    pub(crate) fn new(options: &Options) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let at_once =
            if options.password_hashes_at_once == 0 { cores } else { options.password_hashes_at_once };
        LazyLock::force(&NOBODY);
        Self {
            at_once: Arc::new(Semaphore::new(at_once)),
            waiting: AtomicUsize::new(0),
            max_waiting: options.password_hashes_waiting,
        }
    }

    /// Waits for a turn; `busy` if too many wait already.
    pub(crate) async fn turn(&self) -> Result<Turn, Problem> {
        if let Ok(permit) = Arc::clone(&self.at_once).try_acquire_owned() {
            return Ok(Turn(permit));
        }
        let place = Place::take(&self.waiting, self.max_waiting)?;
        let permit = Arc::clone(&self.at_once).acquire_owned().await;
        drop(place);
        permit.map(Turn).map_err(|_| Code::Unavailable.into())
    }
}

/// A place in the queue, given back also when the client goes away.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicUsize, max: usize) -> Result<Self, Problem> {
        let place = Self(waiting);
        if waiting.fetch_add(1, Relaxed) >= max { Err(Code::Busy.into()) } else { Ok(place) }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Turn {
    pub(crate) async fn hash(self, password: String) -> Result<String, Problem> {
        let hashed = spawn_blocking(move || {
            let hashed = hash(password.as_bytes());
            drop(self.0);
            hashed
        });
        match hashed.await {
            Ok(Some(hashed)) => Ok(hashed),
            _ => Err(Code::Internal.into()),
        }
    }

    /// Whether `password` belongs to `hash`; with None it takes as long, and it does not.
    pub(crate) async fn verify(self, password: String, hash: Option<String>) -> Result<bool, Problem> {
        let verified = spawn_blocking(move || {
            let is_known = hash.is_some();
            let hash = hash.as_deref().unwrap_or(&NOBODY);
            let matches = hasher().verify_password(password.as_bytes(), hash).is_ok();
            drop(self.0);
            matches && is_known
        });
        verified.await.map_err(|_| Code::Internal.into())
    }
}

fn hasher() -> Argon2<'static> {
    Params::new(MEMORY_KIB, PASSES, LANES, None).map(Argon2::from).unwrap_or_default()
}

pub(crate) fn hash(password: &[u8]) -> Option<String> {
    hasher().hash_password(password).ok().map(|hash| hash.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_argon2id_with_our_parameters() {
        let hashed = hash(b"correct horse").unwrap();
        assert!(hashed.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hashed}");
        assert!(hasher().verify_password(b"correct horse", hashed.as_str()).is_ok());
        assert!(hasher().verify_password(b"wrong horse", hashed.as_str()).is_err());
        assert_ne!(hash(b"correct horse").unwrap(), hashed, "each hash has its own salt");
    }
}
