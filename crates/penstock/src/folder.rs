//! The data folder: created on first use, locked by the server that uses it, marked with the version of its
//! layout. It does not know what the components keep in it.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use rustix::{fs::Mode, process::umask};

/// Grows when an older program could no longer read the folder correctly.
const LAYOUT_VERSION: u32 = 1;
pub(crate) const SECRET_FILE: &str = "secret";
pub(crate) const ROOMS_FOLDER: &str = "rooms";
pub(crate) const JOURNAL_FOLDER: &str = "journal";
pub(crate) const RECORDS_FILE: &str = "records.db";
pub(crate) const DEMO_FILE: &str = "demo.json";
/// The files hold phone numbers, password hashes and orders: only their owner may read them.
pub(crate) const PRIVATE_FILE: u32 = 0o600;
const PRIVATE_FOLDER: u32 = 0o700;

/// An open data folder, locked as long as this value lives.
#[derive(Debug)]
pub(crate) struct DataFolder {
    _lock: File,
}

impl DataFolder {
    /// Opens the folder for serving; creates it if there is none.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        keep_private();
        let created = fs::DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER).create(path);
        created.with_context(|| format!("the data folder {} can't be created", path.display()))?;
        let lock = lock(path)?;
        mend_modes(path);
        match read_version(path)? {
            Some(_) => {}
            None => write_durably(path, "VERSION", format!("{LAYOUT_VERSION}\n").as_bytes(), 0o644)
                .with_context(|| format!("the data folder {} can't be written to", path.display()))?,
        }
        make_rooms(path)
            .with_context(|| format!("{} can't be created", path.join(ROOMS_FOLDER).display()))?;
        Ok(Self { _lock: lock })
    }
}

/// From now on, only their owner can read the files that this process creates, whatever the folder allows.
/// Libraries create databases, their logs and snapshots with the mode of the process.
fn keep_private() {
    umask(Mode::from_raw_mode(0o077));
}

/// Makes files private that an older program, or somebody who copied the folder, left readable. The folder
/// may hold other people's files, so only Penstock's own are touched.
fn mend_modes(path: &Path) {
    let is_own = |name: &str| matches!(name, SECRET_FILE | DEMO_FILE) || name.starts_with(RECORDS_FILE);
    let mut own = files_in(path);
    own.retain(|file| file.file_name().and_then(|name| name.to_str()).is_some_and(is_own));
    for folder in [JOURNAL_FOLDER, ROOMS_FOLDER] {
        own.extend(files_in(&path.join(folder)));
    }
    for file in own {
        if let Err(error) = make_private(&file) {
            tracing::warn!(file = %file.display(), %error, "can't make this file of the data folder private; others may be able to read it");
        }
    }
}

/// The regular files in a folder; none if there is no such folder.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    files.map(|entry| entry.path()).collect()
}

fn make_private(file: &Path) -> io::Result<()> {
    let mode = fs::metadata(file)?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    fs::set_permissions(file, fs::Permissions::from_mode(PRIVATE_FILE))
}

/// Makes the folder of the waiting rooms durable: if a power cut took the folder away, the synced rooms in it
/// would be lost, too.
fn make_rooms(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER).create(path.join(ROOMS_FOLDER))?;
    File::open(path)?.sync_all()
}

/// Makes sure that `path` is a data folder that this version can write to; creates one if there is none. A
/// server may be running on it.
pub(crate) fn ensure(path: &Path) -> anyhow::Result<()> {
    keep_private();
    match read_version(path)? {
        Some(_) => Ok(()),
        None => DataFolder::open(path).map(drop),
    }
}

/// Makes sure that `path` is a data folder that this version can read, without locking or changing it.
pub(crate) fn require_readable(path: &Path) -> anyhow::Result<()> {
    if read_version(path)?.is_none() {
        bail!("{} is not a data folder of penstock: it has no VERSION file", path.display());
    }
    Ok(())
}

fn lock(path: &Path) -> anyhow::Result<File> {
    let name = path.join("LOCK");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&name)
        .with_context(|| format!("{} can't be opened", name.display()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // The holder of the lock has written its process id. Without it the message is less specific, but
            // still right.
            let _ = file.read_to_string(&mut holder);
            let holder = if holder.trim().is_empty() { "another process" } else { holder.trim() };
            bail!("the data folder {} is in use by process {holder}", path.display());
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("{} can't be locked", name.display()));
        }
    }
    // The process id is only for people: a full disk must not keep a server from starting.
    let _ =
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(file)
}

/// The version of the folder's layout. None: the folder is new.
fn read_version(path: &Path) -> anyhow::Result<Option<u32>> {
    let file = path.join("VERSION");
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("{} can't be read", file.display())),
    };
    let version: u32 = text
        .trim()
        .parse()
        .with_context(|| format!("{} does not hold a version: {text:?}", file.display()))?;
    if version > LAYOUT_VERSION {
        bail!(
            "the data folder {} has version {version}, made by a newer penstock; this one ({}) reads up to version \
             {LAYOUT_VERSION}. Use the newer program, or another folder",
            path.display(),
            env!("CARGO_PKG_VERSION")
        );
    }
    Ok(Some(version))
}

/// Writes the whole file or nothing, so that a crash leaves no partial file.
pub(crate) fn write_durably(folder: &Path, name: &str, content: &[u8], mode: u32) -> io::Result<()> {
    let draft = folder.join(format!("{name}.new"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&draft)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&draft, folder.join(name))?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_process_can_serve_a_folder() {
        let place = tempfile::tempdir().unwrap();
        let first = DataFolder::open(place.path()).unwrap();
        let refusal = DataFolder::open(place.path()).unwrap_err().to_string();
        assert!(refusal.contains(&format!("in use by process {}", std::process::id())), "{refusal}");
        drop(first);
        DataFolder::open(place.path()).unwrap();
    }

    #[test]
    fn a_newer_or_broken_version_is_refused() {
        let place = tempfile::tempdir().unwrap();
        drop(DataFolder::open(place.path()).unwrap());
        fs::write(place.path().join("VERSION"), "2\n").unwrap();
        let refusal = DataFolder::open(place.path()).unwrap_err().to_string();
        assert!(refusal.contains("made by a newer penstock"), "{refusal}");
        fs::write(place.path().join("VERSION"), "").unwrap();
        assert!(DataFolder::open(place.path()).is_err());
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn an_open_folder_has_a_private_place_for_waiting_rooms() {
        let place = tempfile::tempdir().unwrap();
        drop(DataFolder::open(place.path()).unwrap());
        assert_eq!(mode(&place.path().join(ROOMS_FOLDER)), 0o700);
        DataFolder::open(place.path()).unwrap();
    }
}
