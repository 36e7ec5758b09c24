//! The public API calls that a bench or a rehearsal needs besides its load: publishing a sale and looking at
//! the outcome. Blocking, with kept-alive connections; not for load.

use std::{
    net::{SocketAddr, ToSocketAddrs},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use ureq::{
    Agent,
    http::{Request, Uri},
};

use crate::report::printable;

/// An audit of a million orders takes this long.
const ANSWER_LIMIT: Duration = Duration::from_secs(300);
/// How long a server may say that it can't answer yet. Nodes hear of a new sale one after the other.
const PATIENCE: Duration = Duration::from_secs(10);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);
const NOT_YET: &[u16] = &[503];
/// For a sale that was just published, these only mean that a node has not heard of it yet.
const NOT_HEARD_OF: &[u16] = &[404, 409, 503];
/// Long enough that no hold expires during a bench.
const HOLD_SECONDS: u32 = 24 * 3600;

/// A Penstock server, and who we are to it.
#[derive(Clone, Debug)]
pub struct ShopApi {
    pub address: SocketAddr,
    /// Name and port, for the `Host` header.
    pub host: String,
    /// For the administrator's calls. Empty: there are none.
    pub admin_token: String,
    agent: Agent,
}

/// An answer, whatever it says.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiReply {
    pub status: u16,
    /// Null if the body is not JSON.
    pub body: Value,
}

/// The terms of a sale: one unit a buyer and no end, unless said otherwise.
#[derive(Clone, Debug)]
pub struct SaleOffer {
    pub title: String,
    pub units: u32,
    pub limit_per_buyer: u32,
    pub hold_seconds: u32,
    /// `None`: open as soon as it is published.
    pub opens_at: Option<String>,
    /// `None`: open until it is closed.
    pub closes_at: Option<String>,
    /// The gate a buyer has to pass before ordering; `None`: there is no gate.
    pub gate: Option<Value>,
}

impl Default for SaleOffer {
    fn default() -> Self {
        Self {
            title: "Bench".to_owned(),
            units: 0,
            limit_per_buyer: 1,
            hold_seconds: HOLD_SECONDS,
            opens_at: None,
            closes_at: None,
            gate: None,
        }
    }
}

impl ShopApi {
    pub fn new(address: SocketAddr, admin_token: &str) -> Self {
        Self::named(address, address.to_string(), admin_token)
    }

    /// The Penstock at `url`, such as `http://127.0.0.1:8080`.
    pub fn at(url: &str, admin_token: &str) -> anyhow::Result<Self> {
        let uri: Uri = url.parse().with_context(|| format!("{url:?} is not a URL"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                bail!(
                    "{url}: https is not spoken here; use the address of a node, or the proxy's plain HTTP port"
                )
            }
            _ => bail!("{url:?} is not a URL; one looks like http://127.0.0.1:8080"),
        }
        ensure!(
            matches!(uri.path(), "" | "/") && uri.query().is_none(),
            "{url}: give only the server's address, without a path"
        );
        let name = uri.host().with_context(|| format!("{url} names no host"))?;
        let port = uri.port_u16().unwrap_or(80);
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let resolved = (bare, port).to_socket_addrs().with_context(|| format!("cannot find {name}"))?;
        let address = resolved.into_iter().next().with_context(|| format!("{name} has no address"))?;
        let host = uri.port_u16().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
        Ok(Self::named(address, host, admin_token))
    }

    fn named(address: SocketAddr, host: String, admin_token: &str) -> Self {
        let config = Agent::config_builder().http_status_as_error(false).timeout_global(Some(ANSWER_LIMIT));
        let agent = config.proxy(None).build().new_agent();
        Self { address, host, admin_token: admin_token.to_owned(), agent }
    }

    pub fn is_admin(&self) -> bool {
        !self.admin_token.is_empty()
    }

    /// An item and a published, open sale of it, one unit a buyer; returns the sale's id.
    pub fn open_sale(&self, units: u32) -> anyhow::Result<String> {
        let id = self.publish(&SaleOffer { units, ..SaleOffer::default() })?;
        let state = self.sale_state(&id)?;
        ensure!(state == "open", "the sale is {state} after publishing, not open");
        Ok(id)
    }

    /// An item and a published sale of it; returns the sale's id.
    pub fn publish(&self, offer: &SaleOffer) -> anyhow::Result<String> {
        let id = self.draft(offer)?;
        self.steer(&id, "publish")?;
        Ok(id)
    }

    /// An item and a sale of it that nobody sees yet; returns the sale's id.
    pub fn draft(&self, offer: &SaleOffer) -> anyhow::Result<String> {
        let price = json!({"amount": "1999.00", "currency": "CNY"});
        let item = json!({"title": offer.title, "description": "What is sold in a rehearsal.", "regular_price": price});
        let item = self.call("POST", "/api/v1/admin/items", Some(&item), 201)?;
        let mut sale = json!({
            "item_id": text(&item, "id")?,
            "price": price,
            "units": offer.units,
            "limit_per_buyer": offer.limit_per_buyer,
            "hold_seconds": offer.hold_seconds,
            "opens_at": offer.opens_at,
            "closes_at": offer.closes_at,
        });
        if let (Some(gate), Some(sale)) = (&offer.gate, sale.as_object_mut()) {
            sale.insert("gate".to_owned(), gate.clone());
        }
        let sale = self.call("POST", "/api/v1/admin/sales", Some(&sale), 201)?;
        text(&sale, "id")
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

    pub fn sale(&self, sale: &str) -> anyhow::Result<Value> {
        self.call("GET", &format!("/api/v1/sales/{sale}"), None, 200)
    }

    /// A sale that we have published.
    pub fn our_sale(&self, sale: &str) -> anyhow::Result<Value> {
        self.insist("GET", &format!("/api/v1/sales/{sale}"), None, 200, NOT_HEARD_OF)
    }

    /// Closes a sale that we have published, or are about to.
    pub fn close_ours(&self, sale: &str) -> anyhow::Result<()> {
        self.insist("POST", &format!("/api/v1/admin/sales/{sale}/close"), None, 200, NOT_HEARD_OF)?;
        Ok(())
    }

    /// The server's current time, from the head of an answer.
    pub fn date(&self) -> anyhow::Result<String> {
        let url = format!("http://{}/healthz", self.address);
        let request =
            Request::builder().uri(&url).header("host", &self.host).body(()).context("a request")?;
        let response =
            self.agent.run(request).with_context(|| format!("nobody answers at http://{}", self.host))?;
        let date = response.headers().get("date").and_then(|date| date.to_str().ok());
        Ok(date.context("an answer without a date")?.to_owned())
    }

    /// Fails unless ledger and records add up.
    pub fn audit(&self) -> anyhow::Result<()> {
        let report = self.call("GET", "/api/v1/admin/audit", None, 200)?;
        ensure!(report.get("ok") == Some(&Value::Bool(true)), "the audit found differences: {report}");
        Ok(())
    }

    /// A call by the administrator, if there is one; fails unless it is answered with `expected`.
    pub fn call(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        expected: u16,
    ) -> anyhow::Result<Value> {
        self.insist(method, path, body, expected, NOT_YET)
    }

    /// Repeats a call for a while, as long as its answer is one of `not_yet`.
    fn insist(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        expected: u16,
        not_yet: &[u16],
    ) -> anyhow::Result<Value> {
        let began = Instant::now();
        loop {
            let reply = self.ask(method, path, self.token(), body)?;
            if !not_yet.contains(&reply.status) || began.elapsed() >= PATIENCE {
                return expect(reply, method, path, expected);
            }
            thread::sleep(ASK_AGAIN_AFTER);
        }
    }

    /// Sends the server a body that is not JSON, as the administrator, and returns the answer.
    pub fn upload(&self, path: &str, media_type: &str, content: &[u8]) -> anyhow::Result<Value> {
        expect(self.send("POST", path, self.token(), Some((media_type, content)))?, "POST", path, 201)
    }

    fn token(&self) -> Option<&str> {
        self.is_admin().then_some(self.admin_token.as_str())
    }

    /// A call with `token`, whatever the answer.
    pub fn ask(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: Option<&Value>,
    ) -> anyhow::Result<ApiReply> {
        let text = body.map(Value::to_string);
        let content = text.as_ref().map(|text| ("application/json", text.as_bytes()));
        self.send(method, path, token, content)
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        content: Option<(&str, &[u8])>,
    ) -> anyhow::Result<ApiReply> {
        let asked = || format!("{method} {path} at {}", self.address);
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header("host", &self.host);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some((media_type, _)) = content {
            request = request.header("content-type", media_type);
        }
        let request = request.body(content.map_or(&b""[..], |(_, bytes)| bytes)).with_context(asked)?;
        let mut response = self.agent.run(request).with_context(asked)?;
        let status = response.status().as_u16();
        let text = response.body_mut().read_to_string().with_context(asked)?;
        Ok(ApiReply { status, body: serde_json::from_str(&text).unwrap_or(Value::Null) })
    }
}

/// The body of an answer; fails unless it has this status.
fn expect(reply: ApiReply, method: &str, path: &str, expected: u16) -> anyhow::Result<Value> {
    if reply.status != expected {
        bail!("{method} {path} was answered {}", reply.in_words());
    }
    ensure!(reply.body != Value::Null, "{method} {path} was not answered with JSON");
    Ok(reply.body)
}

impl ApiReply {
    /// Status, code and detail, as far as the answer has them.
    pub fn in_words(&self) -> String {
        let field = |name: &str| self.body.get(name).and_then(Value::as_str).unwrap_or_default();
        match (field("code"), field("detail")) {
            ("", _) => self.status.to_string(),
            (code, "") => printable(&format!("{} {code}", self.status)),
            // Printable only: the text of a server must not move our cursor.
            (code, detail) => printable(&format!("{} {code}: {detail}", self.status)),
        }
    }
}

pub fn text(value: &Value, field: &str) -> anyhow::Result<String> {
    let text = value.get(field).and_then(Value::as_str);
    Ok(text.with_context(|| format!("no {field} in {value}"))?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_host_and_a_port() {
        let api = ShopApi::at("http://127.0.0.1:8080/", "").unwrap();
        assert_eq!(
            (api.address.to_string(), api.host.as_str()),
            ("127.0.0.1:8080".to_owned(), "127.0.0.1:8080")
        );
        assert_eq!(ShopApi::at("http://127.0.0.1", "").unwrap().address.port(), 80);
        assert_eq!(ShopApi::at("http://[::1]:81", "").unwrap().address.to_string(), "[::1]:81");
    }

    #[test]
    fn an_invalid_url_is_named() {
        for (url, complaint) in [
            ("127.0.0.1:8080", "looks like http://"),
            ("https://shop.example", "https is not spoken"),
            ("http://127.0.0.1/api/v1", "without a path"),
        ] {
            let error = format!("{:#}", ShopApi::at(url, "").unwrap_err());
            assert!(error.contains(complaint), "{url}: {error}");
        }
    }
}
