//! Counts answers by status and by problem code, and their latency.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;

use super::Answer;

/// Latencies in nanoseconds, to three digits, up to a minute.
#[derive(Clone, Debug)]
pub struct Latency(Option<Histogram<u64>>);

const LONGEST_NANOSECONDS: u64 = 60_000_000_000;
const SHORTEST_NANOSECONDS: u64 = 1_000;
const DIGITS: u8 = 3;

impl Default for Latency {
    fn default() -> Self {
        // The bounds are constants that the histogram accepts; a test holds it.
        Self(Histogram::new_with_bounds(SHORTEST_NANOSECONDS, LONGEST_NANOSECONDS, DIGITS).ok())
    }
}

impl Latency {
    fn record(&mut self, latency: Duration) {
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    fn add(&mut self, other: &Self) {
        if let (Some(histogram), Some(other)) = (&mut self.0, &other.0) {
            // Both have the same bounds, so nothing can be out of range.
            let _ = histogram.add(other);
        }
    }

    pub fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.0.as_ref().map_or(0, |histogram| histogram.value_at_quantile(quantile)))
    }
}

/// Problem codes are kept apart up to this many; a server that sends more counts as sending `other`.
const MAX_CODES: usize = 64;

/// What came back.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub answers: u64,
    /// Connections lost, refused or out of step with HTTP; each leaves at most one request unanswered.
    pub errors: u64,
    statuses: BTreeMap<u16, u64>,
    codes: BTreeMap<String, u64>,
    pub latency: Latency,
    /// The last problem body and how often it came since: refusals repeat byte for byte.
    last_problem: Vec<u8>,
    last_problem_count: u64,
}

impl Tally {
    pub(super) fn count(&mut self, answer: &Answer<'_>, latency: Duration) {
        self.answers += 1;
        *self.statuses.entry(answer.status).or_default() += 1;
        self.latency.record(latency);
        if answer.status >= 400 {
            if self.last_problem != answer.body {
                self.flush_problem();
                self.last_problem.extend_from_slice(answer.body);
            }
            self.last_problem_count += 1;
        }
    }

    /// Books the repeats of the last problem under its code.
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
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        for (code, count) in &other.codes {
            *self.codes.entry(code.clone()).or_default() += count;
        }
        self.latency.add(&other.latency);
    }

    pub fn status(&self, status: u16) -> u64 {
        self.statuses.get(&status).copied().unwrap_or(0)
    }

    pub fn statuses(&self) -> &BTreeMap<u16, u64> {
        &self.statuses
    }

    pub fn codes(&self) -> &BTreeMap<String, u64> {
        &self.codes
    }
}

fn problem_code(body: &[u8]) -> Option<String> {
    let problem: serde_json::Value = serde_json::from_slice(body).ok()?;
    Some(problem.get("code")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(body: &[u8]) -> Answer<'_> {
        Answer { status: 409, body, total_bytes: body.len(), closes: false }
    }

    #[test]
    fn problems_are_counted_by_code() {
        let mut tally = Tally::default();
        for body in
            [br#"{"code":"sold_out"}"#.as_slice(), br#"{"code":"sold_out"}"#, br#"{"code":"busy"}"#, b"?"]
        {
            tally.count(&problem(body), Duration::from_micros(5));
        }
        tally.flush_problem();
        assert_eq!(tally.status(409), 4);
        let counts: Vec<_> = tally.codes().iter().map(|(code, count)| (code.as_str(), *count)).collect();
        assert_eq!(counts, [("busy", 1), ("none", 1), ("sold_out", 2)]);
    }

    #[test]
    fn latencies_are_kept_to_three_digits() {
        let mut latency = Latency::default();
        for microseconds in 1..=1000 {
            latency.record(Duration::from_micros(microseconds));
        }
        let median = latency.quantile(0.5).as_micros();
        assert!((499..=501).contains(&median), "{median}");
    }
}
