//! Tokens of a shop with its own users.

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

/// The secret with which every server of the tests is started.
pub const JWT_SECRET: &str = "a-shared-secret-of-shop-and-penstock-for-tests";

/// 2100-01-01: later than any test runs.
const FAR_FUTURE_SECONDS: u64 = 4_102_444_800;

/// The token of a buyer whose id in the shop is `subject`.
pub fn buyer_token(subject: &str) -> String {
    sign(&json!({ "sub": subject, "exp": FAR_FUTURE_SECONDS }), JWT_SECRET)
}

/// Signs any claims with any secret (HS256), so that tests can make wrong tokens, too.
pub fn sign(claims: &Value, secret: &str) -> String {
    let key = EncodingKey::from_secret(secret.as_bytes());
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &key)
        .unwrap_or_else(|error| panic!("a token can't be signed: {error}"))
}
