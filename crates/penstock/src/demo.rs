//! `--demo`: a few items and a sale that opens in half a minute, put there through the API like any merchant's,
//! and the lines to buy from it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context as _, bail};
use penstock_http::Options;
use penstock_records::Records;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{admin, clock, output};

const OPENS_IN_SECONDS: u32 = 30;
const OPEN_FOR_SECONDS: u32 = 3600;
const UNITS: u32 = 100;
const PHONE: &str = "+8613800000000";
const PASSWORD: &str = "demo-password";
const SALE_TITLE: &str = "Phone X";

/// Title, description, regular price.
const ITEMS: [(&str, &str, &str); 3] = [
    (SALE_TITLE, "The phone everybody wants, for half of what it costs elsewhere.", "3999.00"),
    ("Headphones Q", "They hear nothing but the music.", "899.00"),
    ("Kettle K", "Boils before you have found the cups.", "249.00"),
];
const SALE_PRICE: &str = "1999.00";

/// The demo's way into the API.
#[derive(Debug)]
pub(crate) struct Demo {
    admin_token: String,
    /// The token was made for the demo, so it may be shown.
    token_is_ours: bool,
}

impl Demo {
    /// Lets newcomers sign up without a phone, and makes an admin token if none is configured.
    pub(crate) fn prepare(options: &mut Options) -> anyhow::Result<Self> {
        options.codes_in_answers = true;
        if let Some(configured) = &options.admin_token {
            return Ok(Self { admin_token: configured.clone(), token_is_ours: false });
        }
        let mut random = [0u8; 16];
        getrandom::fill(&mut random).context("the system gives no random bytes")?;
        let admin_token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        options.admin_token = Some(admin_token.clone());
        Ok(Self { admin_token, token_is_ours: true })
    }

    /// Makes sure that there is a demo sale to buy from, and prints how to.
    pub(crate) async fn seed(&self, address: SocketAddr, records: &Records) -> anyhow::Result<()> {
        let api = Api { address: reachable(address) };
        let sale = match self.sale_that_is_not_over(&api).await? {
            Some(sale) => sale,
            None => self.publish(&api).await?,
        };
        admin::ensure_account(records, PHONE, "Demo Buyer", PASSWORD).await?;
        let credentials = json!({ "phone": PHONE, "password": PASSWORD });
        let session = api.call("POST", "/api/v1/sessions", None, Some(credentials)).await?;
        output::write(&self.instructions(&api, &sale, text(&session, "token")?)?)
    }

    async fn sale_that_is_not_over(&self, api: &Api) -> anyhow::Result<Option<Value>> {
        let sales = api.call("GET", "/api/v1/sales?limit=100", None, None).await?;
        let sales = sales["data"].as_array().cloned().unwrap_or_default();
        let still_on = |sale: &Value| matches!(sale["state"].as_str(), Some("scheduled" | "open"));
        Ok(sales.into_iter().find(|sale| sale["item"]["title"] == SALE_TITLE && still_on(sale)))
    }

    async fn publish(&self, api: &Api) -> anyhow::Result<Value> {
        let admin = Some(self.admin_token.as_str());
        let item = self.item_for_sale(api).await?;
        let opens_at = clock::now().plus_seconds(OPENS_IN_SECONDS);
        let draft = json!({
            "item_id": item,
            "price": { "amount": SALE_PRICE, "currency": "CNY" },
            "units": UNITS,
            "limit_per_buyer": 2,
            "opens_at": clock::rfc3339(opens_at),
            "closes_at": clock::rfc3339(opens_at.plus_seconds(OPEN_FOR_SECONDS)),
            "hold_seconds": 900,
        });
        let draft = api.call("POST", "/api/v1/admin/sales", admin, Some(draft)).await?;
        let path = format!("/api/v1/admin/sales/{}/publish", text(&draft, "id")?);
        api.call("POST", &path, admin, None).await
    }

    /// The id of the item on sale; creates the items on a fresh folder.
    async fn item_for_sale(&self, api: &Api) -> anyhow::Result<String> {
        let known = api.call("GET", "/api/v1/items?limit=100", None, None).await?;
        let known = known["data"].as_array().cloned().unwrap_or_default();
        let mut for_sale = known.iter().find(|item| item["title"] == SALE_TITLE).cloned();
        for (title, description, regular_price) in ITEMS {
            if known.iter().any(|item| item["title"] == title) {
                continue;
            }
            let item = json!({
                "title": title,
                "description": description,
                "regular_price": { "amount": regular_price, "currency": "CNY" },
            });
            let created =
                api.call("POST", "/api/v1/admin/items", Some(&self.admin_token), Some(item)).await?;
            if title == SALE_TITLE {
                for_sale = Some(created);
            }
        }
        text(&for_sale.context("the demo has no item to sell")?, "id").map(str::to_owned)
    }

    fn instructions(&self, api: &Api, sale: &Value, token: &str) -> anyhow::Result<String> {
        let url = format!("http://{}", api.address);
        let id = text(sale, "id")?;
        let opens_at = text(sale, "opens_at")?;
        let admin = if self.token_is_ours {
            format!("\n  export ADMIN_TOKEN={}", self.admin_token)
        } else {
            String::new()
        };
        Ok(format!(
            r#"
Demo: {UNITS} units of {SALE_TITLE:?} for CNY {SALE_PRICE}, on sale from {opens_at}
  the sale   {url}/api/v1/sales/{id}
  the API    {url}/docs
  the buyer  phone {PHONE}, password {PASSWORD}

Paste into another terminal; from the opening on it sells:
  export URL={url}
  export SALE={id}
  export TOKEN={token}{admin}
  curl -s $URL/api/v1/sales/$SALE
  curl -s $URL/api/v1/sales/$SALE/orders -H "Authorization: Bearer $TOKEN" \
    -H "Idempotency-Key: my-first-order" -H "Content-Type: application/json" -d '{{"quantity":1}}'
  curl -s $URL/api/v1/orders -H "Authorization: Bearer $TOKEN"
"#
        ))
    }
}

/// An address to call ourselves by: "all addresses" is none.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn text<'a>(value: &'a Value, name: &str) -> anyhow::Result<&'a str> {
    value[name].as_str().with_context(|| format!("no {name} in {value}"))
}

/// Just enough of an HTTP client to be one's own merchant: a connection for each call.
#[derive(Debug)]
struct Api {
    address: SocketAddr,
}

impl Api {
    async fn call(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: Option<Value>,
    ) -> anyhow::Result<Value> {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.address);
        if let Some(token) = token {
            head.push_str(&format!("authorization: Bearer {token}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
        }
        let mut stream = TcpStream::connect(self.address).await?;
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        let answer = String::from_utf8(answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("half an answer")?;
        if !head.starts_with("HTTP/1.1 2") {
            bail!("{method} {path} was answered {}: {body}", head.lines().next().unwrap_or_default());
        }
        Ok(serde_json::from_str(body)?)
    }
}
