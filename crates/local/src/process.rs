//! Child processes that always end: when their value is dropped, and by the kernel if this process is killed.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::{leftovers, programs::require};

/// How long a process may take to end after it is asked to.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(60);
/// The same for a process whose work nobody needs.
pub(crate) const DROP_LIMIT: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(5);
/// The interval when every look asks several servers.
const SLOW_POLL: Duration = Duration::from_millis(25);
/// How many lines of a log are shown when its process fails.
const LOG_LINES: usize = 20;

/// Whether signals of the terminal are kept from children.
static KEPT_FROM_TERMINAL: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C reaches only this process, which then ends its children in the right order. Otherwise
/// they get the signal too. What is started is recorded in `record`, for `end_leftovers`.
pub fn supervise(record: &Path) -> anyhow::Result<()> {
    KEPT_FROM_TERMINAL.store(true, Relaxed);
    leftovers::record_in(record)
}

/// The signal that the kernel sends a process when its parent is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtOurDeath {
    /// Also ends a paused process.
    Kill,
    /// For a process that ends its own children.
    Terminate,
}

/// A child that ends when this value is dropped.
#[derive(Debug)]
pub struct ChildProcess {
    name: &'static str,
    child: Child,
    log: PathBuf,
    stdout: Option<ChildStdout>,
}

impl ChildProcess {
    /// Starts `command`. Its stderr is appended to the file `log`; its stdout is for `wait_for_line`.
    pub fn start(name: &'static str, command: Command, log: &Path) -> anyhow::Result<Self> {
        Self::start_with(name, command, log, AtOurDeath::Kill)
    }

    pub(crate) fn start_with(
        name: &'static str,
        command: Command,
        log: &Path,
        at_our_death: AtOurDeath,
    ) -> anyhow::Result<Self> {
        let mut command = dying_with_us(&command, at_our_death)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log_file(log)?);
        if KEPT_FROM_TERMINAL.load(Relaxed) {
            command.process_group(0);
        }
        let described = format!("{command:?}");
        let mut child = spawn(command).with_context(|| format!("cannot start {name}: {described}"))?;
        let stdout = child.stdout.take();
        let process = Self { name, child, log: log.to_owned(), stdout };
        leftovers::record(name, process.id())?;
        Ok(process)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it has ended, by itself or because something has killed it. None while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for the first line on stdout that `wanted` recognises, and returns when it came. Later lines are
    /// dropped.
    pub fn wait_for_line<T: Send + 'static>(
        &mut self,
        limit: Duration,
        wanted: impl Fn(&str) -> Option<T> + Send + 'static,
    ) -> anyhow::Result<(T, Instant)> {
        let stdout = self.stdout.take().context("stdout is already being read")?;
        let (sender, receiver) = sync_channel(1);
        // The thread keeps reading until the process ends, so that the process never blocks on a full pipe.
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

    /// Waits until `ready` returns true; fails if the process ends first.
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

    /// Sends SIGTERM. A process that does not end in time is killed, and that is an error.
    pub fn stop(mut self) -> anyhow::Result<()> {
        self.terminate(STOP_LIMIT)
    }

    pub(crate) fn terminate(&mut self, limit: Duration) -> anyhow::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        self.signal(Signal::TERM)?;
        // A paused process gets the signal only when it goes on. If this fails, the process has ended
        // already, which is fine.
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

    /// Sends SIGSTOP: the process does nothing, and its connections stay open.
    pub fn pause(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Sends SIGCONT, after `pause`.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    pub(crate) fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        // After a child was waited for, its process id may belong to another process.
        if self.child.try_wait()?.is_some() {
            bail!("{} has ended\n{}", self.name, self.log_end());
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("no process id")?;
        kill_process(pid, signal).with_context(|| format!("cannot signal {}", self.name))
    }

    /// Sends SIGKILL, which is like a power cut.
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

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // SIGTERM first: a master such as nginx's leaves its workers behind if it is killed. An error here
        // can't be reported.
        let _ = self.terminate(DROP_LIMIT);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until several servers together are ready.
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

/// The same command, for a child that the kernel ends when this process is gone for any reason. The program
/// in front replaces itself with the intended one, so that there is only one process.
fn dying_with_us(command: &Command, at_our_death: AtOurDeath) -> anyhow::Result<Command> {
    let signal = match at_our_death {
        AtOurDeath::Kill => "KILL",
        AtOurDeath::Terminate => "TERM",
    };
    let mut wrapped = Command::new(require("setpriv", "util-linux")?);
    wrapped.args(["--pdeathsig", signal, "--"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    Ok(wrapped)
}

/// A command, and where to send its child.
type Wanted = (Command, SyncSender<io::Result<Child>>);

/// To the kernel, the parent of a child is a thread and not a process. So one thread, which lives until the
/// process ends, starts all children.
fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<SyncSender<Wanted>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, wanted) = sync_channel::<Wanted>(1);
        thread::spawn(move || {
            for (mut command, answer) in wanted {
                let _ = answer.send(command.spawn());
            }
        });
        sender
    });
    let gone = || io::Error::other("the thread that starts processes is gone");
    let (sender, child) = sync_channel(1);
    spawner.send((command, sender)).map_err(|_| gone())?;
    child.recv().map_err(|_| gone())?
}

fn log_file(path: &Path) -> anyhow::Result<File> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.with_context(|| format!("cannot write {}", path.display()))
}
