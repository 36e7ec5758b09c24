//! Adds up the findings of a run's threads, and says how far the generator itself can be trusted.

use crate::report::{Generator, Opening, Orders, PeopleCounts, RehearsalReport};

use super::{
    CrowdPlan, Moment, arrivals,
    desk::CrowdStock,
    findings::{Doubtful, End, Findings, Promised},
    tally::CrowdTally,
    timeline::Timeline,
    worker::SeatResult,
};

/// Above this, the generator is the bottleneck.
const MAX_LATE_PERCENT: f64 = 1.0;
const MAX_BUSY_PERCENT: f64 = 95.0;
const MAX_WAITED_PERCENT: f64 = 5.0;
/// As a share of the latency of orders. A burst of 30,000 can't leave in one moment, which matters only if
/// the server is faster than that.
const MAX_DELAY_PERCENT: f64 = 20.0;
/// As a share of the time that buyers could have waited for their proofs, all running side by side.
const MAX_SOLVING_PERCENT: f64 = 10.0;

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct CrowdOutcome {
    /// Every order that was answered 201, those of bots included.
    pub promised: Vec<Promised>,
    pub doubtful: Vec<Doubtful>,
    /// One sentence for each key that was answered with two different orders, or with one and a refusal.
    pub contradictions: Vec<String>,
    /// Requests other than orders that stayed unanswered after all repeats.
    pub unanswered: u64,
    /// Everything that was counted and measured. The names of the scenario and the sale are missing, and so
    /// is the verdict: the crowd knows neither.
    pub report: RehearsalReport,
}

pub(super) fn summarise(plan: &CrowdPlan, done: Vec<SeatResult>, stock: &CrowdStock) -> CrowdOutcome {
    let mut findings = Findings::default();
    let mut tally = CrowdTally::default();
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
    let (slice_ms, timeline) = timeline.map(|timeline| timeline.report()).unwrap_or_default();
    let (seconds, order_seconds) = (tally.all.seconds(), tally.orders.seconds());
    let a_second = |count: u64, seconds: f64| count as f64 / seconds.max(f64::MIN_POSITIVE);
    let report = RehearsalReport {
        people: people(plan, &findings, &tally),
        seconds,
        requests: tally.requests,
        requests_per_second: a_second(tally.requests, seconds),
        order_requests: tally.orders_answered,
        order_requests_per_second: a_second(tally.orders_answered, order_seconds),
        opening: opening(&findings, &tally, stock),
        orders: orders(&findings),
        refused: tally.refused.named(),
        pay_refused: tally.pay_refused.named(),
        cancel_refused: tally.cancel_refused.named(),
        bots_refused: tally.bots_refused.named(),
        latency: tally.latencies(),
        histogram: tally.histogram(),
        slice_ms,
        timeline,
        generator: generator(plan, &tally, connections),
        ..RehearsalReport::default()
    };
    CrowdOutcome {
        promised: findings.promised,
        doubtful: findings.doubtful,
        contradictions: findings.contradictions,
        unanswered: findings.unanswered,
        report,
    }
}

fn people(plan: &CrowdPlan, findings: &Findings, tally: &CrowdTally) -> PeopleCounts {
    PeopleCounts {
        buyers: plan.crowd.buyers,
        bots: arrivals::bots_of(&plan.crowd),
        came: tally.came,
        admitted: findings.admitted,
        served: findings.served,
        bots_served: findings.bots_served,
        bots_served_without_challenge: findings.bots_served_by_skipping,
        gave_up: findings.gave_up,
    }
}

fn opening(findings: &Findings, tally: &CrowdTally, stock: &CrowdStock) -> Opening {
    let everybody = findings.last_first_answer_at.filter(|_| findings.left_unanswered == 0);
    Opening {
        // Others may have bought, too: then the first "sold out" is all we know.
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
        refused: count(End::Refused),
        unknown: count(End::Unknown),
        repeated: findings.repeated,
    }
}

fn generator(plan: &CrowdPlan, tally: &CrowdTally, connections: usize) -> Generator {
    let of_orders = |count: u64| 100.0 * count as f64 / tally.orders_sent.max(1) as f64;
    let mut generator = Generator {
        threads: plan.threads as u64,
        connections: connections as u64,
        busy_percent: tally.busiest_percent,
        late_percent: of_orders(tally.late),
        waited_for_connection_percent: of_orders(tally.waited_for_connection),
        connections_lost: tally.connections_lost,
        solving_waited_seconds: tally.solving_waited.as_secs_f64(),
        steal_percent: None,
        bottleneck: None,
    };
    generator.bottleneck = bottleneck(plan, &generator, tally);
    generator
}

/// Why the figures say more about the generator than about the server.
fn bottleneck(plan: &CrowdPlan, generator: &Generator, tally: &CrowdTally) -> Option<String> {
    let has_burst = plan.arrivals.burst_at_opening > 0.0;
    let is_closed_loop = plan.arrivals.rate <= 0.0 && !has_burst;
    let Generator { late_percent, busy_percent, waited_for_connection_percent, .. } = *generator;
    if busy_percent > MAX_BUSY_PERCENT {
        return Some(format!(
            "A thread of the generator was busy for {busy_percent:.0} % of a second; give it more threads or a machine of \
             its own."
        ));
    }
    if is_closed_loop {
        return None;
    }
    let delay_percent =
        100.0 * tally.late_for.as_secs_f64() / tally.orders_took.as_secs_f64().max(f64::MIN_POSITIVE);
    if late_percent > MAX_LATE_PERCENT && (!has_burst || delay_percent > MAX_DELAY_PERCENT) {
        return Some(format!(
            "{late_percent:.1} % of the orders left more than 5 ms after they were due, because the generator was busy \
             sending others. The latencies contain this delay, which is {delay_percent:.0} % of them: the server \
             is faster than it looks."
        ));
    }
    if waited_for_connection_percent > MAX_WAITED_PERCENT {
        return Some(format!(
            "{waited_for_connection_percent:.1} % of the orders had to wait for one of the {} connections; the \
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

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration, time::Instant};

    use crate::{
        scenario::{Arrivals, Crowd, Mix},
        token::TokenSigner,
    };

    use super::super::{BuyerIdentity, GateSteps, buyer::BuyerCall};
    use super::*;

    fn plan(burst_at_opening: f64, rate: f64) -> CrowdPlan {
        CrowdPlan {
            address: ([127, 0, 0, 1], 1).into(),
            host: String::new(),
            sale: String::new(),
            opens_at: Instant::now(),
            units: 1,
            hold_seconds: 60,
            gate: GateSteps::default(),
            identity: BuyerIdentity::Jwt {
                signer: Arc::new(TokenSigner::lasting(b"secret")),
                prefix: String::new(),
            },
            quantity: 1,
            crowd: Crowd { buyers: 100, bots: 0.0, connections: 0, forwarded_addresses: false },
            arrivals: Arrivals { burst_at_opening, rate, ..Arrivals::default() },
            mix: Mix::default(),
            threads: 1,
            seed: 7,
        }
    }

    /// A hundred orders that each left with this delay and took this long, in milliseconds.
    fn named(plan: &CrowdPlan, delay_ms: u64, latency_ms: u64) -> Option<String> {
        let mut tally = CrowdTally::default();
        for _ in 0..100 {
            tally.sent_order(false, Duration::from_millis(delay_ms), Moment(1), false);
            tally.answered(BuyerCall::Order, false, Duration::from_millis(latency_ms), Moment(2));
        }
        generator(plan, &tally, 1).bottleneck
    }

    #[test]
    fn a_burst_that_leaves_late_is_a_bottleneck_only_if_that_is_what_takes_long() {
        for share in [0.3, 1.0] {
            assert_eq!(named(&plan(share, 0.0), 20, 400), None);
            let sentence = named(&plan(share, 0.0), 20, 25).unwrap();
            assert!(sentence.contains("80 %"), "{sentence}");
        }
    }

    #[test]
    fn orders_that_are_due_one_by_one_have_to_leave_in_time() {
        assert!(named(&plan(0.0, 100.0), 20, 400).is_some());
        assert_eq!(named(&plan(0.0, 100.0), 4, 400), None);
        assert_eq!(named(&plan(0.0, 0.0), 20, 400), None, "nothing is due in a closed loop");
    }

    #[test]
    fn the_busiest_second_of_any_thread_counts() {
        let [mut calm, mut busy] = [CrowdTally::default(), CrowdTally::default()];
        (calm.busiest_percent, busy.busiest_percent) = (20.0, 97.0);
        assert_eq!(generator(&plan(0.0, 0.0), &calm, 1).bottleneck, None);
        calm.add(&busy);
        assert!(generator(&plan(0.0, 0.0), &calm, 1).bottleneck.is_some());
    }
}
