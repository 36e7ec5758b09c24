//! Orders as the shop's own page sends them: with a session in a cookie, and with the headers of a browser.

use anyhow::Context;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use penstock_rush::api::ShopApi;
use sha2::{Digest as _, Sha256};

/// Far in the future, in milliseconds.
const EXPIRES_AT: i64 = 4_102_444_800_000;

/// Signs session tokens with the secret of the server. Signing up an account for each buyer would take hours,
/// and the server looks nothing up when it checks a session. The form of a token is the server's own
/// (`identity/session.rs`), and has to follow it.
pub(crate) struct BrowserSessions(Hmac<Sha256>);

impl BrowserSessions {
    /// `secret` is the server's `identity.secret`.
    pub(crate) fn new(secret: &str) -> anyhow::Result<Self> {
        let keyed = Hmac::<Sha256>::new_from_slice(&Sha256::digest(secret));
        Ok(Self(keyed.context("the secret is not a key")?.chain_update(b"penstock session\0")))
    }

    pub(crate) fn token(&self, account: u64) -> String {
        let mut payload = Vec::with_capacity(42);
        payload.push(1);
        payload.extend(account.to_be_bytes());
        // The id of the session: like an account's, a number of its own is enough.
        payload.extend(u128::from(account).to_be_bytes());
        payload.extend(0_i64.to_be_bytes());
        payload.extend(EXPIRES_AT.to_be_bytes());
        payload.push(0);
        let signature = self.0.clone().chain_update(&payload).finalize().into_bytes();
        format!("pst_{}", URL_SAFE_NO_PAD.encode([&payload[..], &signature].concat()))
    }

    /// The line of a head that says which buyer it is, as a browser writes it.
    pub(crate) fn cookie(&self, account: u64) -> String {
        format!("Cookie: penstock_session={}; penstock_signed_in=1\r\n", self.token(account))
    }

    /// The same session as a program would send it.
    pub(crate) fn bearer(&self, account: u64) -> String {
        format!("Authorization: Bearer {}\r\n", self.token(account))
    }
}

/// The further headers of an order from the page of a sale, as Firefox sends them.
pub(crate) fn order_headers(api: &ShopApi, sale: &str) -> String {
    let origin = format!("http://{}", api.address);
    format!(
        "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
         Accept: */*\r\nAccept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate\r\n\
         Referer: {origin}/sales/{sale}\r\nOrigin: {origin}\r\nConnection: keep-alive\r\nSec-Fetch-Dest: empty\r\n\
         Sec-Fetch-Mode: cors\r\nSec-Fetch-Site: same-origin\r\nPriority: u=0\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_differ_by_account_and_are_equally_long() {
        let sessions = BrowserSessions::new("secret").unwrap();
        let (one, two) = (sessions.cookie(1), sessions.cookie(u64::MAX));
        assert!(one != two && one.len() == two.len() && one.ends_with("; penstock_signed_in=1\r\n"), "{one}");
        assert_ne!(sessions.token(1), BrowserSessions::new("another").unwrap().token(1));
    }
}
