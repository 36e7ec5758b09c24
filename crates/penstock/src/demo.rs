//! `--demo`: a few items and a sale that opens in half a minute, put there through the API like any merchant's,
//! and the lines to buy from it.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use penstock_http::{JwtKey, JwtOptions, Options};
use penstock_records::Records;
use penstock_rush::api::{Api, text};
use serde_json::{Value, json};

use crate::{admin, clock, demo_file::DemoFile, output};

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
#[derive(Clone, Debug)]
pub(crate) struct Demo {
    data: PathBuf,
    admin_token: String,
    /// The token was made for the demo, so it may be shown.
    token_is_ours: bool,
    /// Lets simulated buyers in; `None` if the shop has its own.
    jwt_secret: Option<String>,
}

impl Demo {
    /// Lets newcomers sign up without a phone and simulated buyers come with tokens, and makes an admin token if none
    /// is configured.
    pub(crate) fn prepare(options: &mut Options, data: &Path) -> anyhow::Result<Self> {
        options.codes_in_answers = true;
        let jwt_secret = if options.jwt.is_none() { Some(random_token()?) } else { None };
        if let Some(secret) = &jwt_secret {
            let key = JwtKey::Secret(secret.clone().into_bytes());
            options.jwt = Some(JwtOptions { key, issuer: None, audience: None, leeway_seconds: 0 });
        }
        let (admin_token, token_is_ours) = match &options.admin_token {
            Some(configured) => (configured.clone(), false),
            None => (random_token()?, true),
        };
        options.admin_token = Some(admin_token.clone());
        Ok(Self { data: data.to_owned(), admin_token, token_is_ours, jwt_secret })
    }

    /// Makes sure that there is a demo sale to buy from, and prints how to.
    pub(crate) async fn seed(&self, address: SocketAddr, records: &Records) -> anyhow::Result<()> {
        admin::ensure_account(records, PHONE, "Demo Buyer", PASSWORD).await?;
        let (demo, api) = (self.clone(), Api::new(reachable(address), &self.admin_token));
        // The client waits for its answers, and this thread has others to serve.
        let told = tokio::task::spawn_blocking(move || demo.put_on_sale(&api));
        output::write(&told.await.context("the demo has ended by itself")??)
    }

    /// Publishes what is missing and returns the lines to print.
    fn put_on_sale(&self, api: &Api) -> anyhow::Result<String> {
        let sale = match sale_that_is_not_over(api)? {
            Some(sale) => sale,
            None => publish(api)?,
        };
        let credentials = json!({ "phone": PHONE, "password": PASSWORD });
        let session = api.ask("POST", "/api/v1/sessions", None, Some(&credentials))?;
        if session.status != 201 {
            bail!("the demo's buyer can't sign in: {}", session.in_words());
        }
        let url = format!("http://{}", api.address);
        let admin_token = self.token_is_ours.then(|| self.admin_token.clone());
        DemoFile { url, admin_token, jwt_secret: self.jwt_secret.clone() }.write(&self.data)?;
        self.instructions(api, &sale, &text(&session.body, "token")?)
    }

    fn instructions(&self, api: &Api, sale: &Value, token: &str) -> anyhow::Result<String> {
        let url = format!("http://{}", api.address);
        let (id, opens_at) = (text(sale, "id")?, text(sale, "opens_at")?);
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

Or send 30,000 simulated buyers at a sale of 200 units, and see whether every promise is kept:
  make rush
"#
        ))
    }
}

fn sale_that_is_not_over(api: &Api) -> anyhow::Result<Option<Value>> {
    let sales = api.call("GET", "/api/v1/sales?limit=100", None, 200)?;
    let sales = sales["data"].as_array().cloned().unwrap_or_default();
    let still_on = |sale: &Value| matches!(sale["state"].as_str(), Some("scheduled" | "open"));
    Ok(sales.into_iter().find(|sale| sale["item"]["title"] == SALE_TITLE && still_on(sale)))
}

fn publish(api: &Api) -> anyhow::Result<Value> {
    let opens_at = clock::now().plus_seconds(OPENS_IN_SECONDS);
    let draft = json!({
        "item_id": item_for_sale(api)?,
        "price": { "amount": SALE_PRICE, "currency": "CNY" },
        "units": UNITS,
        "limit_per_buyer": 2,
        "opens_at": clock::rfc3339(opens_at),
        "closes_at": clock::rfc3339(opens_at.plus_seconds(OPEN_FOR_SECONDS)),
        "hold_seconds": 900,
    });
    let draft = api.call("POST", "/api/v1/admin/sales", Some(&draft), 201)?;
    api.call("POST", &format!("/api/v1/admin/sales/{}/publish", text(&draft, "id")?), None, 200)
}

/// The id of the item on sale; creates the items on a fresh folder.
fn item_for_sale(api: &Api) -> anyhow::Result<String> {
    let known = api.call("GET", "/api/v1/items?limit=100", None, 200)?;
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
        let created = api.call("POST", "/api/v1/admin/items", Some(&item), 201)?;
        if title == SALE_TITLE {
            for_sale = Some(created);
        }
    }
    text(&for_sale.context("the demo has no item to sell")?, "id")
}

/// 128 bits that nobody can guess, in hexadecimal.
fn random_token() -> anyhow::Result<String> {
    let mut random = [0u8; 16];
    getrandom::fill(&mut random).context("the system gives no random bytes")?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
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
