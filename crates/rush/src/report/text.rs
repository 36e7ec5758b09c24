//! The report for a terminal: one screen, in words, with the verdict last because that is where the eye is.

use std::fmt::Write;

use super::{
    Quantiles, RehearsalReport, RehearsalVerdict,
    words::{self, counted, duration, rounded, thousands},
};

/// Everything fits on one screen of 30 lines: findings take the place of details.
const MAX_FINDINGS: usize = 3;

/// The summary, without colours: it may be written to a file.
pub fn text(report: &RehearsalReport) -> String {
    let mut text = String::new();
    let (reasons, requests) = if report.verdict.findings.is_empty() { (3, 5) } else { (2, 3) };
    head(&mut text, report);
    people(&mut text, report);
    // Bots need a line of their own.
    refused(&mut text, report, reasons + usize::from(report.people.bots == 0));
    latency(&mut text, report, requests);
    generator(&mut text, report);
    verdict(&mut text, &report.verdict);
    words::printable(&text)
}

// Writing into a String does not fail, here and below.
fn head(text: &mut String, report: &RehearsalReport) {
    let _ = writeln!(text, "{}: {}", report.scenario, report.about);
    let _ = writeln!(
        text,
        "Sale {} at {}, {}, {}, seed {}.\n",
        report.sale,
        report.url,
        report.started_at,
        duration(report.seconds),
        report.seed
    );
}

fn people(text: &mut String, report: &RehearsalReport) {
    let (people, orders) = (&report.people, &report.orders);
    let units = counted(report.units, "unit");
    let gone = match report.opening.stock_gone_after_seconds {
        Some(seconds) => format!("The {units} were gone {} after the opening", duration(seconds)),
        None => format!("Of {units} {} were sold", thousands(orders.units)),
    };
    let answered = match report.opening.everybody_answered_after_seconds {
        Some(seconds) => format!("everybody had a yes or a no after {}", duration(seconds)),
        None => "NOT everybody got a yes or a no".to_owned(),
    };
    let _ = writeln!(text, "{gone}; {answered}.");
    let _ = writeln!(
        text,
        "{} of {} {} came{}, {} got a unit, {} gave up.",
        thousands(people.came),
        thousands(people.buyers + people.bots),
        words::crowd(report),
        if_any(people.admitted, "were let in"),
        thousands(people.served),
        thousands(people.gave_up)
    );
    let _ = writeln!(
        text,
        "Of {} {} were paid{}{}{}{}{}, {} left unpaid.",
        counted(orders.accepted, "order"),
        thousands(orders.paid),
        if_any(orders.paid_late, "paid late"),
        if_any(orders.refunds, "paid too late and to be refunded"),
        if_any(orders.cancelled, "cancelled"),
        if_any(orders.refused, "could not be paid or cancelled"),
        if_any(orders.unknown, "with an unknown outcome"),
        thousands(orders.walked_away)
    );
    if people.bots > 0 {
        bots(text, report);
    }
}

/// Leaves out what did not happen.
fn if_any(count: u64, what: &str) -> String {
    if count > 0 { format!(", {} {what}", thousands(count)) } else { String::new() }
}

fn bots(text: &mut String, report: &RehearsalReport) {
    let (most, _) = words::most_frequent(&report.bots_refused, 1);
    let mostly =
        most.first().map_or_else(String::new, |(code, _)| format!(", mostly: {}", words::reason(code)));
    let _ = writeln!(
        text,
        "{} of the {} got a unit; bots were refused {} times{mostly}.",
        thousands(report.people.bots_served),
        counted(report.people.bots, "bot"),
        thousands(report.bots_refused.values().sum()),
    );
}

fn refused(text: &mut String, report: &RehearsalReport, most: usize) {
    let (rows, rest) = words::refusals(report, most);
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{:<40}{:>12}", "refused because", "times");
    for (reason, count) in rows {
        let _ = writeln!(text, "  {reason:<38}{:>12}", thousands(count));
    }
    if rest > 0 {
        let _ = writeln!(text, "  {:<38}{:>12}", "other reasons", thousands(rest));
    }
}

fn latency(text: &mut String, report: &RehearsalReport, most: usize) {
    let _ = writeln!(
        text,
        "\n{:<28}{:>12}{:>10}{:>10}{:>10}{:>10}",
        "answered within, in ms", "requests", "50 %", "99 %", "99.9 %", "all"
    );
    for (kind, quantiles) in most_telling(words::in_order(&report.latency), most) {
        let _ = write!(text, "  {:<26}{:>12}", words::request(kind), thousands(quantiles.count));
        for time_ms in [quantiles.p50_ms, quantiles.p99_ms, quantiles.p999_ms, quantiles.max_ms] {
            let _ = write!(text, "{:>10}", rounded(time_ms));
        }
        text.push('\n');
    }
}

/// The kinds that a buyer waits for most, in their old order.
fn most_telling(kinds: Vec<(&str, Quantiles)>, most: usize) -> Vec<(&str, Quantiles)> {
    const TELLING: [&str; 5] = ["order", "pay", "page", "pass", "ticket"];
    let place = |kind: &str| TELLING.iter().position(|name| *name == kind).unwrap_or(TELLING.len());
    let mut places: Vec<_> = kinds.iter().map(|(kind, _)| place(kind)).collect();
    places.sort_unstable();
    let last = places.get(most.saturating_sub(1)).copied().unwrap_or(usize::MAX);
    kinds.into_iter().filter(|(kind, _)| place(kind) <= last).take(most).collect()
}

fn generator(text: &mut String, report: &RehearsalReport) {
    let generator = &report.generator;
    let trust = generator.bottleneck.as_ref().map_or_else(
        || ": the generator kept up.".to_owned(),
        |bottleneck| format!(".\nREAD THE TIMES WITH CARE: {bottleneck}"),
    );
    let _ = writeln!(
        text,
        "{}, {}/s, from {} over {}, at most {} % busy{trust}",
        counted(report.requests, "request"),
        rounded(report.requests_per_second),
        counted(generator.threads, "thread"),
        counted(generator.connections, "connection"),
        rounded(generator.busy_percent),
    );
}

fn verdict(text: &mut String, verdict: &RehearsalVerdict) {
    text.push('\n');
    for (name, _, count) in words::counts(verdict) {
        let _ = writeln!(text, "  {name:<20}{:>12}", thousands(count));
    }
    let _ = writeln!(text, "{}", words::verdict(verdict));
    if let Some(books) = words::books(verdict) {
        let _ = writeln!(text, "{books}");
    }
    for finding in verdict.findings.iter().take(MAX_FINDINGS) {
        let _ = writeln!(text, "- {finding}");
    }
    let more = verdict.findings.len().saturating_sub(MAX_FINDINGS);
    if more > 0 {
        let _ = writeln!(text, "… and {more} more findings");
    }
}
