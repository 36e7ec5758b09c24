//! The pass that an order has to carry. It is a signature over sale, buyer and deadline, so a node can check
//! it without looking anything up. It knows nothing of challenges, turns and stock.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use penstock_domain::{BuyerId, SaleId, Timestamp};

use crate::keys::{KeyRing, Purpose, SIGNATURE_BYTES, Signature, sale_bytes};

const PREFIX: &str = "psp_";
const DEADLINE_BYTES: usize = 8;
const PASS_BYTES: usize = DEADLINE_BYTES + SIGNATURE_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PassRefusal {
    #[error("the pass is missing, forged, or another buyer's or sale's")]
    Invalid,
    #[error("the pass has expired")]
    Expired,
}

/// The pass is good until just before its deadline.
pub fn issue_pass(keys: &KeyRing, sale: SaleId, buyer: &BuyerId, deadline: Timestamp) -> String {
    let deadline = deadline.as_millis().to_be_bytes();
    let signature = keys.sign(Purpose::Pass, &message(&sale_bytes(sale), &deadline, buyer));
    let mut pass = [0; PASS_BYTES];
    pass[..DEADLINE_BYTES].copy_from_slice(&deadline);
    pass[DEADLINE_BYTES..].copy_from_slice(&signature);
    let mut text = String::from(PREFIX);
    URL_SAFE_NO_PAD.encode_string(pass, &mut text);
    text
}

/// The deadline of a good pass. Every text costs exactly one MAC and no allocation, so neither the time nor
/// the load depends on what is wrong with it.
pub fn check_pass(
    keys: &KeyRing,
    sale: SaleId,
    buyer: &BuyerId,
    text: &[u8],
    now: Timestamp,
) -> Result<Timestamp, PassRefusal> {
    let read = read(text);
    // A zero signature stands in for an unreadable one and is verified like any other.
    let (deadline, signature) = read.unwrap_or(([0; DEADLINE_BYTES], [0; SIGNATURE_BYTES]));
    let is_signed = keys.verifies(Purpose::Pass, &message(&sale_bytes(sale), &deadline, buyer), &signature);
    if !is_signed || read.is_none() {
        return Err(PassRefusal::Invalid);
    }
    let deadline = Timestamp::from_millis(i64::from_be_bytes(deadline));
    if now < deadline { Ok(deadline) } else { Err(PassRefusal::Expired) }
}

/// There is only one way to write a pass: spare bits, padding and surrounding text are refused.
fn read(text: &[u8]) -> Option<([u8; DEADLINE_BYTES], Signature)> {
    let encoded = text.strip_prefix(PREFIX.as_bytes())?;
    let mut pass = [0; PASS_BYTES];
    let length = URL_SAFE_NO_PAD.decode_slice(encoded, &mut pass).ok()?;
    let (deadline, signature) = pass[..length].split_first_chunk()?;
    Some((*deadline, signature.try_into().ok()?))
}

/// Only the last part varies in length, so no two messages are the same bytes.
fn message<'a>(sale: &'a [u8; 8], deadline: &'a [u8; DEADLINE_BYTES], buyer: &'a BuyerId) -> [&'a [u8]; 3] {
    [sale, deadline, buyer.as_str().as_bytes()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Timestamp = Timestamp::from_millis(1_800_000_000_123);
    const BEFORE: Timestamp = Timestamp::from_millis(1_800_000_000_122);

    fn ring() -> KeyRing {
        KeyRing::new(&[7; 32], None)
    }

    fn sale() -> SaleId {
        SaleId::from_random(42)
    }

    fn buyer(name: &str) -> BuyerId {
        BuyerId::from_stored(name)
    }

    fn pass() -> String {
        issue_pass(&ring(), sale(), &buyer("ann"), DEADLINE)
    }

    fn check(text: &[u8], now: Timestamp) -> Result<Timestamp, PassRefusal> {
        check_pass(&ring(), sale(), &buyer("ann"), text, now)
    }

    #[test]
    fn a_pass_is_good_until_its_deadline() {
        let pass = pass();
        assert!(pass.starts_with("psp_"));
        assert_eq!(check(pass.as_bytes(), BEFORE), Ok(DEADLINE));
        assert_eq!(check(pass.as_bytes(), DEADLINE), Err(PassRefusal::Expired));
        assert_eq!(check(pass.as_bytes(), Timestamp::from_millis(i64::MAX)), Err(PassRefusal::Expired));
    }

    #[test]
    fn a_pass_is_good_for_its_buyer_and_sale_only() {
        let pass = pass();
        for other in ["bob", "an", "anna", "Ann", ""] {
            let refusal = check_pass(&ring(), sale(), &buyer(other), pass.as_bytes(), BEFORE);
            assert_eq!(refusal, Err(PassRefusal::Invalid), "{other}");
        }
        let refusal = check_pass(&ring(), SaleId::from_random(43), &buyer("ann"), pass.as_bytes(), BEFORE);
        assert_eq!(refusal, Err(PassRefusal::Invalid));
    }

    #[test]
    fn another_buyers_expired_pass_is_refused_as_invalid() {
        let refusal = check_pass(&ring(), sale(), &buyer("bob"), pass().as_bytes(), DEADLINE);
        assert_eq!(refusal, Err(PassRefusal::Invalid));
    }

    #[test]
    fn a_shortened_pass_is_refused_at_every_length() {
        let pass = pass();
        for length in 0..pass.len() {
            assert_eq!(check(&pass.as_bytes()[..length], BEFORE), Err(PassRefusal::Invalid), "{length}");
        }
    }

    #[test]
    fn a_pass_with_anything_around_it_is_refused() {
        let pass = pass();
        for text in [
            format!("{pass}A"),
            format!("{pass}="),
            format!("{pass}=="),
            format!("{pass} "),
            format!("{pass}{pass}"),
            format!(" {pass}"),
            format!("psp_{pass}"),
            pass.replace("psp_", ""),
            pass.replace("psp_", "PSP_"),
            pass + &"A".repeat(10_000),
        ] {
            assert_eq!(check(text.as_bytes(), BEFORE), Err(PassRefusal::Invalid), "{text}");
        }
    }

    #[test]
    fn a_pass_with_any_bit_flipped_is_refused() {
        let pass = pass();
        let bytes = URL_SAFE_NO_PAD.decode(&pass[PREFIX.len()..]).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut forged = bytes.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            let text = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(forged));
            assert_eq!(check(text.as_bytes(), BEFORE), Err(PassRefusal::Invalid), "bit {bit}");
        }
        for bit in 0..pass.len() * 8 {
            let mut forged = pass.clone().into_bytes();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(check(&forged, BEFORE), Err(PassRefusal::Invalid), "bit {bit} of the text");
        }
    }

    #[test]
    fn there_is_one_way_to_write_a_pass() {
        let pass = pass();
        let (start, _) = pass.split_at(pass.len() - 1);
        let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let good = alphabet
            .chars()
            .filter(|last| check(format!("{start}{last}").as_bytes(), BEFORE).is_ok())
            .count();
        assert_eq!(good, 1, "the spare bits of the last character have to be zero");
    }

    #[test]
    fn text_that_is_not_a_pass_is_refused() {
        let zeros = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode([0; PASS_BYTES]));
        for text in ["", "psp_", "psp_!", "\u{0}", "psp_\u{e9}", &zeros] {
            assert_eq!(
                check(text.as_bytes(), Timestamp::from_millis(-1)),
                Err(PassRefusal::Invalid),
                "{text}"
            );
        }
        assert_eq!(check(&[0xff; 42], BEFORE), Err(PassRefusal::Invalid));
    }

    #[test]
    fn a_pass_outlives_one_rotation_of_the_keys_but_not_two() {
        let (first, second, third) = ([1; 32], [2; 32], [3; 32]);
        let pass = issue_pass(&KeyRing::new(&first, None), sale(), &buyer("ann"), DEADLINE);
        let check = |keys: KeyRing| check_pass(&keys, sale(), &buyer("ann"), pass.as_bytes(), BEFORE);
        assert_eq!(check(KeyRing::new(&second, Some(&first))), Ok(DEADLINE));
        assert_eq!(check(KeyRing::new(&third, Some(&second))), Err(PassRefusal::Invalid));
    }
}
