//! Adds up what the threads of a run have found out, and says how far the generator itself is to be trusted.

use std::collections::BTreeMap;

use crate::report::{Bar, Generator, Opening, Orders, People, Quantiles, Slice};

use super::{
    Moment, Plan, arrivals,
    codes::Names,
    desk::Stock,
    findings::{Doubtful, End, Findings, Promised},
    tally::Tally,
    timeline::Timeline,
    worker::Done,
};

/// More than this makes the generator the bottleneck.
const MAX_LATE_PERCENT: f64 = 1.0;
const MAX_BUSY_PERCENT: f64 = 95.0;
const MAX_WAITED_PERCENT: f64 = 5.0;
/// Of the time that buyers could have waited for their proofs: those of a whole run, side by side.
const MAX_SOLVING_PERCENT: f64 = 10.0;

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Every order that was answered 201, to bots too.
    pub promised: Vec<Promised>,
    pub doubtful: Vec<Doubtful>,
    /// One sentence for each key that was answered with two different orders.
    pub contradictions: Vec<String>,
    /// Requests of any kind that were never answered, however often they were sent.
    pub unanswered: u64,
    pub people: People,
    /// From the first request to the last answer.
    pub seconds: f64,
    pub requests: u64,
    /// From the first order request to the last answer to one.
    pub order_seconds: f64,
    pub order_requests: u64,
    pub opening: Opening,
    pub orders: Orders,
    /// Answers to orders of people.
    pub refused: BTreeMap<String, u64>,
    /// Answers to orders of bots, and to passes they tried to get by cheating.
    pub bots_refused: BTreeMap<String, u64>,
    /// Of people, by what was asked for.
    pub latency: BTreeMap<String, Quantiles>,
    /// Of orders of people.
    pub histogram: Vec<Bar>,
    pub slice_ms: u64,
    pub timeline: Vec<Slice>,
    pub generator: Generator,
}

pub(super) fn summarise(plan: &Plan, done: Vec<Done>, stock: &Stock, names: &Names) -> Outcome {
    let mut findings = Findings::default();
    let mut tally = Tally::default();
    let mut timeline: Option<Timeline> = None;
    let mut connections = 0;
    for done in done {
        findings.add(done.findings);
        tally.add(&done.tally);
        connections += done.connections;
        match &mut timeline {
            None => timeline = Some(done.timeline),
            Some(timeline) => timeline.add(done.timeline),
        }
    }
    let (slice_ms, timeline) = timeline.map(|timeline| timeline.report(names)).unwrap_or_default();
    Outcome {
        people: people(plan, &findings, &tally),
        opening: opening(&findings, &tally, stock),
        orders: orders(&findings),
        generator: generator(plan, &tally, connections),
        promised: findings.promised,
        doubtful: findings.doubtful,
        contradictions: findings.contradictions,
        unanswered: findings.unanswered,
        seconds: tally.all.seconds(),
        requests: tally.requests,
        order_seconds: tally.orders.seconds(),
        order_requests: tally.order_requests,
        refused: names.named(&tally.refused),
        bots_refused: names.named(&tally.bots_refused),
        latency: tally.latencies(),
        histogram: tally.histogram(),
        slice_ms,
        timeline,
    }
}

fn people(plan: &Plan, findings: &Findings, tally: &Tally) -> People {
    People {
        buyers: plan.crowd.buyers,
        bots: arrivals::bots_of(&plan.crowd),
        came: tally.came,
        admitted: findings.admitted,
        served: findings.served,
        bots_served: findings.bots_served,
        gave_up: findings.gave_up,
    }
}

fn opening(findings: &Findings, tally: &Tally, stock: &Stock) -> Opening {
    let everybody = findings.last_first_answer_at.filter(|_| findings.left_unanswered == 0);
    Opening {
        // Somebody else may have bought, too; then the first "sold out" is what we know.
        stock_gone_after_seconds: stock.gone_at().or(tally.first_sold_out_at).map(Moment::seconds),
        everybody_answered_after_seconds: everybody.map(Moment::seconds),
    }
}

fn orders(findings: &Findings) -> Orders {
    let count = |end| findings.promised.iter().filter(|promised| promised.end == end).count() as u64;
    Orders {
        accepted: findings.promised.len() as u64,
        units: findings.promised.iter().map(|promised| u64::from(promised.quantity)).sum(),
        paid: count(End::Paid),
        paid_late: count(End::PaidLate),
        refunds: count(End::Refund),
        cancelled: count(End::Cancelled),
        walked_away: count(End::WalkedAway),
        repeated: findings.repeated,
    }
}

fn generator(plan: &Plan, tally: &Tally, connections: usize) -> Generator {
    let of_requests = |count: u64| 100.0 * count as f64 / tally.requests.max(1) as f64;
    let took_seconds = tally.took.as_secs_f64();
    let mut generator = Generator {
        threads: plan.threads as u64,
        connections: connections as u64,
        busy_percent: 100.0 * tally.busy.as_secs_f64() / took_seconds.max(f64::MIN_POSITIVE),
        late_percent: of_requests(tally.late),
        waited_for_connection_percent: of_requests(tally.waited_for_connection),
        connections_lost: tally.connections_lost,
        solving_waited_seconds: tally.solving_waited.as_secs_f64(),
        steal_percent: None,
        bottleneck: None,
    };
    generator.bottleneck = bottleneck(plan, &generator, tally);
    generator
}

/// Why the figures say more about us than about the server.
fn bottleneck(plan: &Plan, generator: &Generator, tally: &Tally) -> Option<String> {
    let is_closed_loop = plan.arrivals.rate <= 0.0 && plan.arrivals.burst_at_opening < 1.0;
    let Generator { late_percent, busy_percent, waited_for_connection_percent, .. } = *generator;
    if busy_percent > MAX_BUSY_PERCENT {
        return Some(format!(
            "The generator's threads were busy for {busy_percent:.0} % of the time; give it more threads or a machine of \
             its own."
        ));
    }
    if is_closed_loop {
        return None;
    }
    if late_percent > MAX_LATE_PERCENT {
        return Some(format!(
            "{late_percent:.1} % of the requests left more than 5 ms after they were due, because the generator was busy \
             sending others; the latencies contain this delay."
        ));
    }
    if waited_for_connection_percent > MAX_WAITED_PERCENT {
        return Some(format!(
            "{waited_for_connection_percent:.1} % of the requests had to wait for one of the {} connections; the \
             latencies contain this wait.",
            generator.connections
        ));
    }
    let each_waited_seconds = tally.solving_waited.as_secs_f64() / tally.solved.max(1) as f64;
    if each_waited_seconds > tally.took.as_secs_f64() * MAX_SOLVING_PERCENT / 100.0 {
        return Some(format!(
            "Each proof of work waited {each_waited_seconds:.1} s for the generator's CPU; real buyers bring one each."
        ));
    }
    None
}
