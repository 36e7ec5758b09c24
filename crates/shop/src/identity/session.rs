//! Session tokens: the whole session, signed. Verifying one needs no look-up.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac as _};
use penstock_domain::{AccountId, Timestamp};
use sha2::Sha256;

use super::signature::keyed;

/// Distinguishes a session token from a shop's token.
pub(super) const PREFIX: &str = "pst_";

const VERSION: u8 = 1;
const ID_BYTES: usize = 16;
const MAC_BYTES: usize = 32;
/// Version, account, session id, issued, expires, role.
const PAYLOAD_BYTES: usize = 1 + 8 + ID_BYTES + 8 + 8 + 1;
const TOKEN_BYTES: usize = PAYLOAD_BYTES + MAC_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId([u8; ID_BYTES]);

impl SessionId {
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; ID_BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// The form in which the records keep it.
    pub fn to_text(self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    pub fn from_text(text: &str) -> Option<Self> {
        URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok().map(Self)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    pub account: AccountId,
    pub id: SessionId,
    pub issued_at: Timestamp,
    pub expires_at: Timestamp,
    /// Whether the account had the admin role when the session began.
    pub admin: bool,
}

impl Session {
    fn to_bytes(self) -> [u8; PAYLOAD_BYTES] {
        let mut bytes = [0; PAYLOAD_BYTES];
        bytes[0] = VERSION;
        bytes[1..9].copy_from_slice(&self.account.as_u64().to_be_bytes());
        bytes[9..25].copy_from_slice(&self.id.0);
        bytes[25..33].copy_from_slice(&self.issued_at.as_millis().to_be_bytes());
        bytes[33..41].copy_from_slice(&self.expires_at.as_millis().to_be_bytes());
        bytes[41] = u8::from(self.admin);
        bytes
    }

    fn from_bytes(bytes: &[u8; PAYLOAD_BYTES]) -> Option<Self> {
        let word = |at: usize| bytes[at..at + 8].try_into().ok().map(i64::from_be_bytes);
        if bytes[0] != VERSION {
            return None;
        }
        Some(Self {
            account: AccountId::from_i64(word(1)?),
            id: SessionId(bytes[9..25].try_into().ok()?),
            issued_at: Timestamp::from_millis(word(25)?),
            expires_at: Timestamp::from_millis(word(33)?),
            admin: bytes[41] == 1,
        })
    }
}

/// Keyed once; each use starts from a copy of the keyed state.
pub(super) struct SessionSigner(Hmac<Sha256>);

impl SessionSigner {
    pub(super) fn new(secret: &[u8; 32]) -> Self {
        let mut keyed = keyed(secret);
        // Separates this from everything else that the secret signs.
        keyed.update(b"penstock session\0");
        Self(keyed)
    }

    pub(super) fn token(&self, session: &Session) -> String {
        let payload = session.to_bytes();
        let mut bytes = [0; TOKEN_BYTES];
        bytes[..PAYLOAD_BYTES].copy_from_slice(&payload);
        let mac = self.0.clone().chain_update(payload).finalize().into_bytes();
        bytes[PAYLOAD_BYTES..].copy_from_slice(&mac);
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// The session, if the token is ours. The caller has to check whether it is still valid.
    pub(super) fn verify(&self, token: &str) -> Option<Session> {
        let mut bytes = [0; TOKEN_BYTES];
        let length = URL_SAFE_NO_PAD.decode_slice(token.strip_prefix(PREFIX)?, &mut bytes).ok()?;
        let (payload, mac) = bytes.get(..length)?.split_first_chunk::<PAYLOAD_BYTES>()?;
        // Compares in constant time.
        self.0.clone().chain_update(payload).verify_slice(mac).ok()?;
        Session::from_bytes(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        Session {
            account: AccountId::from_random(77),
            id: SessionId([5; ID_BYTES]),
            issued_at: Timestamp::from_millis(1),
            expires_at: Timestamp::from_millis(2),
            admin: false,
        }
    }

    #[test]
    fn a_token_reads_back_as_signed() {
        let signer = SessionSigner::new(&[1; 32]);
        for admin in [false, true] {
            let session = Session { admin, ..session() };
            assert_eq!(signer.verify(&signer.token(&session)), Some(session));
        }
    }

    #[test]
    fn a_token_with_any_character_changed_is_refused() {
        let signer = SessionSigner::new(&[1; 32]);
        let token = signer.token(&session());
        for place in 0..token.len() {
            let mut forged = token.clone().into_bytes();
            forged[place] = if forged[place] == b'A' { b'B' } else { b'A' };
            assert_eq!(signer.verify(std::str::from_utf8(&forged).unwrap()), None, "at {place}");
        }
        assert_eq!(signer.verify(&token[..token.len() - 1]), None);
        assert_eq!(signer.verify(&format!("{token}A")), None);
        assert_eq!(SessionSigner::new(&[2; 32]).verify(&token), None, "another secret");
    }
}
