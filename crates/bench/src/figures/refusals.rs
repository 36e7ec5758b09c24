//! `refusal_cpu_us`: server CPU for one refusal of each kind, of orders and of requests for passes. The
//! figure is the costliest, because an attacker would pick that one.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, ensure};
use penstock_rush::api::SaleOffer;
use serde_json::json;

use super::sold_out::sell_out;
use crate::{
    bench::{Bench, FAR_FUTURE},
    cpu::{CONNECTIONS, CpuRun},
    load::{self, LoadOptions, Tape, TapeCall, orders_path},
    numbers::{hundredth, hundredths, median},
    places::Apart,
    report::BenchFigure,
    server::{MeasuredServer, Settings, ensure_only},
};

/// Distinct buyers. A run goes through them again and again, slowly enough for the limit of each.
const BUYERS: u64 = 100_000;
/// More than any run can sell.
const UNITS: u32 = 50_000_000;
/// The least share of answers that are the measured refusal; the first ones may differ.
const PURITY: f64 = 0.98;
const WARM_UP: Duration = Duration::from_millis(300);
const MEASURED: Duration = Duration::from_secs(2);
const QUICK_MEASURED: Duration = Duration::from_secs(1);
/// Refusals of orders that the gate gives. All others come from the ledger or from elsewhere.
const GIVEN_BY_THE_GATE: [&str; 8] =
    ["sold_out", "not_open", "paused", "closed", "pass_required", "pass_invalid", "rate_limited", "busy"];

const ONE_CLAIM_A_SECOND: &Settings = &[
    ("PENSTOCK_GATE__LIMITS__INTO_LEDGER_BURST", "1"),
    ("PENSTOCK_GATE__LIMITS__INTO_LEDGER_PER_SECOND", "1"),
];

/// A kind of refusal, and requests that get it.
struct Case {
    code: &'static str,
    tape: Tape,
}

pub(super) fn measure(bench: &mut Bench<'_>) -> anyhow::Result<BenchFigure> {
    let rounds = bench.options.rounds(3);
    let measured = if bench.options.quick { QUICK_MEASURED } else { MEASURED };
    let apart = Apart::look(&bench.options.folder)?;
    let mut costs: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    let servers: [(&Settings, Prepare); 2] = [(&[], refusals_of_sales), (ONE_CLAIM_A_SECOND, busy)];
    for (settings, prepare) in servers {
        let server = MeasuredServer::start(bench, Some(apart.server), settings)?;
        let cases = prepare(&server)?;
        for case in cases.iter().cycle().take(cases.len() * rounds) {
            let cost =
                bench.undisturbed(apart.places(), |_| refuse(&server, case, apart.generator, measured))?;
            costs.entry(case.code).or_default().push(cost);
        }
        server.api.audit()?;
        server.stop()?;
    }
    figure(&costs)
}

fn figure(costs: &BTreeMap<&'static str, Vec<f64>>) -> anyhow::Result<BenchFigure> {
    let by_code: BTreeMap<_, _> = costs.iter().map(|(code, costs)| (*code, median(costs))).collect();
    let of_the_gate = by_code.iter().filter(|(code, _)| GIVEN_BY_THE_GATE.contains(code));
    let costliest = of_the_gate.max_by(|one, other| one.1.total_cmp(other.1));
    let (costliest, _) = costliest.context("the gate refused nothing")?;
    let rounded: BTreeMap<_, _> = by_code.iter().map(|(code, cost)| (*code, hundredth(*cost))).collect();
    let rounds: BTreeMap<_, _> = costs.iter().map(|(code, costs)| (*code, hundredths(costs))).collect();
    Ok(BenchFigure::of(costs.get(costliest).map_or(&[], Vec::as_slice), "µs/answer")
        .against("sold_out", by_code.get("sold_out").copied().unwrap_or(f64::NAN))
        .without_target()
        .detail("costliest", *costliest)
        .detail("by_code", json!(rounded))
        .detail("rounds", json!(rounds))
        .detail("connections", CONNECTIONS))
}

/// Server CPU of one refusal, in microseconds.
fn refuse(
    server: &MeasuredServer,
    case: &Case,
    core: usize,
    measured: Duration,
) -> anyhow::Result<(f64, String)> {
    let run = CpuRun { name: case.code, address: server.api.address, core, warm_up: WARM_UP, measured };
    let (cost, outcome, line) = run.measure(case.tape.endless(), &|| server.cpu_seconds())?;
    let (total, measured) = (&outcome.total, &outcome.measured);
    ensure!(
        total.errors == 0 && measured.code(case.code) as f64 >= PURITY * measured.answers as f64,
        "expected {}; got {}",
        case.code,
        total.in_words()
    );
    Ok((cost.cpu_us, line))
}

type Prepare = fn(&MeasuredServer) -> anyhow::Result<Vec<Case>>;

/// Every kind but `busy`.
fn refusals_of_sales(server: &MeasuredServer) -> anyhow::Result<Vec<Case>> {
    let mut cases = by_state(server)?;
    cases.extend(by_buyer(server)?);
    cases.extend(at_the_passes(server)?);
    Ok(cases)
}

/// Requests of one kind, each by a different buyer.
fn case(server: &MeasuredServer, code: &'static str, call: &TapeCall<'_>) -> anyhow::Result<Case> {
    Ok(Case { code, tape: server.calls(call, BUYERS, BUYERS as usize)? })
}

/// Refusals that depend on the state of the sale.
fn by_state(server: &MeasuredServer) -> anyhow::Result<Vec<Case>> {
    let open = SaleOffer { units: UNITS, ..SaleOffer::default() };
    let scheduled = SaleOffer { opens_at: Some(FAR_FUTURE.to_owned()), ..open.clone() };
    let steered =
        |verb| server.api.publish(&open).and_then(|sale| server.api.steer(&sale, verb).map(|()| sale));
    let sales = [
        ("sold_out", sell_out(server)?),
        ("not_open", server.api.publish(&scheduled)?),
        ("paused", steered("pause")?),
        ("closed", steered("close")?),
    ];
    // Buyer 0 has bought in the first sale, so a retry would be accepted again: these keys differ.
    let refused = |(code, sale): &(&'static str, String)| {
        case(server, code, &TapeCall { key_prefix: Some("next"), ..TapeCall::order(&orders_path(sale)) })
    };
    sales.iter().map(refused).collect()
}

/// Refusals of a buyer in an open sale.
fn by_buyer(server: &MeasuredServer) -> anyhow::Result<Vec<Case>> {
    let sale = server.api.open_sale(UNITS)?;
    let path = orders_path(&sale);
    let order = TapeCall::order(&path);
    let bought = server.calls(&order, BUYERS, BUYERS as usize)?;
    let outcome = load::run(&LoadOptions::new(server.api.address, 256), bought.once())?;
    ensure_only(&outcome, 201)?;

    let gate = json!({"challenge": "none", "pass_required": true});
    let gated = server.api.publish(&SaleOffer { units: UNITS, gate: Some(gate), ..SaleOffer::default() })?;
    let gated = orders_path(&gated);
    // As long as a real pass, so that all of it is checked.
    let pass = format!("Penstock-Pass: psp_{}\r\n", "A".repeat(38));
    Ok(vec![
        case(server, "limit_reached", &TapeCall { key_prefix: Some("next"), ..order })?,
        case(server, "idempotency_key_reused", &TapeCall { body: r#"{"quantity":2}"#, ..order })?,
        Case { code: "unauthorized", tape: server.forged_calls(&order, BUYERS as usize)? },
        Case { code: "rate_limited", tape: server.calls(&order, 1, 1_000)? },
        case(server, "pass_required", &TapeCall::order(&gated))?,
        case(server, "pass_invalid", &TapeCall { headers: &pass, ..TapeCall::order(&gated) })?,
    ])
}

/// Refusals of requests for a pass.
fn at_the_passes(server: &MeasuredServer) -> anyhow::Result<Vec<Case>> {
    let sale =
        |units, gate| server.api.publish(&SaleOffer { units, gate: Some(gate), ..SaleOffer::default() });
    let one_unit = sale(1, json!({"challenge": "none", "pass_required": true}))?;
    let with_room = sale(UNITS, json!({"challenge": "none", "waiting_room": true}))?;
    let with_challenge = sale(UNITS, json!({"challenge": "pow"}))?;
    let pass = |code, sale: &str, body: &str| {
        let path = format!("/api/v1/sales/{sale}/pass");
        case(server, code, &TapeCall { key_prefix: None, body, ..TapeCall::order(&path) })
    };
    // Forged but well-formed, so that their signatures are checked, which is the costly part. A ticket is a
    // number and 28 bytes in base 64. A proof of work is 38 bytes; the first is 1.
    let ticket = json!({"ticket": format!("0.{}", "A".repeat(38))}).to_string();
    let solved = json!({"challenge": format!("AQ{}", "A".repeat(49)), "answer": "12345"}).to_string();
    Ok(vec![
        pass("passes_exhausted", &one_unit, "{}")?,
        pass("not_admitted", &with_room, &ticket)?,
        pass("challenge_failed", &with_challenge, &solved)?,
    ])
}

/// The server lets one claim a second into its ledger: all others get as far as the last check of the gate.
fn busy(server: &MeasuredServer) -> anyhow::Result<Vec<Case>> {
    let sale = server.api.open_sale(UNITS)?;
    Ok(vec![case(server, "busy", &TapeCall::order(&orders_path(&sale)))?])
}
