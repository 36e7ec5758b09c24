//! Reads the parts of an HTTP/1.1 answer that a generator needs: status, length and body.

/// A whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpAnswer<'a> {
    pub status: u16,
    pub body: &'a [u8],
    /// Head and body, as they came over the wire.
    pub total_bytes: usize,
    /// The server closes the connection after this answer.
    pub closes: bool,
    /// How long the server asks the client to wait.
    pub retry_after_seconds: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parsed<'a> {
    Whole(HttpAnswer<'a>),
    /// More bytes are to come.
    Partial,
    /// The answer has no `Content-Length`, so the generator can't tell where it ends.
    Unreadable,
}

const MAX_HEADERS: usize = 32;

pub(super) fn parse(bytes: &[u8]) -> Parsed<'_> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let head_bytes = match response.parse(bytes) {
        Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
        Ok(httparse::Status::Partial) => return Parsed::Partial,
        Err(_) => return Parsed::Unreadable,
    };
    let Some(status) = response.code else { return Parsed::Unreadable };
    let mut body_bytes = if status == 204 || status == 304 { Some(0) } else { None };
    let mut closes = false;
    let mut retry_after_seconds = None;
    for header in response.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            body_bytes = number(header.value);
        } else if header.name.eq_ignore_ascii_case("retry-after") {
            retry_after_seconds = number(header.value);
        } else if header.name.eq_ignore_ascii_case("connection") {
            closes = header.value.eq_ignore_ascii_case(b"close");
        }
    }
    let Some(end) = body_bytes.and_then(|length: usize| head_bytes.checked_add(length)) else {
        return Parsed::Unreadable;
    };
    match bytes.get(head_bytes..end) {
        Some(body) => {
            Parsed::Whole(HttpAnswer { status, body, total_bytes: end, closes, retry_after_seconds })
        }
        None => Parsed::Partial,
    }
}

fn number<T: std::str::FromStr>(value: &[u8]) -> Option<T> {
    std::str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_complete_only_with_its_last_byte() {
        let bytes = b"HTTP/1.1 409 Conflict\r\nContent-Type: x\r\ncontent-length: 4\r\n\r\nbody";
        for end in 0..bytes.len() {
            assert_eq!(parse(&bytes[..end]), Parsed::Partial, "{end}");
        }
        let answer = HttpAnswer {
            status: 409,
            body: b"body",
            total_bytes: bytes.len(),
            closes: false,
            retry_after_seconds: None,
        };
        assert_eq!(parse(bytes), Parsed::Whole(answer));
    }

    #[test]
    fn an_answer_without_a_length_is_unreadable() {
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), Parsed::Unreadable);
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), Parsed::Unreadable);
        assert_eq!(parse(b"SSH-2.0-OpenSSH\r\n"), Parsed::Unreadable);
    }

    #[test]
    fn an_answer_may_ask_to_wait() {
        let bytes = b"HTTP/1.1 503 X\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n";
        let Parsed::Whole(answer) = parse(bytes) else { panic!("not whole") };
        assert_eq!(answer.retry_after_seconds, Some(7));
    }

    #[test]
    fn a_closing_answer_says_so() {
        let Parsed::Whole(answer) = parse(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n") else {
            panic!("not whole");
        };
        assert!(answer.closes && answer.body.is_empty());
    }
}
