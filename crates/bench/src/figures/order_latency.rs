//! `order_p99_ms`: how long accepted orders take at half of the server's best rate.

use super::selling::{self, Selling, SellingPace, Sold, sell};
use crate::{
    bench::Bench,
    host,
    numbers::{median, milliseconds, thousandth},
    places::Apart,
    report::BenchFigure,
};

/// Enough that no order waits for one.
const CONNECTIONS: usize = 1024;
/// The offered rate, as a share of the best rate.
const SHARE: f64 = 0.5;
/// Long enough for rare events, such as a compaction of the journal.
const TIMES_LONGER: u32 = 2;
const LIMIT_MS: f64 = 5.0;
/// A server that turns many orders away has it easy with the rest.
const BUSY_LIMIT: f64 = 0.001;

pub(super) fn measure(bench: &mut Bench<'_>) -> anyhow::Result<BenchFigure> {
    host::raise_open_files()?;
    let rounds = bench.options.rounds(5);
    let places = Apart::look(&bench.options.folder)?.places();
    bench.say("looking for the best rate");
    let best = selling::search(bench, places)?;
    let per_second = best.per_second * SHARE;
    let (connections, measured) = (CONNECTIONS, bench.options.measured() * TIMES_LONGER);
    let mut runs: Vec<Sold> = Vec::new();
    for _ in 0..rounds {
        runs.push(sell(
            bench,
            Selling { places, connections, pace: SellingPace::Open { per_second }, measured },
        )?);
    }
    let all = |of: fn(&Sold) -> f64| runs.iter().map(of).collect::<Vec<_>>();
    let p99_ms = all(|run| milliseconds(run.p99));
    let busy_share = median(&all(|run| run.refused_share));
    Ok(BenchFigure::of(&p99_ms, "ms")
        .limit(LIMIT_MS)
        .only_if(busy_share < BUSY_LIMIT, "less than one in a thousand told to come again")
        .detail("busy_share", thousandth(busy_share))
        .detail("orders_per_second", median(&all(|run| run.per_second)).round())
        .detail("best_per_second", best.per_second.round())
        .detail("best_connections", best.choice)
        .detail("tried", best.tried)
        .detail("connections", CONNECTIONS)
        .detail("p50_ms", median(&all(|run| milliseconds(run.p50))))
        .detail("p999_ms", median(&all(|run| milliseconds(run.p999))))
        .detail("rounds", p99_ms)
        .detail("p999_rounds", all(|run| milliseconds(run.p999)))
        .detail("late_share", thousandth(median(&all(|run| run.late_share))))
        .detail("not_sent_share", thousandth(median(&all(|run| run.not_sent_share)))))
}
