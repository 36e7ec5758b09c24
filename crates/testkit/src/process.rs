//! The real binary as a child process: started in a temporary folder on a free port, killed, stopped and
//! started again on the same folder and port.

use std::{
    io::{BufRead as _, BufReader, Read},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use penstock_local::without_callers_settings;
use tempfile::TempDir;

use crate::{ADMIN_TOKEN, Client, JWT_SECRET};

/// A debug build on a loaded machine is slow; a timeout here is a failure, not a measurement.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// The result of a finished command.
#[derive(Debug)]
pub struct CommandRun {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// What is left of a server that has ended.
#[derive(Debug)]
pub struct Stopped {
    pub status: ExitStatus,
    pub log: String,
}

/// An installation of Penstock: the binary, a data folder, a port, environment variables, and the server
/// while it runs.
#[derive(Debug)]
pub struct Penstock {
    binary: PathBuf,
    address: SocketAddr,
    data: PathBuf,
    variables: Vec<(String, String)>,
    arguments: Vec<String>,
    server: Option<Server>,
    /// Removes the folder at the end; None if the test brought its own folder.
    _folder: Option<TempDir>,
}

#[derive(Debug)]
struct Server {
    child: Child,
    stdout: Lines,
    stderr: Lines,
}

impl Penstock {
    /// An installation in a new temporary folder. `binary` is `env!("CARGO_BIN_EXE_penstock")`.
    pub fn new(binary: &str) -> Self {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("no temporary folder: {error}"));
        let mut penstock = Self::in_folder(binary, &folder.path().join("data"));
        penstock._folder = Some(folder);
        penstock
    }

    pub fn in_folder(binary: &str, data: &Path) -> Self {
        let variables = [
            ("PENSTOCK_ADMIN_TOKEN", ADMIN_TOKEN),
            ("PENSTOCK_IDENTITY__JWT__SECRET", JWT_SECRET),
            ("PENSTOCK_LOG__LEVEL", "info"),
        ];
        Self {
            binary: binary.into(),
            address: penstock_local::free_address().unwrap_or_else(|error| panic!("{error}")),
            data: data.to_owned(),
            variables: variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            arguments: Vec::new(),
            server: None,
            _folder: None,
        }
    }

    /// Sets an environment variable of the server, such as `PENSTOCK_LEDGER__MAX_BATCH`.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_string()));
        self
    }

    /// Adds an argument to `penstock serve`, such as `--demo`.
    #[must_use]
    pub fn with_argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    pub fn client(&self) -> Client {
        Client::new(self.address)
    }

    /// A client with the admin role.
    pub fn admin(&self) -> Client {
        self.client().with_token(ADMIN_TOKEN)
    }

    /// Starts the server and waits until it says that it can sell.
    pub fn start(&mut self) -> anyhow::Result<()> {
        self.spawn()?;
        let wanted = format!("penstock ready on http://{}", self.address);
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            let server = self.server.as_mut().context("the server is not running")?;
            if server.stdout.text().lines().any(|line| line == wanted) {
                return Ok(());
            }
            if let Some(status) = server.child.try_wait()? {
                let stopped = self.collect(status);
                bail!("the server ended before it was ready ({}):\n{}", stopped.status, stopped.log);
            }
            if Instant::now() > deadline {
                bail!("the server does not become ready:\n{}", self.log());
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Starts the server without waiting.
    pub fn spawn(&mut self) -> anyhow::Result<()> {
        anyhow::ensure!(self.server.is_none(), "the server is running already");
        let mut command = self.bare_command();
        command.arg("serve").arg("--listen").arg(self.address.to_string()).arg("--data").arg(&self.data);
        command.args(&self.arguments);
        let mut child =
            command.spawn().with_context(|| format!("{} can't be started", self.binary.display()))?;
        let stdout = Lines::of(child.stdout.take());
        let stderr = Lines::of(child.stderr.take());
        self.server = Some(Server { child, stdout, stderr });
        Ok(())
    }

    /// Runs another command of the binary to its end, such as `audit --json`.
    pub fn run(&self, arguments: &[&str]) -> anyhow::Result<CommandRun> {
        let output = self.bare_command().args(arguments).output()?;
        Ok(CommandRun {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// The binary with this installation's variables and none of the caller's `PENSTOCK_…`.
    pub fn bare_command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        without_callers_settings(&mut command);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Sends SIGKILL: whatever is not durable now is gone.
    pub fn kill(&mut self) -> anyhow::Result<Stopped> {
        let server = self.server.as_mut().context("the server is not running")?;
        server.child.kill()?;
        let status = server.child.wait()?;
        Ok(self.collect(status))
    }

    /// Sends SIGTERM without waiting.
    pub fn terminate(&self) -> anyhow::Result<()> {
        let server = self.server.as_ref().context("the server is not running")?;
        signal(server.child.id(), libc::SIGTERM)
    }

    /// Sends SIGTERM and waits until the server has ended.
    pub fn stop(&mut self) -> anyhow::Result<Stopped> {
        self.terminate()?;
        self.wait()
    }

    /// Waits until the server has ended by itself.
    pub fn wait(&mut self) -> anyhow::Result<Stopped> {
        let deadline = Instant::now() + STOP_TIMEOUT;
        loop {
            let server = self.server.as_mut().context("the server is not running")?;
            if let Some(status) = server.child.try_wait()? {
                return Ok(self.collect(status));
            }
            if Instant::now() > deadline {
                bail!("the server does not stop:\n{}", self.log());
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn process_id(&self) -> Option<u32> {
        self.server.as_ref().map(|server| server.child.id())
    }

    /// The server's resident memory now, and its peak since the last call.
    pub fn resident_bytes(&self) -> anyhow::Result<(u64, u64)> {
        let process = self.process_id().context("the server is not running")?;
        let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
        let bytes = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
            kilobytes.map(|kilobytes| kilobytes * 1024).with_context(|| format!("no {field} in {status}"))
        };
        let found = (bytes("VmRSS:")?, bytes("VmHWM:")?);
        // Resets the kernel's peak.
        std::fs::write(format!("/proc/{process}/clear_refs"), "5")?;
        Ok(found)
    }

    /// What the running server has logged so far.
    pub fn log(&self) -> String {
        self.server.as_ref().map(|server| server.stderr.text()).unwrap_or_default()
    }

    /// What the running server has printed so far.
    pub fn printed(&self) -> String {
        self.server.as_ref().map(|server| server.stdout.text()).unwrap_or_default()
    }

    fn collect(&mut self, status: ExitStatus) -> Stopped {
        let log = self.server.take().map(|server| server.stderr.finish()).unwrap_or_default();
        Stopped { status, log }
    }
}

/// A failed test leaves no server behind, and the server's log is in the output.
impl Drop for Penstock {
    fn drop(&mut self) {
        if self.server.is_none() {
            return;
        }
        if let Ok(stopped) = self.kill()
            && thread::panicking()
        {
            eprintln!("log of the server on {}:\n{}", self.address, stopped.log);
        }
    }
}

#[allow(unsafe_code, reason = "std can't send a signal other than SIGKILL")]
fn signal(process: u32, signal: i32) -> anyhow::Result<()> {
    let process = i32::try_from(process)?;
    // SAFETY: kill takes no pointers; the process is our own child that has not been waited for.
    if unsafe { libc::kill(process, signal) } != 0 {
        return Err(std::io::Error::last_os_error()).context("the signal can't be sent");
    }
    Ok(())
}

/// Collects the lines of a pipe on a separate thread, so that the child never waits for a reader.
#[derive(Debug)]
struct Lines {
    text: Arc<Mutex<String>>,
    reader: Option<thread::JoinHandle<()>>,
}

impl Lines {
    fn of(pipe: Option<impl Read + Send + 'static>) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let reader = pipe.map(|pipe| {
            let text = text.clone();
            thread::spawn(move || {
                let mut pipe = BufReader::new(pipe);
                let mut line = Vec::new();
                while pipe.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                    text.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push_str(&String::from_utf8_lossy(&line));
                    line.clear();
                }
            })
        });
        Self { text, reader }
    }

    fn text(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn finish(mut self) -> String {
        if let Some(reader) = self.reader.take() {
            // The reader ends with the pipe. If it panicked, the text so far is still good.
            let _ = reader.join();
        }
        self.text()
    }
}
