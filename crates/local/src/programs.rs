//! Programs from Debian's packages: found, or installed if they are missing.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
};

use anyhow::{Context, bail, ensure};

use crate::commands;

/// Folders of servers that a user's `PATH` often lacks.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/sbin"];

/// The full path of a program, if it is installed.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(SYSTEM_FOLDERS.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Finds a program, and installs Debian's `package` if it is missing.
pub fn require(program: &str, package: &str) -> anyhow::Result<PathBuf> {
    require_packages(|| find(program).is_some(), &[package])?;
    find(program).with_context(|| format!("{package} has no {program}"))
}

/// Installs Debian's packages unless their programs are there.
pub fn require_packages(are_there: impl Fn() -> bool, packages: &[&str]) -> anyhow::Result<()> {
    // One at a time: apt locks the package database.
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _alone = INSTALLING.lock();
    if are_there() {
        return Ok(());
    }
    let missing =
        || format!("something is missing; install it first: apt-get install {}", packages.join(" "));
    if !is_root() || !Path::new("/usr/bin/apt-get").exists() {
        bail!(missing());
    }
    // The package list may be as old as the machine.
    if install(packages).is_err() {
        commands::output(Command::new("apt-get").arg("update")).with_context(missing)?;
        install(packages).with_context(missing)?;
    }
    ensure!(are_there(), missing());
    Ok(())
}

fn install(packages: &[&str]) -> anyhow::Result<String> {
    let mut install = Command::new("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive");
    // Another process may be installing, too.
    install.args(["install", "--yes", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"]);
    commands::output(install.args(packages))
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
