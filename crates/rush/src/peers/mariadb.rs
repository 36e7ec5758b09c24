//! MariaDB selling from a hot row: what a shop does that leaves the stock to a row lock. A private server on a
//! Unix socket, durable at every commit; sysbench is the client because it is the cheapest there is.

use std::{
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::Context;
use tempfile::TempDir;

use super::require;
use crate::process::{self, Process};

const CLIENTS: u32 = 16;
const START_LIMIT: Duration = Duration::from_secs(60);
const SCRIPT: &str = include_str!("hot_row.lua");

/// How the transaction reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One call of a stored procedure: the row stays locked for no round trip.
    Procedure,
    /// Update, insert and commit sent one by one, as an application does.
    Statements,
}

/// A data folder and the programs to use it; no server runs yet.
#[derive(Debug)]
pub struct MariaDb {
    folder: PathBuf,
    server: PathBuf,
    client: PathBuf,
    script: PathBuf,
    /// Apart from the data, because the path of a socket must be short.
    socket_folder: TempDir,
}

#[derive(Debug)]
pub struct HotRow {
    pub orders_per_second: f64,
    pub p50: Duration,
}

impl MariaDb {
    /// Makes a private, empty data folder below `folder`.
    pub fn install(folder: &Path) -> anyhow::Result<Self> {
        let server = require("mariadbd", "mariadb-server")?;
        let installer = require("mariadb-install-db", "mariadb-server")?;
        let client = require("sysbench", "sysbench")?;
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let folder = folder.canonicalize()?;
        let script = folder.join("hot_row.lua");
        fs::write(&script, SCRIPT).with_context(|| format!("cannot write {}", script.display()))?;
        let mut install = Command::new(installer);
        install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
        install.arg(format!("--datadir={}", folder.join("data").display()));
        install.args(as_root());
        process::output(&mut install).context("cannot set MariaDB up")?;
        let socket_folder = tempfile::Builder::new().prefix("penstock-bench-").tempdir()?;
        Ok(Self { folder, server, client, script, socket_folder })
    }

    fn socket(&self) -> PathBuf {
        self.socket_folder.path().join("mariadb.sock")
    }

    fn start(&self) -> anyhow::Result<Process> {
        let mut command = Command::new(&self.server);
        command.args(["--no-defaults", "--skip-networking"]);
        command.arg(format!("--datadir={}", self.folder.join("data").display()));
        command.arg(format!("--socket={}", self.socket().display()));
        // The defaults are durable; they are spelt out because the comparison rests on them. The pool and the
        // log are larger than the default so that neither reads nor checkpoints slow MariaDB down.
        command.args(["--innodb-flush-log-at-trx-commit=1", "--innodb-doublewrite=1", "--skip-log-bin"]);
        command.args(["--innodb-buffer-pool-size=1G", "--innodb-log-file-size=1G"]);
        command.args(as_root());
        let mut server = Process::start("MariaDB", command, &self.folder.join("mariadb.log"))?;
        server.wait_until(START_LIMIT, || UnixStream::connect(self.socket()).is_ok())?;
        Ok(server)
    }

    /// Starts the server, sells from a fresh hot row for `time` after a warm-up, checks the result, stops it. The
    /// client keeps to `core`, if there is one.
    pub fn hot_row(
        &self,
        form: Form,
        core: Option<usize>,
        warm_up: Duration,
        time: Duration,
    ) -> anyhow::Result<HotRow> {
        let server = self.start()?;
        self.sysbench("prepare", form, core, 0, time)?;
        self.sysbench("run", form, core, 1, warm_up)?;
        let report = self.sysbench("run", form, core, 2, time)?;
        self.sysbench("cleanup", form, core, 0, time)?;
        server.stop()?;
        read_report(&report).with_context(|| format!("sysbench reported no hot row:\n{report}"))
    }

    fn sysbench(
        &self,
        step: &str,
        form: Form,
        core: Option<usize>,
        round: u32,
        time: Duration,
    ) -> anyhow::Result<String> {
        let form = match form {
            Form::Procedure => "procedure",
            Form::Statements => "statements",
        };
        let mut command = process::command(&self.client, core);
        command.args(["--db-driver=mysql", "--mysql-user=root", "--mysql-db=mysql", "--percentile=50"]);
        command.arg(format!("--mysql-socket={}", self.socket().display()));
        command.arg(format!("--threads={CLIENTS}"));
        command.arg(format!("--time={}", time.as_secs().max(1)));
        command.arg(&self.script);
        command.arg(format!("--form={form}"));
        command.arg(format!("--round={round}"));
        command.arg(step);
        process::output(&mut command).with_context(|| format!("sysbench {step} failed"))
    }
}

fn as_root() -> Option<&'static str> {
    rustix::process::geteuid().is_root().then_some("--user=root")
}

fn read_report(report: &str) -> Option<HotRow> {
    let line = report.lines().find_map(|line| line.strip_prefix("hot_row "))?;
    let number = |name: &str| -> Option<f64> {
        line.split_whitespace().find_map(|field| field.strip_prefix(name)?.strip_prefix('='))?.parse().ok()
    };
    let orders_per_second = number("events")? / number("seconds")?;
    Some(HotRow { orders_per_second, p50: Duration::from_secs_f64(number("p50_ms")? / 1000.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let hot_row = read_report("x\nhot_row events=14000 seconds=2.000000 p50_ms=2.250\n").unwrap();
        assert_eq!(hot_row.orders_per_second, 7000.0);
        assert_eq!(hot_row.p50, Duration::from_micros(2250));
        assert!(read_report("FATAL: no").is_none());
    }
}
