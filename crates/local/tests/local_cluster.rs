//! `penstock-local-cluster` itself: what it reports about its parts, what happens when they are killed, and
//! that nothing is left however it ends. Its servers are real; `penstock` is a script that only says that it
//! is ready.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    collections::HashMap,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc::{Receiver, sync_channel},
    thread,
    time::{Duration, Instant},
};

use penstock_local::{accepts, free_address};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_penstock-local-cluster");
const PATIENCE: Duration = Duration::from_secs(90);
/// It also writes down the settings that it gets, except for the merchant's password.
const SCRIPT: &str = "#!/bin/sh
env | grep '^PENSTOCK_' | grep -v ADMIN_PASSWORD >> $0.settings
case $1 in
    serve) echo 'penstock ready on here'; exec sleep 600 ;;
    settle) echo 'penstock settles here'; exec sleep 600 ;;
esac
";

/// A folder with everything that a cluster needs.
struct Place {
    folder: TempDir,
    listen: SocketAddr,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap(), listen: free_address().unwrap() };
        fs::write(place.program(), SCRIPT).unwrap();
        fs::set_permissions(place.program(), fs::Permissions::from_mode(0o755)).unwrap();
        place
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("penstock")
    }

    fn cluster(&self) -> PathBuf {
        self.folder.path().join("cluster")
    }

    fn command(&self, folder: &Path, redis: &str) -> Command {
        // The test run itself may have been started so that processes ignore a closed terminal.
        let mut command = Command::new("env");
        command
            .args(["--default-signal=HUP", BINARY])
            .arg("--server")
            .arg(self.program())
            .arg("--folder")
            .arg(folder);
        command.args(["--listen", &self.listen.to_string(), "--redis", redis, "--replicas", "1"]);
        // Variables that were exported for another Penstock.
        command.env("PENSTOCK_ADMIN_TOKEN", "another").env("PENSTOCK_HTTP__WORKERS", "7");
        command
    }

    fn start(&self, redis: &str) -> Cluster {
        let mut command = self.command(&self.cluster(), redis);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = sync_channel(1_000);
        let stdout = child.stdout.take().unwrap();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    // From now on nobody reads its output, as when a terminal is closed.
                    return;
                }
            }
        });
        let mut cluster = Cluster { child, lines, said: Vec::new() };
        cluster.until_it_says(&["Ctrl-C stops it all"]);
        cluster
    }

    /// Starts a cluster and expects it to refuse.
    fn refused(&self, folder: &Path) -> String {
        let Output { status, stderr, .. } = self.command(folder, "single").output().unwrap();
        assert!(!status.success(), "it should have been refused");
        String::from_utf8(stderr).unwrap()
    }
}

struct Cluster {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Cluster {
    /// Waits for a line that contains all these words, and returns it.
    fn until_it_says(&mut self, words: &[&str]) -> String {
        let began = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(began.elapsed());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("it never says {words:?}:\n{}", self.said.join("\n")));
            self.said.push(line.clone());
            if words.iter().all(|word| line.contains(word)) {
                return line;
            }
        }
    }

    /// Waits until it has printed all of these, in any order, since its `from`th line.
    fn until_it_has_said(&mut self, from: usize, all: &[&[&str]]) {
        for words in all {
            let says = |line: &String| words.iter().all(|word| line.contains(word));
            if !self.said[from..].iter().any(says) {
                self.until_it_says(words);
            }
        }
    }

    /// The numbers of all processes that were started in `place`, including those that were started again.
    fn started(place: &Place) -> Vec<u32> {
        let record = fs::read_to_string(place.cluster().join("processes")).unwrap();
        record.lines().skip(1).filter_map(|line| line.split(' ').next().unwrap().parse().ok()).collect()
    }

    /// The table that it printed: process numbers by name.
    fn processes(&self) -> HashMap<String, u32> {
        let rows = self.said.iter().skip_while(|line| !line.contains("address                role")).skip(1);
        let rows = rows.take_while(|line| !line.is_empty());
        rows.map(|row| {
            let mut cells = row.split_whitespace();
            (cells.next().unwrap().to_owned(), cells.next().unwrap().parse().unwrap())
        })
        .collect()
    }

    fn signal(&self, signal: Signal) {
        send(self.child.id(), signal);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn send(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process.try_into().unwrap()).unwrap(), signal).unwrap();
}

/// A process that has ended counts as gone even before its parent has waited for it.
fn is_there(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

fn until_gone(processes: impl IntoIterator<Item = u32>) {
    for process in processes {
        let began = Instant::now();
        while is_there(process) {
            assert!(began.elapsed() < PATIENCE, "process {process} is still there");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn workers_of(nginx: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{nginx}/task/{nginx}/children")).unwrap();
    children.split_whitespace().map(|child| child.parse().unwrap()).collect()
}

/// The folder of MariaDB's socket.
fn socket_folder(place: &Place) -> PathBuf {
    let record = fs::read_to_string(place.cluster().join("processes")).unwrap();
    PathBuf::from(record.lines().find_map(|line| line.strip_prefix("folder ")).unwrap())
}

#[test]
fn help_explains_every_option_and_a_missing_program_harms_nothing() {
    let help = Command::new(BINARY).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for option in ["--server", "--listen", "--redis", "--replicas", "--folder", "--nodes", "--settlers"] {
        assert!(
            help.lines().any(|line| line.trim_start().starts_with(&format!("{option} "))),
            "{option}: {help}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("redis");
    fs::create_dir(&data).unwrap();
    fs::write(folder.path().join("local-cluster"), "").unwrap();
    let mut command = Command::new(BINARY);
    command.args(["--server", "/nope", "--folder"]).arg(folder.path());
    let refused = command.output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("there is no program /nope"), "{said}");
    assert!(data.exists(), "the data of an earlier cluster is gone");
}

#[test]
fn a_killed_cluster_takes_everything_with_it_and_the_next_one_starts_clean() {
    let place = Place::new();
    let mut cluster = place.start("single");
    let parts = cluster.processes();
    for name in ["nginx", "node-1", "node-2", "node-3", "settle-1", "settle-2", "redis-1", "mariadb"] {
        assert!(is_there(parts[name]), "{name} does not run as process {}", parts[name]);
    }
    let heard = fs::read_to_string(place.folder.path().join("penstock.settings")).unwrap();
    assert_eq!(
        heard, "",
        "settings of the caller reach the cluster, which prints a token that is not its own"
    );
    let sockets = socket_folder(&place);
    assert!(sockets.exists());
    let workers = workers_of(parts["nginx"]);
    assert!(!workers.is_empty());
    // A paused process reacts to nothing but SIGKILL.
    send(parts["node-2"], Signal::STOP);
    cluster.signal(Signal::KILL);
    cluster.child.wait().unwrap();
    until_gone(parts.into_values().chain(workers));
    assert!(!accepts(place.listen), "something still accepts connections");

    // The next cluster finds whatever the kernel did not end.
    let mut leftover = Command::new("sleep").arg("600").spawn().unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", leftover.id())).unwrap();
    let started = stat.split_whitespace().nth(21).unwrap();
    let mut record = fs::OpenOptions::new().append(true).open(place.cluster().join("processes")).unwrap();
    writeln!(record, "{} {started} a server", leftover.id()).unwrap();
    let cluster = place.start("single");
    let told = format!("ended what a killed cluster had left: a server (pid {})", leftover.id());
    assert!(cluster.said.contains(&told), "{}", cluster.said.join("\n"));
    leftover.wait().unwrap();
    let place_of_data = place.cluster().display().to_string();
    let told = format!("removed the data of the cluster that ran in {place_of_data} before and was killed");
    assert!(cluster.said.contains(&told), "{}", cluster.said.join("\n"));
    let told = format!("a cluster in {place_of_data}; each start begins with empty data");
    assert!(cluster.said.contains(&told), "{}", cluster.said.join("\n"));
    assert!(!sockets.exists(), "{} is left", sockets.display());

    let refusal = place.refused(&place.cluster());
    assert!(refusal.contains(&format!("already: process {} http://", cluster.child.id())), "{refusal}");
    let refusal = place.refused(&place.folder.path().join("another"));
    assert!(refusal.contains(&format!("cannot listen on {}", place.listen)), "{refusal}");
    assert!(accepts(place.listen), "a refused cluster must not harm the one that runs");
}

#[test]
fn a_killed_redis_master_starts_again_after_its_failover_and_a_closed_terminal_stops_everything() {
    let place = Place::new();
    let mut cluster = place.start("sentinel");
    let parts = cluster.processes();
    let workers = workers_of(parts["nginx"]);
    send(parts["redis-1"], Signal::KILL);
    let told = cluster.until_it_says(&["redis-1 127.0.0.1:", &format!("(pid {})", parts["redis-1"])]);
    let killed = Instant::now();
    assert!(told.contains("SIGKILL") && told.contains("starts again in 15 s"), "{told}");
    assert!(told.ends_with("its replica takes over"), "{told}");
    let told = cluster.until_it_says(&["redis-2", "was promoted"]);
    assert!(told.contains("s after redis-1 ended"), "{told}");
    send(parts["nginx"], Signal::KILL);
    cluster.until_it_says(&["nginx", "SIGKILL"]);
    cluster.until_it_says(&["nginx", "runs again"]);
    until_gone(workers);
    assert!(accepts(place.listen), "nginx accepts no connections");
    let told = cluster.until_it_says(&["redis-1", "runs again"]);
    assert!(killed.elapsed() > Duration::from_secs(12), "after {:?}: {told}", killed.elapsed());
    cluster.until_it_says(&["redis-1", "is a replica of redis-2 now"]);

    // The terminal is closed: it takes no more lines, and everything is stopped in order.
    let started = Cluster::started(&place);
    assert!(started.len() > parts.len(), "what was started again is not recorded: {started:?}");
    drop(std::mem::replace(&mut cluster.lines, sync_channel(1).1));
    cluster.signal(Signal::HUP);
    assert!(cluster.child.wait().unwrap().success(), "a closed terminal is an orderly end");
    until_gone(started);
}

#[test]
fn one_part_of_every_kind_starts_again_after_a_kill_and_ctrl_c_leaves_nothing() {
    let place = Place::new();
    let mut cluster = place.start("cluster");
    let parts = cluster.processes();
    let workers = workers_of(parts["nginx"]);
    let (from, killed) = (cluster.said.len(), ["redis-1", "mariadb", "node-1", "settle-1"]);
    for name in killed {
        send(parts[name], Signal::KILL);
    }
    let ended = killed.map(|name| [name, "(signal: 9 (SIGKILL))"]);
    cluster.until_it_has_said(from, &ended.each_ref().map(|words| words.as_slice()));
    cluster.until_it_has_said(from, &[&["was promoted", "s after redis-1 ended"]]);
    let again = killed.map(|name| [name, "runs again"]);
    cluster.until_it_has_said(from, &again.each_ref().map(|words| words.as_slice()));
    assert!(accepts(place.listen), "nginx accepts no connections");

    let started = Cluster::started(&place);
    assert!(started.len() >= parts.len() + killed.len(), "what was started again is not recorded");
    // For some seconds nginx' workers go on without their master. If the cluster ends now, it ends them, too.
    send(parts["nginx"], Signal::KILL);
    cluster.until_it_says(&["nginx", "(signal: 9 (SIGKILL))"]);
    cluster.signal(Signal::INT);
    assert!(cluster.child.wait().unwrap().success(), "Ctrl-C is an orderly end");
    until_gone(started.into_iter().chain(parts.into_values()).chain(workers));
    assert!(!accepts(place.listen), "something still accepts connections");
}
