//! The keys that the gate signs with. Each purpose has its own, derived from the node's secret, so that a
//! pass can never be mistaken for a ticket. Two secrets are good at a time, so signatures outlive one
//! rotation.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use penstock_domain::SaleId;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// 128 bits, too many to guess.
pub(crate) const TAG_BYTES: usize = 16;
pub(crate) const KEY_ID_BYTES: usize = 4;
pub(crate) const SIGNATURE_BYTES: usize = KEY_ID_BYTES + TAG_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Challenge,
    CaptchaAnswer,
    Pass,
    Ticket,
    BuyerTag,
}

const PURPOSES: [(Purpose, &[u8]); 5] = [
    (Purpose::Challenge, b"penstock challenge 1"),
    (Purpose::CaptchaAnswer, b"penstock captcha answer 1"),
    (Purpose::Pass, b"penstock pass 1"),
    (Purpose::Ticket, b"penstock ticket 1"),
    (Purpose::BuyerTag, b"penstock buyer tag 1"),
];

/// The form of a sale in everything that is signed.
pub(crate) fn sale_bytes(sale: SaleId) -> [u8; 8] {
    sale.as_u64().to_be_bytes()
}

/// The id of the signing key, and the tag it made from the message.
pub(crate) type Signature = [u8; SIGNATURE_BYTES];

#[derive(Clone)]
struct Keys {
    id: [u8; KEY_ID_BYTES],
    /// One per purpose, with the key already absorbed.
    macs: [Hmac<Sha256>; PURPOSES.len()],
}

impl Keys {
    fn new(secret: &[u8; 32]) -> Self {
        let digest = Sha256::new().chain_update(b"penstock key id 1").chain_update(secret).finalize();
        let mut id = [0; KEY_ID_BYTES];
        id.copy_from_slice(&digest[..KEY_ID_BYTES]);
        let macs = PURPOSES.map(|(_, name)| keyed(&keyed(secret).chain_update(name).finalize().into_bytes()));
        Self { id, macs }
    }

    fn tag(&self, purpose: Purpose, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
        let mut mac = self.macs[purpose as usize].clone();
        for part in parts {
            mac.update(part);
        }
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&mac.finalize().into_bytes()[..TAG_BYTES]);
        tag
    }
}

/// Keys of any length are accepted, so the fallback never happens.
fn keyed(secret: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(secret).unwrap_or_else(|_| Hmac::new(&Default::default()))
}

#[derive(Clone)]
pub struct KeyRing {
    current: Keys,
    previous: Option<Keys>,
}

impl KeyRing {
    /// `previous` is the secret before the last rotation. Its signatures are still good.
    pub fn new(current: &[u8; 32], previous: Option<&[u8; 32]>) -> Self {
        Self { current: Keys::new(current), previous: previous.map(Keys::new) }
    }

    /// Signs the concatenation of the parts. Only the last part may vary in length.
    pub(crate) fn sign(&self, purpose: Purpose, parts: &[&[u8]]) -> Signature {
        let mut signature = [0; SIGNATURE_BYTES];
        signature[..KEY_ID_BYTES].copy_from_slice(&self.current.id);
        signature[KEY_ID_BYTES..].copy_from_slice(&self.current.tag(purpose, parts));
        signature
    }

    /// Takes the same time for every signature, right or wrong: an unknown key costs a MAC, too.
    pub(crate) fn verifies(&self, purpose: Purpose, parts: &[&[u8]], signature: &Signature) -> bool {
        let (id, tag) = signature.split_at(KEY_ID_BYTES);
        self.verifies_start(purpose, parts, id, tag)
    }

    /// Like `verifies`, for a tag that is cut to its first bytes and was made by the key with this id. The
    /// purpose fixes the number of bytes, so an attacker can't choose it.
    pub(crate) fn verifies_start(&self, purpose: Purpose, parts: &[&[u8]], id: &[u8], start: &[u8]) -> bool {
        let is_previous = |keys: &&Keys| keys.id == id;
        let keys = self.previous.as_ref().filter(is_previous).unwrap_or(&self.current);
        let tag = keys.tag(purpose, parts);
        (keys.id.ct_eq(id) & tag[..start.len().min(TAG_BYTES)].ct_eq(start)).into()
    }
}

/// Leaves out the secrets.
impl fmt::Debug for KeyRing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("KeyRing")
            .field("has_previous", &self.previous.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_good_for_its_purpose_and_message_only() {
        let ring = KeyRing::new(&[1; 32], None);
        let signature = ring.sign(Purpose::Pass, &[b"sale", b"buyer"]);
        assert!(ring.verifies(Purpose::Pass, &[b"sale", b"buyer"], &signature));
        assert!(!ring.verifies(Purpose::Ticket, &[b"sale", b"buyer"], &signature));
        assert!(!ring.verifies(Purpose::Pass, &[b"sale", b"buyes"], &signature));
        for bit in 0..SIGNATURE_BYTES * 8 {
            let mut forged = signature;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(!ring.verifies(Purpose::Pass, &[b"sale", b"buyer"], &forged), "bit {bit}");
        }
    }

    #[test]
    fn a_signature_outlives_one_rotation_but_not_two() {
        let (first, second, third) = ([1; 32], [2; 32], [3; 32]);
        let old = KeyRing::new(&first, None).sign(Purpose::Pass, &[b"m"]);
        assert!(KeyRing::new(&second, Some(&first)).verifies(Purpose::Pass, &[b"m"], &old));
        assert!(!KeyRing::new(&third, Some(&second)).verifies(Purpose::Pass, &[b"m"], &old));
        let new = KeyRing::new(&second, Some(&first)).sign(Purpose::Pass, &[b"m"]);
        assert!(KeyRing::new(&second, None).verifies(Purpose::Pass, &[b"m"], &new));
    }
}
