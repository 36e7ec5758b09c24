//! MariaDB selling from a hot row, as in a shop that protects the stock with a row lock. A private server on
//! a Unix socket, durable at every commit. The client is sysbench, because it uses the least CPU.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use penstock_local::{self as local, MariaDbSettings};

const CLIENTS: u32 = 16;
const SCRIPT: &str = include_str!("hot_row.lua");

/// How the transaction reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HotRowForm {
    /// One call of a stored procedure: no round trip while the row is locked.
    Procedure,
    /// Update, insert and commit sent one by one, as an application does.
    Statements,
}

/// The client, and the data folder; no server runs yet.
#[derive(Debug)]
pub struct PeerMariaDb {
    folder: PathBuf,
    client: PathBuf,
    script: PathBuf,
}

#[derive(Debug)]
pub struct HotRow {
    pub orders_per_second: f64,
    pub p50: Duration,
}

impl PeerMariaDb {
    /// Makes a private, empty data folder below `folder`.
    pub fn install(folder: &Path) -> anyhow::Result<Self> {
        let client = local::require("sysbench", "sysbench")?;
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let folder = folder.canonicalize()?;
        let script = folder.join("hot_row.lua");
        fs::write(&script, SCRIPT).with_context(|| format!("cannot write {}", script.display()))?;
        Ok(Self { folder, client, script })
    }

    fn start(&self) -> anyhow::Result<local::MariaDb> {
        // The defaults are durable; they are spelt out because the comparison rests on them. The pool and the
        // log are larger than the default so that neither reads nor checkpoints slow MariaDB down.
        let durable = ["--innodb-flush-log-at-trx-commit=1", "--innodb-doublewrite=1", "--skip-log-bin"];
        let large = ["--innodb-buffer-pool-size=1G", "--innodb-log-file-size=1G"];
        let extra = durable.into_iter().chain(large).map(str::to_owned).collect();
        local::MariaDb::start_with(&self.folder, MariaDbSettings { extra })
    }

    /// Starts the server, sells from a fresh hot row for `time` after a warm-up, checks the result, stops the
    /// server. The client keeps to `core`, if there is one.
    pub fn hot_row(
        &self,
        form: HotRowForm,
        core: Option<usize>,
        warm_up: Duration,
        time: Duration,
    ) -> anyhow::Result<HotRow> {
        let mut server = self.start()?;
        self.sysbench(&server, "prepare", form, core, 0, time)?;
        self.sysbench(&server, "run", form, core, 1, warm_up)?;
        let report = self.sysbench(&server, "run", form, core, 2, time)?;
        self.sysbench(&server, "cleanup", form, core, 0, time)?;
        server.stop()?;
        read_report(&report).with_context(|| format!("sysbench reported no hot row:\n{report}"))
    }

    fn sysbench(
        &self,
        server: &local::MariaDb,
        step: &str,
        form: HotRowForm,
        core: Option<usize>,
        round: u32,
        time: Duration,
    ) -> anyhow::Result<String> {
        let form = match form {
            HotRowForm::Procedure => "procedure",
            HotRowForm::Statements => "statements",
        };
        let mut command = local::command(&self.client, core);
        command.args(["--db-driver=mysql", "--mysql-user=root", "--mysql-db=mysql", "--percentile=50"]);
        command.arg(format!("--mysql-socket={}", server.socket().display()));
        command.arg(format!("--threads={CLIENTS}"));
        command.arg(format!("--time={}", time.as_secs().max(1)));
        command.arg(&self.script);
        command.arg(format!("--form={form}"));
        command.arg(format!("--round={round}"));
        command.arg(step);
        local::output(&mut command).with_context(|| format!("sysbench {step} failed"))
    }
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
