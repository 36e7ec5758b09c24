//! `make cluster`: a real cluster on loopback, from this machine's packages, until Ctrl-C.

use std::{
    fs::{self, File},
    io::Write as _,
    net::SocketAddr,
    path::Path,
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use penstock_local::{RedisKind, Shop, ShopPlan, keep_from_terminal};

const USAGE: &str = "penstock-local-cluster --server target/release/penstock [--listen 127.0.0.1:8080] \
                     [--redis single|sentinel|cluster] [--folder DIR] [--nodes N] [--settlers N]";

/// Says that a folder is ours to empty, and to `make rush` who runs in it and where: a number of a process and an address.
const MARKER: &str = "local-cluster";
/// So long after its death a server is started again; long enough for a failover to be seen.
const REVIVE_EVERY: Duration = Duration::from_secs(4);
/// Where `make` looks for it.
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
    let plan = plan(std::env::args().skip(1))?;
    // Ctrl-C is for this process: it stops the others in order.
    keep_from_terminal();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stop = runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        anyhow::Ok((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
    });
    let (mut interrupt, mut terminate) = stop.context("signals can't be heard")?;
    let begun = Instant::now();
    let lock = fresh(&plan.folder)?;
    say(&format!("a cluster in {}", plan.folder.display()));
    let mut shop = Shop::start(plan, |what| say(&format!("  starting {what}")))?;
    writeln!(&lock, "{} http://{}", std::process::id(), shop.address()).context("cannot say who runs")?;
    create_merchant(&shop)?;
    say(&introduction(&shop, begun)?);
    loop {
        let asked = runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => true,
                _ = terminate.recv() => true,
                () = tokio::time::sleep(REVIVE_EVERY) => false,
            }
        });
        if asked {
            break;
        }
        match shop.revive() {
            Ok(revived) => revived.iter().for_each(|name| say(&format!("{name} had died and runs again"))),
            Err(error) => say(&format!("{error:#}; trying again")),
        }
    }
    say("\nstopping: nginx, then the nodes, then settlement, then the servers");
    shop.stop()?;
    say("stopped");
    Ok(())
}

/// An empty folder, and the lock on it: every cluster begins anew.
fn fresh(folder: &Path) -> anyhow::Result<File> {
    let marker = folder.join(MARKER);
    let in_the_way = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if in_the_way && !marker.exists() {
        bail!("{} is not empty, and not of a cluster on this machine", folder.display());
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let lock = File::create(&marker).with_context(|| format!("cannot create {}", marker.display()))?;
    if lock.try_lock().is_err() {
        bail!("a cluster runs in {} already", folder.display());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(lock)
}

fn plan(mut arguments: impl Iterator<Item = String>) -> anyhow::Result<ShopPlan> {
    let mut plan = ShopPlan::new(Path::new("target/release/penstock"), Path::new(FOLDER));
    plan.redis = RedisKind::Cluster;
    plan.listen = Some(SocketAddr::from(([127, 0, 0, 1], 8080)));
    while let Some(name) = arguments.next() {
        if name == "--help" {
            say(USAGE);
            std::process::exit(0);
        }
        let value = arguments.next().with_context(|| format!("{name} needs a value\n{USAGE}"))?;
        match name.as_str() {
            "--server" => plan.program = value.into(),
            "--folder" => plan.folder = value.into(),
            "--listen" => plan.listen = Some(value.parse().context("--listen is not an address")?),
            "--nodes" => plan.nodes = value.parse().context("--nodes is not a number")?,
            "--settlers" => plan.settlers = value.parse().context("--settlers is not a number")?,
            "--redis" => {
                plan.redis = match value.as_str() {
                    "single" => RedisKind::Single,
                    "sentinel" => RedisKind::Sentinel,
                    "cluster" => RedisKind::Cluster,
                    other => bail!("--redis is single, sentinel or cluster, not {other}"),
                }
            }
            other => bail!("{other} is not known\n{USAGE}"),
        }
    }
    Ok(plan)
}

/// Somebody who can sign in to the console.
fn create_merchant(shop: &Shop) -> anyhow::Result<()> {
    let created = Command::new(&shop.plan().program)
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

fn introduction(shop: &Shop, begun: Instant) -> anyhow::Result<String> {
    let url = format!("http://{}", shop.address());
    let plan = shop.plan();
    let mut lines = vec![format!("\nready after {:.1} s", begun.elapsed().as_secs_f64())];
    lines.push(format!("  shop (nginx)     {url}"));
    lines.push(format!("  console          {url}/console  (phone {MERCHANT}, password {PASSWORD})"));
    for node in shop.nodes() {
        // The console calls a node by its machine and its process.
        let process = node.process_id().map_or_else(String::new, |id| format!("; process {id}"));
        lines.push(format!("  {:<16} http://{}  (metrics, readyz{process})", node.name(), node.address()?));
    }
    let servers: Vec<String> = shop.redis.addresses().iter().map(SocketAddr::to_string).collect();
    lines.push(format!("  Redis            {}", servers.join(" ")));
    lines.push(format!("  MariaDB          {}", shop.mariadb.address()));
    lines.push(format!("  logs             {}", plan.folder.join("logs").display()));
    lines.push(format!("  admin token      {}", plan.admin_token));
    lines.push(
        "\nThe shop is empty: put something on sale in the console, or rehearse in another terminal:"
            .to_owned(),
    );
    let folder = if plan.folder == Path::new(FOLDER) {
        String::new()
    } else {
        format!(" CLUSTER={}", plan.folder.display())
    };
    lines.push(format!("  make rush URL={url}{folder}"));
    lines.push(format!("  {} audit --config {}", plan.program.display(), shop.configuration().display()));
    lines.push("What you kill is started again after a few seconds. Ctrl-C stops it all.".to_owned());
    Ok(lines.join("\n"))
}

#[expect(clippy::print_stdout, reason = "it is what a person reads")]
fn say(text: &str) {
    println!("{text}");
}
