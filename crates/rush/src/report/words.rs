//! Numbers, times and reasons in words.

use std::collections::BTreeMap;

use super::{Quantiles, RehearsalReport, RehearsalVerdict};

/// Further reasons are put together as "other reasons".
pub(super) const MAX_REASONS: usize = 5;

/// Why an order was refused, for readers who don't know problem codes.
pub(super) fn reason(code: &str) -> String {
    let words = match code {
        "sold_out" => "nothing was left",
        "limit_reached" => "the buyer had reached the limit",
        "not_open" => "the sale was not open yet",
        "paused" => "the sale was paused",
        "closed" => "the sale was over",
        "busy" => "the server was busy",
        "rate_limited" => "too many requests",
        "pass_required" => "came without a pass",
        "pass_invalid" => "the pass was not valid",
        "passes_exhausted" => "all passes were given out",
        "challenge_failed" => "the challenge was not solved",
        "not_admitted" => "the buyer's turn had not come",
        "unauthorized" => "not signed in",
        "forbidden" => "not allowed",
        "idempotency_key_reused" => "the key was used for another order",
        "internal" => "the server failed",
        "unavailable" => "the server could not decide",
        // A proxy without a server behind it, for example.
        "none" => "an error without a reason",
        // The text of a server must not move the cursor.
        _ => return printable(&code.replace('_', " ")),
    };
    words.to_owned()
}

/// The kinds of requests, in the order in which a buyer makes them.
const REQUESTS: [(&str, &str); 8] = [
    ("sign_in", "sign in"),
    ("page", "look at the sale"),
    ("ticket", "take or show a ticket"),
    ("challenge", "get a challenge"),
    ("pass", "get a pass"),
    ("order", "order"),
    ("pay", "pay"),
    ("cancel", "cancel"),
];

pub(super) fn request(kind: &str) -> String {
    let known = REQUESTS.iter().find(|(name, _)| *name == kind);
    known.map_or_else(|| kind.replace('_', " "), |(_, words)| (*words).to_owned())
}

/// The kinds that were requested at all, in the order in which a buyer makes them.
pub(super) fn in_order(latency: &BTreeMap<String, Quantiles>) -> Vec<(&str, Quantiles)> {
    let place = |kind: &str| REQUESTS.iter().position(|(name, _)| *name == kind).unwrap_or(usize::MAX);
    let mut sorted: Vec<_> = latency.iter().map(|(kind, quantiles)| (kind.as_str(), *quantiles)).collect();
    sorted.retain(|(_, quantiles)| quantiles.count > 0);
    sorted.sort_by_key(|(kind, _)| place(kind));
    sorted
}

/// The numbers that must be 0, and what each would mean if it were not.
pub(super) fn counts(verdict: &RehearsalVerdict) -> [(&'static str, &'static str, u64); 5] {
    [
        ("oversold", "units promised that were never there", verdict.oversold),
        ("lost", "orders that were promised and can't be found or paid", verdict.lost),
        ("duplicated", "orders made twice from one press", verdict.duplicated),
        ("over the limit", "units beyond what one buyer may have", verdict.over_limit),
        ("unanswered", "requests that were never answered", verdict.unanswered),
    ]
}

/// The verdict as a sentence.
pub(super) fn verdict(verdict: &RehearsalVerdict) -> String {
    if verdict.is_clean() {
        return "Nobody was promised a unit that isn't there, lost one, got one twice or too many, and no request was \
                left without an answer."
            .to_owned();
    }
    let mut wrong: Vec<_> = counts(verdict)
        .into_iter()
        .filter(|(_, _, count)| *count > 0)
        .map(|(name, _, count)| format!("{} {name}", thousands(count)))
        .collect();
    if verdict.audit == Some(false) {
        wrong.push("the server's own books don't add up".to_owned());
    }
    if verdict.unchecked.is_some() {
        wrong.push("not everything could be checked".to_owned());
    }
    format!("It does NOT hold: {}.", wrong.join(", "))
}

/// What the server's audit adds to a clean verdict.
pub(super) fn books(verdict: &RehearsalVerdict) -> Option<&'static str> {
    verdict.is_clean().then_some(match verdict.audit {
        Some(_) => "The server's own books say the same.",
        None => "The server's own books could not be asked.",
    })
}

/// Who came, bots included if there are any.
pub(super) fn crowd(report: &RehearsalReport) -> &'static str {
    if report.people.bots > 0 { "people and bots" } else { "people" }
}

/// The page contains no URL: that is easier to trust.
pub(super) fn without_scheme(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, rest)| rest)
}

/// Makes text from elsewhere safe for a terminal: only line breaks stay, other control characters become
/// dots.
pub(crate) fn printable(text: &str) -> String {
    text.replace(|character: char| character.is_control() && character != '\n', "·")
}

/// The codes with the most refusals, the most frequent first, and how many refusals had other codes.
pub(super) fn most_frequent(refused: &BTreeMap<String, u64>, most: usize) -> (Vec<(&str, u64)>, u64) {
    let mut sorted: Vec<_> = refused.iter().map(|(code, count)| (code.as_str(), *count)).collect();
    sorted.retain(|(_, count)| *count > 0);
    // The sort is stable: equal counts stay in the order of their codes.
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let rest = sorted.iter().skip(most).map(|(_, count)| count).sum();
    sorted.truncate(most);
    (sorted, rest)
}

/// Why orders, payments and cancellations were refused, the most frequent reasons first, and how many
/// refusals had other reasons. Failures of the server are listed even if they are rare.
pub(super) fn refusals(report: &RehearsalReport, most: usize) -> (Vec<(String, u64)>, u64) {
    let orders = report.refused.iter().map(|(code, count)| (is_failure(code), reason(code), *count));
    let settling = settling_refusals(report).into_iter();
    let settling = settling.map(|(code, reason, count)| (is_failure(code), reason, count));
    let mut rows: Vec<_> = orders.chain(settling).filter(|(_, _, count)| *count > 0).collect();
    let by_count = |(_, _, count): &(bool, String, u64)| std::cmp::Reverse(*count);
    rows.sort_by_key(by_count);
    if let Some((_, others)) = rows.split_first_mut() {
        others.sort_by_key(|(is_failure, _, count)| std::cmp::Reverse((*is_failure, *count)));
    }
    let rest = rows.iter().skip(most).map(|(_, _, count)| count).sum();
    rows.truncate(most);
    rows.sort_by_key(by_count);
    (rows.into_iter().map(|(_, reason, count)| (reason, count)).collect(), rest)
}

/// Why payments and cancellations were refused: code, words and count.
pub(super) fn settling_refusals(report: &RehearsalReport) -> Vec<(&str, String, u64)> {
    let kinds = [("pay", &report.pay_refused), ("cancel", &report.cancel_refused)];
    let refusals = kinds
        .into_iter()
        .flat_map(|(kind, refused)| refused.iter().map(move |(code, count)| (kind, code.as_str(), *count)));
    refusals
        .map(|(kind, code, count)| (code, format!("{}: {}", request(kind), reason(code)), count))
        .collect()
}

/// A failure of the server, not a rule of a sale or a fault of the buyer.
fn is_failure(code: &str) -> bool {
    matches!(code, "unavailable" | "internal" | "unauthorized" | "forbidden" | "none")
}

/// Adds a full stop, unless there is one.
pub fn sentence(mut text: String) -> String {
    if !text.ends_with(['.', '!', '?']) {
        text.push('.');
    }
    text
}

/// 30000 as "30,000".
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A measured value: three digits are enough, and large numbers get their commas.
pub fn rounded(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        "–".to_owned()
    } else if size >= 1000.0 {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}{}", thousands(size.round() as u64))
    } else {
        let places = match size {
            _ if size >= 100.0 => 0,
            _ if size >= 10.0 => 1,
            _ if size >= 0.1 => 2,
            _ => 3,
        };
        let text = format!("{value:.places$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    }
}

/// A length of time in a suitable unit.
pub(super) fn duration(seconds: f64) -> String {
    let size = seconds.abs();
    if size < 1.0 {
        format!("{} ms", rounded(seconds * 1000.0))
    } else if size < 120.0 {
        format!("{} s", rounded(seconds))
    } else {
        let whole = size.round() as u64;
        format!("{} min {} s", thousands(whole / 60), whole % 60)
    }
}

/// "1 unit", "2 units".
pub(super) fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", thousands(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_people_write_them() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(10_000_000), "10,000,000");
        assert_eq!(rounded(31.25), "31.2");
        assert_eq!(rounded(0.5), "0.5");
        assert_eq!(rounded(100.0), "100");
        assert_eq!(rounded(-12_345.6), "-12,346");
        assert_eq!(rounded(f64::NAN), "–");
        assert_eq!(duration(0.31), "310 ms");
        assert_eq!(duration(2.5), "2.5 s");
        assert_eq!(duration(125.0), "2 min 5 s");
        assert_eq!(counted(1, "unit"), "1 unit");
        assert_eq!(counted(2000, "unit"), "2,000 units");
    }

    #[test]
    fn the_most_frequent_reasons_come_first_and_the_others_are_counted() {
        let refused = [("busy", 3), ("closed", 0), ("not_open", 1), ("paused", 1), ("sold_out", 9)];
        let refused = refused.map(|(code, count)| (code.to_owned(), count)).into();
        let (first, rest) = most_frequent(&refused, 2);
        assert_eq!(first, [("sold_out", 9), ("busy", 3)]);
        assert_eq!(rest, 2);
    }

    #[test]
    fn a_sentence_has_one_full_stop() {
        assert_eq!(sentence("401: send a Bearer.".to_owned()), "401: send a Bearer.");
        assert_eq!(sentence("connection refused".to_owned()), "connection refused.");
    }

    #[test]
    fn an_unknown_code_is_shown_as_it_is() {
        assert_eq!(reason("out_of_cheese"), "out of cheese");
        assert_eq!(reason("\u{1b}[2J"), "·[2J");
    }
}
