//! A ticket of the waiting room: a signed number, so that the room need not remember anybody. Its owner can
//! read the number; only we can make a ticket. It knows nothing of places or turns.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use penstock_domain::{BuyerId, SaleId};

use crate::keys::{KEY_ID_BYTES, KeyRing, Purpose, SIGNATURE_BYTES, Signature, sale_bytes};

const BUYER_TAG_BYTES: usize = 8;
const SEAL_BYTES: usize = BUYER_TAG_BYTES + SIGNATURE_BYTES;
/// Base 64 without padding.
const SEAL_CHARACTERS: usize = (SEAL_BYTES * 4).div_ceil(3);

/// Tells buyers apart without naming them. A ticket may be shown to others, and they can't find out its buyer
/// by trying names, because only we can make a tag.
type BuyerTag = [u8; BUYER_TAG_BYTES];
type Seal = [u8; SEAL_BYTES];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub number: u64,
    sale: SaleId,
    /// The id of the key that made both the tag and the signature.
    key_id: [u8; KEY_ID_BYTES],
    buyer_tag: BuyerTag,
}

impl Ticket {
    /// `keys` are the ones the ticket was read with.
    pub fn belongs_to(&self, keys: &KeyRing, buyer: &BuyerId) -> bool {
        let message: [&[u8]; 2] = [&sale_bytes(self.sale), buyer.as_str().as_bytes()];
        keys.verifies_start(Purpose::BuyerTag, &message, &self.key_id, &self.buyer_tag)
    }
}

/// `<number>.<buyer tag and signature in base 64>`
pub fn issue_ticket(keys: &KeyRing, sale: SaleId, buyer: &BuyerId, number: u64) -> String {
    let tag = buyer_tag(keys, sale, buyer);
    let mut seal = [0; SEAL_BYTES];
    seal[..BUYER_TAG_BYTES].copy_from_slice(&tag);
    let message: [&[u8]; 3] = [&sale_bytes(sale), &number.to_be_bytes(), &tag];
    seal[BUYER_TAG_BYTES..].copy_from_slice(&keys.sign(Purpose::Ticket, &message));
    let mut text = number.to_string();
    text.push('.');
    URL_SAFE_NO_PAD.encode_string(seal, &mut text);
    text
}

/// None: the ticket is forged, of another sale, or not written exactly as we write it.
pub fn read_ticket(keys: &KeyRing, sale: SaleId, text: &str) -> Option<Ticket> {
    let (number, seal) = parse(text)?;
    let (buyer_tag, signature) = seal.split_first_chunk::<BUYER_TAG_BYTES>()?;
    let signature: &Signature = signature.try_into().ok()?;
    let message: [&[u8]; 3] = [&sale_bytes(sale), &number.to_be_bytes(), buyer_tag];
    let is_signed = keys.verifies(Purpose::Ticket, &message, signature);
    let key_id = *signature.first_chunk()?;
    is_signed.then_some(Ticket { number, sale, key_id, buyer_tag: *buyer_tag })
}

/// The number of a ticket. Anybody can read it, without knowing whether the ticket is genuine.
pub fn ticket_number(text: &str) -> Option<u64> {
    parse(text).map(|(number, _)| number)
}

fn buyer_tag(keys: &KeyRing, sale: SaleId, buyer: &BuyerId) -> BuyerTag {
    let signature = keys.sign(Purpose::BuyerTag, &[&sale_bytes(sale), buyer.as_str().as_bytes()]);
    let mut tag = [0; BUYER_TAG_BYTES];
    // The same key signs the ticket, so its id is not repeated here.
    tag.copy_from_slice(&signature[KEY_ID_BYTES..KEY_ID_BYTES + BUYER_TAG_BYTES]);
    tag
}

/// Accepts only one way to write a ticket, so that two texts are never the same ticket.
fn parse(text: &str) -> Option<(u64, Seal)> {
    let (number, seal_text) = text.split_once('.')?;
    let canonical =
        number.bytes().all(|byte| byte.is_ascii_digit()) && (number == "0" || !number.starts_with('0'));
    if !canonical || seal_text.len() != SEAL_CHARACTERS {
        return None;
    }
    let mut seal = [0; SEAL_BYTES];
    // The decoder refuses trailing bits that aren't zero.
    let length = URL_SAFE_NO_PAD.decode_slice(seal_text, &mut seal).ok()?;
    (length == SEAL_BYTES).then_some((number.parse().ok()?, seal))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> KeyRing {
        KeyRing::new(&[1; 32], None)
    }

    fn sale() -> SaleId {
        SaleId::from_random(7)
    }

    fn buyer(name: &str) -> BuyerId {
        BuyerId::of_subject(name).unwrap()
    }

    #[test]
    fn a_ticket_tells_its_number_and_its_owner() {
        for number in [0, 1, 9, 10, 1_234_567, u64::MAX] {
            let text = issue_ticket(&keys(), sale(), &buyer("ada"), number);
            assert!(text.starts_with(&format!("{number}.")), "{text}");
            let ticket = read_ticket(&keys(), sale(), &text).unwrap();
            assert_eq!(ticket.number, number);
            assert!(ticket.belongs_to(&keys(), &buyer("ada")));
            assert!(!ticket.belongs_to(&keys(), &buyer("bob")));
            assert_eq!(ticket_number(&text), Some(number));
        }
    }

    #[test]
    fn a_ticket_of_another_sale_or_of_other_keys_is_refused() {
        let text = issue_ticket(&keys(), sale(), &buyer("ada"), 5);
        assert_eq!(read_ticket(&keys(), SaleId::from_random(8), &text), None);
        assert_eq!(read_ticket(&KeyRing::new(&[2; 32], None), sale(), &text), None);
        assert!(read_ticket(&KeyRing::new(&[2; 32], Some(&[1; 32])), sale(), &text).is_some());
        assert_eq!(read_ticket(&KeyRing::new(&[3; 32], Some(&[2; 32])), sale(), &text), None);
    }

    #[test]
    fn a_ticket_belongs_to_its_buyer_across_a_rotation_of_the_keys() {
        let text = issue_ticket(&keys(), sale(), &buyer("ada"), 5);
        let rotated = KeyRing::new(&[2; 32], Some(&[1; 32]));
        let ticket = read_ticket(&rotated, sale(), &text).unwrap();
        assert!(ticket.belongs_to(&rotated, &buyer("ada")));
        assert!(!ticket.belongs_to(&rotated, &buyer("bob")));
        assert!(!ticket.belongs_to(&KeyRing::new(&[3; 32], Some(&[2; 32])), &buyer("ada")));
    }

    #[test]
    fn without_our_keys_nobody_can_find_out_whose_ticket_it_is() {
        let seal_of = |secret: u8, sale: SaleId| {
            let text = issue_ticket(&KeyRing::new(&[secret; 32], None), sale, &buyer("ada"), 5);
            parse(&text).unwrap().1
        };
        let tag_of = |secret, sale| -> BuyerTag { *seal_of(secret, sale).first_chunk().unwrap() };
        assert_eq!(tag_of(1, sale()), tag_of(1, sale()));
        assert_ne!(tag_of(1, sale()), tag_of(2, sale()), "the tag depends on the secret");
        assert_ne!(
            tag_of(1, sale()),
            tag_of(1, SaleId::from_random(8)),
            "buyers can't be tracked from sale to sale"
        );
    }

    #[test]
    fn a_pass_is_not_a_ticket_even_if_it_signs_the_same() {
        let tag = buyer_tag(&keys(), sale(), &buyer("ada"));
        let signature = keys().sign(Purpose::Pass, &[&sale_bytes(sale()), &5u64.to_be_bytes(), &tag]);
        let seal = URL_SAFE_NO_PAD.encode([&tag[..], &signature[..]].concat());
        assert_eq!(read_ticket(&keys(), sale(), &format!("5.{seal}")), None);
    }

    #[test]
    fn a_ticket_with_one_bit_changed_is_refused() {
        let text = issue_ticket(&keys(), sale(), &buyer("ada"), 512);
        for bit in 0..text.len() * 8 {
            let mut bytes = text.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let Ok(forged) = String::from_utf8(bytes) else { continue };
            assert_eq!(read_ticket(&keys(), sale(), &forged), None, "bit {bit}: {forged}");
        }
        for seal_bit in 0..SEAL_BYTES * 8 {
            let (number, mut seal) = parse(&text).unwrap();
            seal[seal_bit / 8] ^= 1 << (seal_bit % 8);
            let forged = format!("{number}.{}", URL_SAFE_NO_PAD.encode(seal));
            assert_eq!(read_ticket(&keys(), sale(), &forged), None, "bit {seal_bit} of the seal");
        }
    }

    #[test]
    fn a_ticket_can_be_written_in_one_way_only() {
        let text = issue_ticket(&keys(), sale(), &buyer("ada"), 12);
        let (_, seal) = text.split_once('.').unwrap();
        // The last character has four bits without meaning.
        let (most, _) = seal.split_at(seal.len() - 1);
        let same_bytes = (b'A'..=b'z').map(char::from).map(|last| format!("12.{most}{last}"));
        let readable = same_bytes.filter(|text| read_ticket(&keys(), sale(), text).is_some()).count();
        assert_eq!(readable, 1);
        for number in ["012", "+12", " 12", "12 ", "1２", "", "-12", "0x0c", "18446744073709551628"] {
            let other = format!("{number}.{seal}");
            assert_eq!(read_ticket(&keys(), sale(), &other), None, "{other}");
            assert_eq!(ticket_number(&other), None, "{other}");
        }
    }

    #[test]
    fn a_truncated_or_longer_text_is_not_a_ticket() {
        let text = issue_ticket(&keys(), sale(), &buyer("ada"), 12);
        for length in 0..text.len() {
            assert_eq!(read_ticket(&keys(), sale(), &text[..length]), None, "{length} characters");
            assert_eq!(ticket_number(&text[..length]), None, "{length} characters");
        }
        for tail in ["=", "A", "==", ".", "\n"] {
            assert_eq!(read_ticket(&keys(), sale(), &format!("{text}{tail}")), None, "{tail:?}");
        }
    }
}
