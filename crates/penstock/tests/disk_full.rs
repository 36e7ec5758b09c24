//! When the disk is full, the sale stops with 503 and gives the reason. It never answers 201 unless the order
//! is durable, and sells again when there is room.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    fs::{self, File},
    io::Write as _,
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use penstock_testkit::{Auditor, Client, ClientAnswer, Merchant, OfferTerms, Penstock, buyer_token};

const BINARY: &str = env!("CARGO_BIN_EXE_penstock");
/// "Within seconds", with some room for a loaded machine.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// The journal's log reserves its room at the start; it is small here, so that it is soon used up.
const LOG_MEBIBYTES: &str = "PENSTOCK_LEDGER__LOG_MEBIBYTES";

/// A small file system that only this test uses.
struct SmallDisk {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl SmallDisk {
    fn mount(megabytes: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&path).status();
        assert!(
            mounted.is_ok_and(|status| status.success()),
            "this test fills up its own disk and could not mount one: run it as root, or in a container \
             that may mount (docker run --cap-add SYS_ADMIN)"
        );
        Self { path, _folder: folder }
    }

    /// Fills all the room there is, to the last byte.
    fn fill(&self) -> PathBuf {
        let filler = self.path.join("filler");
        let mut file = File::create(&filler).unwrap();
        for size in [1 << 20, 1 << 12, 1 << 6, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
        filler
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: after a failed test the server may still be ending.
        let unmounted = Command::new("umount").arg("--lazy").arg(&self.path).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} is still mounted", self.path.display());
        }
    }
}

struct Buyers {
    client: Client,
    sale: String,
    auditor: Auditor,
    sent: u32,
}

impl Buyers {
    fn claim(&mut self) -> ClientAnswer {
        let (buyer, key) = (format!("buyer-{}", self.sent), format!("key-{}", self.sent));
        self.sent += 1;
        self.client.set_token(&buyer_token(&buyer));
        self.auditor.sends(&self.sale, &buyer, 1, &key);
        let answer = self.client.claim(&self.sale, 1, &key).unwrap();
        self.auditor.saw(&self.sale, &key, &answer);
        answer
    }

    /// Claims until a claim is answered with `status`.
    fn claim_until(&mut self, status: u16, timeout: Duration) -> ClientAnswer {
        let deadline = Instant::now() + timeout;
        loop {
            let answer = self.claim();
            if answer.status == status {
                return answer;
            }
            assert!(matches!(answer.status, 201 | 503), "{} {}", answer.status, answer.text());
            assert!(Instant::now() < deadline, "never {status}, but {} {}", answer.status, answer.text());
            if answer.status == 503 {
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

fn data_in(disk: &SmallDisk) -> PathBuf {
    disk.path.join("data")
}

#[test]
fn a_full_disk_stops_the_sale_until_there_is_room() {
    let disk = SmallDisk::mount(24);
    let mut penstock = Penstock::in_folder(BINARY, &data_in(&disk)).with(LOG_MEBIBYTES, 1);
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(OfferTerms { units: 1_000_000, ..OfferTerms::default() });
    let mut buyers = Buyers { client: penstock.client(), sale, auditor: Auditor::default(), sent: 0 };
    for _ in 0..100 {
        assert_eq!(buyers.claim().status, 201);
    }

    for outage in 0..2 {
        let filler = disk.fill();
        let refused = buyers.claim_until(503, RECOVERY_TIMEOUT);
        assert_eq!(refused.code(), "unavailable", "outage {outage}: {}", refused.text());
        let ready = penstock.client().get("/readyz").unwrap();
        assert_eq!(ready.status, 503, "{}", ready.text());
        assert!(is_about_the_disk(&ready.text()), "/readyz does not say why: {}", ready.text());
        assert!(is_about_the_disk(&penstock.log()), "the log does not say why: {}", penstock.log());
        // Nothing is promised while the disk is full.
        for _ in 0..20 {
            let answer = buyers.claim();
            assert_eq!((answer.status, answer.code().as_str()), (503, "unavailable"), "{}", answer.text());
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(penstock.client().get("/healthz").unwrap().status, 200);
        // An audit only reads, so it needs no room.
        let audit = penstock.run(&["audit", "--data", &penstock.data().display().to_string()]).unwrap();
        assert!(audit.status.success(), "{}{}", audit.stdout, audit.stderr);

        fs::remove_file(filler).unwrap();
        buyers.claim_until(201, RECOVERY_TIMEOUT);
        assert_eq!(penstock.client().get("/readyz").unwrap().status, 200);
        buyers.auditor.verify(&penstock).assert_clean();
    }

    // Promises are on the disk: they survive a kill right after.
    buyers.claim_until(201, RECOVERY_TIMEOUT);
    penstock.kill().unwrap();
    penstock.start().unwrap();
    buyers.auditor.verify(&penstock).assert_clean();
}

fn is_about_the_disk(text: &str) -> bool {
    let text = text.to_lowercase();
    ["no space left", "disk is full", "database or disk is full", "os error 28"]
        .iter()
        .any(|words| text.contains(words))
}

#[test]
fn a_kill_while_the_disk_is_full_loses_nothing() {
    let disk = SmallDisk::mount(24);
    let mut penstock = Penstock::in_folder(BINARY, &data_in(&disk)).with(LOG_MEBIBYTES, 1);
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(OfferTerms { units: 1_000_000, ..OfferTerms::default() });
    let mut buyers = Buyers { client: penstock.client(), sale, auditor: Auditor::default(), sent: 0 };
    for _ in 0..100 {
        assert_eq!(buyers.claim().status, 201);
    }
    let filler = disk.fill();
    buyers.claim_until(503, RECOVERY_TIMEOUT);
    penstock.kill().unwrap();
    fs::remove_file(filler).unwrap();
    penstock.start().unwrap();
    buyers.client = penstock.client();
    buyers.claim_until(201, RECOVERY_TIMEOUT);
    buyers.auditor.verify(&penstock).assert_clean();
}
