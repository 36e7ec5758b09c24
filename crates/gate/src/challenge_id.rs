//! The format of a challenge's id: kind, difficulty, nonce and time of issue, for a captcha also the MAC of
//! its answer, then the signature. It knows nothing of answers, the time or buyers.

use std::array;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use penstock_domain::Timestamp;

use crate::keys::{KEY_ID_BYTES, SIGNATURE_BYTES, Signature, TAG_BYTES};

pub(crate) const PROOF_OF_WORK: u8 = 1;
pub(crate) const CAPTCHA: u8 = 2;
/// Kind, difficulty, nonce, time of issue.
pub(crate) const HEAD_BYTES: usize = 1 + 1 + 8 + 8;
/// A captcha adds the MAC of its answer.
pub(crate) const CAPTCHA_BYTES: usize = HEAD_BYTES + TAG_BYTES;
pub(crate) const MAX_ID_BYTES: usize = CAPTCHA_BYTES + SIGNATURE_BYTES;

/// The content of an id. Do not trust it before the signature is verified.
pub(crate) struct Challenge<'a> {
    /// The bytes that are signed.
    pub(crate) fields: &'a [u8],
    pub(crate) head: &'a [u8; HEAD_BYTES],
    pub(crate) issued_at: Timestamp,
    pub(crate) task: Task<'a>,
    pub(crate) signature: &'a Signature,
}

pub(crate) enum Task<'a> {
    ProofOfWork { difficulty: u8 },
    Captcha { answer_tag: &'a [u8; TAG_BYTES] },
}

impl<'a> Challenge<'a> {
    /// There is only one way to write an id: spare bits, padding and trailing text are refused.
    pub(crate) fn read(id: &str, buffer: &'a mut [u8; MAX_ID_BYTES]) -> Option<Self> {
        let length = URL_SAFE_NO_PAD.decode_slice(id, buffer).ok()?;
        let (fields, signature) = buffer[..length].split_last_chunk()?;
        let (head, rest) = fields.split_first_chunk::<HEAD_BYTES>()?;
        let [kind, difficulty, ..] = *head;
        let task = match kind {
            PROOF_OF_WORK if rest.is_empty() => Task::ProofOfWork { difficulty },
            CAPTCHA => Task::Captcha { answer_tag: rest.try_into().ok()? },
            _ => return None,
        };
        let issued_at = Timestamp::from_millis(i64::from_be_bytes(*head.last_chunk()?));
        Some(Self { fields, head, issued_at, task, signature })
    }

    /// Every challenge has another signature, and nobody can choose it.
    pub(crate) fn fingerprint(&self) -> u64 {
        u64::from_be_bytes(array::from_fn(|place| self.signature[KEY_ID_BYTES + place]))
    }
}

pub(crate) fn head(kind: u8, difficulty: u8, nonce: u64, issued_at: Timestamp) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[0] = kind;
    head[1] = difficulty;
    head[2..10].copy_from_slice(&nonce.to_be_bytes());
    head[10..].copy_from_slice(&issued_at.as_millis().to_be_bytes());
    head
}

pub(crate) fn encode(fields: &[u8], signature: &Signature) -> String {
    let mut bytes = [0; MAX_ID_BYTES];
    let length = fields.len() + SIGNATURE_BYTES;
    bytes[..fields.len()].copy_from_slice(fields);
    bytes[fields.len()..length].copy_from_slice(signature);
    URL_SAFE_NO_PAD.encode(&bytes[..length])
}
