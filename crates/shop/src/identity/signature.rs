//! How the secret signs.

use hmac::{Hmac, KeyInit as _};
use sha2::Sha256;

/// An HMAC with our secret. Keys of any length are accepted, so the fallback never happens.
pub(super) fn keyed(secret: &[u8; 32]) -> Hmac<Sha256> {
    Hmac::new_from_slice(secret).unwrap_or_else(|_| Hmac::new(&Default::default()))
}
