//! Other people's programs from PyPI and npm, for tests: installed once for each target folder, and again when other versions
//! are asked for.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context as _, ensure};
use penstock_local::require_packages;

/// Packages of Python in an environment of their own under `folder`; gives the folder of their programs.
pub fn from_pypi(folder: &Path, name: &str, packages: &[&str]) -> anyhow::Result<PathBuf> {
    let home = folder.join(name);
    installed(&home, &packages.join("\n"), || {
        // Debian's Python comes without what makes environments.
        let makes_environments = || {
            let asked = Command::new("python3").args(["-c", "import venv, ensurepip"]).output();
            asked.is_ok_and(|answer| answer.status.success())
        };
        require_packages(makes_environments, &["python3-venv"])?;
        done(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
        let mut pip = Command::new(home.join("bin/python"));
        done(pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages))?;
        Ok(())
    })?;
    Ok(home.join("bin"))
}

/// What the lock file in `package` names, under `folder`; gives the folder with `node_modules`. No script of theirs is run.
pub fn from_npm(folder: &Path, name: &str, package: &Path) -> anyhow::Result<PathBuf> {
    let home = folder.join(name);
    let lock = fs::read_to_string(package.join("package-lock.json"))?;
    installed(&home, &lock, || {
        fs::create_dir_all(&home)?;
        for file in ["package.json", "package-lock.json", ".npmrc"] {
            fs::copy(package.join(file), home.join(file)).with_context(|| file.to_owned())?;
        }
        done(
            Command::new("npm")
                .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
                .current_dir(&home),
        )?;
        Ok(())
    })?;
    Ok(home)
}

/// Installs into `home`, unless that was done for the same `versions` before. Whoever comes meanwhile waits: tests run at the
/// same time, in several processes.
fn installed(
    home: &Path,
    versions: &str,
    install: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if let Some(above) = home.parent() {
        fs::create_dir_all(above)?;
    }
    let lock = File::create(home.with_extension("lock"))?;
    lock.lock()?;
    let mark = home.join("installed-versions");
    if fs::read_to_string(&mark).is_ok_and(|known| known == versions) {
        return Ok(());
    }
    // Half an installation, or another one.
    if home.exists() {
        fs::remove_dir_all(home)?;
    }
    install().with_context(|| format!("{} can't be installed", home.display()))?;
    fs::write(mark, versions)?;
    Ok(())
}

/// Runs a command that has to succeed; what it said is in the error otherwise.
pub fn done(command: &mut Command) -> anyhow::Result<Output> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{command:?}: {}\n{stdout}\n{stderr}", output.status);
    Ok(output)
}
