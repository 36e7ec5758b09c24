//! Records what a cluster has started, so that the next one in the same folder can end what a killed cluster
//! left behind. Only processes that certainly belong to that cluster are ended.

use std::{
    env,
    fs::{self, File, OpenOptions},
    io::Write as _,
    path::Path,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};

use crate::identity::{ProcessIdentity, boot};

/// How long leftovers may take to end by themselves: the kernel tells nginx that the cluster is gone, and
/// nginx ends its workers.
const PATIENCE: Duration = Duration::from_secs(3);
const AFTER_KILL: Duration = Duration::from_secs(10);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// Begins the line of a folder.
const FOLDER: &str = "folder";
/// What the names of the folders for MariaDB's sockets begin with.
pub(crate) const SOCKET_FOLDERS: &str = "penstock-mariadb-";

/// The file in which this process records what it starts, if it does so.
static RECORD: Mutex<Option<File>> = Mutex::new(None);

/// From now on, everything that is started is recorded in `file`, which is emptied first.
pub(crate) fn record_in(file: &Path) -> anyhow::Result<()> {
    let unwritable = || format!("cannot write {}", file.display());
    fs::write(file, format!("{}\n", boot()?)).with_context(unwritable)?;
    let record = OpenOptions::new().append(true).open(file).with_context(unwritable)?;
    *RECORD.lock().unwrap_or_else(PoisonError::into_inner) = Some(record);
    Ok(())
}

/// Records a process that was started just now. A process that has ended already needs no line.
pub(crate) fn record(name: &str, process: u32) -> anyhow::Result<()> {
    let mut record = RECORD.lock().unwrap_or_else(PoisonError::into_inner);
    let (Some(file), Some(ProcessIdentity { id, started })) = (record.as_mut(), ProcessIdentity::of(process))
    else {
        return Ok(());
    };
    // One write for each line, so that a line is either complete or missing.
    file.write_all(format!("{id} {started} {name}\n").as_bytes()).context("cannot record what was started")
}

/// Records a folder outside the cluster's own. It is removed when the cluster ends, unless the cluster is
/// killed.
pub(crate) fn record_folder(folder: &Path) -> anyhow::Result<()> {
    let mut record = RECORD.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(file) = record.as_mut() else { return Ok(()) };
    file.write_all(format!("{FOLDER} {}\n", folder.display()).as_bytes())
        .context("cannot record what was created")
}

/// Ends what the cluster of `file` has left running, and removes its folders. Returns the names and numbers
/// of the processes that it ended.
pub fn end_leftovers(file: &Path) -> anyhow::Result<Vec<String>> {
    let Ok(text) = fs::read_to_string(file) else { return Ok(Vec::new()) };
    let mut lines = text.lines();
    if lines.next() != Some(boot()?.as_str()) {
        return Ok(Vec::new());
    }
    let mut left: Vec<(ProcessIdentity, &str)> = lines.clone().filter_map(read_line).collect();
    wait_for_end(&mut left, PATIENCE);
    let ended = left.iter().map(|(process, name)| format!("{name} (pid {})", process.id)).collect();
    for (process, name) in &left {
        let killed = process.kill();
        killed.with_context(|| format!("{name} (pid {}) still runs and can't be ended", process.id))?;
    }
    wait_for_end(&mut left, AFTER_KILL);
    if let Some((process, name)) = left.first() {
        bail!(
            "{name} (pid {}) of a cluster that was killed still runs, although it was sent SIGKILL",
            process.id
        );
    }
    lines.filter_map(|line| line.strip_prefix(FOLDER)).for_each(|folder| remove(Path::new(folder.trim())));
    Ok(ended)
}

/// Removes the folder if a cluster makes folders under such a name. One that can't be removed does no harm.
fn remove(folder: &Path) {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if folder.parent() == Some(&env::temp_dir()) && name.starts_with(SOCKET_FOLDERS) {
        let _ = fs::remove_dir_all(folder);
    }
}

fn wait_for_end(left: &mut Vec<(ProcessIdentity, &str)>, patience: Duration) {
    let began = Instant::now();
    loop {
        left.retain(|(process, _)| process.lives());
        if left.is_empty() || began.elapsed() > patience {
            return;
        }
        thread::sleep(LOOK_AGAIN_AFTER);
    }
}

fn read_line(line: &str) -> Option<(ProcessIdentity, &str)> {
    let mut fields = line.splitn(3, ' ');
    let identity =
        ProcessIdentity { id: fields.next()?.parse().ok()?, started: fields.next()?.parse().ok()? };
    Some((identity, fields.next()?))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_folders_for_sockets_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("processes");
        let sockets = tempfile::Builder::new().prefix(SOCKET_FOLDERS).tempdir().unwrap();
        let others = tempfile::tempdir().unwrap();
        fs::write(sockets.path().join("mariadb.sock"), "").unwrap();
        let line = |folder: &tempfile::TempDir| format!("{FOLDER} {}\n", folder.path().display());
        fs::write(&file, format!("{}\n{}{}", boot().unwrap(), line(&sockets), line(&others))).unwrap();
        assert!(end_leftovers(&file).unwrap().is_empty());
        assert!(!sockets.path().exists() && others.path().exists());
    }

    #[test]
    fn only_recorded_processes_are_ended() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("processes");
        assert!(end_leftovers(&file).unwrap().is_empty(), "nothing was ever started");
        let sleep = || Command::new("sleep").arg("60").spawn().unwrap();
        let (mut ours, mut later) = (sleep(), sleep());
        let (own, other) =
            (ProcessIdentity::of(ours.id()).unwrap(), ProcessIdentity::of(later.id()).unwrap());
        let lines = format!(
            "{} {} server\n{} {} server\ntorn",
            own.id,
            own.started,
            other.id,
            other.started.wrapping_sub(1)
        );
        fs::write(&file, format!("another-boot\n{lines}")).unwrap();
        assert!(end_leftovers(&file).unwrap().is_empty(), "the numbers are from before the last boot");
        assert!(own.lives());
        fs::write(&file, format!("{}\n{lines}", boot().unwrap())).unwrap();
        assert_eq!(end_leftovers(&file).unwrap(), [format!("server (pid {})", own.id)]);
        assert!(!own.lives() && other.lives(), "a later process with the same number was ended");
        ours.wait().unwrap();
        later.kill().unwrap();
        later.wait().unwrap();
    }
}
