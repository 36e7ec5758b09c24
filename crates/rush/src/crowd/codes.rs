//! Problem codes that are told apart and counted without making a text for each answer.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// The most unknown codes that are told apart; further ones count as `other`.
const MAX_UNKNOWN: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RefusalCode(&'static str);

impl RefusalCode {
    /// The answer is not a problem, or names no code.
    pub(super) const NONE: Self = Self("none");
    pub(super) const OTHER: Self = Self("other");
    pub(super) const SOLD_OUT: Self = Self("sold_out");
    pub(super) const NOT_OPEN: Self = Self("not_open");
    pub(super) const PAUSED: Self = Self("paused");
    pub(super) const PASS_REQUIRED: Self = Self("pass_required");
    pub(super) const PASS_INVALID: Self = Self("pass_invalid");
    pub(super) const PASSES_EXHAUSTED: Self = Self("passes_exhausted");
    pub(super) const NOT_ADMITTED: Self = Self("not_admitted");
    pub(super) const CHALLENGE_FAILED: Self = Self("challenge_failed");
    pub(super) const TICKET_NOT_FOUND: Self = Self("ticket_not_found");
    pub(super) const BUSY: Self = Self("busy");
    pub(super) const REFUND_DUE: Self = Self("refund_due");
    pub(super) const HOLD_EXPIRED: Self = Self("hold_expired");
}

/// The names of all codes that have come. A name is kept for the life of the process, so a code is a
/// reference to it; there are only a few.
static NAMES: CodeNames = CodeNames(Mutex::new(Vec::new()));

struct CodeNames(Mutex<Vec<&'static str>>);

impl CodeNames {
    fn code(&self, name: &str) -> RefusalCode {
        let mut names = self.0.lock();
        if let Some(known) = names.iter().find(|known| **known == name) {
            return RefusalCode(known);
        }
        if names.len() >= MAX_UNKNOWN {
            return RefusalCode::OTHER;
        }
        let name: &'static str = Box::leak(Box::from(name));
        names.push(name);
        RefusalCode(name)
    }
}

/// How often each code came.
#[derive(Clone, Debug, Default)]
pub(super) struct CodeCounts(Vec<(RefusalCode, u64)>);

impl CodeCounts {
    pub(super) fn count(&mut self, code: RefusalCode) {
        self.count_many(code, 1);
    }

    fn count_many(&mut self, code: RefusalCode, times: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == code) {
            Some((_, count)) => *count += times,
            None => self.0.push((code, times)),
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (code, times) in &other.0 {
            self.count_many(*code, *times);
        }
    }

    pub(super) fn named(&self) -> BTreeMap<String, u64> {
        self.0.iter().map(|(code, count)| (code.0.to_owned(), *count)).collect()
    }
}

/// Finds the code of a problem's body. Refusals repeat byte for byte, so the last one is compared first.
#[derive(Debug)]
pub(super) struct CodeReader {
    last_body: Vec<u8>,
    last: RefusalCode,
}

impl CodeReader {
    pub(super) fn new() -> Self {
        Self { last_body: Vec::new(), last: RefusalCode::NONE }
    }

    pub(super) fn read(&mut self, body: &[u8]) -> RefusalCode {
        if self.last_body != body {
            self.last = problem_code(body).map_or(RefusalCode::NONE, |name| NAMES.code(name));
            self.last_body.clear();
            self.last_body.extend_from_slice(body);
        }
        self.last
    }
}

/// A scan instead of a parse: the bodies of some refusals differ each time.
fn problem_code(body: &[u8]) -> Option<&str> {
    const FIELD: &[u8] = b"\"code\":\"";
    let start = body.windows(FIELD.len()).position(|window| window == FIELD)? + FIELD.len();
    let rest = body.get(start..)?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(rest.get(..end)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_the_same_for_every_reader() {
        let [mut first, mut second] = [CodeReader::new(), CodeReader::new()];
        let code = first.read(br#"{"status":418,"code":"teapot"}"#);
        assert_eq!(second.read(br#"{"code":"teapot","status":418}"#), code);
        assert_eq!(first.read(br#"{"code":"sold_out"}"#), RefusalCode::SOLD_OUT);
        assert_eq!(second.read(b"<html>"), RefusalCode::NONE);
        let mut counts = CodeCounts::default();
        counts.count(code);
        counts.count(RefusalCode::SOLD_OUT);
        counts.count(code);
        let named: Vec<_> = counts.named().into_iter().collect();
        assert_eq!(named, [("sold_out".to_owned(), 1), ("teapot".to_owned(), 2)]);
    }

    #[test]
    fn too_many_codes_count_as_other() {
        let names = CodeNames(Mutex::default());
        for number in 0..300 {
            names.code(&format!("code-{number}"));
        }
        assert_eq!(names.code("one-more"), RefusalCode::OTHER);
    }
}
