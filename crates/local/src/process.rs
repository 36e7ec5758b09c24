//! Processes that are started here, and ended here whatever happens.

use std::{
    fs::{File, OpenOptions},
    io::{BufRead, BufReader},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{RecvTimeoutError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};

/// How long a process may take to end after it was asked to.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// The same when nobody waits for its work any more.
const DROP_LIMIT: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(5);
/// Where every look asks several servers.
const SLOW_POLL: Duration = Duration::from_millis(25);
/// How much of a log is shown when its process failed.
const LOG_LINES: usize = 20;

/// Whether children are spared the signals of the terminal.
static KEPT_FROM_TERMINAL: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C reaches this process only, which then ends its children in the order that is right for them. Without
/// this they hear of it too, and none is left behind by a test that is interrupted.
pub fn keep_from_terminal() {
    KEPT_FROM_TERMINAL.store(true, Relaxed);
}

/// A child that dies with this value.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
    stdout: Option<ChildStdout>,
}

/// A command that keeps to one core, with all the threads and children it will have.
pub fn command(program: &Path, core: Option<usize>) -> Command {
    match core {
        None => Command::new(program),
        Some(core) => {
            let mut command = Command::new("taskset");
            command.arg("--cpu-list").arg(core.to_string()).arg(program);
            command
        }
    }
}

impl Process {
    /// Starts `command`; what it says on stderr is added to the file `log`, stdout is for `wait_for_line`.
    pub fn start(name: &'static str, mut command: Command, log: &Path) -> anyhow::Result<Self> {
        let stderr = log_file(log)?;
        if KEPT_FROM_TERMINAL.load(Relaxed) {
            command.process_group(0);
        }
        let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).spawn();
        let mut child = started.with_context(|| format!("cannot start {name}: {command:?}"))?;
        let stdout = child.stdout.take();
        Ok(Self { name, child, log: log.to_owned(), stdout })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// It has ended by itself, or somebody has killed it.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Waits for the first line on stdout that `wanted` recognises; says when it came. Later lines are dropped.
    pub fn wait_for_line<T: Send + 'static>(
        &mut self,
        limit: Duration,
        wanted: impl Fn(&str) -> Option<T> + Send + 'static,
    ) -> anyhow::Result<(T, Instant)> {
        let stdout = self.stdout.take().context("stdout is already being read")?;
        let (sender, receiver) = sync_channel(1);
        // The thread ends with the process: it reads on, so that the process never waits for a full pipe.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some(found) = wanted(&line) {
                    let _ = sender.try_send((found, Instant::now()));
                }
            }
        });
        receiver.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                anyhow!("{} is not ready after {limit:?}\n{}", self.name, self.log_end())
            }
            RecvTimeoutError::Disconnected => anyhow!("{} ended too early\n{}", self.name, self.log_end()),
        })
    }

    /// Waits until `ready` says so; fails when the process ends before.
    pub fn wait_until(&mut self, limit: Duration, mut ready: impl FnMut() -> bool) -> anyhow::Result<()> {
        let started = Instant::now();
        while !ready() {
            if self.child.try_wait()?.is_some() {
                bail!("{} ended too early\n{}", self.name, self.log_end());
            }
            if started.elapsed() > limit {
                bail!("{} is not ready after {limit:?}\n{}", self.name, self.log_end());
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// SIGTERM; a process that does not heed it is an error, and is killed.
    pub fn stop(mut self) -> anyhow::Result<()> {
        self.terminate(STOP_LIMIT)
    }

    fn terminate(&mut self, limit: Duration) -> anyhow::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        self.signal(Signal::TERM)?;
        // A process that is paused hears of it only when it goes on. One that was quick has ended by now, which is fine.
        let _ = self.signal(Signal::CONT);
        let started = Instant::now();
        while self.child.try_wait()?.is_none() {
            if started.elapsed() > limit {
                bail!("{} did not end within {limit:?} of SIGTERM", self.name);
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// SIGSTOP: it does nothing, its connections stay open.
    pub fn pause(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT, after `pause`.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    pub(crate) fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        // A child that was waited for has no process id any more; its number may be another's by now.
        if self.child.try_wait()?.is_some() {
            bail!("{} has ended\n{}", self.name, self.log_end());
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("no process id")?;
        kill_process(pid, signal).with_context(|| format!("cannot signal {}", self.name))
    }

    /// SIGKILL, as a power cut would.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().with_context(|| format!("cannot kill {}", self.name))?;
        self.child.wait()?;
        Ok(())
    }

    fn log_end(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let skipped = lines.len().saturating_sub(LOG_LINES);
        lines.into_iter().skip(skipped).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGTERM first: a master that is killed, as nginx's, leaves its workers behind. There is nobody to tell.
        let _ = self.terminate(DROP_LIMIT);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until several servers together are what they should be.
pub(crate) fn wait_for(what: &str, limit: Duration, mut ready: impl FnMut() -> bool) -> anyhow::Result<()> {
    let started = Instant::now();
    while !ready() {
        if started.elapsed() > limit {
            bail!("{what} is not ready after {limit:?}");
        }
        thread::sleep(SLOW_POLL);
    }
    Ok(())
}

fn log_file(path: &Path) -> anyhow::Result<File> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.with_context(|| format!("cannot write {}", path.display()))
}

/// Runs a program to its end and returns what it printed; its stderr is part of the error when it fails.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{command:?}: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(text)
}
