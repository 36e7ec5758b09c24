//! `settlement_rows_per_second`: rows that settlement writes into MariaDB, against the same rows inserted
//! with a transaction for each order.

use penstock_local::{MariaDb, MariaDbSettings};

use super::settle_rate::{self, SettleRates};
use crate::{
    bench::Bench,
    numbers::{median, rounded},
    places::Places,
    report::BenchFigure,
};

const ORDERS: u32 = 100_000;
const QUICK_ORDERS: u32 = 20_000;
/// The default of `settle.batch`.
const BATCH: usize = 500;
const TARGET_RATIO: f64 = 10.0;
const PLACES: Places = Places::ANYWHERE;

pub(super) fn measure(bench: &mut Bench<'_>) -> anyhow::Result<BenchFigure> {
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
        rates.push(bench.undisturbed(PLACES, |_| {
            databases += 1;
            let url = mariadb.create_database(&format!("round_{databases}"))?;
            let rates = settle_rate::measure(&url, orders, BATCH)?;
            Ok((rates, rates.line()))
        })?);
    }
    mariadb.stop()?;
    let all = |of: fn(&SettleRates) -> f64| rates.iter().map(of).collect::<Vec<f64>>();
    let settled = all(|rates| rates.settled);
    Ok(BenchFigure::of(&settled, "rows/s")
        .against("single_rows_per_second", median(&all(|rates| rates.single)))
        .at_least(TARGET_RATIO)
        .beside("single_rows_from_16_connections_per_second", median(&all(|rates| rates.crowd)))
        .beside("rows_without_transaction_per_second", median(&all(|rates| rates.alone)))
        .detail("decisions_per_second", median(&all(|rates| rates.decisions)).round())
        .detail("orders", orders)
        .detail("batch", BATCH)
        .detail("rounds", rounded(&settled))
        .detail("single_rounds", rounded(&all(|rates| rates.single))))
}
