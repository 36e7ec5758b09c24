//! `settlement_rows_per_second`: rows that settlement writes into MariaDB, against the same rows inserted
//! with a transaction for each order.

use penstock_local::{MariaDb, MariaDbSettings};

use super::{Bench, Figure, Report, median, places::Places, program, rounded};

const PROGRAM: &str = "settle_rate";
const ORDERS: u32 = 100_000;
const QUICK_ORDERS: u32 = 20_000;
/// The default of `settle.batch`.
const BATCH: u32 = 500;
const SALES: u32 = 1;
const TARGET_RATIO: f64 = 10.0;
const PLACES: Places = Places::ANYWHERE;

/// Rows a second.
#[derive(Clone, Copy, Debug)]
struct Rates {
    settled: f64,
    /// A transaction for each order.
    single: f64,
    /// A transaction for each row.
    alone: f64,
    /// The same as `single`, from many connections at once.
    crowd: f64,
    decisions: f64,
}

pub(super) fn measure(bench: &mut Bench<'_>, report: &mut Report) -> anyhow::Result<()> {
    let (rounds, orders) = if bench.options.quick { (1, QUICK_ORDERS) } else { (5, ORDERS) };
    // The defaults are durable; they are spelt out because the comparison rests on them. The pool and the log
    // are large enough for both.
    let durable = ["--innodb-flush-log-at-trx-commit=1", "--innodb-doublewrite=1"];
    let large = ["--innodb-buffer-pool-size=1G", "--innodb-log-file-size=1G"];
    let extra = durable.into_iter().chain(large).map(str::to_owned).collect();
    let mut mariadb = MariaDb::start_with(&bench.fresh_folder("settlement")?, MariaDbSettings { extra })?;
    let mut databases = 0;
    let mut rates = Vec::new();
    for _ in 0..rounds {
        rates.push(bench.undisturbed(PLACES, |bench| {
            databases += 1;
            let url = mariadb.create_database(&format!("round_{databases}"))?;
            let rates = settle(bench, orders, url)?;
            Ok((rates, rates.line()))
        })?);
    }
    mariadb.stop()?;
    let all = |of: fn(&Rates) -> f64| rates.iter().map(of).collect::<Vec<f64>>();
    let settled = all(|rates| rates.settled);
    let figure = Figure::of(&settled, "rows/s")
        .against("single_rows_per_second", median(&all(|rates| rates.single)))
        .at_least(TARGET_RATIO)
        .beside("single_rows_from_16_connections_per_second", median(&all(|rates| rates.crowd)))
        .beside("rows_without_transaction_per_second", median(&all(|rates| rates.alone)))
        .detail("decisions_per_second", median(&all(|rates| rates.decisions)).round())
        .detail("orders", orders)
        .detail("batch", BATCH)
        .detail("rounds", rounded(&settled))
        .detail("single_rounds", rounded(&all(|rates| rates.single)));
    bench.add(report, "settlement_rows_per_second", figure);
    Ok(())
}

/// Runs the program of the records that settles orders and audits them.
fn settle(bench: &Bench<'_>, orders: u32, url: String) -> anyhow::Result<Rates> {
    let arguments = [orders.to_string(), BATCH.to_string(), SALES.to_string(), url];
    let told = program::run(&bench.options.server, PROGRAM, &arguments)?;
    Ok(Rates {
        settled: told.number("settled_rows_per_second")?,
        single: told.number("single_rows_per_second")?,
        alone: told.number("rows_without_transaction_per_second")?,
        crowd: told.number("single_rows_from_16_connections_per_second")?,
        decisions: told.number("decisions_per_second")?,
    })
}

impl Rates {
    fn line(self) -> String {
        let Self { settled, single, alone, crowd, decisions } = self;
        format!(
            "settled {settled:.0} rows/s ({decisions:.0} decisions/s); an order at a time {single:.0} rows/s, \
             from 16 connections {crowd:.0}, a row at a time {alone:.0}; audit ok"
        )
    }
}
