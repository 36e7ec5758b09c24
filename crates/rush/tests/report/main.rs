//! How a rehearsal is shown: what the page and the summary must say, and what a page must never contain.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod sample;

use std::{fs, path::Path};

use penstock_rush::report::{self, RehearsalReport};

/// Also writes the page to the target folder, so that a person can look at it.
fn page(name: &str, report: &RehearsalReport) -> String {
    let page = report::html(report).unwrap();
    fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("rehearsal-{name}.html")), &page).unwrap();
    page
}

fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn the_page_has_the_verdict_and_every_plot() {
    let page = page("classic", &sample::thirty_thousand());
    assert_has(
        &page,
        &["The sale held.", "Nobody was promised a unit that isn&#39;t there", "30,000", "168 ms"],
    );
    for id in ["demand", "stock", "outcomes", "waiting", "histogram"] {
        let (_, section) = page.split_once(&format!("<section id=\"{id}\">")).unwrap();
        let (section, _) = section.split_once("</section>").unwrap();
        assert_has(section, &["<svg class=\"plot wide\"", "<svg class=\"plot narrow\"", "aria-label="]);
        assert!(section.contains("<polygon") || section.contains("<polyline"), "{id} is empty");
        let over_time = id != "histogram";
        assert_eq!(section.contains("opening\n</text>"), over_time, "{id}");
        assert_eq!(section.contains("stock gone, 168 ms"), over_time, "{id}");
    }
    assert_has(&page, &["<section id=\"reasons\">", "nothing was left", "29,800"]);
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    for (name, report) in [("classic", sample::thirty_thousand()), ("broken", sample::broken())] {
        let page = page(name, &report);
        for never in ["http://", "https://", "<script", "<link", "src=", "url(", "@import", "style=\""] {
            assert!(!page.contains(never), "{never} is in the page");
        }
    }
}

#[test]
fn outside_text_is_only_text_on_the_page() {
    let page = page("broken", &sample::broken());
    assert_has(&page, &["bots &amp; &lt;script&gt;alert(1)", "Order 1 is in nobody&#39;s &lt;books&gt;."]);
    assert!(!page.contains("<b>new") && !page.contains("<books>"));
    assert_has(&page, &["The sale did not hold.", "It does NOT hold: 2 oversold, 1,300 unanswered"]);
    assert_has(&page, &["Read the times with care.", "What became of the bots"]);
}

#[test]
fn a_long_run_is_thinned_out() {
    let page = page("long", &sample::ten_million());
    assert!(page.len() < 200_000, "{} bytes", page.len());
    assert_has(&page, &["10,000,000", "stock gone, 200 ms"]);
}

#[test]
fn an_empty_run_still_has_a_page() {
    let mut report = sample::thirty_thousand();
    report.timeline.clear();
    report.histogram.clear();
    report.refused.clear();
    report.latency.clear();
    report.slice_ms = 0;
    assert_has(&page("empty", &report), &["No order was refused."]);
    let text = report::text(&report);
    assert!(!text.contains("refused because"), "{text}");
}

#[test]
fn the_summary_of_a_clean_run_says_that_all_promises_were_kept() {
    let text = report::text(&sample::thirty_thousand());
    assert_has(
        &text,
        &[
            "The 200 units were gone 168 ms after the opening; everybody had a yes or a no after 874 ms.",
            "30,000 of 30,000 people came",
            "nothing was left",
            "the generator kept up",
            "Nobody was promised a unit that isn't there",
            "The server's own books say the same.",
        ],
    );
    assert!(!text.contains("NOT"), "{text}");
    assert!(text.lines().count() <= 30, "{text}");
}

#[test]
fn the_summary_of_a_broken_run_says_what_is_wrong() {
    let text = report::text(&sample::broken());
    assert_has(
        &text,
        &[
            "NOT everybody got a yes or a no",
            "3 of the 2,000 bots got a unit; bots were refused 56,626 times, mostly: came without a pass.",
            "5 paid late, 2 paid too late and to be refunded",
            "READ THE TIMES WITH CARE: 3.1 % of the requests were sent late.",
            "It does NOT hold: 2 oversold, 1,300 unanswered, the server's own books don't add up.",
            "- Order 3 is in nobody's <books>.",
            "… and 2 more findings",
        ],
    );
    assert!(!text.contains("Nobody was") && !text.contains('\u{1b}'), "{text}");
    assert!(text.lines().count() <= 30, "{} lines:\n{text}", text.lines().count());
}

#[test]
fn the_longest_summary_of_a_clean_run_fits_on_a_screen() {
    let text =
        report::text(&RehearsalReport { verdict: sample::thirty_thousand().verdict, ..sample::broken() });
    assert_has(&text, &["other reasons", "get a pass", "Nobody was"]);
    assert!(text.lines().count() <= 30, "{} lines:\n{text}", text.lines().count());
}

#[test]
fn an_outage_shows_however_many_orders_were_refused_as_sold_out() {
    let mut report = sample::thirty_thousand();
    report.pay_refused.insert("unavailable".to_owned(), 57);
    report.cancel_refused.insert("unauthorized".to_owned(), 2);
    let text = report::text(&report);
    let reasons = ["nothing was left", "pay: the server could not decide", "cancel: not signed in"];
    assert_has(&text, &reasons);
    assert_has(&text, &["other reasons"]);
    assert_has(&page("outage", &report), &reasons);
    assert!(text.lines().count() <= 30, "{} lines:\n{text}", text.lines().count());
}

#[test]
fn a_verdict_without_an_audit_says_so() {
    let mut report = sample::thirty_thousand();
    report.verdict.audit = None;
    assert_has(&report::text(&report), &["Nobody was", "The server's own books could not be asked."]);
}
