//! `make cluster`: a real cluster on loopback, from this machine's packages, until Ctrl-C.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write as _},
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    task::Poll,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use clap::Parser;
use penstock_local::{
    LocalShop, RedisKind, ShopPart, ShopPlan, Supervisor, end_leftovers, find, supervise,
    without_callers_settings,
};

/// A cluster of Penstock on this machine, until Ctrl-C. Each start begins with empty data
#[derive(Debug, Parser)]
struct Arguments {
    /// The program `penstock`
    #[arg(long, value_name = "FILE", default_value = "target/release/penstock")]
    server: PathBuf,
    /// Where visitors come in, at nginx
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    #[arg(long, value_name = "KIND", default_value = "cluster")]
    redis: RedisKind,
    // With only one replica, a promoted replica has none to confirm its decisions, and its sales wait until the
    // former master is back.
    /// Replicas of each Redis master
    #[arg(long, value_name = "N", default_value_t = 2)]
    replicas: usize,
    /// Data, configuration and logs; what an earlier cluster left in it is removed
    #[arg(long, value_name = "DIR", default_value = FOLDER)]
    folder: PathBuf,
    /// Nodes that sell
    #[arg(long, value_name = "N", default_value_t = 3)]
    nodes: usize,
    /// Settlement workers
    #[arg(long, value_name = "N", default_value_t = 2)]
    settlers: usize,
}

impl Arguments {
    fn plan(&self) -> ShopPlan {
        ShopPlan {
            redis: self.redis,
            replicas: self.replicas,
            listen: Some(self.listen),
            nodes: self.nodes,
            settlers: self.settlers,
            ..ShopPlan::new(&self.server, &self.folder)
        }
    }
}

/// Marks a folder as ours to empty. Holds the process id and address of the cluster that runs in it, for
/// `make rush`, and is locked as long as that cluster runs.
const MARKER: &str = "local-cluster";
/// The name that `Shop` gives this file.
const CONFIGURATION: &str = "cluster.toml";
/// What the cluster has started; the next cluster in the same folder reads it.
const PROCESSES: &str = "processes";
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The folder in which `make` looks for the cluster.
const FOLDER: &str = "target/cluster";
const MERCHANT: &str = "+8613800000001";
const PASSWORD: &str = "local-merchant-password";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the cluster does not run: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let plan = Arguments::parse().plan();
    require_program(&plan.program)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Ctrl-C and a closed terminal reach only this process, which stops the others in order.
    let stop = runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        let mut wanted = vec![SignalKind::interrupt(), SignalKind::terminate()];
        // `nohup` lets the cluster run on when the terminal is closed.
        wanted.extend((!is_hangup_ignored()?).then(SignalKind::hangup));
        wanted.into_iter().map(signal).collect::<io::Result<Vec<_>>>()
    });
    let mut stop = stop.context("cannot listen for signals")?;
    let begun = Instant::now();
    let lock = fresh(&plan)?;
    supervise(&plan.folder.join(PROCESSES))?;
    say(&format!("a cluster in {}; each start begins with empty data", plan.folder.display()));
    let mut shop = LocalShop::start(plan, |what| say(&format!("  starting {what}")))?;
    writeln!(&lock, "{} http://{}", std::process::id(), shop.address())
        .context("cannot write down which process runs")?;
    create_merchant(&shop)?;
    // Known before the process numbers are printed, because a person may kill one as soon as they read it.
    let parts = shop.parts_once_known()?;
    let mut supervisor = Supervisor::new(&parts);
    say(&introduction(&shop, &parts, begun));
    loop {
        let asked = runtime.block_on(async {
            let heard = std::future::poll_fn(|context| {
                let is_heard = stop.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
                if is_heard { Poll::Ready(()) } else { Poll::Pending }
            });
            tokio::time::timeout(LOOK_EVERY, heard).await.is_ok()
        });
        if asked {
            break;
        }
        supervisor.look(&mut shop, Instant::now()).iter().for_each(|news| say(news));
    }
    say("\nstopping: nginx, then the nodes, then settlement, then the servers");
    shop.stop()?;
    say("stopped");
    Ok(())
}

/// Checked before anything that an earlier cluster left is removed.
fn require_program(program: &Path) -> anyhow::Result<()> {
    let is_there = program.is_file() || program.to_str().is_some_and(|name| find(name).is_some());
    ensure!(is_there, "there is no program {}: --server names the program `penstock`", program.display());
    Ok(())
}

/// Whether this process was started so that it outlives the terminal, as by `nohup`.
fn is_hangup_ignored() -> io::Result<bool> {
    let status = fs::read_to_string("/proc/self/status")?;
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    // The lowest bit is signal 1, SIGHUP.
    Ok(mask & 1 == 1)
}

/// An empty folder and the lock on it: every cluster starts without anything from an earlier one.
fn fresh(plan: &ShopPlan) -> anyhow::Result<File> {
    let folder = plan.folder.as_path();
    let marker = folder.join(MARKER);
    let in_the_way = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if in_the_way && !marker.exists() {
        bail!(
            "{} is not empty and does not belong to a cluster on this machine; choose another --folder",
            folder.display()
        );
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    // Emptied only after it is locked: until then it names the process that runs.
    let opened = OpenOptions::new().create(true).append(true).open(&marker);
    let lock = opened.with_context(|| format!("cannot create {}", marker.display()))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let runs = fs::read_to_string(&marker).unwrap_or_default();
            let (folder, runs) = (folder.display(), runs.trim());
            let runs = if runs.is_empty() { "is starting" } else { runs };
            bail!("a cluster runs in {folder} already: process {runs}; end it, or choose another --folder");
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("cannot lock {}", marker.display()));
        }
    }
    lock.set_len(0).with_context(|| format!("cannot empty {}", marker.display()))?;
    let left = end_leftovers(&folder.join(PROCESSES))?;
    if !left.is_empty() {
        say(&format!("ended what a killed cluster had left: {}", left.join(", ")));
    }
    if let Some(address) = plan.listen
        && let Err(error) = TcpListener::bind(address)
    {
        bail!("cannot listen on {address}: {error}; end what uses it, or choose another --listen (LISTEN=…)");
    }
    remove_data(folder)?;
    Ok(lock)
}

/// Removes the data of an earlier cluster, and says so: somebody may have wanted to keep it.
fn remove_data(folder: &Path) -> anyhow::Result<()> {
    let mut had_data = false;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            had_data = true;
            fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    if had_data {
        // An orderly stop removes the configuration.
        let end = if folder.join(CONFIGURATION).exists() { " and was killed" } else { "" };
        say(&format!("removed the data of the cluster that ran in {} before{end}", folder.display()));
    }
    Ok(())
}

/// Creates an account that can sign in to the console.
fn create_merchant(shop: &LocalShop) -> anyhow::Result<()> {
    let created = without_callers_settings(&mut Command::new(&shop.plan().program))
        .args(["admin", "create", "--phone", MERCHANT, "--name", "Merchant", "--config"])
        .arg(shop.configuration())
        .env("PENSTOCK_ADMIN_PASSWORD", PASSWORD)
        .output()
        .context("the merchant's account can't be created")?;
    if !created.status.success() {
        bail!("the merchant's account can't be created: {}", String::from_utf8_lossy(&created.stderr).trim());
    }
    Ok(())
}

fn introduction(shop: &LocalShop, parts: &[ShopPart], begun: Instant) -> String {
    let url = format!("http://{}", shop.address());
    let plan = shop.plan();
    let mut lines = vec![format!("\nready after {:.1} s", begun.elapsed().as_secs_f64())];
    lines.push(format!("  shop         {url}"));
    lines.push(format!("  console      {url}/console  (phone {MERCHANT}, password {PASSWORD})"));
    lines.push(format!("  admin token  {}", plan.admin_token));
    lines.push(format!("  logs         {}", plan.folder.join("logs").display()));
    // The console names a node by its machine and process.
    lines.push(format!("\n  {:<10} {:>8}  {:<21}  role", "name", "pid", "address"));
    for part in parts {
        let address = part.address.map_or_else(String::new, |address| address.to_string());
        let process = part.process.map_or_else(String::new, |process| process.to_string());
        lines.push(format!("  {:<10} {process:>8}  {address:<21}  {}", part.name, part.role));
    }
    lines.push(
        "\nThe shop is empty, as after each start: put something on sale in the console, or rehearse in another terminal:"
            .to_owned(),
    );
    let folder = if plan.folder == Path::new(FOLDER) {
        String::new()
    } else {
        format!(" CLUSTER={}", plan.folder.display())
    };
    lines.push(format!("  make rush URL={url}{folder}"));
    lines.push(format!("  {} audit --config {}", plan.program.display(), shop.configuration().display()));
    lines.push(
        "Kill any process (kill -9 PID): this terminal says what takes over, and the process starts again some seconds \
         later. Ctrl-C stops it all."
            .to_owned(),
    );
    lines.join("\n")
}

/// A closed terminal takes no more lines; that does not end the cluster.
fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}
