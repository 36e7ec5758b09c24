//! `bytes_per_order` and `recovery_seconds`: a million orders over HTTP, the memory they take, and how long
//! Penstock takes to sell again after SIGKILL.

use crate::{
    bench::Bench,
    load::{self, LoadOptions},
    numbers::thousandths,
    places::Places,
    report::BenchFigure,
    server::{MeasuredServer, ensure_only},
};

const ORDERS: u32 = 1_000_000;
const QUICK_ORDERS: u32 = 100_000;
const CONNECTIONS: usize = 256;
const RESTARTS: usize = 3;
const RECOVERY_LIMIT_SECONDS: f64 = 2.0;
const BYTES_LIMIT: f64 = 300.0;

pub(super) fn measure(bench: &mut Bench<'_>) -> anyhow::Result<Vec<BenchFigure>> {
    let orders = if bench.options.quick { QUICK_ORDERS } else { ORDERS };
    // One unit is left, so that the sale is still open after the restart.
    let units = orders + 1;
    bench.say(&format!("making {orders} orders"));
    let data = bench.fresh_folder("penstock")?;
    let server = MeasuredServer::start_in(&data, bench, None, &[])?;
    let sale = server.api.open_sale(units)?;
    let tape = server.orders(&sale, 0, orders as usize)?;
    let empty_bytes = server.resident_bytes()?;
    let options = LoadOptions::new(server.api.address, CONNECTIONS);
    let outcome = load::run(&options, tape.once())?;
    let full_bytes = server.resident_bytes()?;
    ensure_only(&outcome, 201)?;
    drop(tape);
    let per_order = |bytes: u64| bytes.saturating_sub(empty_bytes) as f64 / f64::from(orders);
    bench.say(&format!(
        "resident: {} MiB before, {} MiB after: {:.0} bytes an order",
        empty_bytes >> 20,
        full_bytes >> 20,
        per_order(full_bytes)
    ));
    server.kill()?;

    let mut seconds = Vec::new();
    let mut restarted_bytes = 0;
    for restart in 0..RESTARTS {
        let ready_after = bench.undisturbed(Places::ANYWHERE, |bench| {
            let server = MeasuredServer::start_in(&data, bench, None, &[])?;
            let ready_after = server.ready_after.as_secs_f64();
            let bytes = server.resident_bytes()?;
            if restart == 0 {
                restarted_bytes = bytes;
            }
            if restart + 1 == RESTARTS {
                server.verify(&sale, units.into(), orders.into())?;
            }
            server.kill()?;
            Ok((ready_after, format!("ready again {ready_after:.3} s after its start, {} MiB", bytes >> 20)))
        })?;
        seconds.push(ready_after);
    }
    bench.say("every order is there after the restarts, audit ok");
    let recovery = BenchFigure::of(&seconds, "s")
        .limit(RECOVERY_LIMIT_SECONDS)
        .detail("orders", orders)
        .detail("rounds", thousandths(&seconds));
    let bytes = BenchFigure::of(&[per_order(full_bytes)], "bytes")
        .limit(BYTES_LIMIT)
        .detail("orders", orders)
        .detail("after_restart", per_order(restarted_bytes).round());
    Ok(vec![recovery, bytes])
}
