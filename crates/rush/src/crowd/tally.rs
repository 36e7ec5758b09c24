//! The counts of one thread: requests, refusals, latencies, and how well the thread itself kept up.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    latency::LatencyHistogram,
    report::{HistogramBar, Quantiles},
};

use super::{
    Moment,
    buyer::BuyerCall,
    codes::{CodeCounts, RefusalCode},
};

/// The kinds that latencies are counted by.
const KINDS: [&str; 8] = ["page", "sign_in", "ticket", "challenge", "pass", "order", "pay", "cancel"];
const ORDER: usize = 5;
/// A request that leaves this much later than it was due is late.
const LATE_AFTER: Duration = Duration::from_millis(5);
/// The upper ends of the bars within a power of ten.
const BARS: [f64; 6] = [1.0, 1.5, 2.0, 3.0, 5.0, 7.0];

fn kind(call: BuyerCall) -> usize {
    match call {
        BuyerCall::Look => 0,
        BuyerCall::SignIn => 1,
        BuyerCall::Ticket | BuyerCall::Place => 2,
        BuyerCall::Challenge => 3,
        BuyerCall::Pass => 4,
        BuyerCall::Order => ORDER,
        BuyerCall::Pay => 6,
        BuyerCall::Cancel => 7,
    }
}

/// The time from the first event to the last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    first: Option<Moment>,
    last: Option<Moment>,
}

impl Span {
    fn begin(&mut self, at: Moment) {
        if self.first.is_none_or(|first| at < first) {
            self.first = Some(at);
        }
    }

    fn end(&mut self, at: Moment) {
        self.last = self.last.max(Some(at));
    }

    fn add(&mut self, other: Self) {
        if let Some(first) = other.first {
            self.begin(first);
        }
        self.last = self.last.max(other.last);
    }

    pub(super) fn seconds(&self) -> f64 {
        let both = self.first.zip(self.last);
        both.map_or(0.0, |(first, last)| last.since(first).as_secs_f64())
    }
}

#[derive(Debug, Default)]
pub(super) struct CrowdTally {
    pub(super) came: u64,
    pub(super) requests: u64,
    /// Order requests that were answered.
    pub(super) orders_answered: u64,
    pub(super) all: Span,
    pub(super) orders: Span,
    /// Answers to orders of people.
    pub(super) refused: CodeCounts,
    /// Refusals of their payments and cancellations, except those that came too late: some buyers try that on
    /// purpose.
    pub(super) pay_refused: CodeCounts,
    pub(super) cancel_refused: CodeCounts,
    /// Refusals of bots' orders and of their attempts to cheat a pass.
    pub(super) bots_refused: CodeCounts,
    pub(super) first_sold_out_at: Option<Moment>,
    /// Of people only: the latency of bots hurts nobody.
    latency: [LatencyHistogram; KINDS.len()],
    /// The sum of their latencies, each from the moment it was due.
    pub(super) orders_took: Duration,
    /// Order requests of people; every sending counts.
    pub(super) orders_sent: u64,
    /// Orders that left late although a connection was free, and the sum of their delays.
    pub(super) late: u64,
    pub(super) late_for: Duration,
    /// Orders that waited for a connection.
    pub(super) waited_for_connection: u64,
    pub(super) connections_lost: u64,
    pub(super) solving_waited: Duration,
    pub(super) solved: u64,
    /// CPU share of the busiest thread in its busiest second, and the total time; both from the opening on.
    pub(super) busiest_percent: f64,
    pub(super) took: Duration,
}

impl CrowdTally {
    pub(super) fn sent(&mut self, now: Moment) {
        self.requests += 1;
        self.all.begin(now);
    }

    /// An order left this long after it could have.
    pub(super) fn sent_order(&mut self, is_bot: bool, delay: Duration, now: Moment, waited: bool) {
        self.orders.begin(now);
        if is_bot {
            return;
        }
        self.orders_sent += 1;
        if waited {
            self.waited_for_connection += 1;
        } else if delay > LATE_AFTER {
            self.late += 1;
            self.late_for += delay;
        }
    }

    pub(super) fn answered(&mut self, call: BuyerCall, is_bot: bool, latency: Duration, now: Moment) {
        self.all.end(now);
        if call == BuyerCall::Order {
            self.orders_answered += 1;
            self.orders.end(now);
            self.orders_took += if is_bot { Duration::ZERO } else { latency };
        }
        if let (false, Some(of_kind)) = (is_bot, self.latency.get_mut(kind(call))) {
            of_kind.record(latency);
        }
    }

    pub(super) fn refused(&mut self, call: BuyerCall, is_bot: bool, code: RefusalCode, now: Moment) {
        match (call, is_bot) {
            (BuyerCall::Order, false) => self.refused.count(code),
            (BuyerCall::Order | BuyerCall::Pass, true) => self.bots_refused.count(code),
            (BuyerCall::Pay | BuyerCall::Cancel, _)
                if matches!(code, RefusalCode::REFUND_DUE | RefusalCode::HOLD_EXPIRED) => {}
            (BuyerCall::Pay, false) => self.pay_refused.count(code),
            (BuyerCall::Cancel, false) => self.cancel_refused.count(code),
            _ => {}
        }
        if call == BuyerCall::Order && code == RefusalCode::SOLD_OUT && self.first_sold_out_at.is_none() {
            self.first_sold_out_at = Some(now);
        }
    }

    pub(super) fn order_latency(&self) -> &LatencyHistogram {
        let [.., order, _, _] = &self.latency;
        order
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.came += other.came;
        self.requests += other.requests;
        self.orders_answered += other.orders_answered;
        self.all.add(other.all);
        self.orders.add(other.orders);
        self.refused.add(&other.refused);
        self.pay_refused.add(&other.pay_refused);
        self.cancel_refused.add(&other.cancel_refused);
        self.bots_refused.add(&other.bots_refused);
        let first = self.first_sold_out_at.into_iter().chain(other.first_sold_out_at).min();
        self.first_sold_out_at = first;
        for (latency, others) in self.latency.iter_mut().zip(&other.latency) {
            latency.add(others);
        }
        self.orders_took += other.orders_took;
        self.orders_sent += other.orders_sent;
        self.late += other.late;
        self.late_for += other.late_for;
        self.waited_for_connection += other.waited_for_connection;
        self.connections_lost += other.connections_lost;
        self.solving_waited += other.solving_waited;
        self.solved += other.solved;
        self.busiest_percent = self.busiest_percent.max(other.busiest_percent);
        self.took = self.took.max(other.took);
    }

    pub(super) fn latencies(&self) -> BTreeMap<String, Quantiles> {
        let asked = KINDS.iter().zip(&self.latency).filter(|(_, latency)| latency.count() > 0);
        asked.map(|(name, latency)| ((*name).to_owned(), quantiles(latency))).collect()
    }

    /// Bars of growing width, without the empty ones at both ends.
    pub(super) fn histogram(&self) -> Vec<HistogramBar> {
        // From ten microseconds up. Dividing keeps the ends as round as they are written.
        let ends = (-2..=4).flat_map(|power| BARS.iter().map(move |bar| bar * 1e3 / 10_f64.powi(3 - power)));
        let mut bars: Vec<_> = ends.map(|up_to_ms| HistogramBar { up_to_ms, count: 0 }).collect();
        for (latency, count) in self.order_latency().recorded() {
            let milliseconds = milliseconds(latency);
            let position = bars.partition_point(|bar| bar.up_to_ms < milliseconds).min(bars.len() - 1);
            if let Some(bar) = bars.get_mut(position) {
                bar.count += count;
            }
        }
        let is_empty = |bar: &HistogramBar| bar.count == 0;
        while bars.pop_if(|bar| is_empty(bar)).is_some() {}
        let first = bars.iter().position(|bar| !is_empty(bar)).unwrap_or(0);
        bars.split_off(first)
    }
}

pub(super) fn milliseconds(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e6
}

fn quantiles(latency: &LatencyHistogram) -> Quantiles {
    let at = |quantile| milliseconds(latency.quantile(quantile));
    Quantiles {
        count: latency.count(),
        p50_ms: at(0.5),
        p90_ms: at(0.9),
        p99_ms: at(0.99),
        p999_ms: at(0.999),
        max_ms: milliseconds(latency.max()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_call_has_its_name() {
        assert_eq!(KINDS[kind(BuyerCall::Order)], "order");
        assert_eq!(KINDS[kind(BuyerCall::Cancel)], "cancel");
        let mut tally = CrowdTally::default();
        tally.answered(BuyerCall::Order, false, Duration::from_millis(4), Moment(1));
        assert_eq!(tally.order_latency().count(), 1);
        assert_eq!(tally.latencies()["order"].count, 1);
    }

    #[test]
    fn bars_hold_every_order_of_people() {
        let mut tally = CrowdTally::default();
        for (microseconds, is_bot) in
            [(900, false), (1_000, false), (1_400, false), (4_000, false), (9, true)]
        {
            tally.answered(BuyerCall::Order, is_bot, Duration::from_micros(microseconds), Moment(1));
        }
        let bars: Vec<_> = tally.histogram().iter().map(|bar| (bar.up_to_ms, bar.count)).collect();
        assert_eq!(bars.iter().map(|(_, count)| count).sum::<u64>(), 4);
        assert_eq!(bars.first().unwrap().1 + bars[1].1 + bars[2].1, 3);
        assert_eq!(*bars.last().unwrap(), (5.0, 1));
    }

    #[test]
    fn a_request_that_waited_for_a_connection_is_not_late() {
        let mut tally = CrowdTally::default();
        let [short, long] = [4, 6].map(Duration::from_millis);
        tally.sent_order(false, Duration::from_millis(100), Moment(1), true);
        tally.sent_order(false, short, Moment(1), false);
        tally.sent_order(true, long, Moment(1), false);
        assert_eq!((tally.late, tally.waited_for_connection), (0, 1));
        tally.sent_order(false, long, Moment(1), false);
        assert_eq!((tally.late, tally.late_for, tally.orders_sent), (1, long, 3));
    }

    #[test]
    fn payments_that_are_refused_count_unless_they_came_too_late() {
        let mut tally = CrowdTally::default();
        for (call, code) in [
            (BuyerCall::Pay, RefusalCode::BUSY),
            (BuyerCall::Pay, RefusalCode::REFUND_DUE),
            (BuyerCall::Cancel, RefusalCode::HOLD_EXPIRED),
            (BuyerCall::Cancel, RefusalCode::NONE),
        ] {
            tally.refused(call, false, code, Moment(1));
        }
        let mut all = CrowdTally::default();
        all.add(&tally);
        assert_eq!(all.pay_refused.named(), [("busy".to_owned(), 1)].into());
        assert_eq!(all.cancel_refused.named(), [("none".to_owned(), 1)].into());
        assert!(all.refused.named().is_empty());
    }

    #[test]
    fn an_order_counts_when_it_is_answered_not_when_it_is_sent() {
        let mut tally = CrowdTally::default();
        tally.sent_order(false, Duration::ZERO, Moment(1), false);
        tally.sent_order(false, Duration::ZERO, Moment(1), false);
        tally.answered(BuyerCall::Order, false, Duration::from_millis(1), Moment(2));
        assert_eq!(tally.orders_answered, 1);
    }
}
