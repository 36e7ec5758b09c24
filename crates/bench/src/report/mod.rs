//! The figures as printed and written: one object for each figure, with its peer and its machine.

mod html;

use std::{collections::BTreeMap, fmt::Write, fs, path::Path};

use anyhow::Context;
use serde::Serialize;
use serde_json::Value;

use crate::{host::Machine, numbers::median};

/// One measured value.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct BenchFigure {
    /// The median of the rounds.
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// The lowest and the highest of the rounds.
    pub(crate) spread: [f64; 2],
    /// The peer's value, or the limit that the figure has to stay under.
    pub(crate) against: BTreeMap<&'static str, f64>,
    /// `value` divided by the peer's value or the limit.
    pub(crate) ratio: f64,
    /// What the ratio should be, in words.
    pub(crate) target: String,
    pub(crate) met: bool,
    pub(crate) detail: BTreeMap<&'static str, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) machine: Option<Machine>,
}

impl BenchFigure {
    /// The median of some rounds.
    pub(crate) fn of(rounds: &[f64], unit: &'static str) -> Self {
        let least = rounds.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self {
            value: significant(median(rounds)),
            unit,
            spread: [significant(least), significant(greatest)],
            against: BTreeMap::new(),
            ratio: f64::NAN,
            target: String::new(),
            met: false,
            detail: BTreeMap::new(),
            machine: None,
        }
    }

    pub(crate) fn against(mut self, peer: &'static str, value: f64) -> Self {
        let value = significant(value);
        self.ratio = significant(self.value / value);
        self.against.insert(peer, value);
        self
    }

    /// Another peer, which the target does not refer to.
    pub(crate) fn beside(mut self, peer: &'static str, value: f64) -> Self {
        self.against.insert(peer, significant(value));
        self
    }

    pub(crate) fn at_least(mut self, ratio: f64) -> Self {
        self.met = self.ratio >= ratio;
        self.target = format!("at least {ratio} times");
        self
    }

    pub(crate) fn at_most(mut self, ratio: f64) -> Self {
        self.met = self.ratio <= ratio;
        self.target = format!("at most {ratio:?} times");
        self
    }

    /// For a figure without a target.
    pub(crate) fn without_target(mut self) -> Self {
        self.met = true;
        self.target = "no target".to_owned();
        self
    }

    /// For a figure without a peer: it has to stay under `limit`.
    pub(crate) fn limit(self, limit: f64) -> Self {
        let mut figure = self.against("limit", limit);
        figure.met = figure.ratio < 1.0;
        figure.target = format!("under {limit} {}", figure.unit);
        figure
    }

    /// For a figure without a peer: it has to reach `goal`.
    pub(crate) fn goal(self, goal: f64) -> Self {
        let mut figure = self.against("goal", goal);
        figure.met = figure.ratio >= 1.0;
        figure.target = format!("at least {goal} {}", figure.unit);
        figure
    }

    /// A second condition, described by `words`.
    pub(crate) fn only_if(mut self, holds: bool, words: &str) -> Self {
        self.met &= holds;
        self.target = format!("{}, {words}", self.target);
        self
    }

    /// One round has no spread.
    fn spread_in_words(&self) -> String {
        let [least, greatest] = self.spread;
        if least == greatest { "-".to_owned() } else { format!("{least} to {greatest}") }
    }

    pub(crate) fn detail(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.detail.insert(name, value.into());
        self
    }
}

/// The measurements are not good for more than four digits.
fn significant(value: f64) -> f64 {
    if !value.is_finite() || value == 0.0 {
        return value;
    }
    let scale = 10f64.powi(3 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

/// All figures of a run, by name.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct BenchReport {
    figures: BTreeMap<String, BenchFigure>,
}

impl BenchReport {
    pub(crate) fn add(&mut self, name: String, figure: BenchFigure, machine: &Machine) {
        self.figures.insert(name, BenchFigure { machine: Some(machine.clone()), ..figure });
    }

    pub fn json(&self) -> anyhow::Result<String> {
        serde_json::to_string_pretty(self).context("cannot write the report as JSON")
    }

    /// Writes `report.json` and `report.html` into `folder`.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        for (name, text) in [("report.json", self.json()?), ("report.html", html::page(self))] {
            let path = folder.join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// The figures as a table for a terminal.
    pub fn table(&self) -> String {
        let mut table = format!(
            "{:<32} {:>9} {:<11} {:>19} {:>8}  against\n",
            "figure", "median", "unit", "least to greatest", "ratio"
        );
        for (name, figure) in &self.figures {
            let against: Vec<_> =
                figure.against.iter().map(|(peer, value)| format!("{peer} {value}")).collect();
            let met = if figure.met { "met" } else { "NOT met" };
            // Writing into a String does not fail.
            let _ = writeln!(
                table,
                "{name:<32} {:>9} {:<11} {:>19} {:>8}  {} ({}: {met})",
                figure.value,
                figure.unit,
                figure.spread_in_words(),
                figure.ratio,
                against.join(", "),
                figure.target,
            );
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> BenchReport {
        let mut report = BenchReport::default();
        let orders = BenchFigure::of(&[80_000.0, 71_234.56, 65_000.0], "orders/s")
            .against("mariadb_hot_row_per_second", 7000.0)
            .at_least(10.0)
            .beside("redis_script_per_second", 25_000.0);
        let machine = Machine::look(Path::new("/")).unwrap();
        report.add("durable_orders_per_second".to_owned(), orders.detail("p50_ms", 3.5), &machine);
        report.add("recovery_seconds".to_owned(), BenchFigure::of(&[2.5], "s").limit(2.0), &machine);
        report
    }

    #[test]
    fn the_report_has_the_agreed_form() {
        let json: Value = serde_json::from_str(&report().json().unwrap()).unwrap();
        let figure = &json["durable_orders_per_second"];
        assert_eq!(figure["value"], 71_230.0);
        assert_eq!(figure["unit"], "orders/s");
        assert_eq!(figure["against"]["mariadb_hot_row_per_second"], 7000.0);
        assert_eq!(figure["against"]["redis_script_per_second"], 25_000.0);
        assert_eq!(figure["ratio"], 10.18);
        assert_eq!(figure["spread"], serde_json::json!([65_000.0, 80_000.0]));
        assert_eq!(figure["met"], true);
        assert_eq!(json["recovery_seconds"]["met"], false);
    }

    #[test]
    fn the_table_shows_the_spread_where_there_is_one() {
        let table = report().table();
        assert!(table.contains(" 65000 to 80000 "), "{table}");
        assert!(table.contains(" - "), "{table}");
    }

    #[test]
    fn a_second_condition_counts() {
        let seconds = || BenchFigure::of(&[0.5], "s").limit(1.0);
        assert!(seconds().met && seconds().only_if(true, "clean").met);
        let half_as_much_again = || BenchFigure::of(&[1.5], "us").against("peer", 1.0);
        assert_eq!(half_as_much_again().at_most(1.0).target, "at most 1.0 times");
        assert!(half_as_much_again().at_most(1.55).met && !half_as_much_again().at_most(1.45).met);
        let unclean = seconds().only_if(false, "clean");
        assert!(!unclean.met);
        assert_eq!(unclean.target, "under 1 s, clean");
        assert!(
            BenchFigure::of(&[5.0], "a second").goal(5.0).met
                && !BenchFigure::of(&[4.9], "a second").goal(5.0).met
        );
    }

    #[test]
    fn the_page_shows_every_figure_and_needs_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        report().write(folder.path()).unwrap();
        let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
        for text in
            ["durable_orders_per_second", "mariadb_hot_row_per_second", "recovery_seconds", "<svg", "p50_ms"]
        {
            assert!(page.contains(text), "{text}");
        }
        assert!(!page.contains("http://") && !page.contains("https://"));
    }
}
