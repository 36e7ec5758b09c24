//! A shop's own tokens (JWT, HS256), for load that comes as buyers of the shop.

use std::fmt;

use anyhow::Context;
use jsonwebtoken::{EncodingKey, Header};
use serde::Serialize;

/// Far in the future, so that no clock is needed: a bench's tokens die with its server's secret.
const EXPIRES_AT_SECONDS: u64 = 4_102_444_800;

#[derive(Serialize)]
struct Claims<'a> {
    sub: &'a str,
    exp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
}

/// Signs tokens that differ only in whose they are.
pub struct TokenSigner {
    key: EncodingKey,
    expires_at_seconds: u64,
    issuer: Option<String>,
    audience: Option<String>,
}

impl TokenSigner {
    /// Its tokens outlive every run.
    pub fn lasting(secret: &[u8]) -> Self {
        Self::new(secret, EXPIRES_AT_SECONDS)
    }

    pub fn new(secret: &[u8], expires_at_seconds: u64) -> Self {
        Self { key: EncodingKey::from_secret(secret), expires_at_seconds, issuer: None, audience: None }
    }

    /// What the server wants `iss` and `aud` to be, where it does.
    #[must_use]
    pub fn with_parties(mut self, issuer: Option<String>, audience: Option<String>) -> Self {
        (self.issuer, self.audience) = (issuer, audience);
        self
    }

    pub fn token(&self, buyer: &str) -> anyhow::Result<String> {
        let claims = Claims {
            sub: buyer,
            exp: self.expires_at_seconds,
            iss: self.issuer.as_deref(),
            aud: self.audience.as_deref(),
        };
        jsonwebtoken::encode(&Header::default(), &claims, &self.key).context("cannot sign a token")
    }
}

impl fmt::Debug for TokenSigner {
    /// Leaves out the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("TokenSigner");
        shown.field("expires_at_seconds", &self.expires_at_seconds).finish_non_exhaustive()
    }
}

/// A lasting token of one buyer.
pub fn token(secret: &[u8], buyer: &str) -> anyhow::Result<String> {
    TokenSigner::lasting(secret).token(buyer)
}
