//! Requests written before a run, so that during it sending one takes a single system call.

use std::{net::SocketAddr, sync::Arc};

use super::{Script, TokenSigner};
use anyhow::ensure;

/// Requests of one length, one after the other.
#[derive(Clone, Debug)]
pub struct Tape {
    bytes: Arc<Vec<u8>>,
    request_bytes: usize,
}

impl Tape {
    pub fn len(&self) -> usize {
        self.bytes.len() / self.request_bytes
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn request(&self, index: usize) -> Option<&[u8]> {
        self.bytes.chunks_exact(self.request_bytes).nth(index)
    }

    /// Readers that share the tape. With `repeats`, a reader starts again at its end.
    pub fn readers(&self, count: usize, repeats: bool) -> Vec<TapeReader> {
        let reader = |first| TapeReader { tape: self.clone(), first, next: first, step: count, repeats };
        (0..count).map(reader).collect()
    }
}

/// One thread's part of a tape.
#[derive(Debug)]
pub struct TapeReader {
    tape: Tape,
    first: usize,
    next: usize,
    step: usize,
    repeats: bool,
}

impl Script for TapeReader {
    fn next_request(&mut self) -> Option<(u64, &[u8])> {
        let request_bytes = self.tape.request_bytes;
        if self.repeats && (self.next + 1) * request_bytes > self.tape.bytes.len() {
            self.next = self.first;
        }
        let number = self.next;
        let start = number * request_bytes;
        let request = self.tape.bytes.get(start..start + request_bytes)?;
        self.next += self.step;
        Some((number as u64, request))
    }
}

/// Orders of one unit, each by its own buyer with its own idempotency key.
#[derive(Clone, Copy, Debug)]
pub struct OrderTape<'a> {
    pub address: SocketAddr,
    pub sale: &'a str,
    pub secret: &'a [u8],
    /// The number of the first buyer. Tapes with separate numbers have separate buyers.
    pub first_buyer: u64,
    pub count: usize,
}

impl OrderTape<'_> {
    pub fn build(&self) -> anyhow::Result<Tape> {
        let path = format!("/api/v1/sales/{}/orders", self.sale);
        let buyers = BuyerTape {
            address: self.address,
            secret: self.secret,
            first_buyer: self.first_buyer,
            buyers: u64::MAX,
            count: self.count,
        };
        buyers.build(&Call::order(&path))
    }
}

/// The call that each buyer of a tape makes.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub method: &'a str,
    pub path: &'a str,
    /// Further lines of the head, each with its line end.
    pub headers: &'a str,
    /// The start of each `Idempotency-Key`, before the request's number; `None`: no such header.
    pub key_prefix: Option<&'a str>,
    /// JSON; empty: no body.
    pub body: &'a str,
}

impl<'a> Call<'a> {
    /// An order of one unit.
    pub fn order(path: &'a str) -> Self {
        Self { method: "POST", path, headers: "", key_prefix: Some("rush"), body: r#"{"quantity":1}"# }
    }
}

/// The same call by many buyers, each with a token of the shop.
#[derive(Clone, Copy, Debug)]
pub struct BuyerTape<'a> {
    pub address: SocketAddr,
    pub secret: &'a [u8],
    pub first_buyer: u64,
    /// The number of buyers who take turns.
    pub buyers: u64,
    pub count: usize,
}

impl BuyerTape<'_> {
    pub fn build(&self, call: &Call<'_>) -> anyhow::Result<Tape> {
        let signer = TokenSigner::lasting(self.secret);
        let mut bytes = Vec::new();
        let mut request_bytes = 0;
        for number in 0..self.count as u64 {
            // Fixed width, so that every token and every request has the same length.
            let subject = format!("buyer-{:012}", self.first_buyer + number % self.buyers);
            let token = signer.token(&subject)?;
            let start = bytes.len();
            self.append(&mut bytes, call, &token, self.first_buyer + number);
            if start == 0 {
                request_bytes = bytes.len();
                bytes.reserve_exact(request_bytes * (self.count - 1));
            }
            ensure!(bytes.len() - start == request_bytes, "requests of a tape differ in length");
        }
        ensure!(request_bytes > 0, "a tape needs at least one request");
        Ok(Tape { bytes: Arc::new(bytes), request_bytes })
    }

    fn append(&self, bytes: &mut Vec<u8>, call: &Call<'_>, token: &str, number: u64) {
        let Call { method, path, headers, key_prefix, body } = *call;
        let key = key_prefix
            .map_or_else(String::new, |prefix| format!("Idempotency-Key: {prefix}-{number:012}\r\n"));
        let content = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let request = format!(
            "{method} {path} HTTP/1.1\r\n\
             Host: {address}\r\n\
             Authorization: Bearer {token}\r\n\
             {key}{headers}{content}\
             Content-Length: {length}\r\n\r\n{body}",
            address = self.address,
            length = body.len(),
        );
        bytes.extend_from_slice(request.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tape(count: usize) -> Tape {
        let address = SocketAddr::from(([127, 0, 0, 1], 8080));
        OrderTape { address, sale: "s", secret: b"secret", first_buyer: 9, count }.build().unwrap()
    }

    #[test]
    fn every_request_has_its_own_buyer_and_key() {
        let tape = tape(3);
        let texts: Vec<_> =
            (0..3).map(|index| String::from_utf8_lossy(tape.request(index).unwrap()).into_owned()).collect();
        for (index, text) in texts.iter().enumerate() {
            assert!(text.contains(&format!("Idempotency-Key: rush-{:012}\r\n", 9 + index)), "{text}");
        }
        assert!(texts[0] != texts[1] && texts[1] != texts[2]);
    }

    #[test]
    fn buyers_take_turns_and_a_call_without_body_says_so() {
        let address = SocketAddr::from(([127, 0, 0, 1], 8080));
        let buyers = BuyerTape { address, secret: b"secret", first_buyer: 0, buyers: 2, count: 3 };
        let call = Call { method: "POST", path: "/tickets", headers: "X: y\r\n", key_prefix: None, body: "" };
        let tape = buyers.build(&call).unwrap();
        assert!(tape.request(0) == tape.request(2) && tape.request(0) != tape.request(1));
        let text = String::from_utf8_lossy(tape.request(0).unwrap()).into_owned();
        assert!(text.starts_with("POST /tickets HTTP/1.1\r\n"), "{text}");
        assert!(text.ends_with("X: y\r\nContent-Length: 0\r\n\r\n"), "{text}");
    }

    #[test]
    fn readers_share_a_tape_without_overlap() {
        let tape = tape(5);
        let mut seen = Vec::new();
        for mut reader in tape.readers(2, false) {
            while let Some((number, request)) = reader.next_request() {
                assert_eq!(Some(request), tape.request(number as usize));
                seen.push(number);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_repeating_reader_starts_again() {
        let mut reader = tape(2).readers(1, true).remove(0);
        let numbers: Vec<_> =
            (0..5).filter_map(|_| reader.next_request().map(|(number, _)| number)).collect();
        assert_eq!(numbers, [0, 1, 0, 1, 0]);
    }
}
