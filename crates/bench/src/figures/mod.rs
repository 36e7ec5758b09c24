//! The figures, and the run over those that are wanted.

mod cluster_cpu;
mod cluster_latch;
mod cluster_orders;
mod cookie_order;
mod durable;
mod insert_singly;
mod ledger_claims;
mod many_sales;
mod memory;
mod order_latency;
mod overload;
mod redis_claims;
mod refusals;
mod rehearsals;
mod sale_page;
mod selling;
mod settle_rate;
mod settlement;
mod sold_out;
mod waiting_room;

use std::{fmt, fs, io::Write, time::Instant};

use anyhow::Context;
use clap::ValueEnum;

use crate::{
    bench::Bench,
    host::{self, Machine},
    report::BenchFigure,
};
pub use crate::{bench::BenchOptions, report::BenchReport};

/// The values of `--only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum FigureName {
    DurableOrdersPerSecond,
    OrderP99Ms,
    SoldOutCpuUs,
    SalePageCpuUs,
    RefusalCpuUs,
    CookieOrderCpuUs,
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

/// Measures one figure for each of its names.
type MeasureFigure = fn(&mut Bench<'_>) -> anyhow::Result<Vec<BenchFigure>>;

/// In the order in which they are measured. Figures that come from the same orders share an entry.
const FIGURES: &[(&[FigureName], MeasureFigure)] = &[
    (&[FigureName::DurableOrdersPerSecond], |bench| one(durable::measure(bench))),
    (&[FigureName::OrderP99Ms], |bench| one(order_latency::measure(bench))),
    (&[FigureName::SoldOutCpuUs], |bench| one(sold_out::measure(bench))),
    (&[FigureName::SalePageCpuUs], |bench| one(sale_page::measure(bench))),
    (&[FigureName::RefusalCpuUs], |bench| one(refusals::measure(bench))),
    (&[FigureName::CookieOrderCpuUs], |bench| one(cookie_order::measure(bench))),
    (&[FigureName::ManySalesCostRatio], |bench| one(many_sales::measure(bench))),
    (&[FigureName::RecoverySeconds, FigureName::BytesPerOrder], memory::measure),
    (&[FigureName::OverloadGoodputRatio], |bench| one(overload::measure(bench))),
    (&[FigureName::WaitingRoomBytesPerPerson], |bench| one(waiting_room::measure(bench))),
    (&[FigureName::ThirtyThousandSeconds], |bench| one(rehearsals::thirty_thousand(bench))),
    (&[FigureName::TenMillionRequestsPerSecond], |bench| one(rehearsals::ten_million(bench))),
    (&[FigureName::RedisClaimsPerSecond], |bench| one(redis_claims::measure(bench))),
    (&[FigureName::ClusterOrdersPerSecond], |bench| one(cluster_orders::measure(bench))),
    (&[FigureName::ClusterCpuUs], |bench| one(cluster_cpu::measure(bench))),
    (&[FigureName::LatchPropagationMs], |bench| one(cluster_latch::measure(bench))),
    (&[FigureName::SettlementRowsPerSecond], |bench| one(settlement::measure(bench))),
];

fn one(figure: anyhow::Result<BenchFigure>) -> anyhow::Result<Vec<BenchFigure>> {
    figure.map(|figure| vec![figure])
}

impl fmt::Display for FigureName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No name is hidden, so each has a text.
        self.to_possible_value().map_or(Ok(()), |value| formatter.write_str(value.get_name()))
    }
}

/// Measures the figures named in `only`, or all of them if it is empty. Reports progress to `terminal`.
pub fn run(
    options: &BenchOptions,
    only: &[FigureName],
    terminal: &mut dyn Write,
) -> anyhow::Result<BenchReport> {
    fs::create_dir_all(&options.folder)
        .with_context(|| format!("cannot create {}", options.folder.display()))?;
    host::ensure_on_disk(&options.folder)?;
    let machine = Machine::look(&options.folder)?;
    let mut bench = Bench::new(options, terminal)?;
    bench.say(&machine.to_string());
    let is_wanted = |name: &FigureName| only.is_empty() || only.contains(name);
    let wanted: Vec<_> = FIGURES.iter().filter(|(names, _)| names.iter().any(is_wanted)).collect();
    let mut report = BenchReport::default();
    for (index, (names, measure)) in wanted.iter().enumerate() {
        let listed: Vec<String> = names.iter().map(FigureName::to_string).collect();
        bench.say(&format!("figure {} of {}: {}", index + 1, wanted.len(), listed.join(", ")));
        bench.begin_figure();
        let started = Instant::now();
        let figures = measure(&mut bench)?;
        for (name, figure) in names.iter().zip(figures).filter(|(name, _)| is_wanted(name)) {
            report.add(name.to_string(), bench.with_runs(figure), &machine);
        }
        bench.say(&format!("  {:.0} s", started.elapsed().as_secs_f64()));
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_its_figure() {
        let measured: Vec<FigureName> = FIGURES.iter().flat_map(|(names, _)| names.iter().copied()).collect();
        assert_eq!(measured.len(), FigureName::value_variants().len());
        assert!(FigureName::value_variants().iter().all(|name| measured.contains(name)));
        assert_eq!(FigureName::OrderP99Ms.to_string(), "order_p99_ms");
    }
}
