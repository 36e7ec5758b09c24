//! A shop's own tokens (JWT, HS256), for simulated buyers of the shop.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use sha2::Sha256;

/// Far in the future, so that no clock is needed: a bench's tokens are useless once its server is gone.
const EXPIRES_AT_SECONDS: u64 = 4_102_444_800;
const HEADER: &str = r#"{"typ":"JWT","alg":"HS256"}"#;
const SUBJECT: &str = r#"{"sub":"#;

/// All claims except the subject.
#[derive(Serialize)]
struct OtherClaims<'a> {
    exp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
}

/// Signs tokens that differ only in their subject. The common part is prepared: a crowd needs a token for
/// every request, in less time than the request takes.
#[derive(Clone)]
pub struct TokenSigner {
    /// The key is already fed in.
    mac: Hmac<Sha256>,
    expires_at_seconds: u64,
    /// The header, encoded, with its dot.
    header: String,
    /// The part after the subject, up to the end of the claims.
    rest: Vec<u8>,
}

impl TokenSigner {
    /// Signs tokens that outlive every run.
    pub fn lasting(secret: &[u8]) -> Self {
        Self::new(secret, EXPIRES_AT_SECONDS)
    }

    pub fn new(secret: &[u8], expires_at_seconds: u64) -> Self {
        let header = URL_SAFE_NO_PAD.encode(HEADER) + ".";
        Self { mac: keyed(secret), expires_at_seconds, header, rest: rest(expires_at_seconds, None, None) }
    }

    /// Sets `iss` and `aud`, if the server asks for them.
    #[must_use]
    pub fn with_parties(mut self, issuer: Option<String>, audience: Option<String>) -> Self {
        self.rest = rest(self.expires_at_seconds, issuer.as_deref(), audience.as_deref());
        self
    }

    pub fn token(&self, buyer: &str) -> String {
        let mut token = String::new();
        self.write(&[buyer], &mut token);
        token
    }

    /// Appends the token of the buyer whose name consists of these parts.
    pub(crate) fn write(&self, buyer: &[&str], token: &mut String) {
        let start = token.len();
        let mut claims = Vec::with_capacity(SUBJECT.len() + self.rest.len() + 64);
        claims.extend_from_slice(SUBJECT.as_bytes());
        // Writing a text into memory does not fail.
        let _ = serde_json::to_writer(&mut claims, &Joined(buyer));
        claims.extend_from_slice(&self.rest);
        token.push_str(&self.header);
        URL_SAFE_NO_PAD.encode_string(&claims, token);
        let signed = token.as_bytes().get(start..).unwrap_or_default();
        let signature = self.mac.clone().chain_update(signed).finalize().into_bytes();
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, token);
    }
}

/// A text in parts.
struct Joined<'a>(&'a [&'a str]);

impl Serialize for Joined<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Joined<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| formatter.write_str(part))
    }
}

/// HMAC takes a key of any length, so the other branch is never taken.
fn keyed(secret: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(secret).unwrap_or_else(|_| Hmac::new(&Default::default()))
}

/// The claims after the subject.
fn rest(expires_at_seconds: u64, issuer: Option<&str>, audience: Option<&str>) -> Vec<u8> {
    let claims = OtherClaims { exp: expires_at_seconds, iss: issuer, aud: audience };
    let mut rest = serde_json::to_vec(&claims).unwrap_or_default();
    // The subject has opened the object already.
    if let Some(brace) = rest.first_mut() {
        *brace = b',';
    }
    rest
}

impl fmt::Debug for TokenSigner {
    /// Leaves out the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("TokenSigner");
        shown.field("expires_at_seconds", &self.expires_at_seconds).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
    use serde_json::Value;

    use super::*;

    /// The claims of a token, if its signature, issuer and audience are right.
    fn claims(token: &str, secret: &[u8], parties: Option<(&str, &str)>) -> Option<Value> {
        let mut validation = Validation::new(Algorithm::HS256);
        match parties {
            Some((issuer, audience)) => {
                validation.set_issuer(&[issuer]);
                validation.set_audience(&[audience]);
            }
            None => validation.validate_aud = false,
        }
        decode(token, &DecodingKey::from_secret(secret), &validation).ok().map(|token| token.claims)
    }

    #[test]
    fn a_token_says_whose_it_is_and_how_long() {
        let signer = TokenSigner::lasting(b"secret");
        let claims = claims(&signer.token("buyer \"7\""), b"secret", None).unwrap();
        assert_eq!(claims["sub"], "buyer \"7\"");
        assert_eq!(claims["exp"], EXPIRES_AT_SECONDS);
        assert_eq!(claims.get("iss"), None);
        assert_eq!(signer.token("buyer-7"), {
            let mut token = String::new();
            signer.write(&["buyer", "-", "7"], &mut token);
            token
        });
    }

    #[test]
    fn a_token_names_the_parties_the_server_asks_for() {
        let parties = (Some("shop".to_owned()), Some("penstock".to_owned()));
        let token = TokenSigner::lasting(b"s").with_parties(parties.0, parties.1).token("b");
        assert!(claims(&token, b"s", Some(("shop", "penstock"))).is_some());
        assert!(claims(&token, b"s", Some(("shop", "another"))).is_none());
    }

    #[test]
    fn another_secret_makes_another_signature() {
        let long = [7_u8; 200];
        let token = TokenSigner::lasting(&long).token("b");
        assert!(claims(&token, &long, None).is_some());
        assert!(claims(&token, b"secret", None).is_none());
    }
}
