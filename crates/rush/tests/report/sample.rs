//! Reports that runs could have made, the same every time.

use std::collections::BTreeMap;

use penstock_rush::report::{
    Generator, HistogramBar, Opening, Orders, PeopleCounts, Quantiles, RehearsalReport, RehearsalVerdict,
    ReportSlice,
};

fn quantiles(count: u64, p50_ms: f64) -> Quantiles {
    Quantiles {
        count,
        p50_ms,
        p90_ms: p50_ms * 2.1,
        p99_ms: p50_ms * 3.4,
        p999_ms: p50_ms * 3.9,
        max_ms: p50_ms * 4.2,
    }
}

fn by_name<T: Copy>(entries: &[(&str, T)]) -> BTreeMap<String, T> {
    entries.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

/// A value that goes up and down, so that not all slices look the same.
fn wobble(index: u64) -> f64 {
    1.0 + 0.3 * (index as f64 * 0.7).sin() + 0.15 * (index as f64 * 2.3).cos()
}

/// A hump around `middle_ms`, with a longer slope to the right.
fn histogram(total: f64, middle_ms: f64) -> Vec<HistogramBar> {
    let mut up_to_ms = 0.1;
    let mut bars = Vec::new();
    while up_to_ms < 5_000.0 {
        let distance = (up_to_ms / middle_ms).ln();
        let width = if distance < 0.0 { 0.5 } else { 0.7 };
        let height = (-distance * distance / (2.0 * width * width)).exp();
        bars.push(HistogramBar { up_to_ms, count: (height * total / 14.0) as u64 });
        up_to_ms *= 1.12;
    }
    bars
}

/// 30,000 people press at the same moment for 200 units.
pub(crate) fn thirty_thousand() -> RehearsalReport {
    let refusals = [4_000, 5_200, 5_600, 5_300, 4_600, 3_100, 1_500, 400, 100];
    let timeline = (-150..40).map(|index: i64| {
        let mut slice = ReportSlice { at_ms: index * 100, ..ReportSlice::default() };
        if index < 0 {
            slice.came = if index < -3 { 204 } else { 4 };
            slice.requests = slice.came;
        }
        if let Some(refused) = usize::try_from(index).ok().and_then(|index| refusals.get(index)) {
            slice.sold = [126, 74].get(index as usize).copied().unwrap_or(0);
            slice.refused = by_name(&[("sold_out", *refused), ("busy", refused / 40)]);
            slice.p50_ms = 40.0 + 85.0 * index as f64;
            slice.p99_ms = 95.0 + 92.0 * index as f64;
            slice.max_ms = slice.p99_ms * 1.1;
            slice.requests = slice.sold + refused;
        }
        if index == 0 {
            slice.orders_due = 30_300;
        }
        slice
    });
    RehearsalReport {
        scenario: "thirty-thousand-for-two-hundred".to_owned(),
        about: "30,000 people wait for the opening of a sale of 200 units, one each.".to_owned(),
        url: "http://127.0.0.1:8080".to_owned(),
        sale: "sale_01JCQ4TZ8W".to_owned(),
        started_at: "2026-11-15T14:40:12Z".to_owned(),
        seed: 20_261_115,
        units: 200,
        limit_per_buyer: 1,
        people: PeopleCounts {
            buyers: 30_000,
            came: 30_000,
            admitted: 30_000,
            served: 200,
            ..PeopleCounts::default()
        },
        seconds: 18.9,
        requests: 60_760,
        requests_per_second: 3_214.8,
        order_requests: 30_745,
        order_requests_per_second: 35_102.0,
        opening: Opening {
            stock_gone_after_seconds: Some(0.168),
            everybody_answered_after_seconds: Some(0.874),
        },
        orders: Orders {
            accepted: 200,
            units: 200,
            paid: 161,
            walked_away: 39,
            repeated: 1_045,
            ..Orders::default()
        },
        refused: by_name(&[("sold_out", 29_800), ("busy", 745), ("limit_reached", 2)]),
        pay_refused: BTreeMap::new(),
        cancel_refused: BTreeMap::new(),
        bots_refused: BTreeMap::new(),
        latency: by_name(&[
            ("order", quantiles(30_745, 214.0)),
            ("page", quantiles(30_000, 0.41)),
            ("pay", quantiles(161, 1.3)),
        ]),
        histogram: histogram(30_745.0, 214.0),
        slice_ms: 100,
        timeline: timeline.collect(),
        generator: Generator {
            threads: 1,
            connections: 30_000,
            busy_percent: 61.4,
            late_percent: 0.2,
            steal_percent: Some(0.4),
            ..Generator::default()
        },
        verdict: RehearsalVerdict {
            audit: Some(true),
            checked: vec![
                "200 promised orders were asked for one by one, and all are there.".to_owned(),
                "Every repeated key got the first answer.".to_owned(),
            ],
            ..RehearsalVerdict::default()
        },
    }
}

/// Ten million requests in a closed loop: a timeline of thousands of slices.
pub(crate) fn ten_million() -> RehearsalReport {
    let timeline = (-10..2_900).map(|index: i64| {
        let mut slice = ReportSlice { at_ms: index * 25, ..ReportSlice::default() };
        if let Ok(number) = u64::try_from(index) {
            let answers = (3_450.0 * wobble(number)) as u64;
            slice.sold = if number < 8 { 1_250 } else { 0 };
            slice.came = answers;
            slice.orders_due = answers;
            slice.refused = by_name(&[("sold_out", answers - slice.sold)]);
            slice.p50_ms = 1.7 * wobble(number + 3);
            slice.p99_ms = 4.4 * wobble(number * 5);
        }
        slice
    });
    RehearsalReport {
        scenario: "ten-million".to_owned(),
        about: "10,000,000 purchase requests for 10,000 units, as fast as possible.".to_owned(),
        units: 10_000,
        people: PeopleCounts {
            buyers: 10_000_000,
            came: 10_000_000,
            admitted: 10_000_000,
            served: 10_000,
            ..PeopleCounts::default()
        },
        seconds: 73.0,
        requests: 10_010_000,
        requests_per_second: 137_123.0,
        order_requests: 10_000_000,
        order_requests_per_second: 138_012.0,
        opening: Opening {
            stock_gone_after_seconds: Some(0.2),
            everybody_answered_after_seconds: Some(72.5),
        },
        refused: by_name(&[("sold_out", 9_990_000)]),
        latency: by_name(&[("order", quantiles(10_000_000, 1.7)), ("pay", quantiles(10_000, 2.0))]),
        histogram: histogram(10_000_000.0, 1.7),
        slice_ms: 25,
        timeline: timeline.collect(),
        ..thirty_thousand()
    }
}

/// People and bots at a gate with everything, and a server that gets nearly everything wrong.
pub(crate) fn broken() -> RehearsalReport {
    let bots_refused =
        by_name(&[("pass_required", 31_402), ("pass_invalid", 18_220), ("rate_limited", 7_004)]);
    let kinds = ["page", "sign_in", "ticket", "challenge", "pass", "order", "pay", "cancel"];
    let reasons =
        ["sold_out", "busy", "rate_limited", "pass_invalid", "not_admitted", "not_open", "<b>new</b>"];
    let mut report = thirty_thousand();
    report.scenario = "bots & <script>alert(1)</script>\u{1b}[2J".to_owned();
    report.people.bots = 2_000;
    report.people.bots_served = 3;
    report.bots_refused = bots_refused;
    report.opening = Opening::default();
    report.orders.paid_late = 5;
    report.orders.refunds = 2;
    report.latency = kinds.iter().map(|kind| ((*kind).to_owned(), quantiles(2_000, 3.0))).collect();
    report.refused =
        reasons.iter().enumerate().map(|(index, code)| ((*code).to_owned(), 900 - index as u64)).collect();
    for (index, slice) in report.timeline.iter_mut().enumerate().filter(|(_, slice)| slice.at_ms >= 0) {
        slice.refused = reasons
            .iter()
            .enumerate()
            .map(|(reason, code)| {
                ((*code).to_owned(), (20.0 * wobble((index * 7 + reason * 3) as u64)) as u64)
            })
            .collect();
        slice.p50_ms = 3.0;
        slice.p99_ms = 9.0 * wobble(index as u64);
    }
    report.generator.bottleneck = Some("3.1 % of the requests were sent late.".to_owned());
    report.verdict = RehearsalVerdict {
        oversold: 2,
        unanswered: 1_300,
        audit: Some(false),
        findings: (1..=5).map(|number| format!("Order {number} is in nobody's <books>.")).collect(),
        ..RehearsalVerdict::default()
    };
    report
}
