//! Answers as bytes. Refusals are prepared and only need the current date; orders and sales are written
//! around their body. It does not know why something is refused.

use std::{
    cell::RefCell,
    time::{Duration, UNIX_EPOCH},
};

use hyper::{
    HeaderMap,
    header::{CONNECTION, HeaderValue},
};
use penstock_domain::{Order, Timestamp};
use penstock_shop::{
    Code,
    storefront::{OrderForm, WrittenSale},
};

use crate::contract::{
    answer::REVALIDATE,
    problem::{Problem, status_of},
    wire,
};

const DATE_BYTES: usize = 29;
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

thread_local! {
    /// A body is written here first, because its length comes before it.
    static BODY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// One answer: the part before the date and the part after it.
#[derive(Debug)]
struct Canned {
    problem: Problem,
    before_date: Vec<u8>,
    after_date: Vec<u8>,
}

/// The refusals of all codes, prepared.
#[derive(Debug)]
pub(super) struct PreparedRefusals {
    /// In the order of `Code::ALL`.
    canned: Vec<Canned>,
    type_base: String,
}

impl PreparedRefusals {
    pub(super) fn new(type_base: &str) -> Self {
        let can = |code: &Code| {
            let problem = Problem::new(*code);
            let mut bytes = Vec::new();
            write_problem(&problem, &headers_of(&problem), type_base, &[b' '; DATE_BYTES], &mut bytes);
            let body_bytes = problem.body(type_base).len() + END_OF_HEAD.len();
            let after_date = bytes.split_off(bytes.len() - body_bytes);
            bytes.truncate(bytes.len() - DATE_BYTES);
            Canned { problem, before_date: bytes, after_date }
        };
        Self { canned: Code::ALL.iter().map(can).collect(), type_base: type_base.to_owned() }
    }

    /// Writes the refusal of this code without a more specific detail.
    fn write(&self, code: Code, date: &[u8; DATE_BYTES], answers: &mut Vec<u8>) {
        let canned = &self.canned[code as usize];
        answers.extend_from_slice(&canned.before_date);
        answers.extend_from_slice(date);
        answers.extend_from_slice(&canned.after_date);
    }

    pub(super) fn write_problem(&self, problem: &Problem, date: &[u8; DATE_BYTES], answers: &mut Vec<u8>) {
        if *problem == self.canned[problem.code as usize].problem {
            self.write(problem.code, date, answers);
        } else {
            write_problem(problem, &headers_of(problem), &self.type_base, date, answers);
        }
    }

    /// Writes a refusal as the last answer of the connection.
    pub(super) fn write_last(&self, problem: &Problem, date: &[u8; DATE_BYTES], answers: &mut Vec<u8>) {
        let mut headers = headers_of(problem);
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        write_problem(problem, &headers, &self.type_base, date, answers);
    }
}

/// Writes an order that the ledger accepted.
pub(super) fn write_order(order: &Order, form: &OrderForm, date: &[u8; DATE_BYTES], answers: &mut Vec<u8>) {
    BODY.with_borrow_mut(|body| {
        body.clear();
        wire::write_order(form, order, body);
        answers.extend_from_slice(b"HTTP/1.1 201 Created\r\ncontent-type: application/json\r\n");
        write_rest(body, date, answers);
    });
}

/// Writes a sale as of `now`.
pub(super) fn write_sale(sale: &WrittenSale, now: Timestamp, date: &[u8; DATE_BYTES], answers: &mut Vec<u8>) {
    BODY.with_borrow_mut(|body| {
        body.clear();
        wire::write_sale(sale, now, body);
        answers.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n");
        write_caching(sale, answers);
        write_rest(body, date, answers);
    });
}

/// Tells the client that its copy of the sale is up to date.
pub(super) fn write_not_modified(sale: &WrittenSale, date: &[u8; DATE_BYTES], answers: &mut Vec<u8>) {
    answers.extend_from_slice(b"HTTP/1.1 304 Not Modified\r\n");
    write_caching(sale, answers);
    write_date(date, answers);
}

fn write_caching(sale: &WrittenSale, answers: &mut Vec<u8>) {
    answers.extend_from_slice(b"etag: ");
    answers.extend_from_slice(sale.tag.as_bytes());
    answers.extend_from_slice(b"\r\ncache-control: ");
    answers.extend_from_slice(REVALIDATE.as_bytes());
    answers.extend_from_slice(b"\r\n");
}

fn headers_of(problem: &Problem) -> HeaderMap {
    let mut headers = HeaderMap::new();
    problem.write_headers(&mut headers);
    headers
}

fn write_problem(
    problem: &Problem,
    headers: &HeaderMap,
    type_base: &str,
    date: &[u8; DATE_BYTES],
    answers: &mut Vec<u8>,
) {
    answers.extend_from_slice(format!("HTTP/1.1 {}\r\n", status_of(problem.code)).as_bytes());
    for (name, value) in headers {
        answers.extend_from_slice(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    write_rest(&problem.body(type_base), date, answers);
}

fn write_rest(body: &[u8], date: &[u8; DATE_BYTES], answers: &mut Vec<u8>) {
    answers.extend_from_slice(b"content-length: ");
    answers.extend_from_slice(itoa::Buffer::new().format(body.len()).as_bytes());
    answers.extend_from_slice(b"\r\n");
    write_date(date, answers);
    answers.extend_from_slice(body);
}

/// The last header, and the end of the head.
fn write_date(date: &[u8; DATE_BYTES], answers: &mut Vec<u8>) {
    answers.extend_from_slice(b"date: ");
    answers.extend_from_slice(date);
    answers.extend_from_slice(END_OF_HEAD);
}

/// The date as HTTP writes it, formatted once a second.
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

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_999);

    fn written(write: impl FnOnce(&PreparedRefusals, &[u8; DATE_BYTES], &mut Vec<u8>)) -> (String, String) {
        let mut answers = Vec::new();
        write(&PreparedRefusals::new("/errors/"), DateCache::default().at(NOW), &mut answers);
        let text = String::from_utf8(answers).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    #[test]
    fn an_answer_is_complete() {
        let (head, body) = written(|refusals, date, answers| refusals.write(Code::Paused, date, answers));
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

    #[test]
    fn a_prepared_refusal_equals_a_fresh_one() {
        for code in Code::ALL {
            let problem = Problem::new(*code);
            let canned = written(|refusals, date, answers| refusals.write_problem(&problem, date, answers));
            let fresh = written(|_, date, answers| {
                write_problem(&problem, &headers_of(&problem), "/errors/", date, answers);
            });
            assert_eq!(canned, fresh);
        }
    }

    #[test]
    fn a_refusal_includes_its_details() {
        let problem = Problem::from(penstock_gate::TooMany { retry_after_seconds: 7 });
        let (head, body) = written(|refusals, date, answers| refusals.write_problem(&problem, date, answers));
        assert!(head.contains("\r\nretry-after: 7\r\n"), "{head}");
        assert!(body.contains("7 seconds"), "{body}");
        let (head, _) =
            written(|refusals, date, answers| refusals.write_problem(&Code::Busy.into(), date, answers));
        assert!(head.contains("\r\nretry-after: 1\r\n"), "{head}");
    }

    #[test]
    fn the_last_answer_announces_the_end_of_the_connection() {
        let (head, body) = written(|refusals, date, answers| {
            refusals.write_last(&Code::BadRequest.into(), date, answers);
        });
        assert!(head.starts_with("HTTP/1.1 400 ") && head.contains("\r\nconnection: close\r\n"), "{head}");
        assert!(body.contains("bad_request"), "{body}");
    }
}
