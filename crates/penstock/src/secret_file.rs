//! The file of a data folder with the secret that tokens are signed with, and the one before it. Only the owner
//! can read it.

use std::{fs, io, path::Path};

use anyhow::{Context as _, bail};

use crate::{
    folder::{PRIVATE_FILE, SECRET_FILE, write_durably},
    hexadecimal,
};

const SECRET_BYTES: usize = 32;

/// The secrets kept in a data folder.
#[derive(Clone)]
pub(crate) struct KeptSecrets {
    pub(crate) current: String,
    /// The one before the last rotation.
    pub(crate) previous: Option<String>,
}

/// The secrets kept in the folder; the first one is created on first use. Only the owner can read the file.
/// Only for the start of a server: a running one has secrets already.
pub(crate) fn load_or_make(path: &Path) -> anyhow::Result<KeptSecrets> {
    if let Some(kept) = find(path)? {
        return Ok(kept);
    }
    let current = random_secret()?;
    keep(path, &current, None)?;
    Ok(KeptSecrets { current, previous: None })
}

/// The secrets kept in the folder. It is an error if there are none.
pub(crate) fn load(path: &Path) -> anyhow::Result<KeptSecrets> {
    let file = path.join(SECRET_FILE);
    find(path)?.with_context(|| {
        format!("{} is missing: restore it from a copy; without it the next start makes a new one, and everything that was \
                 signed so far is void", file.display())
    })
}

fn find(path: &Path) -> anyhow::Result<Option<KeptSecrets>> {
    let file = path.join(SECRET_FILE);
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("{} can't be read", file.display())),
    };
    let mut secrets = text.lines().map(str::trim).filter(|line| !line.is_empty());
    match secrets.next() {
        Some(current) if current.len() >= SECRET_BYTES => {
            let (current, previous) = (current.to_owned(), secrets.next().map(str::to_owned));
            Ok(Some(KeptSecrets { current, previous }))
        }
        _ => bail!(
            "{} is too short to be a secret: restore it from a copy, or delete it while no server runs; then the next \
             start makes a new one, and everything that was signed so far is void",
            file.display()
        ),
    }
}

/// Puts a new secret before the old one. A server that runs on the folder picks it up.
pub(crate) fn rotate(path: &Path) -> anyhow::Result<()> {
    // If another secret were put in its place, a running server would forget the one it signs with.
    let old = load(path)?.current;
    keep(path, &random_secret()?, Some(&old))
}

fn keep(path: &Path, current: &str, previous: Option<&str>) -> anyhow::Result<()> {
    let text = format!("{current}\n{}", previous.map_or(String::new(), |previous| format!("{previous}\n")));
    write_durably(path, SECRET_FILE, text.as_bytes(), PRIVATE_FILE)
        .with_context(|| format!("{} can't be written", path.join(SECRET_FILE).display()))
}

/// A random secret.
pub(crate) fn random_secret() -> anyhow::Result<String> {
    hexadecimal::random::<SECRET_BYTES>()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::folder::DataFolder;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_secret_is_created_once_and_kept_private() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("deep").join("data");
        let _folder = DataFolder::open(&path).unwrap();
        let first = load_or_make(&path).unwrap();
        assert_eq!(first.current.len(), 2 * SECRET_BYTES);
        assert_eq!(load_or_make(&path).unwrap().current, first.current);
        assert_eq!(load(&path).unwrap().current, first.current);
        assert_eq!((mode(&path), mode(&path.join(SECRET_FILE))), (0o700, 0o600));
    }

    #[test]
    fn a_missing_secret_is_not_rotated() {
        let place = tempfile::tempdir().unwrap();
        let refusal = rotate(place.path()).unwrap_err().to_string();
        assert!(refusal.contains("is missing"), "{refusal}");
        assert!(!place.path().join(SECRET_FILE).exists());
    }

    #[test]
    fn a_rotation_keeps_only_the_previous_secret() {
        let place = tempfile::tempdir().unwrap();
        let first = load_or_make(place.path()).unwrap().current;
        rotate(place.path()).unwrap();
        let second = load(place.path()).unwrap();
        assert_ne!(second.current, first);
        assert_eq!(second.previous, Some(first));
        rotate(place.path()).unwrap();
        assert_eq!(load(place.path()).unwrap().previous, Some(second.current));
        assert_eq!(mode(&place.path().join(SECRET_FILE)), 0o600);
    }
}
