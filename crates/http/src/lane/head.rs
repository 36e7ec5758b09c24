//! Finds out where a request ends and whether it is a claim. Anything that is not plain is `Odd`: only hyper may
//! say what it means.

use penstock_domain::{KeyDigest, SaleId};

use crate::{entry::sale_of_order_path, json::MAX_BODY_BYTES};

/// More headers than any client of ours sends; beyond it a request is hyper's affair.
const MAX_PLAIN_HEADERS: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// It is not complete yet.
    Partial,
    Odd,
    Plain {
        /// Of the whole request, its body included.
        length: usize,
        /// The sale and the key, if it is `POST /api/v1/sales/{id}/orders` with a proper key.
        claim: Option<(SaleId, KeyDigest)>,
    },
}

pub(super) fn read(bytes: &[u8]) -> Head {
    let mut headers = [httparse::EMPTY_HEADER; MAX_PLAIN_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let head_length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Head::Partial,
        Err(_) => return Head::Odd,
    };
    if request.version != Some(1) {
        return Head::Odd;
    }
    let mut content_length: Option<usize> = None;
    let mut key: Option<&[u8]> = None;
    let mut keys = 0;
    for header in request.headers.iter() {
        match kind_of(header.name) {
            Kind::Other => {}
            Kind::Key => {
                key = Some(header.value);
                keys += 1;
            }
            Kind::Length => match (content_length, digits(header.value)) {
                (None, Some(length)) => content_length = Some(length),
                _ => return Head::Odd,
            },
            Kind::Connection if header.value.eq_ignore_ascii_case(b"keep-alive") => {}
            Kind::Connection | Kind::Framing => return Head::Odd,
        }
    }
    let body_length = content_length.unwrap_or(0);
    if body_length > MAX_BODY_BYTES {
        return Head::Odd;
    }
    let claim = match (request.method, key) {
        (Some("POST"), Some(key)) if keys == 1 => request
            .path
            .and_then(sale_of_order_path)
            .and_then(|sale| KeyDigest::of(key).ok().map(|key| (sale, key))),
        _ => None,
    };
    Head::Plain { length: head_length + body_length, claim }
}

enum Kind {
    Key,
    Length,
    Connection,
    /// What changes where the body ends or when it comes.
    Framing,
    Other,
}

fn kind_of(name: &str) -> Kind {
    // By length first: that settles nearly all names.
    match name.len() {
        15 if name.eq_ignore_ascii_case("idempotency-key") => Kind::Key,
        14 if name.eq_ignore_ascii_case("content-length") => Kind::Length,
        10 if name.eq_ignore_ascii_case("connection") => Kind::Connection,
        17 if name.eq_ignore_ascii_case("transfer-encoding") => Kind::Framing,
        7 if name.eq_ignore_ascii_case("upgrade") => Kind::Framing,
        6 if name.eq_ignore_ascii_case("expect") => Kind::Framing,
        _ => Kind::Other,
    }
}

fn digits(value: &[u8]) -> Option<usize> {
    let all_digits = (1..=9).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    if !all_digits {
        return None;
    }
    Some(value.iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALE: &str = "0123456789abc";

    fn request(line: &str, headers: &str) -> String {
        format!("{line} HTTP/1.1\r\nhost: x\r\n{headers}\r\n")
    }

    fn order(headers: &str) -> Head {
        read(request(&format!("POST /api/v1/sales/{SALE}/orders"), headers).as_bytes())
    }

    #[test]
    fn a_claim_is_recognised_with_its_whole_length() {
        let head = request(
            &format!("POST /api/v1/sales/{SALE}/orders"),
            "Idempotency-Key: k\r\nContent-Length: 14\r\nConnection: keep-alive\r\n",
        );
        let claim = Some((SALE.parse().unwrap(), KeyDigest::of(b"k").unwrap()));
        let expected = Head::Plain { length: head.len() + 14, claim };
        assert_eq!(read(head.as_bytes()), expected);
        assert_eq!(read(format!("{head}{{\"quantity\":1}}GET / HT").as_bytes()), expected);
        for cut in 0..head.len() {
            assert_eq!(read(&head.as_bytes()[..cut]), Head::Partial, "cut at {cut}");
        }
    }

    #[test]
    fn what_is_no_claim_or_has_no_proper_key_is_passed_on() {
        for line in ["GET /healthz", "GET /api/v1/sales/0123456789abc/orders", "POST /api/v1/sales/x/orders"]
        {
            let head = request(line, "idempotency-key: k\r\n");
            assert_eq!(read(head.as_bytes()), Head::Plain { length: head.len(), claim: None }, "{line}");
        }
        for headers in [
            "",
            "idempotency-key: \r\n",
            "idempotency-key: a b\r\n",
            "idempotency-key: a\r\nIdempotency-Key: b\r\n",
        ] {
            assert!(matches!(order(headers), Head::Plain { claim: None, .. }), "{headers}");
        }
    }

    #[test]
    fn what_is_not_plain_is_left_to_hyper() {
        for headers in [
            "transfer-encoding: chunked\r\n",
            "Transfer-Encoding: identity\r\n",
            "content-length: 1\r\ncontent-length: 1\r\n",
            "content-length: 1, 1\r\n",
            "content-length: +1\r\n",
            "content-length: -1\r\n",
            "content-length: 0x1\r\n",
            "content-length:\r\n",
            "content-length: 9999999999\r\n",
            "content-length: 65537\r\n",
            "expect: 100-continue\r\n",
            "upgrade: websocket\r\n",
            "connection: close\r\n",
            "connection: keep-alive, upgrade\r\n",
            "no colon\r\n",
        ] {
            assert_eq!(order(&format!("idempotency-key: k\r\n{headers}")), Head::Odd, "{headers}");
        }
        assert_eq!(read(b"GET / HTTP/1.0\r\n\r\n"), Head::Odd);
        assert_eq!(read(b"NONSENSE\r\n\r\n"), Head::Odd);
        assert_eq!(order(&"a: b\r\n".repeat(40)), Head::Odd);
    }
}
