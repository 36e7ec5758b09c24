//! Penstock's figures, each beside the peer it is measured against, on the same cores in the same minutes.

mod cpu;
mod durable;
mod html;
mod memory;
mod overload;
mod refusals;
mod report;
mod server;
mod sold_out;
mod waiting_room;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use clap::ValueEnum;
use tempfile::TempDir;

pub use report::{Figure, Report};

use crate::host::{self, Machine, Steal};

/// What can be asked for with `--only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Name {
    DurableOrdersPerSecond,
    SoldOutCpuUs,
    RecoverySeconds,
    BytesPerOrder,
    OverloadGoodputRatio,
    RefusalCpuUs,
    WaitingRoomBytesPerPerson,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// The `penstock` binary.
    pub server: PathBuf,
    /// Where the servers keep their data; on a disk.
    pub folder: PathBuf,
    /// Empty: all.
    pub only: Vec<Name>,
    /// Measured seconds of one run.
    pub seconds: u64,
    pub quick: bool,
}

impl Options {
    fn wants(&self, name: Name) -> bool {
        self.only.is_empty() || self.only.contains(&name)
    }

    fn measured(&self) -> Duration {
        Duration::from_secs(self.seconds.max(1))
    }

    fn warm_up(&self) -> Duration {
        Duration::from_secs(if self.quick { 1 } else { 2 })
    }
}

/// A run that lost more of the machine than this to other guests of its host is repeated,
const MAX_STEAL_PERCENT: f64 = 3.0;
/// but not for ever.
const MAX_REPEATS: u32 = 2;

/// What the figures share while they are measured.
struct Bench<'a> {
    options: &'a Options,
    scratch: TempDir,
    terminal: &'a mut dyn Write,
    worst_steal_percent: f64,
}

/// Measures what `options` ask for, telling `terminal` how it goes.
pub fn run(options: &Options, terminal: &mut dyn Write) -> anyhow::Result<Report> {
    fs::create_dir_all(&options.folder)
        .with_context(|| format!("cannot create {}", options.folder.display()))?;
    host::ensure_on_disk(&options.folder)?;
    let machine = Machine::look(&options.folder)?;
    let scratch = tempfile::Builder::new().prefix("run-").tempdir_in(&options.folder)?;
    let mut bench = Bench { options, scratch, terminal, worst_steal_percent: 0.0 };
    bench.say(&format!(
        "{} cores of {}, {} GiB, {}, Linux {}, {}",
        machine.cores, machine.cpu, machine.memory_gib, machine.system, machine.kernel, machine.file_system
    ));
    let mut report = Report::default();
    if options.wants(Name::DurableOrdersPerSecond) {
        durable::measure(&mut bench, &mut report)?;
    }
    if options.wants(Name::SoldOutCpuUs) {
        sold_out::measure(&mut bench, &mut report)?;
    }
    if options.wants(Name::RecoverySeconds) || options.wants(Name::BytesPerOrder) {
        memory::measure(&mut bench, &mut report)?;
    }
    if options.wants(Name::OverloadGoodputRatio) {
        overload::measure(&mut bench, &mut report)?;
    }
    if options.wants(Name::RefusalCpuUs) {
        refusals::measure(&mut bench, &mut report)?;
    }
    if options.wants(Name::WaitingRoomBytesPerPerson) {
        waiting_room::measure(&mut bench, &mut report)?;
    }
    report.stamp(&machine);
    Ok(report)
}

impl Bench<'_> {
    fn say(&mut self, line: &str) {
        // A terminal that went away is no reason to stop measuring.
        let _ = writeln!(self.terminal, "{line}").and_then(|()| self.terminal.flush());
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// An empty folder of that name.
    fn fresh_folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.folder(name);
        remove(&folder)?;
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(folder)
    }

    /// Does `run`, and again if the host took too much of the machine meanwhile. The last result counts.
    fn undisturbed<T>(
        &mut self,
        mut run: impl FnMut(&mut Self) -> anyhow::Result<(T, String)>,
    ) -> anyhow::Result<T> {
        let mut repeats = 0;
        loop {
            // What the run before left to be written is not this one's business.
            rustix::fs::sync();
            let steal = Steal::start()?;
            let (result, line) = run(self)?;
            let percent = steal.percent()?;
            let again = percent > MAX_STEAL_PERCENT && repeats < MAX_REPEATS;
            let remark = if again { ", too much: once more" } else { "" };
            self.say(&format!("  {line}  (steal {percent:.1} %{remark})"));
            if !again {
                self.worst_steal_percent = self.worst_steal_percent.max(percent);
                return Ok(result);
            }
            repeats += 1;
        }
    }

    /// The steal of the worst run that counted since the last call.
    fn take_steal(&mut self) -> f64 {
        std::mem::take(&mut self.worst_steal_percent)
    }
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// The middle of some measurements, and of two middle ones the smaller.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.0);
        assert!(median(&[]).is_nan());
    }
}
