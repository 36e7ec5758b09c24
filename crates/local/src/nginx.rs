//! nginx with a configuration that the caller writes.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    time::Duration,
};

use anyhow::{Context, ensure};
use rustix::process::Signal;

use crate::{
    commands,
    identity::{ProcessIdentity, children},
    leftovers,
    process::{AtOurDeath, ChildProcess, DROP_LIMIT, STOP_LIMIT},
    programs::{is_root, require},
};

const START_LIMIT: Duration = Duration::from_secs(10);
const PROCESS_ID: &str = "nginx.pid";

/// An nginx that ends with its workers when this value is dropped.
#[derive(Debug)]
pub struct Nginx {
    folder: PathBuf,
    program: PathBuf,
    core: Option<usize>,
    master: ChildProcess,
    /// Workers outlive a master that is killed.
    workers: Vec<ProcessIdentity>,
}

impl Nginx {
    /// `configuration` is the whole text of `nginx.conf`. Its paths are relative to `folder`, which has the
    /// subfolders `logs` and `temp`. It has to contain `pid nginx.pid;` and keep the temporary paths in
    /// `temp`. The files that it includes have to be in `folder` already.
    pub fn start(folder: &Path, configuration: &str) -> anyhow::Result<Self> {
        Self::start_on(None, folder, configuration)
    }

    /// The same as `start`, on one core.
    pub fn start_on(core: Option<usize>, folder: &Path, configuration: &str) -> anyhow::Result<Self> {
        let program = require("nginx", "nginx")?;
        for subfolder in ["logs", "temp"] {
            let path = folder.join(subfolder);
            fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        }
        let folder = folder.canonicalize()?;
        write_configuration(&folder, configuration)?;
        let master = launch(&program, core, &folder)?;
        let mut nginx = Self { folder, program, core, master, workers: Vec::new() };
        nginx.note_workers()?;
        Ok(nginx)
    }

    /// How its master has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.master.ended()
    }

    /// Starts it with the same configuration, after its master was killed. The old workers are ended first:
    /// they would go on accepting connections.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        for worker in self.workers.drain(..) {
            worker.kill().with_context(|| format!("cannot end nginx's worker {}", worker.id))?;
        }
        self.master = launch(&self.program, self.core, &self.folder)?;
        self.note_workers()
    }

    /// Records the workers that the master has started since the last time.
    pub fn note_workers(&mut self) -> anyhow::Result<()> {
        // A master that was just killed has no children, but its workers live.
        self.workers.retain(|worker| worker.lives());
        for worker in self.workers()?.into_iter().filter_map(ProcessIdentity::of) {
            if !self.workers.contains(&worker) {
                leftovers::record("nginx's worker", worker.id)?;
                self.workers.push(worker);
            }
        }
        Ok(())
    }

    /// The process number of the master.
    pub fn process_id(&self) -> u32 {
        self.master.id()
    }

    /// The process numbers of its workers.
    pub fn workers(&self) -> anyhow::Result<Vec<u32>> {
        Ok(children(self.master.id())?)
    }

    /// Switches to another configuration without dropping a connection; returns when the former workers
    /// accept no more. A wrong configuration is an error and changes nothing.
    pub fn reload(&mut self, configuration: &str) -> anyhow::Result<()> {
        let former = fs::read_to_string(self.folder.join("nginx.conf"))?;
        write_configuration(&self.folder, configuration)?;
        let mut test = Command::new(&self.program);
        if let Err(error) = commands::output(test.arg("-t").args(arguments(&self.folder))) {
            write_configuration(&self.folder, &former)?;
            return Err(error);
        }
        let old = self.workers()?;
        self.master.signal(Signal::HUP)?;
        self.master.wait_until(START_LIMIT, || old.iter().all(|worker| accepts_no_more(*worker)))
    }

    /// Sends SIGTERM and waits until it has ended.
    pub fn stop(mut self) -> anyhow::Result<()> {
        self.master.terminate(STOP_LIMIT)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // A master that stops in order takes its workers along; one that was killed has left them. An error
        // here can't be reported.
        let _ = self.master.terminate(DROP_LIMIT);
        for worker in &self.workers {
            let _ = worker.kill();
        }
    }
}

fn launch(program: &Path, core: Option<usize>, folder: &Path) -> anyhow::Result<ChildProcess> {
    // An old file names a former process.
    let _ = fs::remove_file(folder.join(PROCESS_ID));
    let mut command = commands::command(program, core);
    command.args(arguments(folder));
    let log = folder.join("nginx.log");
    let mut master = ChildProcess::start_with("nginx", command, &log, AtOurDeath::Terminate)?;
    let number = master.id();
    // nginx writes its process number when it listens, and starts its workers a moment later.
    master.wait_until(START_LIMIT, || {
        let written = fs::read_to_string(folder.join(PROCESS_ID));
        written.is_ok_and(|written| written.trim() == number.to_string())
    })?;
    master.wait_until(START_LIMIT, || children(number).is_ok_and(|workers| !workers.is_empty()))?;
    Ok(master)
}

fn arguments(folder: &Path) -> Vec<&OsStr> {
    // Root's workers would otherwise run as `nobody`, which may not enter a private folder.
    let global = if is_root() { "daemon off; user root;" } else { "daemon off;" };
    let mut arguments = vec![OsStr::new("-p"), folder.as_os_str()];
    arguments.extend(["-c", "nginx.conf", "-e", "logs/start.log", "-g", global].map(OsStr::new));
    arguments
}

fn write_configuration(folder: &Path, configuration: &str) -> anyhow::Result<()> {
    ensure!(configuration.contains(PROCESS_ID), "the configuration has to say: pid {PROCESS_ID};");
    fs::write(folder.join("nginx.conf"), configuration).context("cannot write nginx.conf")
}

/// True if it has ended, or only finishes its requests; its process title says so then.
fn accepts_no_more(worker: u32) -> bool {
    let title = fs::read(format!("/proc/{worker}/cmdline")).unwrap_or_default();
    title.is_empty() || String::from_utf8_lossy(&title).contains("shutting down")
}
