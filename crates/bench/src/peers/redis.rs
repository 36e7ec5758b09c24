//! Redis deciding claims by a script, as in a shop that keeps the stock in Redis. A private server on a Unix
//! socket that syncs its log before it answers. The client is redis-benchmark, because it uses the least CPU.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, ensure};
use penstock_local::{self as local, RedisServer, RedisSettings};
use tempfile::TempDir;

const UNITS: u64 = 100_000_000;
/// Buyers are drawn from so large a range that hardly one is drawn twice. The client allows no larger number.
const BUYERS: &str = "2000000000";
/// The least share of accepted claims: otherwise cheap refusals were measured.
const ACCEPTED_SHARE: f64 = 0.99;
/// The claims of a first run, which warms the server up. Its rate tells how many claims fill the measured
/// time, because the client counts claims, not seconds.
const FIRST_CLAIMS: u64 = 20_000;

/// The programs, and where their data goes; no server runs yet.
#[derive(Debug)]
pub struct PeerRedis {
    folder: PathBuf,
    bench: PathBuf,
    /// Separate from the data, because the path of a socket must be short.
    socket_folder: TempDir,
}

/// The promises of the script.
#[derive(Clone, Copy, Debug)]
pub enum ClaimRules {
    /// One unit for each buyer and a stock that does not go below zero, nothing else: the cheapest there is.
    Bare,
    /// The promises of Penstock's ledger: window, limit, retries, orders by number.
    Same,
}

#[derive(Clone, Copy, Debug)]
pub struct ClaimRate {
    pub accepted_per_second: f64,
    pub p50: Duration,
}

impl PeerRedis {
    pub fn install(folder: &Path) -> anyhow::Result<Self> {
        let bench = local::require("redis-benchmark", "redis-tools")?;
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let socket_folder = tempfile::Builder::new().prefix("penstock-bench-").tempdir()?;
        Ok(Self { folder: folder.canonicalize()?, bench, socket_folder })
    }

    fn socket(&self) -> PathBuf {
        self.socket_folder.path().join("redis.sock")
    }

    /// Starts on an empty data folder.
    pub fn start(&self) -> anyhow::Result<RedisServer> {
        let data = self.folder.join("data");
        if data.exists() {
            fs::remove_dir_all(&data).with_context(|| format!("cannot remove {}", data.display()))?;
        }
        // An answer leaves after the sync of its log. Neither snapshots nor rewriting of the log slow Redis
        // down.
        let settings = RedisSettings {
            appendonly: true,
            appendfsync: "always",
            unix_socket: Some(self.socket()),
            extra: vec!["save \"\"".to_owned(), "auto-aof-rewrite-percentage 0".to_owned()],
            ..RedisSettings::default()
        };
        RedisServer::start(&data, settings)
    }

    /// Starts the server, lets `clients` clients claim units for about `time` after a warm-up, checks the
    /// result, stops the server. The client keeps to `core`, if there is one.
    pub fn claim(&self, clients: usize, core: Option<usize>, time: Duration) -> anyhow::Result<ClaimRate> {
        let mut server = self.start()?;
        let way = ["-s".to_owned(), self.socket().display().to_string()];
        let claims = self.measure(&server, &way, ClaimRules::Bare, clients, core, time)?;
        server.stop()?;
        Ok(claims)
    }

    /// The same over TCP on a running server, as from another machine. It leaves nothing behind.
    pub fn claim_at(
        &self,
        server: &RedisServer,
        rules: ClaimRules,
        clients: usize,
        time: Duration,
    ) -> anyhow::Result<ClaimRate> {
        let (host, port) = (server.address().ip().to_string(), server.address().port().to_string());
        let way = ["-h".to_owned(), host, "-p".to_owned(), port];
        let claims = self.measure(server, &way, rules, clients, None, time)?;
        rules.forget(server)?;
        Ok(claims)
    }

    fn measure(
        &self,
        server: &RedisServer,
        way: &[String],
        rules: ClaimRules,
        clients: usize,
        core: Option<usize>,
        time: Duration,
    ) -> anyhow::Result<ClaimRate> {
        let script = rules.begin(server)?;
        let run = |crowd: &str, claims: u64| {
            let mut command = local::command(&self.bench, core);
            command.args(way).arg("-c").arg(clients.to_string());
            run(&mut command, rules, &script, crowd, claims)
        };
        let first = run("early", FIRST_CLAIMS)?;
        let claims = (first.accepted_per_second * time.as_secs_f64()) as u64 + clients as u64;
        let mut measured = run("buyer", claims)?;
        measured.accepted_per_second *= rules.accepted_share(server, FIRST_CLAIMS + claims)?;
        Ok(measured)
    }
}

/// The crowds of two runs have nobody in common, although the client may draw the same numbers again.
fn run(
    command: &mut Command,
    rules: ClaimRules,
    script: &str,
    crowd: &str,
    claims: u64,
) -> anyhow::Result<ClaimRate> {
    command.args(["-r", BUYERS, "--csv", "-n"]).arg(claims.to_string()).args(["EVALSHA", script]);
    command.arg(rules.keys().len().to_string()).args(rules.keys()).arg(format!("{crowd}-__rand_int__"));
    if let ClaimRules::Same = rules {
        command.args(["key-__rand_int__", "1"]);
    }
    let report = local::output(command).context("redis-benchmark failed")?;
    read_report(&report).with_context(|| format!("redis-benchmark reported no claims:\n{report}"))
}

impl ClaimRules {
    /// The keys of the script, in its own order.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Bare => &["stock", "buyers", "feed"],
            Self::Same => &["sale", "buyers", "orders", "feed"],
        }
    }

    /// Puts the units up for sale and loads the script; returns its name on this server.
    fn begin(self, server: &RedisServer) -> anyhow::Result<String> {
        let units = UNITS.to_string();
        let script = match self {
            Self::Bare => {
                server.cli(&["SET", "stock", &units])?;
                include_str!("claim_bare.lua")
            }
            Self::Same => {
                let sale = ["available", &units, "orders", "0", "limit", "1", "hold", "900000"];
                let window = ["opens", "0", "closes", "9000000000000", "paused", "0"];
                server.cli(&[&["HSET", "sale"][..], &sale, &window].concat())?;
                include_str!("claim_same.lua")
            }
        };
        server.cli(&["SCRIPT", "LOAD", script])
    }

    fn forget(self, server: &RedisServer) -> anyhow::Result<()> {
        server.cli(&[&["DEL"][..], self.keys()].concat())?;
        Ok(())
    }

    /// Fails unless units gone, buyers and orders are the same number. Returns the accepted share of
    /// `claims`, which has to be nearly all.
    fn accepted_share(self, server: &RedisServer, claims: u64) -> anyhow::Result<f64> {
        let number = |question: &[&str]| -> anyhow::Result<u64> {
            let answer = server.cli(question)?;
            answer.parse().with_context(|| format!("{question:?} was answered {answer:?}"))
        };
        let (left, buyers) = match self {
            Self::Bare => (number(&["GET", "stock"])?, number(&["SCARD", "buyers"])?),
            Self::Same => (number(&["HGET", "sale", "available"])?, number(&["HLEN", "buyers"])?),
        };
        let (gone, orders) = (UNITS.saturating_sub(left), number(&["XLEN", "feed"])?);
        ensure!(
            gone == orders && gone == buyers,
            "{gone} units are gone, but there are {orders} orders and {buyers} buyers"
        );
        let share = orders as f64 / claims as f64;
        ensure!((ACCEPTED_SHARE..=1.0).contains(&share), "{orders} orders were made of {claims} claims");
        Ok(share)
    }
}

/// A line of names and a line of values, all in quotes.
fn read_report(report: &str) -> Option<ClaimRate> {
    let fields = |line: &str| line.split(',').map(|field| field.trim_matches('"').to_owned()).collect();
    let mut lines = report.lines().skip_while(|line| !line.starts_with("\"test\"")).map(fields);
    let (names, values): (Vec<String>, Vec<String>) = (lines.next()?, lines.next()?);
    let number = |name: &str| -> Option<f64> {
        values.get(names.iter().position(|field| field == name)?)?.parse().ok()
    };
    let p50 = Duration::from_secs_f64(number("p50_latency_ms")? / 1000.0);
    Some(ClaimRate { accepted_per_second: number("rps")?, p50 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let names = r#""test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms""#;
        let values = r#""EVALSHA 3d40 3 stock","13296.10","18.660","2.096","17.855","28.639""#;
        let claims = read_report(&format!("{names}\n{values}\n")).unwrap();
        assert_eq!(claims.accepted_per_second, 13_296.1);
        assert_eq!(claims.p50, Duration::from_micros(17_855));
        assert!(read_report("WARNING: no\n").is_none());
        assert!(read_report(names).is_none());
    }
}
