//! Counts answers by status and by problem code, and records their latency.

use std::{collections::BTreeMap, time::Duration};

use penstock_rush::{connection::HttpAnswer, latency::LatencyHistogram};

/// The most problem codes that are told apart; further ones count as `other`.
const MAX_CODES: usize = 64;

/// How connections were lost, and the requests lost with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Broken off by the server.
    pub resets: u64,
    /// Closed by the server without an announcement.
    pub closed: u64,
    /// Refused, not speaking HTTP, or not taking a whole request.
    pub other: u64,
    /// Requests that were sent and never answered.
    pub missing: u64,
}

impl Losses {
    fn add(&mut self, other: &Self) {
        self.resets += other.resets;
        self.closed += other.closed;
        self.other += other.other;
        self.missing += other.missing;
    }
}

/// The latency of an answer, from when its request was due and from when it was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Took {
    pub(super) since_due: Duration,
    pub(super) since_sent: Duration,
}

/// The counted answers.
#[derive(Clone, Debug, Default)]
pub struct AnswerTally {
    pub answers: u64,
    /// Connections lost, refused or out of step with HTTP; each leaves at most one request unanswered.
    pub errors: u64,
    pub losses: Losses,
    statuses: BTreeMap<u16, u64>,
    codes: BTreeMap<String, u64>,
    /// Latency of yes answers (2xx), from when their requests were due: waiting for a connection counts.
    pub accepted_latency: LatencyHistogram,
    /// The same for all other answers.
    pub refused_latency: LatencyHistogram,
    /// From when the requests were sent: waiting inside the generator does not count.
    pub accepted_service: LatencyHistogram,
    pub refused_service: LatencyHistogram,
    /// The last problem body and how often it has come: refusals repeat byte for byte.
    last_problem: Vec<u8>,
    last_problem_count: u64,
}

impl AnswerTally {
    pub(super) fn count(&mut self, answer: &HttpAnswer<'_>, took: Took) {
        self.answers += 1;
        *self.statuses.entry(answer.status).or_default() += 1;
        let accepted = (200..300).contains(&answer.status);
        let (latency, service) = if accepted {
            (&mut self.accepted_latency, &mut self.accepted_service)
        } else {
            (&mut self.refused_latency, &mut self.refused_service)
        };
        latency.record(took.since_due);
        service.record(took.since_sent);
        if answer.status >= 400 {
            if self.last_problem != answer.body {
                self.flush_problem();
                self.last_problem.extend_from_slice(answer.body);
            }
            self.last_problem_count += 1;
        }
    }

    /// Counts the repeats of the last problem under its code.
    pub(super) fn flush_problem(&mut self) {
        if self.last_problem_count > 0 {
            let code = problem_code(&self.last_problem).unwrap_or_else(|| "none".to_owned());
            let known = self.codes.len() < MAX_CODES || self.codes.contains_key(&code);
            let code = if known { code } else { "other".to_owned() };
            *self.codes.entry(code).or_default() += self.last_problem_count;
        }
        self.last_problem.clear();
        self.last_problem_count = 0;
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.answers += other.answers;
        self.errors += other.errors;
        self.losses.add(&other.losses);
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        for (code, count) in &other.codes {
            *self.codes.entry(code.clone()).or_default() += count;
        }
        self.accepted_latency.add(&other.accepted_latency);
        self.refused_latency.add(&other.refused_latency);
        self.accepted_service.add(&other.accepted_service);
        self.refused_service.add(&other.refused_service);
    }

    /// The latency of all answers, from when their requests were due.
    pub fn latency(&self) -> LatencyHistogram {
        let mut latency = self.accepted_latency.clone();
        latency.add(&self.refused_latency);
        latency
    }

    pub fn status(&self, status: u16) -> u64 {
        self.statuses.get(&status).copied().unwrap_or(0)
    }

    pub fn codes(&self) -> &BTreeMap<String, u64> {
        &self.codes
    }

    /// What came, for an error.
    pub fn in_words(&self) -> String {
        format!("{:?}, codes {:?}, lost {:?}", self.statuses, self.codes, self.losses)
    }

    pub fn code(&self, code: &str) -> u64 {
        self.codes.get(code).copied().unwrap_or(0)
    }
}

/// A scan instead of a parse: refusals of several kinds may alternate, and each change comes here.
fn problem_code(body: &[u8]) -> Option<String> {
    const FIELD: &[u8] = b"\"code\":\"";
    let start = body.windows(FIELD.len()).position(|window| window == FIELD)? + FIELD.len();
    let rest = body.get(start..)?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    Some(String::from_utf8_lossy(rest.get(..end)?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(body: &[u8]) -> HttpAnswer<'_> {
        HttpAnswer { status: 409, body, total_bytes: body.len(), closes: false, retry_after_seconds: None }
    }

    #[test]
    fn problems_are_counted_by_code() {
        let mut tally = AnswerTally::default();
        for body in
            [br#"{"code":"sold_out"}"#.as_slice(), br#"{"code":"sold_out"}"#, br#"{"code":"busy"}"#, b"?"]
        {
            tally.count(&problem(body), took(5, 5));
        }
        tally.flush_problem();
        assert_eq!(tally.status(409), 4);
        let counts: Vec<_> = tally.codes().iter().map(|(code, count)| (code.as_str(), *count)).collect();
        assert_eq!(counts, [("busy", 1), ("none", 1), ("sold_out", 2)]);
    }

    fn took(since_due: u64, since_sent: u64) -> Took {
        let (since_due, since_sent) = (Duration::from_micros(since_due), Duration::from_micros(since_sent));
        Took { since_due, since_sent }
    }

    #[test]
    fn the_latencies_of_accepted_and_refused_requests_are_kept_apart() {
        let mut tally = AnswerTally::default();
        let accepted =
            HttpAnswer { status: 201, body: b"", total_bytes: 0, closes: false, retry_after_seconds: None };
        tally.count(&accepted, took(8_000, 2_000));
        tally.count(&problem(b"?"), took(400, 100));
        let microseconds = |latency: &LatencyHistogram| latency.quantile(0.5).as_micros();
        assert!((7_990..=8_010).contains(&microseconds(&tally.accepted_latency)));
        assert!((1_990..=2_010).contains(&microseconds(&tally.accepted_service)));
        assert!((399..=401).contains(&microseconds(&tally.refused_latency)));
        assert!((99..=101).contains(&microseconds(&tally.refused_service)));
    }
}
