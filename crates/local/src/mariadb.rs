//! One MariaDB server, with a database and a user for Penstock.

use std::{
    env, fs,
    io::Read,
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    sync::Mutex,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;

use crate::{
    commands, leftovers,
    ports::free_address,
    process::ChildProcess,
    programs::{is_root, require},
};

const START_LIMIT: Duration = Duration::from_secs(60);
const DATABASE: &str = "penstock";
const USER: &str = "penstock";
const PASSWORD: &str = "penstock-local";
/// Enough for a server whose speed is not measured; quick to copy and to start.
const SMALL: [&str; 2] = ["--innodb-log-file-size=8M", "--innodb-buffer-pool-size=64M"];

#[derive(Clone, Debug, Default)]
pub struct MariaDbSettings {
    /// Further arguments of `mariadbd`; they override the ones before.
    pub extra: Vec<String>,
}

/// A MariaDB server that ends when this value is dropped; its data stays in the folder.
#[derive(Debug)]
pub struct MariaDb {
    folder: PathBuf,
    address: SocketAddr,
    server: PathBuf,
    client: PathBuf,
    settings: MariaDbSettings,
    /// Separate from the data, because the path of a socket must be short.
    socket_folder: TempDir,
    process: Option<ChildProcess>,
}

impl MariaDb {
    /// Starts a server on the data in `folder`, or with an empty database `penstock` if there is none.
    pub fn start(folder: &Path) -> anyhow::Result<Self> {
        Self::start_with(folder, MariaDbSettings::default())
    }

    pub fn start_with(folder: &Path, settings: MariaDbSettings) -> anyhow::Result<Self> {
        let server = require("mariadbd", "mariadb-server")?;
        let client = require("mariadb", "mariadb-client")?;
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let folder = folder.canonicalize()?;
        let data = folder.join("data");
        if !data.exists() {
            let template = template(&server)?;
            copy_folder(&template, &data).context("cannot copy the empty data folder")?;
        }
        fs::write(folder.join("init.sql"), first_statements())?;
        let socket_folder = tempfile::Builder::new().prefix(leftovers::SOCKET_FOLDERS).tempdir()?;
        leftovers::record_folder(socket_folder.path())?;
        let address = free_address()?;
        let mut mariadb = Self { folder, address, server, client, settings, socket_folder, process: None };
        mariadb.start_again()?;
        Ok(mariadb)
    }

    /// Starts it with the same port and data, after `stop` or `kill`.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        ensure!(self.process.is_none() || self.ended().is_some(), "MariaDB already runs");
        self.process = None;
        let mut command = Command::new(&self.server);
        command.arg("--no-defaults");
        command.arg(format!("--datadir={}", self.folder.join("data").display()));
        command.arg(format!("--init-file={}", self.folder.join("init.sql").display()));
        command.arg(format!("--socket={}", self.socket().display()));
        command.arg(format!("--bind-address={}", self.address.ip()));
        command.arg(format!("--port={}", self.address.port()));
        command.args(["--skip-name-resolve", "--skip-log-bin", "--max-connections=500"]);
        command.args(SMALL).args(&self.settings.extra).args(as_root());
        let mut process = ChildProcess::start("MariaDB", command, &self.folder.join("mariadb.log"))?;
        process.wait_until(START_LIMIT, || greets(self.address))?;
        self.process = Some(process);
        Ok(())
    }

    /// How it has ended, if something else has killed it.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.as_mut()?.ended()
    }

    /// The URL of the database `penstock`.
    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    fn url_of(&self, database: &str) -> String {
        format!("mysql://{USER}:{PASSWORD}@{}/{database}", self.address)
    }

    /// Creates another empty database and returns its URL, so that several tests can share a server.
    pub fn create_database(&self, name: &str) -> anyhow::Result<String> {
        self.sql(&create_database(name))?;
        Ok(self.url_of(name))
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The socket on which it listens for clients on this machine, such as `root` without a password.
    pub fn socket(&self) -> PathBuf {
        self.socket_folder.path().join("mariadb.sock")
    }

    /// The number of its process, while it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(ChildProcess::id)
    }

    /// Runs statements in the database `penstock` as its user. Each row is a line, with tabs between the
    /// values.
    pub fn sql(&self, statements: &str) -> anyhow::Result<String> {
        let mut command = Command::new(&self.client);
        command.args(["--no-defaults", "--batch", "--skip-column-names", "--protocol=TCP"]);
        command.arg(format!("--host={}", self.address.ip())).arg(format!("--port={}", self.address.port()));
        command.arg(format!("--user={USER}")).env("MYSQL_PWD", PASSWORD);
        command.arg(format!("--execute={statements}")).arg(DATABASE);
        Ok(commands::output(&mut command)?.trim_end().to_owned())
    }

    /// Sends SIGTERM and waits until the server has ended.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        self.process.take().context("MariaDB does not run")?.stop()
    }

    /// Sends SIGKILL, which is like a power cut.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.process.take().context("MariaDB does not run")?.kill()
    }

    /// Stops it answering; its connections stay open.
    pub fn pause(&mut self) -> anyhow::Result<()> {
        self.process.as_mut().context("MariaDB does not run")?.pause()
    }

    /// Goes on after `pause`.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.process.as_mut().context("MariaDB does not run")?.resume()
    }
}

/// It accepts connections before it is ready, but greets a client only when it is.
fn greets(address: SocketAddr) -> bool {
    let greeting = || -> std::io::Result<usize> {
        let mut connection = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        connection.set_read_timeout(Some(Duration::from_secs(1)))?;
        connection.read(&mut [0; 64])
    };
    greeting().is_ok_and(|bytes| bytes > 0)
}

/// The statements that run at every start, before the first client.
fn first_statements() -> String {
    // The server reads one statement from each line.
    [
        create_database(DATABASE),
        format!("CREATE USER IF NOT EXISTS '{USER}'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';"),
        format!("GRANT ALL PRIVILEGES ON *.* TO '{USER}'@'127.0.0.1';"),
    ]
    .map(|statement| statement + "\n")
    .concat()
}

fn create_database(name: &str) -> String {
    format!("CREATE DATABASE IF NOT EXISTS `{name}` CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;")
}

fn as_root() -> Option<&'static str> {
    is_root().then_some("--user=root")
}

/// An empty data folder to copy, made once for each version of the server, next to the running program.
fn template(server: &Path) -> anyhow::Result<PathBuf> {
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock();
    let version = commands::output(Command::new(server).args(["--no-defaults", "--version"]))?;
    let version: String = version.chars().filter(|letter| letter.is_ascii_alphanumeric()).collect();
    let program = env::current_exe().context("cannot tell which program runs")?;
    let cache = program.parent().context("the program is in no folder")?.join("penstock-local");
    let template = cache.join(&version);
    if template.exists() {
        return Ok(template);
    }
    fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
    let unfinished = tempfile::Builder::new().prefix("unfinished-").tempdir_in(&cache)?;
    let data = unfinished.path().join("data");
    let mut install = Command::new(require("mariadb-install-db", "mariadb-server")?);
    install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
    install.arg(format!("--datadir={}", data.display())).args(SMALL).args(as_root());
    commands::output(&mut install).context("cannot set MariaDB up")?;
    // Another process may have been faster; its folder is as good.
    if let Err(error) = fs::rename(&data, &template)
        && !template.exists()
    {
        return Err(error).with_context(|| format!("cannot create {}", template.display()));
    }
    Ok(template)
}

fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, copy) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_folder(&entry.path(), &copy)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &copy).with_context(|| format!("cannot write {}", copy.display()))?;
        } else {
            bail!("{} is neither a file nor a folder", entry.path().display());
        }
    }
    Ok(())
}
