//! A shop's own tokens. Only the configured key decides which algorithm counts, so that a token can't choose
//! a weaker one.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use penstock_domain::{BuyerId, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::options::{JwtKey, JwtOptions};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the public key for shop tokens is neither an Ed25519 nor an RSA key in PEM: {0}")]
pub struct InvalidJwtKey(String);

/// The claims that are used. A role is not among them: a shop's token never makes an admin.
#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: f64,
    nbf: Option<f64>,
}

pub(super) struct JwtVerifier {
    key: DecodingKey,
    validation: Validation,
    leeway_seconds: f64,
}

impl JwtVerifier {
    pub(super) fn new(options: &JwtOptions) -> Result<Self, InvalidJwtKey> {
        let (key, algorithm) = match &options.key {
            JwtKey::Secret(secret) => (DecodingKey::from_secret(secret), Algorithm::HS256),
            JwtKey::PublicKeyPem(pem) => public_key(pem)?,
        };
        let mut validation = Validation::new(algorithm);
        validation.set_required_spec_claims(&["exp", "sub"]);
        // The library would read the system's clock. We check the times against the one passed in.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        match &options.audience {
            Some(audience) => validation.set_audience(&[audience]),
            None => validation.validate_aud = false,
        }
        if let Some(issuer) = &options.issuer {
            validation.set_issuer(&[issuer]);
        }
        // Without this, a token that lacks the claim would pass.
        let issuer = options.issuer.as_ref().map(|_| "iss");
        let audience = options.audience.as_ref().map(|_| "aud");
        let required: Vec<&str> = ["exp", "sub"].into_iter().chain(issuer).chain(audience).collect();
        validation.set_required_spec_claims(&required);
        Ok(Self { key, validation, leeway_seconds: f64::from(options.leeway_seconds) })
    }

    pub(super) fn verify(&self, token: &str, now: Timestamp) -> Option<BuyerId> {
        let decoded = jsonwebtoken::decode::<Claims>(token, &self.key, &self.validation).ok()?;
        if has_critical(token)? {
            return None;
        }
        let claims = decoded.claims;
        let now_seconds = now.as_millis() as f64 / 1000.0;
        let expired = claims.exp + self.leeway_seconds <= now_seconds;
        let too_early = claims.nbf.is_some_and(|nbf| nbf - self.leeway_seconds > now_seconds);
        if expired || too_early || !claims.exp.is_finite() {
            return None;
        }
        BuyerId::of_subject(&claims.sub).ok()
    }
}

/// RFC 7515: a server has to refuse a token if it does not understand everything that `crit` names, and we
/// understand none of it. The library treats a `null` header like a missing one, so we check for it here.
fn has_critical(token: &str) -> Option<bool> {
    let (header, _) = token.split_once('.')?;
    let header = URL_SAFE_NO_PAD.decode(header).ok()?;
    let header: Map<String, Value> = serde_json::from_slice(&header).ok()?;
    Some(header.contains_key("crit"))
}

fn public_key(pem: &str) -> Result<(DecodingKey, Algorithm), InvalidJwtKey> {
    if let Ok(key) = DecodingKey::from_ed_pem(pem.as_bytes()) {
        return Ok((key, Algorithm::EdDSA));
    }
    match DecodingKey::from_rsa_pem(pem.as_bytes()) {
        Ok(key) => Ok((key, Algorithm::RS256)),
        Err(error) => Err(InvalidJwtKey(error.to_string())),
    }
}
