//! A cluster for one test: started, used and audited from outside, and gone at the end.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use penstock_local::{LocalShop, RedisKind, RedisServer, ShopPlan, ShopRedis, without_callers_settings};
use penstock_testkit::{
    ADMIN_TOKEN, AnswerLost, Auditor, Client, ClientAnswer, CommandRun, JWT_SECRET, Merchant, OfferTerms,
    buyer_token,
};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_penstock");
/// Nothing takes this long; a timeout is a failure, not a measurement.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The promise is a second, and the measured time is printed. But a slow machine must not fail a test.
pub(crate) const A_LONG_SECOND: Duration = Duration::from_secs(5);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);
const LINES_OF_A_LOG: usize = 30;

/// One cluster at a time: the machine has few cores, and each test wants them all.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A running cluster and its folder.
pub(crate) struct Trial {
    // In the order in which they are dropped.
    pub(crate) shop: LocalShop,
    folder: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Trial {
    pub(crate) fn start(redis: RedisKind) -> Self {
        Self::start_with(redis, |_| {})
    }

    pub(crate) fn start_with(redis: RedisKind, change: impl FnOnce(&mut ShopPlan)) -> Self {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::Builder::new().prefix("penstock-trial-").tempdir().unwrap();
        let mut plan = ShopPlan {
            redis,
            admin_token: ADMIN_TOKEN.to_owned(),
            jwt_secret: JWT_SECRET.to_owned(),
            ..ShopPlan::new(Path::new(BINARY), folder.path())
        };
        change(&mut plan);
        let shop = LocalShop::start(plan, |_| {}).unwrap();
        Self { shop, folder, _turn: turn }
    }

    /// nginx's address, where buyers come in.
    pub(crate) fn front(&self) -> SocketAddr {
        self.shop.address()
    }

    pub(crate) fn node(&self, number: usize) -> SocketAddr {
        self.shop.nodes()[number].address().unwrap()
    }

    /// The nodes that run.
    pub(crate) fn nodes(&self) -> Vec<SocketAddr> {
        let running = self.shop.nodes().iter().filter(|node| node.is_running());
        running.map(|node| node.address().unwrap()).collect()
    }

    /// A merchant at one node.
    pub(crate) fn merchant(&self, node: usize) -> Merchant {
        Merchant::with(Client::new(self.node(node)).with_token(ADMIN_TOKEN))
    }

    /// Publishes a sale at the first node, and returns when every node sells it.
    pub(crate) fn publish(&self, offer: OfferTerms) -> String {
        let sale = self.merchant(0).publish(offer);
        for node in self.nodes() {
            until("a node sells what another published", || {
                (look(node, &sale)?["state"] == "open").then_some(())
            });
        }
        sale
    }

    /// Runs `penstock` to its end with the cluster's configuration.
    pub(crate) fn run(&self, arguments: &[&str]) -> anyhow::Result<CommandRun> {
        let output =
            bare_command().args(arguments).arg("--config").arg(self.shop.configuration()).output()?;
        Ok(CommandRun {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Waits for settlement, then compares what buyers were told with the API and with `penstock audit`.
    pub(crate) fn audit(&self, auditor: &Auditor) -> usize {
        // There is no report while the audit can't read everything, such as while a Redis master is being
        // replaced.
        let report = || {
            let run = self.run(&["audit", "--json"]).unwrap();
            let is_there = !run.stdout.is_empty();
            if !is_there {
                eprintln!("no audit, {}: {}", run.status, run.stderr);
            }
            is_there.then_some(run)
        };
        let verdict = auditor.verify_with(&mut self.merchant(0), || Ok(until("an audit", report)));
        verdict.assert_clean();
        verdict.promised
    }

    /// The units of a sale in the ledger: total, available, held, paid. Asks Redis itself and no node.
    pub(crate) fn ledger(&self, sale: &str) -> [u64; 4] {
        self.in_ledger(sale, ["total", "available", "held", "paid"])
    }

    /// How many decisions the ledger has made in a sale.
    pub(crate) fn ledger_position(&self, sale: &str) -> u64 {
        let [position] = self.in_ledger(sale, ["position"]);
        position
    }

    fn in_ledger<const N: usize>(&self, sale: &str, fields: [&str; N]) -> [u64; N] {
        let key = format!("{{{sale}}}:sale");
        let question = [&["HMGET", key.as_str()], fields.as_slice()].concat();
        // During a failover nothing answers.
        until("an answer of Redis", || {
            let answer = self.redis_of(&key)?.cli(&question).ok()?;
            let numbers: Option<Vec<u64>> = answer.lines().map(|line| line.parse().ok()).collect();
            numbers?.try_into().ok()
        })
    }

    fn redis_of(&self, key: &str) -> Option<&RedisServer> {
        match &self.shop.redis {
            ShopRedis::Single(server) => Some(server),
            ShopRedis::Cluster(cluster) => cluster.nodes().get(cluster.master_of(key).ok()?),
            ShopRedis::Sentinel(sentinel) => sentinel.servers().get(sentinel.master()?),
        }
    }

    /// Waits until every node shows the sale as the ledger has it; returns how long that took.
    pub(crate) fn until_nodes_agree(&self, sale: &str) -> Duration {
        let began = Instant::now();
        for node in self.nodes() {
            until("a node shows what the ledger has", || {
                // Asked each time: a hold may have run out.
                let [total, available, ..] = self.ledger(sale);
                let (seen, state) = (look(node, sale)?, if available == 0 { "sold_out" } else { "open" });
                let stock = &seen["stock"];
                let agrees =
                    stock["total"] == total && stock["available"] == available && seen["state"] == state;
                agrees.then_some(())
            });
        }
        began.elapsed()
    }

    /// A figure of a node's `/metrics`; `name` includes the labels as shown there.
    pub(crate) fn figure(&self, node: usize, name: &str) -> f64 {
        let text = Client::new(self.node(node)).get("/metrics").unwrap().text();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// A failed test shows the logs of nodes and workers.
impl Drop for Trial {
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        let logs = fs::read_dir(self.folder().join("logs")).into_iter().flatten().flatten();
        for log in logs {
            let text = fs::read_to_string(log.path()).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let last = lines.split_at(lines.len().saturating_sub(LINES_OF_A_LOG)).1;
            eprintln!("the end of {}:\n{}", log.file_name().to_string_lossy(), last.join("\n"));
        }
    }
}

/// The binary without the caller's `PENSTOCK_…` variables.
pub(crate) fn bare_command() -> Command {
    let mut command = Command::new(BINARY);
    without_callers_settings(&mut command).env("PENSTOCK_LOG__LEVEL", "warn").stdin(Stdio::null());
    command
}

/// A sale as one node shows it; None if it shows none.
pub(crate) fn look(node: SocketAddr, sale: &str) -> Option<Value> {
    let answer = Client::new(node).get(&format!("/api/v1/sales/{sale}")).ok()?;
    (answer.status == 200).then(|| answer.json())
}

/// A client of one buyer.
pub(crate) fn buyer(address: SocketAddr, name: &str) -> Client {
    Client::new(address).with_token(&buyer_token(name))
}

/// Asks until there is an answer that does not say "later".
pub(crate) fn patiently(
    what: &str,
    mut ask: impl FnMut() -> Result<ClientAnswer, AnswerLost>,
) -> ClientAnswer {
    until(what, || ask().ok().filter(|answer| !matches!(answer.status, 429 | 502 | 503 | 504)))
}

/// Claims, expects an order, and returns its id.
pub(crate) fn must_buy(address: SocketAddr, sale: &str, name: &str, quantity: u32) -> String {
    let key = format!("key-of-{name}");
    let answer = patiently("a verdict", || buyer(address, name).claim(sale, quantity, &key));
    text(&expect(201, &answer)["id"])
}

/// Expects a status and returns the answer's JSON.
pub(crate) fn expect(status: u16, answer: &ClientAnswer) -> Value {
    assert_eq!(answer.status, status, "{}", answer.text());
    if answer.body.is_empty() { Value::Null } else { answer.json() }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}")).to_owned()
}

/// Calls `look` again and again until it returns something.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(began.elapsed() < PATIENCE, "this did not happen in time: {what}");
        thread::sleep(LOOK_AGAIN_AFTER);
    }
}

/// Like `until`, but returns how long it took and fails if that is much longer than a second.
pub(crate) fn within_a_second(what: &str, mut look: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    until(what, || look().then_some(()));
    let took = began.elapsed();
    assert!(took < A_LONG_SECOND, "{what}: {took:?}");
    took
}
