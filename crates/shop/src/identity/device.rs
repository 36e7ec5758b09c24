//! Recognises browsers that have signed in to an account before. Such a device has its own allowance for
//! passwords, so that a stranger who guesses can't lock the owner out. The server stores nothing: the device
//! keeps a signed cookie with a list of entries, each bound to one phone number.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac as _};
use penstock_domain::Timestamp;
use sha2::Sha256;

use super::signature::keyed;

/// A device that has not signed in for this long is a stranger again.
pub const DEVICE_SECONDS: u32 = 365 * 24 * 3600;
/// How many people can share a browser without becoming strangers.
const MAX_IN_COOKIE: usize = 4;
const BETWEEN: char = '.';

const VERSION: u8 = 1;
const ID_BYTES: usize = 16;
const MAC_BYTES: usize = 32;
/// Version, id, issued.
const PAYLOAD_BYTES: usize = 1 + ID_BYTES + 8;
const TOKEN_BYTES: usize = PAYLOAD_BYTES + MAC_BYTES;
const TOKEN_CHARACTERS: usize = (TOKEN_BYTES * 4).div_ceil(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceId([u8; ID_BYTES]);

impl DeviceId {
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; ID_BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }
}

/// A device that has signed in before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownDevice {
    pub id: DeviceId,
    /// When it last signed in.
    pub known_since: Timestamp,
}

/// Keyed once; each use starts from a copy of the keyed state.
pub(super) struct DeviceSigner(Hmac<Sha256>);

impl DeviceSigner {
    pub(super) fn new(secret: &[u8; 32]) -> Self {
        let mut keyed = keyed(secret);
        // Separates this from everything else that the secret signs.
        keyed.update(b"penstock device\0");
        Self(keyed)
    }

    /// The phone is signed but not included: it does not belong into a cookie.
    fn token(&self, device: DeviceId, phone: &str, now: Timestamp) -> String {
        let mut bytes = [0; TOKEN_BYTES];
        bytes[0] = VERSION;
        bytes[1..=ID_BYTES].copy_from_slice(&device.0);
        bytes[1 + ID_BYTES..PAYLOAD_BYTES].copy_from_slice(&now.as_millis().to_be_bytes());
        let mac = self.0.clone().chain_update(&bytes[..PAYLOAD_BYTES]).chain_update(phone);
        bytes[PAYLOAD_BYTES..].copy_from_slice(&mac.finalize().into_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn verify(&self, token: &str, phone: &str, now: Timestamp) -> Option<KnownDevice> {
        let mut bytes = [0; TOKEN_BYTES];
        let length = URL_SAFE_NO_PAD.decode_slice(token, &mut bytes).ok()?;
        let (payload, mac) = bytes.get(..length)?.split_first_chunk::<PAYLOAD_BYTES>()?;
        // Compares in constant time.
        self.0.clone().chain_update(payload).chain_update(phone).verify_slice(mac).ok()?;
        let issued_at = i64::from_be_bytes(payload[1 + ID_BYTES..].try_into().ok()?);
        let known_since = Timestamp::from_millis(issued_at);
        let is_current = now < known_since.plus_seconds(DEVICE_SECONDS);
        let id = DeviceId(payload[1..=ID_BYTES].try_into().ok()?);
        (payload[0] == VERSION && is_current).then_some(KnownDevice { id, known_since })
    }
}

fn tokens(cookie: &str) -> impl Iterator<Item = &str> {
    cookie.split(BETWEEN).filter(|token| token.len() == TOKEN_CHARACTERS).take(MAX_IN_COOKIE)
}

/// The device, if it has signed in to an account with this phone before.
pub(super) fn known(signer: &DeviceSigner, kept: &str, phone: &str, now: Timestamp) -> Option<KnownDevice> {
    tokens(kept).find_map(|token| signer.verify(token, phone, now))
}

/// The cookie of a device that has just signed in. The device keeps its id.
pub(super) fn renewed(
    signer: &DeviceSigner,
    cookie: &str,
    device: DeviceId,
    phone: &str,
    now: Timestamp,
) -> String {
    let is_token = |token: &&str| {
        token.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            && signer.verify(token, phone, now).is_none()
    };
    let mut renewed = signer.token(device, phone, now);
    for token in tokens(cookie).filter(is_token).take(MAX_IN_COOKIE - 1) {
        renewed.push(BETWEEN);
        renewed.push_str(token);
    }
    renewed
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn known_by(signers: &[DeviceSigner], cookie: &str, phone: &str) -> Option<DeviceId> {
        let device = signers.iter().find_map(|signer| known(signer, cookie, phone, NOW))?;
        assert_eq!(device.known_since, NOW);
        Some(device.id)
    }

    #[test]
    fn a_device_is_known_for_the_phone_it_signed_in_to_only() {
        let signers = [DeviceSigner::new(&[1; 32]), DeviceSigner::new(&[2; 32])];
        let device = DeviceId([7; ID_BYTES]);
        let cookie = renewed(&signers[1], "", device, "+861", NOW);
        assert_eq!(known_by(&signers, &cookie, "+861"), Some(device), "the previous secret is valid, too");
        assert_eq!(known_by(&signers, &cookie, "+862"), None);
        assert_eq!(known_by(&signers[..1], &cookie, "+861"), None, "another secret");
        let later = NOW.plus_seconds(DEVICE_SECONDS);
        assert_eq!(known(&signers[0], &cookie, "+861", later), None, "it was too long ago");
        for place in 0..cookie.len() {
            let mut forged = cookie.clone().into_bytes();
            forged[place] = if forged[place] == b'A' { b'B' } else { b'A' };
            assert_eq!(known_by(&signers, std::str::from_utf8(&forged).unwrap(), "+861"), None, "at {place}");
        }
    }

    #[test]
    fn a_browser_remembers_its_last_four_people() {
        let signer = DeviceSigner::new(&[1; 32]);
        let phones = ["+861", "+862", "+863", "+864", "+865"];
        let mut cookie = "nonsense.\"; Domain=evil".to_owned();
        for phone in phones {
            let id = DeviceId::random().unwrap();
            cookie = renewed(&signer, &cookie, id, phone, NOW);
            cookie = renewed(&signer, &cookie, id, phone, NOW);
        }
        let signers = [signer];
        let is_known = phones.map(|phone| known_by(&signers, &cookie, phone).is_some());
        assert_eq!(is_known, [false, true, true, true, true]);
        assert_eq!(cookie.len(), MAX_IN_COOKIE * (TOKEN_CHARACTERS + 1) - 1);
    }
}
