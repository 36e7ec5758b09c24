//! Writes buyers' requests into one reused buffer. Knows HTTP and the API's paths, not the answers.

use std::io::Write as _;

use serde::Serialize;

use super::{
    buyer::{Buyer, BuyerCall},
    terms::CrowdTerms,
};

/// The number of addresses that all bots share.
const BOT_ADDRESSES: u64 = 16;

#[derive(Debug)]
pub(super) struct RequestWriter {
    host: String,
    /// `/api/v1/sales/ID`.
    sale: String,
    /// The rest of an order, from the end of its last varying line on.
    order_end: String,
    forwarded_addresses: bool,
    body: Vec<u8>,
    request: Vec<u8>,
}

#[derive(Serialize)]
struct SignInBody<'a> {
    phone: &'a str,
    password: &'a str,
}

#[derive(Serialize)]
struct PassBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    challenge: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ticket: Option<&'a str>,
}

impl RequestWriter {
    pub(super) fn new(host: &str, sale: &str, quantity: u32, forwarded_addresses: bool) -> Self {
        let order_body = format!(r#"{{"quantity":{quantity}}}"#);
        Self {
            host: host.to_owned(),
            sale: format!("/api/v1/sales/{sale}"),
            order_end: format!(
                "\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{order_body}",
                order_body.len()
            ),
            forwarded_addresses,
            body: Vec::new(),
            request: Vec::new(),
        }
    }

    /// The bytes of `call` as sent by `buyer`.
    pub(super) fn write(&mut self, buyer: &Buyer, call: BuyerCall, terms: &CrowdTerms) -> &[u8] {
        self.write_body(buyer, call, terms);
        let Self { host, sale, body, request, .. } = self;
        request.clear();
        // Writing into memory does not fail.
        let _ = match call {
            BuyerCall::SignIn => write!(request, "POST /api/v1/sessions"),
            BuyerCall::Look => write!(request, "GET {sale}"),
            BuyerCall::Ticket => write!(request, "POST {sale}/tickets"),
            BuyerCall::Place => write!(request, "GET {sale}/tickets/{}", buyer.ticket),
            BuyerCall::Challenge => write!(request, "POST {sale}/challenge"),
            BuyerCall::Pass => write!(request, "POST {sale}/pass"),
            BuyerCall::Order => {
                request.extend_from_slice(b"POST ");
                request.extend_from_slice(sale.as_bytes());
                request.write_all(b"/orders")
            }
            BuyerCall::Pay => write!(request, "POST /api/v1/orders/{}/pay", buyer.order),
            BuyerCall::Cancel => write!(request, "POST /api/v1/orders/{}/cancel", buyer.order),
        };
        request.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        request.extend_from_slice(host.as_bytes());
        if call.names_buyer() {
            request.extend_from_slice(b"\r\nAuthorization: Bearer ");
            request.extend_from_slice(buyer.token.as_bytes());
        }
        if call == BuyerCall::Order {
            request.extend_from_slice(b"\r\nIdempotency-Key: ");
            buyer.write_key(terms, request);
            if !buyer.pass.is_empty() {
                request.extend_from_slice(b"\r\nPenstock-Pass: ");
                request.extend_from_slice(buyer.pass.as_bytes());
            }
        }
        if self.forwarded_addresses {
            let [a, b, c, d] = address_of(buyer);
            let _ = write!(request, "\r\nX-Forwarded-For: {a}.{b}.{c}.{d}");
        }
        if call == BuyerCall::Order {
            request.extend_from_slice(self.order_end.as_bytes());
            return request;
        }
        if !body.is_empty() {
            request.extend_from_slice(b"\r\nContent-Type: application/json");
        }
        if call.is_post() {
            let _ = write!(request, "\r\nContent-Length: {}", body.len());
        }
        request.extend_from_slice(b"\r\n\r\n");
        request.extend_from_slice(body);
        request
    }

    fn write_body(&mut self, buyer: &Buyer, call: BuyerCall, terms: &CrowdTerms) {
        self.body.clear();
        match call {
            BuyerCall::Challenge => self.body.extend_from_slice(br#"{"kind":"pow"}"#),
            BuyerCall::Pass => {
                let has_challenge = !buyer.challenge.is_empty();
                let body = PassBody {
                    challenge: has_challenge.then_some(buyer.challenge.as_str()),
                    answer: has_challenge.then(|| buyer.answer.to_string()),
                    ticket: (!buyer.ticket.is_empty()).then_some(buyer.ticket.as_str()),
                };
                let _ = serde_json::to_writer(&mut self.body, &body);
            }
            BuyerCall::SignIn => {
                if let Some(account) = terms.account(buyer.who) {
                    let body = SignInBody { phone: &account.phone, password: &account.password };
                    let _ = serde_json::to_writer(&mut self.body, &body);
                }
            }
            BuyerCall::Look
            | BuyerCall::Ticket
            | BuyerCall::Place
            | BuyerCall::Order
            | BuyerCall::Pay
            | BuyerCall::Cancel => {}
        }
    }
}

/// People have an address each, as long as there are enough; bots share a few.
fn address_of(buyer: &Buyer) -> [u8; 4] {
    if buyer.who.is_bot {
        let [.., last] = (buyer.who.number % BOT_ADDRESSES).to_be_bytes();
        return [172, 16, 0, last];
    }
    let [.., b, c, d] = buyer.who.number.to_be_bytes();
    [10, b, c, d]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        crowd::terms::{BuyerIdentity, GateSteps, Who},
        scenario::Mix,
        token::TokenSigner,
    };

    fn terms() -> CrowdTerms {
        let signer = Arc::new(TokenSigner::lasting(b"secret"));
        CrowdTerms {
            gate: GateSteps::default(),
            mix: Mix::default(),
            hold_seconds: 1.0,
            burst_seconds: 0.0,
            buyers: 10,
            seed: 0xabc,
            key_prefix: "rush-abc-".to_owned(),
            identity: BuyerIdentity::Jwt { signer, prefix: "test-".to_owned() },
        }
    }

    fn text(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }

    #[test]
    fn an_order_has_its_token_key_pass_and_body() {
        let (terms, mut buyer) = (terms(), Buyer::default());
        buyer.become_new(Who { number: 5, is_bot: false }, false, &terms);
        buyer.pass.push_str("the-pass");
        let order =
            text(RequestWriter::new("shop.example", "s1", 2, false).write(&buyer, BuyerCall::Order, &terms));
        let expected = format!(
            "POST /api/v1/sales/s1/orders HTTP/1.1\r\nHost: shop.example\r\nAuthorization: Bearer {}\r\n\
             Idempotency-Key: rush-abc-p5-0\r\nPenstock-Pass: the-pass\r\nContent-Type: application/json\r\n\
             Content-Length: 14\r\n\r\n{{\"quantity\":2}}",
            buyer.token
        );
        assert_eq!(order, expected);
    }

    #[test]
    fn people_have_addresses_of_their_own_and_bots_share_a_few() {
        let terms = terms();
        let mut writer = RequestWriter::new("h", "s1", 1, true);
        let mut address = |number, is_bot| {
            let mut buyer = Buyer::default();
            buyer.become_new(Who { number, is_bot }, false, &terms);
            let look = text(writer.write(&buyer, BuyerCall::Look, &terms));
            assert!(
                look.starts_with("GET /api/v1/sales/s1 HTTP/1.1\r\n") && look.ends_with("\r\n\r\n"),
                "{look}"
            );
            look.lines().find_map(|line| line.strip_prefix("X-Forwarded-For: ").map(str::to_owned)).unwrap()
        };
        assert_eq!(address(258, false), "10.0.1.2");
        assert_eq!(address(3, true), address(19, true));
        assert_ne!(address(3, true), address(4, true));
    }

    #[test]
    fn a_pass_request_contains_only_what_the_buyer_has() {
        let terms = terms();
        let mut writer = RequestWriter::new("h", "s1", 1, false);
        let mut buyer = Buyer::default();
        assert!(text(writer.write(&buyer, BuyerCall::Pass, &terms)).ends_with("\r\n\r\n{}"));
        (buyer.challenge, buyer.answer, buyer.ticket) = ("c".to_owned(), 7, "t".to_owned());
        let pass = text(writer.write(&buyer, BuyerCall::Pass, &terms));
        assert!(pass.ends_with(r#"{"challenge":"c","answer":"7","ticket":"t"}"#), "{pass}");
    }
}
