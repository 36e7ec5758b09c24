//! A disk whose syncs take long: the server decides more claims in each commit instead of telling people to come back, and
//! is as quick as ever when the disk is.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

use penstock_testkit::{Merchant, Offer, Penstock, buyer_token};

const BINARY: &str = env!("CARGO_BIN_EXE_penstock");

/// Delays every sync of the process that loads it, as long as the file exists that `SLOW_SYNC` names.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static void delay(void) {
    const char *file = getenv("SLOW_SYNC");
    if (file && access(file, F_OK) == 0) usleep(SYNC_MICROSECONDS);
}
int fdatasync(int fd) {
    delay();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
int fsync(int fd) {
    delay();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}
"#;
/// Twice the latency that the limit on claims in flight aims at.
const SYNC: Duration = Duration::from_millis(100);
/// Each buys for one person after the other.
const CONNECTIONS: usize = 120;
const PEOPLE_PER_CONNECTION: usize = 15;
/// A person who is told to come back later does so this often.
const MAX_TRIES: usize = 5;

/// Compiles the shim, which needs no more than SQLite does.
fn compile_shim(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("slow_sync.c"), folder.join("slow_sync.so"));
    fs::write(&source, SHIM).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", &format!("-DSYNC_MICROSECONDS={}", SYNC.as_micros()), "-o"]);
    let output = compiler.arg(&library).arg(&source).arg("-ldl").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

/// What people were told.
#[derive(Debug, Default)]
struct Told {
    served: usize,
    gave_up: usize,
    busy: usize,
    /// How long those who were served waited for that answer.
    latencies: Vec<Duration>,
}

impl Told {
    fn median(&self) -> Duration {
        let mut latencies = self.latencies.clone();
        latencies.sort_unstable();
        latencies[latencies.len() / 2]
    }
}

/// People come over all connections at once, and each connection serves one after the other.
fn sell(penstock: &Penstock, sale: &str, name: &str, people: usize) -> Told {
    let start = Arc::new(Barrier::new(CONNECTIONS));
    let buyers = (0..CONNECTIONS).map(|connection| {
        let (mut client, sale, start) = (penstock.client(), sale.to_owned(), Arc::clone(&start));
        let names: Vec<String> = (0..people).map(|person| format!("{name}-{connection}-{person}")).collect();
        let people: Vec<_> = names.into_iter().map(|name| (buyer_token(&name), name)).collect();
        thread::spawn(move || {
            client.connect().unwrap();
            start.wait();
            let mut told = Told::default();
            for (token, name) in people {
                client.set_token(&token);
                for attempt in 1..=MAX_TRIES {
                    let asked = Instant::now();
                    let answer = client.claim(&sale, 1, &name).unwrap();
                    if answer.status == 201 {
                        told.served += 1;
                        told.latencies.push(asked.elapsed());
                        break;
                    }
                    assert_eq!(answer.code(), "busy", "{}", answer.text());
                    told.busy += 1;
                    told.gave_up += usize::from(attempt == MAX_TRIES);
                    let seconds = answer.header("retry-after").and_then(|text| text.parse().ok());
                    thread::sleep(Duration::from_secs(seconds.unwrap()));
                }
            }
            told
        })
    });
    let buyers: Vec<_> = buyers.collect();
    buyers.into_iter().map(|buyer| buyer.join().unwrap()).fold(Told::default(), |mut sum, told| {
        sum.served += told.served;
        sum.gave_up += told.gave_up;
        sum.busy += told.busy;
        sum.latencies.extend(told.latencies);
        sum
    })
}

#[test]
fn a_slow_disk_makes_people_wait_a_moment_and_turns_hardly_anybody_away() {
    let folder = tempfile::tempdir().unwrap();
    let slow = folder.path().join("slow");
    let mut penstock = Penstock::new(BINARY)
        .with("LD_PRELOAD", compile_shim(folder.path()).display())
        .with("SLOW_SYNC", slow.display())
        .with("PENSTOCK_GATE__LIMITS__IN_FLIGHT_MIN", 4);
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(Offer { units: 10_000, ..Offer::default() });
    let all = CONNECTIONS * PEOPLE_PER_CONNECTION;

    fs::write(&slow, "").unwrap();
    let behind_it = sell(&penstock, &sale, "slow", PEOPLE_PER_CONNECTION);
    eprintln!(
        "with syncs of {SYNC:?}: {} of {all} served, {} × busy, median {:?}",
        behind_it.served,
        behind_it.busy,
        behind_it.median()
    );
    assert!(behind_it.median() >= SYNC, "the shim delays nothing: {:?}", behind_it.median());
    assert_eq!((behind_it.served, behind_it.gave_up), (all, 0));
    assert!(behind_it.busy * 4 <= all, "{} of {all} were told to come back", behind_it.busy);

    fs::remove_file(&slow).unwrap();
    // About a second after the disk has become quick, nothing is left of it.
    sell(&penstock, &sale, "recovering", PEOPLE_PER_CONNECTION);
    let after_it = sell(&penstock, &sale, "quick", PEOPLE_PER_CONNECTION);
    eprintln!("after it: {} × busy, median {:?}", after_it.busy, after_it.median());
    assert_eq!(after_it.served, all);
    assert!(after_it.busy * 20 <= all, "{} of {all} were told to come back", after_it.busy);
}
