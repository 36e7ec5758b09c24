//! Problem codes as small numbers, so that refusals can be compared and counted without strings.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// The most codes that are told apart; further ones count as `other`.
const MAX_CODES: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProblemCode(u8);

macro_rules! known_codes {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        impl ProblemCode {
            $(pub(super) const $name: Self = Self($number);)*
        }
        const KNOWN: &[&str] = &[$($text,)*];
    };
}

known_codes! {
    // The answer is not a problem, or names no code.
    NONE = 0, "none";
    OTHER = 1, "other";
    SOLD_OUT = 2, "sold_out";
    NOT_OPEN = 3, "not_open";
    PAUSED = 4, "paused";
    PASS_REQUIRED = 5, "pass_required";
    PASS_INVALID = 6, "pass_invalid";
    PASSES_EXHAUSTED = 7, "passes_exhausted";
    NOT_ADMITTED = 8, "not_admitted";
    CHALLENGE_FAILED = 9, "challenge_failed";
    TICKET_NOT_FOUND = 10, "ticket_not_found";
    BUSY = 11, "busy";
    REFUND_DUE = 12, "refund_due";
    HOLD_EXPIRED = 13, "hold_expired";
}

/// The names behind the numbers, shared by all threads of a run.
#[derive(Clone, Debug)]
pub(super) struct CodeNames(Arc<Mutex<Vec<String>>>);

impl CodeNames {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(KNOWN.iter().map(|name| (*name).to_owned()).collect())))
    }

    fn code(&self, name: &str) -> ProblemCode {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let position = names.iter().position(|known| known == name);
        let position = position.unwrap_or_else(|| {
            if names.len() >= MAX_CODES {
                return usize::from(ProblemCode::OTHER.0);
            }
            names.push(name.to_owned());
            names.len() - 1
        });
        u8::try_from(position).map_or(ProblemCode::OTHER, ProblemCode)
    }

    fn name(&self, code: ProblemCode) -> String {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(usize::from(code.0)).cloned().unwrap_or_default()
    }

    pub(super) fn named(&self, counts: &CodeCounts) -> BTreeMap<String, u64> {
        let code = |position| u8::try_from(position).map_or(ProblemCode::OTHER, ProblemCode);
        let counts = counts.0.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(position, count)| (self.name(code(position)), *count)).collect()
    }
}

/// How often each code came.
#[derive(Clone, Debug, Default)]
pub(super) struct CodeCounts(Vec<u64>);

impl CodeCounts {
    pub(super) fn count(&mut self, code: ProblemCode) {
        self.count_many(code, 1);
    }

    fn count_many(&mut self, code: ProblemCode, times: u64) {
        let position = usize::from(code.0);
        if self.0.len() <= position {
            self.0.resize(position + 1, 0);
        }
        if let Some(count) = self.0.get_mut(position) {
            *count += times;
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (position, count) in other.0.iter().enumerate() {
            self.count_many(u8::try_from(position).map_or(ProblemCode::OTHER, ProblemCode), *count);
        }
    }
}

/// Finds the code of a problem's body. Refusals repeat byte for byte, so the last one is compared first.
#[derive(Debug)]
pub(super) struct CodeReader {
    names: CodeNames,
    last_body: Vec<u8>,
    last: ProblemCode,
}

impl CodeReader {
    pub(super) fn new(names: CodeNames) -> Self {
        Self { names, last_body: Vec::new(), last: ProblemCode::NONE }
    }

    pub(super) fn read(&mut self, body: &[u8]) -> ProblemCode {
        if self.last_body != body {
            self.last = problem_code(body).map_or(ProblemCode::NONE, |name| self.names.code(name));
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
    fn the_numbers_of_known_codes_are_their_places() {
        let names = CodeNames::new();
        for (code, name) in [
            (ProblemCode::SOLD_OUT, "sold_out"),
            (ProblemCode::HOLD_EXPIRED, "hold_expired"),
            (ProblemCode::NONE, "none"),
        ] {
            assert_eq!(names.code(name), code);
            assert_eq!(names.name(code), name);
        }
    }

    #[test]
    fn a_new_code_keeps_its_name_in_every_thread() {
        let names = CodeNames::new();
        let mut first = CodeReader::new(names.clone());
        let mut second = CodeReader::new(names.clone());
        let code = first.read(br#"{"status":418,"code":"teapot"}"#);
        assert_eq!(second.read(br#"{"code":"teapot","status":418}"#), code);
        assert_eq!(second.read(b"<html>"), ProblemCode::NONE);
        let mut counts = CodeCounts::default();
        counts.count(code);
        counts.count(ProblemCode::SOLD_OUT);
        counts.count(code);
        let named = names.named(&counts);
        assert_eq!(
            named.into_iter().collect::<Vec<_>>(),
            [("sold_out".to_owned(), 1), ("teapot".to_owned(), 2)]
        );
    }

    #[test]
    fn too_many_codes_count_as_other() {
        let names = CodeNames::new();
        for number in 0..300 {
            names.code(&format!("code-{number}"));
        }
        assert_eq!(names.code("one-more"), ProblemCode::OTHER);
    }
}
