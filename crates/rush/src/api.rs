//! The few calls of the public API that a bench needs beside orders. Blocking, one connection a call.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

/// An audit of a million orders takes its time.
const ANSWER_LIMIT: Duration = Duration::from_secs(300);
/// Long enough that no hold expires during a bench.
const HOLD_SECONDS: u32 = 24 * 3600;

/// Penstock's API as its administrator.
#[derive(Clone, Debug)]
pub struct Api {
    pub address: SocketAddr,
    pub admin_token: String,
}

/// The terms of a bench's sale: one unit a buyer, no end.
#[derive(Clone, Debug, Default)]
pub struct Offer {
    pub units: u32,
    /// `None`: open as soon as it is published.
    pub opens_at: Option<&'static str>,
    /// What a buyer has to pass before ordering; `None`: nothing.
    pub gate: Option<Value>,
}

impl Api {
    /// An item and a published, open sale of it, one unit a buyer; returns the sale's id.
    pub fn open_sale(&self, units: u32) -> anyhow::Result<String> {
        let id = self.publish(&Offer { units, ..Offer::default() })?;
        let state = self.sale_state(&id)?;
        ensure!(state == "open", "the sale is {state} after publishing, not open");
        Ok(id)
    }

    /// An item and a published sale of it; returns the sale's id.
    pub fn publish(&self, offer: &Offer) -> anyhow::Result<String> {
        let price = json!({"amount": "1999.00", "currency": "CNY"});
        let item =
            json!({"title": "Bench", "description": "What is sold in a bench.", "regular_price": price});
        let item = self.call("POST", "/api/v1/admin/items", Some(&item), 201)?;
        let mut sale = json!({
            "item_id": text(&item, "id")?,
            "price": price,
            "units": offer.units,
            "limit_per_buyer": 1,
            "hold_seconds": HOLD_SECONDS,
            "opens_at": offer.opens_at,
        });
        if let (Some(gate), Some(sale)) = (&offer.gate, sale.as_object_mut()) {
            sale.insert("gate".to_owned(), gate.clone());
        }
        let sale = self.call("POST", "/api/v1/admin/sales", Some(&sale), 201)?;
        let id = text(&sale, "id")?;
        self.steer(&id, "publish")?;
        Ok(id)
    }

    /// `publish`, `pause`, `resume` or `close`.
    pub fn steer(&self, sale: &str, verb: &str) -> anyhow::Result<()> {
        self.call("POST", &format!("/api/v1/admin/sales/{sale}/{verb}"), None, 200)?;
        Ok(())
    }

    pub fn sale_state(&self, sale: &str) -> anyhow::Result<String> {
        text(&self.sale(sale)?, "state")
    }

    pub fn available(&self, sale: &str) -> anyhow::Result<u64> {
        let sale = self.sale(sale)?;
        sale.pointer("/stock/available").and_then(Value::as_u64).context("a sale without stock.available")
    }

    fn sale(&self, sale: &str) -> anyhow::Result<Value> {
        self.call("GET", &format!("/api/v1/sales/{sale}"), None, 200)
    }

    /// Fails unless ledger and records add up.
    pub fn audit(&self) -> anyhow::Result<()> {
        let report = self.call("GET", "/api/v1/admin/audit", None, 200)?;
        ensure!(report.get("ok") == Some(&Value::Bool(true)), "the audit found differences: {report}");
        Ok(())
    }

    fn call(&self, method: &str, path: &str, body: Option<&Value>, expected: u16) -> anyhow::Result<Value> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let content = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
             {content}Content-Length: {}\r\n\r\n{body}",
            self.address,
            self.admin_token,
            body.len(),
        );
        let exchange = exchange(self.address, request.as_bytes());
        let (status, body) = exchange.with_context(|| format!("{method} {path}"))?;
        if status != expected {
            bail!("{method} {path} answered {status}: {}", String::from_utf8_lossy(&body));
        }
        serde_json::from_slice(&body).with_context(|| format!("{method} {path} did not answer with JSON"))
    }
}

fn text(value: &Value, field: &str) -> anyhow::Result<String> {
    let text = value.get(field).and_then(Value::as_str);
    Ok(text.with_context(|| format!("no {field} in {value}"))?.to_owned())
}

/// Sends `request` on a connection of its own and returns the answer's status and body.
pub fn exchange(address: SocketAddr, request: &[u8]) -> anyhow::Result<(u16, Vec<u8>)> {
    let bytes = exchange_raw(address, request)?;
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(head_bytes) = response.parse(&bytes).context("not an HTTP answer")? else {
        bail!("the connection ended within the answer's head");
    };
    let chunked = response.headers.iter().any(|header| header.name.eq_ignore_ascii_case("transfer-encoding"));
    ensure!(!chunked, "a chunked answer, which this client does not read");
    let status = response.code.context("an answer without a status")?;
    Ok((status, bytes.get(head_bytes..).unwrap_or_default().to_vec()))
}

/// The bytes of the answer as they came. The request has to ask the server to close the connection.
fn exchange_raw(address: SocketAddr, request: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.write_all(request)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    Ok(bytes)
}
