//! Answers as bytes: those of the latch written once and only given the date of the second, those of the ledger
//! written around their body.

use std::{
    cell::RefCell,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use hyper::{
    HeaderMap,
    header::{CONNECTION, HeaderValue},
};
use penstock_domain::{Order, Timestamp};

use crate::{
    problem::{Code, PROBLEM_JSON, Problem},
    storefront::Details,
    tally::Outcome,
};

const DATE_BYTES: usize = 29;

thread_local! {
    /// A body is written here first, because its length comes before it.
    static BODY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// One answer: what comes before the date, and what comes after it.
#[derive(Debug)]
struct Refusal {
    code: Code,
    before_date: Vec<u8>,
    after_date: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Refusals([Refusal; 4]);

impl Refusals {
    pub(crate) fn new(type_base: &str) -> Self {
        let refusal = |code: Code| {
            let body = Problem::new(code).body(type_base);
            let before_date = format!(
                "HTTP/1.1 {}\r\ncontent-type: {}\r\ncontent-length: {}\r\ndate: ",
                code.status(),
                PROBLEM_JSON.to_str().unwrap_or_default(),
                body.len()
            );
            Refusal {
                code,
                before_date: before_date.into_bytes(),
                after_date: [b"\r\n\r\n", &*body].concat(),
            }
        };
        Self([Code::SoldOut, Code::NotOpen, Code::Paused, Code::Closed].map(refusal))
    }

    pub(super) fn write(&self, code: Code, date: &[u8; DATE_BYTES], answers: &mut Vec<u8>) {
        let refusal = self.0.iter().find(|refusal| refusal.code == code).unwrap_or(&self.0[0]);
        answers.extend_from_slice(&refusal.before_date);
        answers.extend_from_slice(date);
        answers.extend_from_slice(&refusal.after_date);
    }
}

/// Writes the answer to a claim that the ledger decided; answers how it counts.
pub(super) fn write_decided(
    decided: &Result<(Order, Arc<Details>), Problem>,
    type_base: &str,
    date: &[u8; DATE_BYTES],
    answers: &mut Vec<u8>,
) -> Outcome {
    match decided {
        Ok((order, details)) => BODY.with_borrow_mut(|body| {
            body.clear();
            details.order_template.write(order, body);
            answers.extend_from_slice(b"HTTP/1.1 201 Created\r\ncontent-type: application/json\r\n");
            write_rest(body, date, answers);
            Outcome::Accepted
        }),
        Err(problem) => {
            let mut headers = HeaderMap::new();
            problem.write_headers(&mut headers);
            write_problem(problem, &headers, type_base, date, answers);
            Outcome::Refused(problem.code)
        }
    }
}

/// Refuses what is no request, as the last answer of the connection.
pub(super) fn write_last_refusal(type_base: &str, date: &[u8; DATE_BYTES], answers: &mut Vec<u8>) {
    let problem = Problem::from(Code::BadRequest);
    let mut headers = HeaderMap::new();
    problem.write_headers(&mut headers);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    write_problem(&problem, &headers, type_base, date, answers);
}

fn write_problem(
    problem: &Problem,
    headers: &HeaderMap,
    type_base: &str,
    date: &[u8; DATE_BYTES],
    answers: &mut Vec<u8>,
) {
    answers.extend_from_slice(format!("HTTP/1.1 {}\r\n", problem.code.status()).as_bytes());
    for (name, value) in headers {
        answers.extend_from_slice(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    write_rest(&problem.body(type_base), date, answers);
}

fn write_rest(body: &[u8], date: &[u8; DATE_BYTES], answers: &mut Vec<u8>) {
    answers.extend_from_slice(b"content-length: ");
    answers.extend_from_slice(itoa::Buffer::new().format(body.len()).as_bytes());
    answers.extend_from_slice(b"\r\ndate: ");
    answers.extend_from_slice(date);
    answers.extend_from_slice(b"\r\n\r\n");
    answers.extend_from_slice(body);
}

/// The date as HTTP writes it, written anew once a second.
#[derive(Debug)]
pub(super) struct DateCache {
    second: i64,
    text: [u8; DATE_BYTES],
}

impl Default for DateCache {
    fn default() -> Self {
        Self { second: i64::MIN, text: [b' '; DATE_BYTES] }
    }
}

impl DateCache {
    pub(super) fn at(&mut self, now: Timestamp) -> &[u8; DATE_BYTES] {
        let second = now.as_millis().div_euclid(1000);
        if second != self.second {
            self.second = second;
            let moment = UNIX_EPOCH + Duration::from_secs(u64::try_from(second).unwrap_or(0));
            let text = httpdate::fmt_http_date(moment);
            if let Ok(text) = text.as_bytes().try_into() {
                self.text = text;
            }
        }
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_complete() {
        let mut answers = Vec::new();
        let mut date = DateCache::default();
        let refusals = Refusals::new("/errors/");
        refusals.write(Code::Paused, date.at(Timestamp::from_millis(1_800_000_000_999)), &mut answers);
        let text = String::from_utf8(answers).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert_eq!(
            head,
            format!(
                "HTTP/1.1 409 Conflict\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
                 date: Fri, 15 Jan 2027 08:00:00 GMT",
                body.len()
            )
        );
        assert_eq!(body.as_bytes(), Problem::new(Code::Paused).body("/errors/"));
    }
}
