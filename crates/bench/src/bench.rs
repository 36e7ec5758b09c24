//! What all figures need while they are measured: the options, a scratch folder, the terminal, and runs that
//! the machine's host did not disturb.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use penstock_rush::steal::Steal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{places::Places, report::BenchFigure};

/// The opening of sales that are not meant to open.
pub(crate) const FAR_FUTURE: &str = "2099-01-01T00:00:00Z";
/// A run that loses more of the machine than this to other guests of its host is repeated.
pub(crate) const MAX_STEAL_PERCENT: f64 = 3.0;
/// The most repeats of one run.
const MAX_REPEATS: u32 = 2;

#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// The `penstock` binary.
    pub server: PathBuf,
    /// Where the servers keep their data; must be on a disk.
    pub folder: PathBuf,
    /// Measured seconds of one run.
    pub seconds: u64,
    pub quick: bool,
}

impl BenchOptions {
    pub(crate) fn measured(&self) -> Duration {
        Duration::from_secs(self.seconds.max(1))
    }

    pub(crate) fn warm_up(&self) -> Duration {
        Duration::from_secs(if self.quick { 1 } else { 2 })
    }

    /// How often a run is repeated; once in a quick bench.
    pub(crate) fn rounds(&self, rounds: usize) -> usize {
        if self.quick { 1 } else { rounds }
    }
}

/// State that the figures share while they are measured.
pub(crate) struct Bench<'a> {
    pub(crate) options: &'a BenchOptions,
    scratch: TempDir,
    terminal: &'a mut dyn Write,
    /// The worst of the runs of this figure.
    worst_steal_percent: f64,
    places: Option<Places>,
}

/// The choice with the highest rate.
#[derive(Clone, Debug)]
pub(crate) struct BestChoice {
    pub(crate) choice: usize,
    pub(crate) per_second: f64,
    /// Each choice with its rate, for the report.
    pub(crate) tried: Vec<Value>,
}

impl BestChoice {
    /// Tries all `choices`, which the report calls `name`.
    pub(crate) fn of(
        name: &str,
        choices: &[usize],
        mut rate: impl FnMut(usize) -> anyhow::Result<f64>,
    ) -> anyhow::Result<Self> {
        let mut best = Self { choice: 0, per_second: 0.0, tried: Vec::new() };
        for choice in choices.iter().copied() {
            let per_second = rate(choice)?;
            best.tried.push(json!({name: choice, "per_second": per_second.round()}));
            if per_second > best.per_second {
                (best.choice, best.per_second) = (choice, per_second);
            }
        }
        Ok(best)
    }
}

impl<'a> Bench<'a> {
    pub(crate) fn new(options: &'a BenchOptions, terminal: &'a mut dyn Write) -> anyhow::Result<Self> {
        let scratch = tempfile::Builder::new().prefix("run-").tempdir_in(&options.folder)?;
        Ok(Self { options, scratch, terminal, worst_steal_percent: 0.0, places: None })
    }

    pub(crate) fn say(&mut self, line: &str) {
        // A terminal that has gone away does not stop the measurement.
        let _ = writeln!(self.terminal, "{line}").and_then(|()| self.terminal.flush());
    }

    /// Makes an empty folder of that name.
    pub(crate) fn fresh_folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.scratch.path().join(name);
        remove(&folder)?;
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(folder)
    }

    /// Does `run`, and repeats it if the host took too much of the machine meanwhile. The last result counts.
    pub(crate) fn undisturbed<T>(
        &mut self,
        places: Places,
        run: impl FnMut(&mut Self) -> anyhow::Result<(T, String)>,
    ) -> anyhow::Result<T> {
        self.undisturbed_below(MAX_STEAL_PERCENT, places, run)
    }

    /// The same for a run that is more sensitive.
    pub(crate) fn undisturbed_below<T>(
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

    /// Forgets the runs of the figure before.
    pub(crate) fn begin_figure(&mut self) {
        (self.worst_steal_percent, self.places) = (0.0, None);
    }

    /// Adds the details that the runs of a figure have in common.
    pub(crate) fn with_runs(&self, figure: BenchFigure) -> BenchFigure {
        let steal = (self.worst_steal_percent * 10.0).round() / 10.0;
        figure.detail("steal_percent", steal).detail("places", self.places.map(|places| places.to_string()))
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
