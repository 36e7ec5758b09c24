//! Compares foundations for the journal (ADR 0002): commits a second and CPU per commit of SQLite with one
//! packed row per commit, of an appended file, and of a file that was filled with zeroes before.
//!
//! `cargo run --release -p penstock-ledger --example journal_bases -- FOLDER` (a folder on the disk in question)

use std::{
    error::Error,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rusqlite::Connection;

const ORDER_BYTES: usize = 70;
const BATCHES: [usize; 4] = [1, 30, 200, 1000];
const RUN: Duration = Duration::from_secs(2);
const SEGMENT_BYTES: u64 = 64 << 20;

trait Base {
    fn commit(&mut self, record: &[u8]) -> Result<(), Box<dyn Error>>;
}

struct Sqlite {
    connection: Connection,
    position: i64,
}

impl Sqlite {
    fn open(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let connection = Connection::open(folder.join("journal.db"))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch("CREATE TABLE batches (first INTEGER PRIMARY KEY, record BLOB NOT NULL)")?;
        Ok(Self { connection, position: 0 })
    }
}

impl Base for Sqlite {
    fn commit(&mut self, record: &[u8]) -> Result<(), Box<dyn Error>> {
        self.position += 1;
        let mut insert = self.connection.prepare_cached("INSERT INTO batches VALUES (?1, ?2)")?;
        insert.execute((self.position, record))?;
        Ok(())
    }
}

/// The file grows with every record.
struct Appended {
    file: File,
}

impl Base for Appended {
    fn commit(&mut self, record: &[u8]) -> Result<(), Box<dyn Error>> {
        self.file.write_all(record)?;
        Ok(self.file.sync_data()?)
    }
}

/// Records overwrite zeroes, so that a sync has no new file length to write.
struct Preallocated {
    folder: PathBuf,
    file: File,
    offset: u64,
    segments: u32,
}

impl Preallocated {
    fn open(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let file = Self::segment(folder, 0)?;
        Ok(Self { folder: folder.into(), file, offset: 0, segments: 1 })
    }

    fn segment(folder: &Path, number: u32) -> io::Result<File> {
        let mut file =
            OpenOptions::new().write(true).create_new(true).open(folder.join(number.to_string()))?;
        let zeroes = vec![0; 1 << 20];
        for _ in 0..SEGMENT_BYTES >> 20 {
            file.write_all(&zeroes)?;
        }
        file.sync_all()?;
        Ok(file)
    }
}

impl Base for Preallocated {
    fn commit(&mut self, record: &[u8]) -> Result<(), Box<dyn Error>> {
        if self.offset + record.len() as u64 > SEGMENT_BYTES {
            self.file = Self::segment(&self.folder, self.segments)?;
            self.segments += 1;
            self.offset = 0;
        }
        self.file.write_all_at(record, self.offset)?;
        self.file.sync_data()?;
        self.offset += record.len() as u64;
        Ok(())
    }
}

/// Nanoseconds this thread has spent on a CPU, including the kernel.
fn cpu_nanoseconds() -> Result<u64, Box<dyn Error>> {
    let schedstat = fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(schedstat.split(' ').next().ok_or("no schedstat")?.parse()?)
}

fn measure(name: &str, mut base: impl Base, orders: usize) -> Result<(), Box<dyn Error>> {
    let record: Vec<u8> = (0..orders * ORDER_BYTES).map(|byte| (byte * 131) as u8).collect();
    let (mut commits, started, cpu_before) = (0u64, Instant::now(), cpu_nanoseconds()?);
    let mut slowest = Duration::ZERO;
    while started.elapsed() < RUN {
        let before = Instant::now();
        base.commit(&record)?;
        slowest = slowest.max(before.elapsed());
        commits += 1;
    }
    let per_second = commits as f64 / started.elapsed().as_secs_f64();
    let cpu = (cpu_nanoseconds()? - cpu_before) as f64 / commits as f64 / 1000.0;
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{name:<14} {orders:>5} orders: {per_second:>7.0} commits/s {:>9.0} orders/s {cpu:>6.1} us CPU/commit, slowest {slowest:?}",
        per_second * orders as f64
    )?;
    Ok(())
}

fn fresh(folder: &Path) -> io::Result<PathBuf> {
    let folder = folder.join("journal_bases");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "target".into()));
    for orders in BATCHES {
        measure("sqlite", Sqlite::open(&fresh(&folder)?)?, orders)?;
        let file = File::create(fresh(&folder)?.join("appended"))?;
        measure("appended", Appended { file }, orders)?;
        measure("preallocated", Preallocated::open(&fresh(&folder)?)?, orders)?;
    }
    Ok(fs::remove_dir_all(folder.join("journal_bases"))?)
}
