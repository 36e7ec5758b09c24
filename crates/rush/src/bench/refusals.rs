//! `refusal_cpu_us`: server CPU for one refusal of each kind, of orders and of requests for passes. The
//! figure is the costliest, because an attacker would pick that one.

use std::{collections::BTreeMap, time::Duration};

use anyhow::ensure;
use serde_json::json;

use super::{
    Bench, FAR_FUTURE, Figure, Report,
    cpu::{CONNECTIONS, Run, hundredths},
    median,
    places::Apart,
    server::{Server, ensure_only},
    sold_out::sell_out,
};
use crate::{
    api::Offer,
    load::{self, Call, Options, Tape},
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

const ONE_CLAIM_A_SECOND: &[(&str, &str)] = &[
    ("PENSTOCK_GATE__LIMITS__INTO_LEDGER_BURST", "1"),
    ("PENSTOCK_GATE__LIMITS__INTO_LEDGER_PER_SECOND", "1"),
];

/// A kind of refusal, and requests that get it.
struct Case {
    code: &'static str,
    tape: Tape,
}

pub(super) fn measure(bench: &mut Bench<'_>, report: &mut Report) -> anyhow::Result<()> {
    let rounds = if bench.options.quick { 1 } else { 3 };
    let measured = if bench.options.quick { QUICK_MEASURED } else { MEASURED };
    let apart = Apart::look(&bench.options.folder)?;
    let mut costs: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    let servers: [(&[(&str, &str)], Prepare); 2] = [(&[], refusals_of_sales), (ONE_CLAIM_A_SECOND, busy)];
    for (settings, prepare) in servers {
        let data = bench.fresh_folder("penstock")?;
        let server = Server::start_with(&bench.options.server, &data, Some(apart.server), settings)?;
        let cases = prepare(&server)?;
        for case in cases.iter().cycle().take(cases.len() * rounds) {
            let cost =
                bench.undisturbed(apart.places(), |_| refuse(&server, case, apart.generator, measured))?;
            costs.entry(case.code).or_default().push(cost);
        }
        server.api.audit()?;
        server.stop()?;
    }
    add(bench, report, &costs);
    Ok(())
}

fn add(bench: &mut Bench<'_>, report: &mut Report, costs: &BTreeMap<&'static str, Vec<f64>>) {
    let by_code: BTreeMap<_, _> = costs.iter().map(|(code, costs)| (*code, median(costs))).collect();
    let of_the_gate = by_code.iter().filter(|(code, _)| GIVEN_BY_THE_GATE.contains(code));
    let Some((costliest, _)) = of_the_gate.max_by(|one, other| one.1.total_cmp(other.1)) else { return };
    let rounded: BTreeMap<_, _> =
        by_code.iter().map(|(code, cost)| (*code, (cost * 100.0).round() / 100.0)).collect();
    let rounds: BTreeMap<_, _> = costs.iter().map(|(code, costs)| (*code, hundredths(costs))).collect();
    let figure = Figure::of(costs.get(costliest).map_or(&[], Vec::as_slice), "µs/answer")
        .against("sold_out", by_code.get("sold_out").copied().unwrap_or(f64::NAN))
        .without_target()
        .detail("costliest", *costliest)
        .detail("by_code", json!(rounded))
        .detail("rounds", json!(rounds))
        .detail("connections", CONNECTIONS);
    bench.add(report, "refusal_cpu_us", figure);
}

/// Server CPU of one refusal, in microseconds.
fn refuse(server: &Server, case: &Case, core: usize, measured: Duration) -> anyhow::Result<(f64, String)> {
    let run = Run { name: case.code, address: server.api.address, core, warm_up: WARM_UP, measured };
    let (cost, outcome, line) =
        run.measure(case.tape.readers(1, true).remove(0), &|| server.cpu_seconds())?;
    let (total, measured) = (&outcome.total, &outcome.measured);
    ensure!(
        total.errors == 0 && measured.code(case.code) as f64 >= PURITY * measured.answers as f64,
        "expected {} and got {:?}, codes {:?}, {} lost connections",
        case.code,
        total.statuses(),
        total.codes(),
        total.errors
    );
    Ok((cost.cpu_us, line))
}

type Prepare = fn(&Server) -> anyhow::Result<Vec<Case>>;

/// Every kind but `busy`.
fn refusals_of_sales(server: &Server) -> anyhow::Result<Vec<Case>> {
    let mut cases = by_state(server)?;
    cases.extend(by_buyer(server)?);
    cases.extend(at_the_passes(server)?);
    Ok(cases)
}

fn orders(sale: &str) -> String {
    format!("/api/v1/sales/{sale}/orders")
}

/// Requests of one kind, each by a different buyer.
fn case(server: &Server, code: &'static str, call: &Call<'_>) -> anyhow::Result<Case> {
    Ok(Case { code, tape: server.calls(call, BUYERS, BUYERS as usize)? })
}

/// Refusals that depend on the state of the sale.
fn by_state(server: &Server) -> anyhow::Result<Vec<Case>> {
    let open = Offer { units: UNITS, ..Offer::default() };
    let scheduled = Offer { opens_at: Some(FAR_FUTURE.to_owned()), ..open.clone() };
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
        case(server, code, &Call { key_prefix: Some("next"), ..Call::order(&orders(sale)) })
    };
    sales.iter().map(refused).collect()
}

/// Refusals of a buyer in an open sale.
fn by_buyer(server: &Server) -> anyhow::Result<Vec<Case>> {
    let sale = server.api.open_sale(UNITS)?;
    let path = orders(&sale);
    let order = Call::order(&path);
    let bought = server.calls(&order, BUYERS, BUYERS as usize)?;
    let outcome = load::run(&Options::new(server.api.address, 256), bought.readers(1, false), |_| {})?;
    ensure_only(&outcome, 201)?;

    let gate = json!({"challenge": "none", "pass_required": true});
    let gated = server.api.publish(&Offer { units: UNITS, gate: Some(gate), ..Offer::default() })?;
    let gated = orders(&gated);
    // As long as a real pass, so that all of it is checked.
    let pass = format!("Penstock-Pass: psp_{}\r\n", "A".repeat(38));
    Ok(vec![
        case(server, "limit_reached", &Call { key_prefix: Some("next"), ..order })?,
        case(server, "idempotency_key_reused", &Call { body: r#"{"quantity":2}"#, ..order })?,
        Case { code: "unauthorized", tape: server.forged_calls(&order, BUYERS as usize)? },
        Case { code: "rate_limited", tape: server.calls(&order, 1, 1_000)? },
        case(server, "pass_required", &Call::order(&gated))?,
        case(server, "pass_invalid", &Call { headers: &pass, ..Call::order(&gated) })?,
    ])
}

/// Refusals of requests for a pass.
fn at_the_passes(server: &Server) -> anyhow::Result<Vec<Case>> {
    let sale = |units, gate| server.api.publish(&Offer { units, gate: Some(gate), ..Offer::default() });
    let one_unit = sale(1, json!({"challenge": "none", "pass_required": true}))?;
    let with_room = sale(UNITS, json!({"challenge": "none", "waiting_room": true}))?;
    let with_challenge = sale(UNITS, json!({"challenge": "pow"}))?;
    let pass = |code, sale: &str, body: &str| {
        let path = format!("/api/v1/sales/{sale}/pass");
        case(server, code, &Call { key_prefix: None, body, ..Call::order(&path) })
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
fn busy(server: &Server) -> anyhow::Result<Vec<Case>> {
    let sale = server.api.open_sale(UNITS)?;
    Ok(vec![case(server, "busy", &Call::order(&orders(&sale)))?])
}
