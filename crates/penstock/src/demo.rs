//! `--demo`: a buyer's account, a merchant's account, something to buy, and the commands that buy it.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use penstock_http::ServerOptions;
use penstock_records::Records;
use penstock_rush::api::{ShopApi, text};
use penstock_shop::identity::{JwtKey, JwtOptions};
use serde_json::{Value, json};

use crate::{
    admin,
    demo_file::DemoFile,
    demo_goods::{self, HEADPHONES, KETTLE, PHONE},
    hexadecimal, output,
};

const BUYER: &str = "+8613800000000";
const BUYER_PASSWORD: &str = "demo-password";
const MERCHANT: &str = "+8613800000001";
const MERCHANT_PASSWORD_LETTERS: usize = 16;
const TOKEN_BYTES: usize = 16;
/// The Makefile has the same default.
const DEFAULT_ADDRESS: ([u8; 4], u16) = ([127, 0, 0, 1], 8080);
const DEFAULT_DATA: &str = "data";

/// The credentials that the demo uses.
#[derive(Clone, Debug)]
pub(crate) struct Demo {
    data: PathBuf,
    admin_token: String,
    /// None: an admin token is configured, so the demo must not open the console to anybody.
    merchant_password: Option<String>,
    /// Lets simulated buyers in. None: the shop has its own secret.
    jwt_secret: Option<String>,
}

impl Demo {
    /// Lets newcomers sign up without a phone and simulated buyers use tokens, and creates an admin token if
    /// none is configured. A demo that is started again keeps both, so that a rehearsal goes on after its
    /// server was killed.
    pub(crate) fn prepare(options: &mut ServerOptions, data: &Path) -> anyhow::Result<Self> {
        options.codes_in_answers = true;
        let (known_token, known_secret) =
            DemoFile::read(data).map_or((None, None), |before| (before.admin_token, before.jwt_secret));
        let jwt_secret =
            if options.shop.identity.jwt.is_none() { Some(kept_or_new(known_secret)?) } else { None };
        if let Some(secret) = &jwt_secret {
            let key = JwtKey::Secret(secret.clone().into_bytes());
            options.shop.identity.jwt =
                Some(JwtOptions { key, issuer: None, audience: None, leeway_seconds: 0 });
        }
        let (admin_token, merchant_password) = match &options.shop.identity.admin_token {
            Some(configured) => (configured.clone(), None),
            None => {
                let password =
                    hexadecimal::random::<TOKEN_BYTES>()?.chars().take(MERCHANT_PASSWORD_LETTERS).collect();
                (kept_or_new(known_token)?, Some(password))
            }
        };
        options.shop.identity.admin_token = Some(admin_token.clone());
        Ok(Self { data: data.to_owned(), admin_token, merchant_password, jwt_secret })
    }

    /// Runs before the first request is served: the merchant gets a new password at each start, and sessions
    /// with an older one must have ended.
    pub(crate) async fn make_accounts(&self, records: &Records) -> anyhow::Result<()> {
        admin::ensure_account(records, BUYER, "Demo Buyer", BUYER_PASSWORD).await?;
        if let Some(password) = &self.merchant_password {
            admin::renew_admin(records, MERCHANT, "Demo Merchant", password).await?;
        }
        Ok(())
    }

    /// Runs before the server says that it is ready, so that a rehearsal that starts at that moment can sign
    /// in.
    pub(crate) fn let_rehearsals_in(&self, address: SocketAddr) -> anyhow::Result<()> {
        let url = format!("http://{}", reachable(address));
        let admin_token = self.merchant_password.as_ref().map(|_| self.admin_token.clone());
        DemoFile { url, admin_token, jwt_secret: self.jwt_secret.clone() }.write(&self.data)
    }

    /// Makes sure that there is something to buy, and prints how to buy it.
    pub(crate) async fn seed(&self, address: SocketAddr) -> anyhow::Result<()> {
        let (demo, api) = (self.clone(), ShopApi::new(reachable(address), &self.admin_token));
        // The client blocks while it waits, and this thread serves other work.
        let told = tokio::task::spawn_blocking(move || demo.put_on_sale(&api));
        output::write(&told.await.context("the demo ended unexpectedly")??)
    }

    /// Publishes what is missing and returns the text to print.
    fn put_on_sale(&self, api: &ShopApi) -> anyhow::Result<String> {
        let sale = demo_goods::put_on_sale(api)?;
        let credentials = json!({ "phone": BUYER, "password": BUYER_PASSWORD });
        let session = api.ask("POST", "/api/v1/sessions", None, Some(&credentials))?;
        if session.status != 201 {
            bail!("the demo's buyer can't sign in: {}", session.in_words());
        }
        self.instructions(api, &sale, &text(&session.body, "token")?)
    }

    fn instructions(&self, api: &ShopApi, sale: &Value, token: &str) -> anyhow::Result<String> {
        let url = format!("http://{}", api.address);
        let (id, opens_at) = (text(sale, "id")?, text(sale, "opens_at")?);
        let (merchant, admin) = match &self.merchant_password {
            Some(password) => (
                format!("phone {MERCHANT}, password {password}"),
                format!("\n  export ADMIN_TOKEN={}", self.admin_token),
            ),
            None => {
                let own = "an admin token is configured, so the console is for your own accounts (penstock admin create)";
                (own.to_owned(), String::new())
            }
        };
        let rush = rush_line(api.address, &self.data);
        let (phones, phone, phone_price) = (PHONE.units, PHONE.title, PHONE.price);
        let (headphones, headphones_price) = (HEADPHONES.title, HEADPHONES.price);
        let (kettle, kettle_price) = (KETTLE.title, KETTLE.price);
        Ok(format!(
            r#"
  the shop      {url}/
  the console   {url}/console
  the API       {url}/docs

  a buyer       phone {BUYER}, password {BUYER_PASSWORD}
  the merchant  {merchant}

Demo: {phones} units of {phone:?} for CNY {phone_price}, on sale from {opens_at}
      {headphones:?} for CNY {headphones_price}, behind a waiting room and a proof of work
      {kettle:?} for CNY {kettle_price}, on regular sale

Paste this into another terminal; orders are accepted once the sale is open:
  export URL={url}
  export SALE={id}
  export TOKEN={token}{admin}
  curl -sw '\n' $URL/api/v1/sales/$SALE
  curl -sw '\n' $URL/api/v1/sales/$SALE/orders -H "Authorization: Bearer $TOKEN" \
    -H "Idempotency-Key: my-first-order" -H "Content-Type: application/json" -d '{{"quantity":1}}'
  curl -sw '\n' $URL/api/v1/orders -H "Authorization: Bearer $TOKEN"

Or send 30,000 simulated buyers at a sale of 200 units, and see whether every promise is kept:
  {rush}
"#
        ))
    }
}

/// The command for a rehearsal here, without what `make` has as defaults.
fn rush_line(address: SocketAddr, data: &Path) -> String {
    let mut line = "make rush".to_owned();
    if address != SocketAddr::from(DEFAULT_ADDRESS) {
        line += &format!(" URL=http://{address}");
    }
    if data != Path::new(DEFAULT_DATA) {
        line += &format!(" DATA={}", data.display());
    }
    line
}

/// The secret from an earlier start, unless somebody has made it easy to guess.
fn kept_or_new(known: Option<String>) -> anyhow::Result<String> {
    known.filter(|known| known.len() >= 2 * TOKEN_BYTES).map_or_else(hexadecimal::random::<TOKEN_BYTES>, Ok)
}

/// An address to reach ourselves by: a wildcard address is not one.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
