//! Programs that come from Debian's packages: found, or installed where they are missing.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
};

use anyhow::{Context, bail};

use crate::process;

/// Places of servers that a user's `PATH` often lacks.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/sbin"];

/// The full path of a program, if it is installed.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(SYSTEM_FOLDERS.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Finds a program, and installs Debian's `package` if it is missing.
pub fn require(program: &str, package: &str) -> anyhow::Result<PathBuf> {
    if let Some(found) = find(program) {
        return Ok(found);
    }
    if !is_root() || !Path::new("/usr/bin/apt-get").exists() {
        bail!("{program} is missing; install it first: sudo apt-get install {package}");
    }
    // One at a time: the packages are locked while one is installed.
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _installing = INSTALLING.lock();
    if let Some(found) = find(program) {
        return Ok(found);
    }
    let mut install = Command::new("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive");
    install.args(["install", "--yes", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", package]);
    process::output(&mut install).with_context(|| format!("cannot install {package}"))?;
    find(program).with_context(|| format!("{package} is installed but has no {program}"))
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_its_name() {
        assert!(find("sh").unwrap().is_absolute());
        assert_eq!(find("no-such-program-of-penstock"), None);
    }
}
