//! Finds out where a request ends, and whether it is a claim or a request for a sale. Anything that is not
//! plain is `Odd`: only hyper decides what it means.

use std::mem::MaybeUninit;

use penstock_domain::{KeyDigest, SaleId};

use crate::{
    api::{caller::Credentials, origin::SentBy},
    contract::json::{MAX_BODY_BYTES, is_json},
    transport::limits::{MAX_HEAD_BYTES, MAX_HEADERS},
};

const SALES: &str = "/api/v1/sales/";

/// A call of `POST /api/v1/sales/{id}/orders` with a valid key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClaimHead<'a> {
    pub(super) sale: SaleId,
    pub(super) key: KeyDigest,
    pub(super) credentials: Credentials<'a>,
    pub(super) is_json: bool,
    /// The header `Penstock-Pass`, if there is exactly one.
    pub(super) pass: Option<&'a [u8]>,
    pub(super) forwarded: Forwarded<'a>,
}

/// The `X-Forwarded-For` headers of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forwarded<'a> {
    Not,
    Once(&'a [u8]),
    Several,
}

/// A call of `GET /api/v1/sales/{id}` without a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SaleHead<'a> {
    pub(super) sale: SaleId,
    /// The header `If-None-Match`.
    pub(super) known: Option<&'a [u8]>,
}

/// The requested call, as far as the lane cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call<'a> {
    Claim(ClaimHead<'a>),
    Sale(SaleHead<'a>),
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head<'a> {
    /// It is not complete yet.
    Partial,
    Odd,
    /// It is not HTTP, or it is larger than accepted; says what is wrong.
    Malformed(&'static str),
    Plain {
        head_length: usize,
        /// The length of the whole request, including its body.
        length: usize,
        call: Call<'a>,
    },
}

pub(super) fn read(bytes: &[u8]) -> Head<'_> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut []);
    let head_length = match request.parse_with_uninit_headers(bytes, &mut headers) {
        Ok(httparse::Status::Complete(length)) if length <= MAX_HEAD_BYTES => length,
        Ok(httparse::Status::Partial) if bytes.len() <= MAX_HEAD_BYTES => return Head::Partial,
        Ok(_) => return Head::Malformed("The head is longer than 16 KiB."),
        Err(httparse::Error::TooManyHeaders) => return Head::Malformed("There are more than 64 headers."),
        Err(_) => return Head::Malformed("This is not HTTP/1.1."),
    };
    if request.version != Some(1) {
        return Head::Odd;
    }
    let mut found = Found::default();
    for header in request.headers.iter() {
        match found.take(header) {
            Ok(()) => {}
            Err(NotPlain::Odd) => return Head::Odd,
            Err(NotPlain::Malformed(why)) => return Head::Malformed(why),
        }
    }
    let body_length = found.content_length.unwrap_or(0);
    if body_length > MAX_BODY_BYTES {
        return Head::Odd;
    }
    let call = match (request.method, request.path) {
        (Some("POST"), Some(path)) => sale_of_order_path(path).and_then(|sale| found.claim(sale)),
        (Some("GET"), Some(path)) => sale_of_path(path).and_then(|sale| found.sale(sale)),
        _ => None,
    };
    Head::Plain { head_length, length: head_length + body_length, call: call.unwrap_or(Call::Other) }
}

/// The sale, if this is the path of its orders. Odd spellings go to hyper.
fn sale_of_order_path(path: &str) -> Option<SaleId> {
    path.strip_prefix(SALES)?.strip_suffix("/orders")?.parse().ok()
}

/// The sale, if this is its path.
fn sale_of_path(path: &str) -> Option<SaleId> {
    path.strip_prefix(SALES)?.parse().ok()
}

/// The headers that matter here.
#[derive(Default)]
struct Found<'a> {
    content_length: Option<usize>,
    key: Once<'a>,
    authorization: Once<'a>,
    cookies: Once<'a>,
    fetch_site: Once<'a>,
    origin: Once<'a>,
    referer: Once<'a>,
    host: Once<'a>,
    forwarded_proto: Once<'a>,
    content_type: Once<'a>,
    pass: Once<'a>,
    forwarded: Once<'a>,
    known: Once<'a>,
}

/// What a header can make of a request.
enum NotPlain {
    Odd,
    Malformed(&'static str),
}

/// A header that should appear once.
#[derive(Default)]
struct Once<'a> {
    value: &'a [u8],
    times: u32,
}

impl<'a> Once<'a> {
    fn take(&mut self, value: &'a [u8]) {
        self.value = value;
        self.times += 1;
    }

    fn get(&self) -> Option<&'a [u8]> {
        (self.times == 1).then_some(self.value)
    }

    /// Empty if it appears several times.
    fn get_or_empty(&self) -> Option<&'a [u8]> {
        (self.times > 0).then_some(if self.times == 1 { self.value } else { b"" })
    }
}

impl<'a> Found<'a> {
    fn take(&mut self, header: &httparse::Header<'a>) -> Result<(), NotPlain> {
        match kind_of(header.name) {
            Kind::Other => {}
            Kind::Key => self.key.take(header.value),
            Kind::Authorization => self.authorization.take(header.value),
            Kind::Cookies => self.cookies.take(header.value),
            Kind::FetchSite => self.fetch_site.take(header.value),
            Kind::Origin => self.origin.take(header.value),
            Kind::Referer => self.referer.take(header.value),
            Kind::Host => self.host.take(header.value),
            Kind::ForwardedProto => self.forwarded_proto.take(header.value),
            Kind::ContentType => self.content_type.take(header.value),
            Kind::Pass => self.pass.take(header.value),
            Kind::Forwarded => self.forwarded.take(header.value),
            Kind::Known => self.known.take(header.value),
            Kind::Connection if header.value.eq_ignore_ascii_case(b"keep-alive") => {}
            Kind::Connection | Kind::Framing => return Err(NotPlain::Odd),
            Kind::Length => match (self.content_length, digits(header.value)) {
                (None, Some(length)) => self.content_length = Some(length),
                _ => return Err(NotPlain::Malformed("The Content-Length can't be used.")),
            },
        }
        Ok(())
    }

    /// None if only hyper can tell what the request says.
    fn claim(&self, sale: SaleId) -> Option<Call<'a>> {
        if self.authorization.times > 1 || self.cookies.times > 1 {
            return None;
        }
        Some(Call::Claim(ClaimHead {
            sale,
            key: KeyDigest::of(self.key.get()?).ok()?,
            credentials: Credentials {
                authorization: self.authorization.get(),
                cookies: self.cookies.get(),
                sent_by: SentBy {
                    fetch_site: self.fetch_site.get_or_empty(),
                    origin: self.origin.get_or_empty(),
                    referer: self.referer.get_or_empty(),
                    host: self.host.get_or_empty(),
                    forwarded_proto: self.forwarded_proto.get_or_empty(),
                },
            },
            is_json: self.content_type.get().is_some_and(is_json),
            pass: self.pass.get(),
            forwarded: match self.forwarded.times {
                0 => Forwarded::Not,
                1 => Forwarded::Once(self.forwarded.value),
                _ => Forwarded::Several,
            },
        }))
    }

    fn sale(&self, sale: SaleId) -> Option<Call<'a>> {
        let is_usual = self.content_length.unwrap_or(0) == 0 && self.known.times <= 1;
        is_usual.then(|| Call::Sale(SaleHead { sale, known: self.known.get() }))
    }
}

enum Kind {
    Key,
    Authorization,
    Cookies,
    FetchSite,
    Origin,
    Referer,
    Host,
    ForwardedProto,
    ContentType,
    Pass,
    Forwarded,
    /// `If-None-Match`: the version that the client already has.
    Known,
    Length,
    Connection,
    /// A header that changes where the body ends or when it comes.
    Framing,
    Other,
}

fn kind_of(name: &str) -> Kind {
    // By length first, which settles nearly all names.
    match name.len() {
        15 if name.eq_ignore_ascii_case("idempotency-key") => Kind::Key,
        15 if name.eq_ignore_ascii_case("x-forwarded-for") => Kind::Forwarded,
        13 if name.eq_ignore_ascii_case("if-none-match") => Kind::Known,
        13 if name.eq_ignore_ascii_case("authorization") => Kind::Authorization,
        13 if name.eq_ignore_ascii_case("penstock-pass") => Kind::Pass,
        12 if name.eq_ignore_ascii_case("content-type") => Kind::ContentType,
        14 if name.eq_ignore_ascii_case("content-length") => Kind::Length,
        10 if name.eq_ignore_ascii_case("connection") => Kind::Connection,
        6 if name.eq_ignore_ascii_case("cookie") => Kind::Cookies,
        14 if name.eq_ignore_ascii_case("sec-fetch-site") => Kind::FetchSite,
        6 if name.eq_ignore_ascii_case("origin") => Kind::Origin,
        7 if name.eq_ignore_ascii_case("referer") => Kind::Referer,
        4 if name.eq_ignore_ascii_case("host") => Kind::Host,
        17 if name.eq_ignore_ascii_case("x-forwarded-proto") => Kind::ForwardedProto,
        17 if name.eq_ignore_ascii_case("transfer-encoding") => Kind::Framing,
        7 if name.eq_ignore_ascii_case("upgrade") => Kind::Framing,
        6 if name.eq_ignore_ascii_case("expect") => Kind::Framing,
        _ => Kind::Other,
    }
}

fn digits(value: &[u8]) -> Option<usize> {
    // This many digits can't overflow.
    let all_digits = (1..=18).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
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

    fn order(headers: &str) -> String {
        request(&format!("POST /api/v1/sales/{SALE}/orders"), headers)
    }

    fn claim_of(head: &str) -> Option<ClaimHead<'_>> {
        match read(head.as_bytes()) {
            Head::Plain { call: Call::Claim(claim), .. } => Some(claim),
            Head::Plain { .. } => None,
            other => panic!("{other:?}: {head}"),
        }
    }

    #[test]
    fn a_claim_is_recognised_with_its_whole_length() {
        let head = order(
            "Idempotency-Key: k\r\nContent-Length: 14\r\nConnection: keep-alive\r\n\
             Content-Type: application/json\r\nAuthorization: Bearer x\r\nPenstock-Pass: psp_x\r\n",
        );
        let claim = ClaimHead {
            sale: SALE.parse().unwrap(),
            key: KeyDigest::of(b"k").unwrap(),
            credentials: Credentials {
                authorization: Some(b"Bearer x"),
                cookies: None,
                sent_by: SentBy { host: Some(b"x"), ..SentBy::default() },
            },
            is_json: true,
            pass: Some(b"psp_x"),
            forwarded: Forwarded::Not,
        };
        let call = Call::Claim(claim);
        let expected = Head::Plain { head_length: head.len(), length: head.len() + 14, call };
        assert_eq!(read(head.as_bytes()), expected);
        assert_eq!(read(format!("{head}{{\"quantity\":1}}GET / HT").as_bytes()), expected);
        for cut in 0..head.len() {
            assert_eq!(read(&head.as_bytes()[..cut]), Head::Partial, "cut at {cut}");
        }
    }

    #[test]
    fn the_order_of_a_page_is_recognised_with_its_cookie_and_where_it_comes_from() {
        let head = order(
            "Idempotency-Key: k\r\nContent-Type: application/json\r\nCookie: a=1; penstock_session=pst_x\r\n\
             Sec-Fetch-Site: same-origin\r\nOrigin: https://shop.example\r\nReferer: https://shop.example/\r\n\
             X-Forwarded-Proto: https\r\n",
        );
        let expected = Credentials {
            authorization: None,
            cookies: Some(b"a=1; penstock_session=pst_x"),
            sent_by: SentBy {
                fetch_site: Some(b"same-origin"),
                origin: Some(b"https://shop.example"),
                referer: Some(b"https://shop.example/"),
                host: Some(b"x"),
                forwarded_proto: Some(b"https"),
            },
        };
        assert_eq!(claim_of(&head).unwrap().credentials, expected);
        let twice = order("idempotency-key: k\r\norigin: https://a\r\norigin: https://b\r\n");
        assert_eq!(claim_of(&twice).unwrap().credentials.sent_by.origin, Some(&b""[..]));
    }

    #[test]
    fn a_request_that_is_not_a_claim_or_has_no_valid_key_is_passed_on() {
        for line in ["GET /healthz", "GET /api/v1/sales/0123456789abc/orders", "POST /api/v1/sales/x/orders"]
        {
            assert_eq!(claim_of(&request(line, "idempotency-key: k\r\n")), None, "{line}");
        }
        for headers in [
            "",
            "idempotency-key: \r\n",
            "idempotency-key: a b\r\n",
            "idempotency-key: a\r\nIdempotency-Key: b\r\n",
        ] {
            assert_eq!(claim_of(&order(headers)), None, "{headers}");
        }
    }

    fn sale_of(line: &str, headers: &str) -> Option<String> {
        match read(request(line, headers).as_bytes()) {
            Head::Plain { call: Call::Sale(SaleHead { sale, known }), .. } => {
                assert_eq!(sale.to_string(), SALE);
                Some(String::from_utf8(known.unwrap_or_default().to_vec()).unwrap())
            }
            Head::Plain { call: Call::Other, .. } => None,
            other => panic!("{other:?}: {line}"),
        }
    }

    #[test]
    fn a_request_for_a_sale_is_recognised_with_its_etag() {
        let line = format!("GET /api/v1/sales/{SALE}");
        assert_eq!(sale_of(&line, "accept: */*\r\n").as_deref(), Some(""));
        assert_eq!(sale_of(&line, "content-length: 0\r\n").as_deref(), Some(""));
        assert_eq!(sale_of(&line, "If-None-Match: W/\"a\"\r\n").as_deref(), Some("W/\"a\""));
    }

    #[test]
    fn an_unusual_request_for_a_sale_is_passed_on() {
        let line = format!("GET /api/v1/sales/{SALE}");
        assert_eq!(sale_of(&line, "if-none-match: \"a\"\r\nif-none-match: \"b\"\r\n"), None);
        assert_eq!(sale_of(&line, "content-length: 1\r\n"), None);
        assert_eq!(sale_of(&line.replace("GET", "HEAD"), ""), None);
        for rest in ["/", "?", "?x=1", "/tickets/x"] {
            assert_eq!(sale_of(&format!("{line}{rest}"), ""), None, "{rest}");
        }
        assert_eq!(sale_of("GET /api/v1/sales/x", ""), None);
        assert_eq!(sale_of("GET /api/v1/sales", ""), None);
    }

    #[test]
    fn a_header_that_appears_twice_counts_as_missing() {
        let twice = "idempotency-key: k\r\nauthorization: Bearer a\r\nauthorization: Bearer b\r\n";
        assert_eq!(claim_of(&order(twice)), None, "hyper decides which one counts");
        let twice = "idempotency-key: k\r\ncookie: a=1\r\ncookie: b=2\r\n";
        assert_eq!(claim_of(&order(twice)), None, "hyper looks into both");
        let twice = "idempotency-key: k\r\ncontent-type: application/json\r\ncontent-type: text/plain\r\n";
        assert!(!claim_of(&order(twice)).unwrap().is_json);
        let twice = "idempotency-key: k\r\npenstock-pass: psp_a\r\npenstock-pass: psp_b\r\n";
        assert_eq!(claim_of(&order(twice)).unwrap().pass, None);
    }

    #[test]
    fn one_list_of_addresses_is_told_apart_from_several() {
        let forwarded = |headers: &str| {
            let head = order(&format!("idempotency-key: k\r\n{headers}"));
            format!("{:?}", claim_of(&head).unwrap().forwarded)
        };
        let once = format!("{:?}", Forwarded::Once(b"1.2.3.4, 5.6.7.8"));
        assert_eq!(forwarded("X-Forwarded-For: 1.2.3.4, 5.6.7.8\r\n"), once);
        assert_eq!(forwarded("x-forwarded-for: 1.2.3.4\r\nx-forwarded-for: 5.6.7.8\r\n"), "Several");
        assert_eq!(forwarded(""), "Not");
    }

    #[test]
    fn requests_that_are_not_plain_are_left_to_hyper() {
        for headers in [
            "transfer-encoding: chunked\r\n",
            "Transfer-Encoding: identity\r\n",
            "content-length: 9999999999\r\n",
            "content-length: 65537\r\n",
            "expect: 100-continue\r\n",
            "upgrade: websocket\r\n",
            "connection: close\r\n",
            "connection: keep-alive, upgrade\r\n",
        ] {
            let head = order(&format!("idempotency-key: k\r\n{headers}"));
            assert_eq!(read(head.as_bytes()), Head::Odd, "{headers}");
        }
        assert_eq!(read(b"GET / HTTP/1.0\r\n\r\n"), Head::Odd);
    }

    #[track_caller]
    fn assert_malformed(bytes: &[u8]) {
        let head = read(bytes);
        assert!(matches!(head, Head::Malformed(_)), "{head:?}: {}", String::from_utf8_lossy(bytes));
    }

    #[test]
    fn requests_that_no_server_accepts_are_malformed() {
        assert_malformed(b"NONSENSE\r\n\r\n");
        assert_malformed(b"GET / HTTP/1.1\r\nno colon\r\n\r\n");
        for length in [
            "1\r\ncontent-length: 1",
            "1, 1",
            "+1",
            "-1",
            "0x1",
            "",
            "1 1",
            "1000000000000000000",
            "99999999999999999999",
        ] {
            assert_malformed(order(&format!("content-length: {length}\r\n")).as_bytes());
        }
    }

    #[test]
    fn a_head_is_bounded() {
        let with_headers = |count: usize| order(&"a: b\r\n".repeat(count - 1));
        assert!(matches!(read(with_headers(64).as_bytes()), Head::Plain { .. }));
        assert_malformed(with_headers(65).as_bytes());
        let head_length = order("a: \r\n").len();
        let with_length = |length: usize| order(&format!("a: {}\r\n", "b".repeat(length - head_length)));
        assert!(matches!(read(with_length(16 * 1024).as_bytes()), Head::Plain { .. }));
        assert_malformed(with_length(16 * 1024 + 1).as_bytes());
        let unending = with_length(20_000);
        assert_eq!(read(&unending.as_bytes()[..16 * 1024]), Head::Partial);
        assert_malformed(&unending.as_bytes()[..=16 * 1024]);
    }
}
