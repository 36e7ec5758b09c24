//! The report as one self-contained page, for a merchant who does not program.

use std::fmt::Write;

use super::{
    RehearsalReport, RehearsalVerdict,
    page::{self, escape},
    plots,
    words::{self, counted, duration, rounded, thousands},
};

/// The page: first the verdict in words, then the main numbers and the plots, and at the end all details for
/// readers who want to check them.
pub fn html(report: &RehearsalReport) -> anyhow::Result<String> {
    let mut body = String::new();
    // Writing into a String does not fail.
    let _ = write!(
        body,
        "<header><h1>Rehearsal: {}</h1><p class=\"soft\">{}</p></header>",
        escape(&report.scenario),
        escape(&report.about)
    );
    verdict(&mut body, &report.verdict);
    if let Some(bottleneck) = &report.generator.bottleneck {
        let _ = write!(
            body,
            "<div class=\"notice warn\"><b>Read the times with care.</b> {}</div>",
            escape(bottleneck)
        );
    }
    cards(&mut body, report);
    for section in plots::all(report)? {
        let _ = write!(
            body,
            "<section id=\"{}\"><h2>{}</h2><p class=\"soft\">{}</p>{}</section>",
            section.id,
            section.title,
            escape(&section.sentence),
            section.drawing
        );
    }
    bots(&mut body, report);
    latency(&mut body, report);
    checks(&mut body, &report.verdict);
    facts(&mut body, report);
    Ok(page::page(&format!("Rehearsal: {}", report.scenario), &body))
}

fn verdict(body: &mut String, verdict: &RehearsalVerdict) {
    let (class, title) = if verdict.is_clean() {
        ("good", "✓ The sale held.")
    } else {
        ("bad", "✗ The sale did not hold.")
    };
    let _ = write!(
        body,
        "<div class=\"notice {class}\"><h2>{title}</h2><p>{} {}</p>",
        escape(&words::verdict(verdict)),
        escape(words::books(verdict).unwrap_or_default())
    );
    if !verdict.findings.is_empty() {
        body.push_str("<ul>");
        for finding in &verdict.findings {
            let _ = write!(body, "<li>{}</li>", escape(finding));
        }
        body.push_str("</ul>");
    }
    body.push_str("</div>");
}

fn cards(body: &mut String, report: &RehearsalReport) {
    let order = report.latency.get("order").copied().unwrap_or_default();
    let units = counted(report.units, "unit");
    let gone = match report.opening.stock_gone_after_seconds {
        Some(seconds) => (duration(seconds), format!("after the opening all {units} were gone")),
        None => (thousands(report.orders.units), format!("of {units} were sold")),
    };
    let answered = match report.opening.everybody_answered_after_seconds {
        Some(seconds) => (duration(seconds), "after the opening everybody had a yes or a no".to_owned()),
        None => ("Not all".to_owned(), "got a yes or a no".to_owned()),
    };
    let cards = [
        (thousands(report.people.came), format!("{} came", words::crowd(report))),
        gone,
        (thousands(report.people.served), "people got a unit".to_owned()),
        answered,
        (duration(order.p99_ms / 1000.0), "was enough to answer 99 of 100 orders".to_owned()),
        (rounded(report.order_requests_per_second), "orders were answered a second".to_owned()),
    ];
    body.push_str("<ul class=\"cards\">");
    for (number, words) in cards {
        let _ = write!(body, "<li><b>{}</b><span>{}</span></li>", escape(&number), escape(&words));
    }
    body.push_str("</ul>");
}

fn bots(body: &mut String, report: &RehearsalReport) {
    if report.people.bots == 0 {
        return;
    }
    let (codes, rest) = words::most_frequent(&report.bots_refused, words::MAX_REASONS);
    let bar = |label: String, count: u64| page::Bar {
        label,
        shown: thousands(count),
        value: count as f64,
        spread: None,
        colour: page::GREY,
    };
    let mut bars: Vec<_> = codes.iter().map(|(code, count)| bar(words::reason(code), *count)).collect();
    if rest > 0 {
        bars.push(bar("other reasons".to_owned(), rest));
    }
    let _ = write!(
        body,
        "<section id=\"bots\"><h2>What became of the bots</h2><p class=\"soft\">{} came as well; {} of them got \
         a unit. Their orders were refused because:</p>{}</section>",
        counted(report.people.bots, "bot"),
        thousands(report.people.bots_served),
        page::bars(&bars)
    );
}

fn latency(body: &mut String, report: &RehearsalReport) {
    body.push_str(
        "<section id=\"latency\"><h2>Every kind of request</h2><p class=\"soft\">Time to the answer in \
         milliseconds, from the moment the request was due. Each column is a percentile.</p>\
         <div class=\"scroll\"><table><thead><tr><th>request</th><th>count</th><th>50</th><th>90</th><th>99</th>\
         <th>99.9</th><th>all</th></tr></thead><tbody>",
    );
    for (kind, quantiles) in words::in_order(&report.latency) {
        let _ = write!(
            body,
            "<tr><td>{}</td><td>{}</td>",
            escape(&words::request(kind)),
            thousands(quantiles.count)
        );
        let times =
            [quantiles.p50_ms, quantiles.p90_ms, quantiles.p99_ms, quantiles.p999_ms, quantiles.max_ms];
        for time_ms in times {
            let _ = write!(body, "<td>{}</td>", rounded(time_ms));
        }
        body.push_str("</tr>");
    }
    body.push_str("</tbody></table></div></section>");
}

fn checks(body: &mut String, verdict: &RehearsalVerdict) {
    body.push_str(
        "<section id=\"verdict\"><h2>What was checked</h2><p class=\"soft\">Every number has to be 0.</p>\
         <table><tbody>",
    );
    for (name, meaning, count) in words::counts(verdict) {
        let class = if count == 0 { "good" } else { "bad" };
        let _ = write!(
            body,
            "<tr><td><b>{name}</b> <span class=\"soft\">{meaning}</span></td><td class=\"{class}\"><b>{}</b></td></tr>",
            thousands(count)
        );
    }
    let (class, said) = match verdict.audit {
        Some(true) => ("good", "adds up"),
        Some(false) => ("bad", "does NOT add up"),
        None => ("soft", "was not asked"),
    };
    let _ = write!(
        body,
        "<tr><td><b>audit</b> <span class=\"soft\">the server's own comparison of its books</span></td>\
         <td class=\"{class}\"><b>{said}</b></td></tr></tbody></table>"
    );
    if !verdict.checked.is_empty() {
        body.push_str("<ul class=\"small soft\">");
        for line in &verdict.checked {
            let _ = write!(body, "<li>{}</li>", escape(line));
        }
        body.push_str("</ul>");
    }
    body.push_str("</section>");
}

fn facts(body: &mut String, report: &RehearsalReport) {
    let (generator, orders, people) = (&report.generator, &report.orders, &report.people);
    let percent = |value: f64| format!("{} %", rounded(value));
    let facts = [
        ("server", words::without_scheme(&report.url).to_owned()),
        ("sale", report.sale.clone()),
        ("started", report.started_at.clone()),
        ("took", duration(report.seconds)),
        ("seed", report.seed.to_string()),
        ("limit for one buyer", counted(report.limit_per_buyer, "unit")),
        ("were let in", thousands(people.admitted)),
        ("gave up", thousands(people.gave_up)),
        ("orders accepted", thousands(orders.accepted)),
        ("units in them", thousands(orders.units)),
        ("paid in time", thousands(orders.paid)),
        ("paid too late", thousands(orders.paid_late)),
        ("to be refunded", thousands(orders.refunds)),
        ("cancelled", thousands(orders.cancelled)),
        ("walked away", thousands(orders.walked_away)),
        ("sent again, same key", thousands(orders.repeated)),
        ("requests", format!("{}, {}/s", thousands(report.requests), rounded(report.requests_per_second))),
        (
            "order requests",
            format!("{}, {}/s", thousands(report.order_requests), rounded(report.order_requests_per_second)),
        ),
        (
            "generator",
            format!(
                "{}, {}",
                counted(generator.threads, "thread"),
                counted(generator.connections, "connection")
            ),
        ),
        ("generator busy", percent(generator.busy_percent)),
        ("sent late", percent(generator.late_percent)),
        ("waited for a connection", percent(generator.waited_for_connection_percent)),
        ("connections lost", thousands(generator.connections_lost)),
        (
            "taken by the machine's host",
            generator.steal_percent.map_or_else(|| "not known".to_owned(), percent),
        ),
    ];
    body.push_str(
        "<section id=\"facts\"><h2>For those who want to repeat it</h2><p class=\"soft\">How the run \
         was made, and how the generator itself did.</p><dl class=\"facts\">",
    );
    for (name, value) in facts {
        let _ = write!(body, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value));
    }
    body.push_str("</dl></section>");
}
