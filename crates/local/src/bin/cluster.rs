//! `make cluster`: a real cluster on loopback, from this machine's packages, until Ctrl-C.

use std::{net::SocketAddr, path::Path, process::ExitCode, time::Instant};

use anyhow::{Context, bail};
use penstock_local::{RedisKind, Shop, ShopPlan, keep_from_terminal};

const USAGE: &str = "penstock-local-cluster --server target/release/penstock [--listen 127.0.0.1:8080] \
                     [--redis single|sentinel|cluster] [--folder DIR] [--nodes N] [--settlers N]";

/// Where `make` looks for it.
const FOLDER: &str = "target/cluster";

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
    say(&format!("a cluster in {}", plan.folder.display()));
    let shop = Shop::start(plan, |what| say(&format!("  starting {what}")))?;
    say(&introduction(&shop, begun)?);
    runtime.block_on(async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    });
    say("\nstopping: nginx, then the nodes, then settlement, then the servers");
    shop.stop()?;
    say("stopped");
    Ok(())
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

fn introduction(shop: &Shop, begun: Instant) -> anyhow::Result<String> {
    let url = format!("http://{}", shop.address());
    let plan = shop.plan();
    let mut lines = vec![format!("\nready after {:.1} s", begun.elapsed().as_secs_f64())];
    lines.push(format!("  shop (nginx)     {url}"));
    for node in shop.nodes() {
        lines.push(format!("  {:<16} http://{}  (metrics, readyz)", node.name(), node.address()?));
    }
    let servers: Vec<String> = shop.redis.addresses().iter().map(SocketAddr::to_string).collect();
    lines.push(format!("  Redis            {}", servers.join(" ")));
    lines.push(format!("  MariaDB          {}", shop.mariadb.address()));
    lines.push(format!("  logs             {}", plan.folder.join("logs").display()));
    lines.push(format!("  admin token      {}", plan.admin_token));
    lines.push("\nin another terminal:".to_owned());
    let folder = if plan.folder == Path::new(FOLDER) {
        String::new()
    } else {
        format!(" CLUSTER={}", plan.folder.display())
    };
    lines.push(format!("  make rush URL={url}{folder}"));
    lines.push(format!("  {} audit --config {}", plan.program.display(), shop.configuration().display()));
    lines.push("Ctrl-C stops it.".to_owned());
    Ok(lines.join("\n"))
}

#[expect(clippy::print_stdout, reason = "it is what a person reads")]
fn say(text: &str) {
    println!("{text}");
}
