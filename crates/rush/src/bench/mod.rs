//! Penstock's figures, each measured next to its peer on the same cores in the same minutes.

mod cluster;
mod cluster_cpu;
mod cluster_latch;
mod cluster_orders;
mod cpu;
mod durable;
mod html;
mod many_sales;
mod memory;
mod order_latency;
mod overload;
mod places;
mod program;
mod redis_claims;
mod refusals;
mod rehearsals;
mod report;
mod sale_page;
mod selling;
mod server;
mod settlement;
mod sold_out;
mod waiting_room;

use std::{
    fmt, fs,
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::ValueEnum;
use tempfile::TempDir;

pub use report::{Figure, Report};

use places::Places;

use crate::host::{self, Machine, Steal};

/// The values of `--only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Name {
    DurableOrdersPerSecond,
    OrderP99Ms,
    SoldOutCpuUs,
    SalePageCpuUs,
    RefusalCpuUs,
    ManySalesCostRatio,
    RecoverySeconds,
    BytesPerOrder,
    OverloadGoodputRatio,
    WaitingRoomBytesPerPerson,
    ThirtyThousandSeconds,
    TenMillionRequestsPerSecond,
    RedisClaimsPerSecond,
    ClusterOrdersPerSecond,
    ClusterCpuUs,
    LatchPropagationMs,
    SettlementRowsPerSecond,
}

type Measure = fn(&mut Bench<'_>, &mut Report) -> anyhow::Result<()>;

/// In the order in which they are measured. Figures that come from the same orders share an entry.
const FIGURES: &[(&[Name], Measure)] = &[
    (&[Name::DurableOrdersPerSecond], durable::measure),
    (&[Name::OrderP99Ms], order_latency::measure),
    (&[Name::SoldOutCpuUs], sold_out::measure),
    (&[Name::SalePageCpuUs], sale_page::measure),
    (&[Name::RefusalCpuUs], refusals::measure),
    (&[Name::ManySalesCostRatio], many_sales::measure),
    (&[Name::RecoverySeconds, Name::BytesPerOrder], memory::measure),
    (&[Name::OverloadGoodputRatio], overload::measure),
    (&[Name::WaitingRoomBytesPerPerson], waiting_room::measure),
    (&[Name::ThirtyThousandSeconds], rehearsals::thirty_thousand),
    (&[Name::TenMillionRequestsPerSecond], rehearsals::ten_million),
    (&[Name::RedisClaimsPerSecond], redis_claims::measure),
    (&[Name::ClusterOrdersPerSecond], cluster_orders::measure),
    (&[Name::ClusterCpuUs], cluster_cpu::measure),
    (&[Name::LatchPropagationMs], cluster_latch::measure),
    (&[Name::SettlementRowsPerSecond], settlement::measure),
];

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No name is hidden, so each has a text.
        self.to_possible_value().map_or(Ok(()), |value| formatter.write_str(value.get_name()))
    }
}

#[derive(Clone, Debug)]
pub struct Options {
    /// The `penstock` binary.
    pub server: PathBuf,
    /// Where the servers keep their data; must be on a disk.
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

/// The opening of sales that are not meant to open.
const FAR_FUTURE: &str = "2099-01-01T00:00:00Z";
/// A run that loses more of the machine than this to other guests of its host is repeated.
const MAX_STEAL_PERCENT: f64 = 3.0;
/// The most repeats of one run.
const MAX_REPEATS: u32 = 2;

/// State that the figures share while they are measured.
struct Bench<'a> {
    options: &'a Options,
    scratch: TempDir,
    terminal: &'a mut dyn Write,
    /// The worst of the runs of this figure.
    worst_steal_percent: f64,
    places: Option<Places>,
}

/// Measures what `options` ask for, and reports progress to `terminal`.
pub fn run(options: &Options, terminal: &mut dyn Write) -> anyhow::Result<Report> {
    fs::create_dir_all(&options.folder)
        .with_context(|| format!("cannot create {}", options.folder.display()))?;
    host::ensure_on_disk(&options.folder)?;
    let machine = Machine::look(&options.folder)?;
    let scratch = tempfile::Builder::new().prefix("run-").tempdir_in(&options.folder)?;
    let mut bench = Bench { options, scratch, terminal, worst_steal_percent: 0.0, places: None };
    bench.say(&format!(
        "{} cores of {}, {} GiB, {}, Linux {}, {}",
        machine.cores, machine.cpu, machine.memory_gib, machine.system, machine.kernel, machine.file_system
    ));
    let mut report = Report::default();
    let wanted: Vec<_> =
        FIGURES.iter().filter(|(names, _)| names.iter().any(|name| options.wants(*name))).collect();
    for (index, (names, measure)) in wanted.iter().enumerate() {
        let names: Vec<String> = names.iter().map(Name::to_string).collect();
        (bench.worst_steal_percent, bench.places) = (0.0, None);
        bench.say(&format!("figure {} of {}: {}", index + 1, wanted.len(), names.join(", ")));
        let started = Instant::now();
        measure(&mut bench, &mut report)?;
        bench.say(&format!("  {:.0} s", started.elapsed().as_secs_f64()));
    }
    report.stamp(&machine);
    Ok(report)
}

impl Bench<'_> {
    fn say(&mut self, line: &str) {
        // A terminal that has gone away does not stop the measurement.
        let _ = writeln!(self.terminal, "{line}").and_then(|()| self.terminal.flush());
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Makes an empty folder of that name.
    fn fresh_folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.folder(name);
        remove(&folder)?;
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(folder)
    }

    /// Does `run`, and repeats it if the host took too much of the machine meanwhile. The last result counts.
    fn undisturbed<T>(
        &mut self,
        places: Places,
        run: impl FnMut(&mut Self) -> anyhow::Result<(T, String)>,
    ) -> anyhow::Result<T> {
        self.undisturbed_below(MAX_STEAL_PERCENT, places, run)
    }

    /// The same for a run that is more sensitive.
    fn undisturbed_below<T>(
        &mut self,
        max_steal_percent: f64,
        places: Places,
        mut run: impl FnMut(&mut Self) -> anyhow::Result<(T, String)>,
    ) -> anyhow::Result<T> {
        let mut repeats = 0;
        loop {
            // Writes of the run before must not slow this one down.
            rustix::fs::sync();
            let steal = Steal::start()?;
            let (result, line) = run(self)?;
            let percent = steal.percent()?;
            let again = percent > max_steal_percent && repeats < MAX_REPEATS;
            let remark = if again { ", too much: once more" } else { "" };
            self.say(&format!("  {line}  ({places}; steal {percent:.1} %{remark})"));
            if !again {
                self.places = Some(places);
                self.worst_steal_percent = self.worst_steal_percent.max(percent);
                return Ok(result);
            }
            repeats += 1;
        }
    }

    /// Adds a figure to the report, with the details its runs have in common.
    fn add(&mut self, report: &mut Report, name: &'static str, figure: Figure) {
        let steal = (self.worst_steal_percent * 10.0).round() / 10.0;
        let places = self.places.map(|places| places.to_string());
        report.add(name, figure.detail("steal_percent", steal).detail("places", places));
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

/// The median; of two middle values, the smaller.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

/// As whole numbers, for the report.
fn rounded(values: &[f64]) -> Vec<f64> {
    values.iter().map(|value| value.round()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_its_figure() {
        let measured: Vec<Name> = FIGURES.iter().flat_map(|(names, _)| names.iter().copied()).collect();
        assert_eq!(measured.len(), Name::value_variants().len());
        assert!(Name::value_variants().iter().all(|name| measured.contains(name)));
        assert_eq!(Name::OrderP99Ms.to_string(), "order_p99_ms");
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.0);
        assert!(median(&[]).is_nan());
    }
}
