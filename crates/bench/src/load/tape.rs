//! Requests written before a run, so that during it sending one takes a single system call.

use std::{net::SocketAddr, sync::Arc};

use anyhow::ensure;
use penstock_rush::token::TokenSigner;

use super::LoadScript;

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

    /// Reads the tape to its end.
    pub fn once(&self) -> TapeReader {
        TapeReader { tape: self.clone(), next: 0, repeats: false }
    }

    /// Starts again at its end.
    pub fn endless(&self) -> TapeReader {
        TapeReader { repeats: true, ..self.once() }
    }
}

#[derive(Debug)]
pub struct TapeReader {
    tape: Tape,
    next: usize,
    repeats: bool,
}

impl LoadScript for TapeReader {
    fn next_request(&mut self) -> Option<(u64, &[u8])> {
        let request_bytes = self.tape.request_bytes;
        if self.repeats && (self.next + 1) * request_bytes > self.tape.bytes.len() {
            self.next = 0;
        }
        let number = self.next;
        let start = number * request_bytes;
        let request = self.tape.bytes.get(start..start + request_bytes)?;
        self.next += 1;
        Some((number as u64, request))
    }
}

/// The call that each buyer of a tape makes.
#[derive(Clone, Copy, Debug)]
pub struct TapeCall<'a> {
    pub method: &'a str,
    pub path: &'a str,
    /// Further lines of the head, each with its line end.
    pub headers: &'a str,
    /// The start of each `Idempotency-Key`, before the request's number; `None`: no such header.
    pub key_prefix: Option<&'a str>,
    /// JSON; empty: no body.
    pub body: &'a str,
}

impl<'a> TapeCall<'a> {
    /// A call without key and body.
    pub fn bare(method: &'a str, path: &'a str) -> Self {
        Self { method, path, headers: "", key_prefix: None, body: "" }
    }

    /// An order of one unit, sent to `orders_path`.
    pub fn order(path: &'a str) -> Self {
        Self { method: "POST", path, headers: "", key_prefix: Some("rush"), body: r#"{"quantity":1}"# }
    }
}

/// Where orders of a sale are sent.
pub fn orders_path(sale: &str) -> String {
    format!("/api/v1/sales/{sale}/orders")
}

/// The lines of buyers who have a token of the shop. Names have a fixed width, so that all requests of a tape
/// have the same length.
pub fn bearers(secret: &[u8]) -> impl Fn(u64) -> String + use<> {
    let signer = TokenSigner::lasting(secret);
    move |buyer| format!("Authorization: Bearer {}\r\n", signer.token(&format!("buyer-{buyer:012}")))
}

/// The same call by many buyers.
#[allow(missing_debug_implementations, reason = "it borrows a function")]
#[derive(Clone, Copy)]
pub struct BuyerTape<'a> {
    pub address: SocketAddr,
    /// The line of the head that says which buyer it is.
    pub identity: &'a dyn Fn(u64) -> String,
    /// The number of the first buyer. Tapes with separate numbers have separate buyers.
    pub first_buyer: u64,
    /// The number of buyers who take turns.
    pub buyers: u64,
    pub count: usize,
}

impl BuyerTape<'_> {
    pub fn build(&self, call: &TapeCall<'_>) -> anyhow::Result<Tape> {
        let mut bytes = Vec::new();
        let mut request_bytes = 0;
        for number in 0..self.count as u64 {
            let identity = (self.identity)(self.first_buyer + number % self.buyers);
            let start = bytes.len();
            self.append(&mut bytes, call, &identity, self.first_buyer + number);
            if start == 0 {
                request_bytes = bytes.len();
                bytes.reserve_exact(request_bytes * (self.count - 1));
            }
            ensure!(bytes.len() - start == request_bytes, "requests of a tape differ in length");
        }
        ensure!(request_bytes > 0, "a tape needs at least one request");
        Ok(Tape { bytes: Arc::new(bytes), request_bytes })
    }

    fn append(&self, bytes: &mut Vec<u8>, call: &TapeCall<'_>, identity: &str, number: u64) {
        let TapeCall { method, path, headers, key_prefix, body } = *call;
        let key = key_prefix
            .map_or_else(String::new, |prefix| format!("Idempotency-Key: {prefix}-{number:012}\r\n"));
        let content = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let request = format!(
            "{method} {path} HTTP/1.1\r\n\
             Host: {address}\r\n\
             {identity}{key}{headers}{content}\
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
        let identity = &bearers(b"secret");
        let buyers = BuyerTape { address, identity, first_buyer: 9, buyers: u64::MAX, count };
        buyers.build(&TapeCall::order(&orders_path("s"))).unwrap()
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
        let identity = &bearers(b"secret");
        let buyers = BuyerTape { address, identity, first_buyer: 0, buyers: 2, count: 3 };
        let call = TapeCall { headers: "X: y\r\n", ..TapeCall::bare("POST", "/tickets") };
        let tape = buyers.build(&call).unwrap();
        assert!(tape.request(0) == tape.request(2) && tape.request(0) != tape.request(1));
        let text = String::from_utf8_lossy(tape.request(0).unwrap()).into_owned();
        assert!(text.starts_with("POST /tickets HTTP/1.1\r\n"), "{text}");
        assert!(text.ends_with("X: y\r\nContent-Length: 0\r\n\r\n"), "{text}");
    }

    #[test]
    fn a_reader_sends_every_request_once() {
        let tape = tape(5);
        let mut reader = tape.once();
        let mut seen = Vec::new();
        while let Some((number, request)) = reader.next_request() {
            assert_eq!(Some(request), tape.request(number as usize));
            seen.push(number);
        }
        assert_eq!(seen, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn an_endless_reader_starts_again() {
        let mut reader = tape(2).endless();
        let numbers: Vec<_> =
            (0..5).filter_map(|_| reader.next_request().map(|(number, _)| number)).collect();
        assert_eq!(numbers, [0, 1, 0, 1, 0]);
    }
}
