//! Phone numbers and one-time codes.

use hmac::Mac as _;

use crate::identity::keyed;

pub(crate) const CODE_DIGITS: usize = 6;
/// Of a phone number as it is written: three times as long as any would be enough.
const MAX_TEXT_BYTES: usize = 64;

/// Reads a phone number. What people write between the digits is dropped, and two zeros before the country are a plus; what
/// remains is an optional plus and 6 to 15 digits (E.164). Without a plus it is a number of its own: nobody knows which
/// country is meant, and the same digits after a plus can be somebody else's.
pub(crate) fn parse(text: &str) -> Result<String, &'static str> {
    let mut phone: String = text.chars().map(narrow).filter(|character| !is_between(*character)).collect();
    if let Some(rest) = phone.strip_prefix("00") {
        phone = format!("+{rest}");
    }
    let digits = phone.strip_prefix('+').unwrap_or(&phone);
    let acceptable = (6..=15).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && !digits.starts_with('0')
        && text.len() <= MAX_TEXT_BYTES;
    if acceptable { Ok(phone) } else { Err("has to be a phone number such as +8613800138000") }
}

/// As on a Latin keyboard: Chinese ones have digits, brackets and a plus of their own.
fn narrow(character: char) -> char {
    const TO_NARROW: u32 = '\u{ff01}' as u32 - '!' as u32;
    match character {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(character as u32 - TO_NARROW).unwrap_or(character),
        other => other,
    }
}

/// Spaces, hyphens, brackets, dots, and the invisible marks that come along when a number is copied.
fn is_between(character: char) -> bool {
    character.is_whitespace()
        || matches!(character, '-' | '(' | ')' | '[' | ']' | '.' | '\u{2010}'..='\u{2015}' | '\u{2212}')
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}')
}

/// A new code.
pub(crate) fn random_code() -> Result<String, getrandom::Error> {
    const CODES: u32 = 10u32.pow(CODE_DIGITS as u32);
    // Numbers at the end of the range would make some codes likelier than others.
    const FAIR: u32 = u32::MAX - u32::MAX % CODES;
    loop {
        let number = getrandom::u32()?;
        if number < FAIR {
            return Ok(format!("{:0width$}", number % CODES, width = CODE_DIGITS));
        }
    }
}

pub(crate) fn is_code(text: &str) -> bool {
    text.len() == CODE_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// What is stored in place of the code.
pub(crate) fn code_digest(secret: &[u8; 32], phone: &str, code: &str) -> Vec<u8> {
    let mut mac = keyed(secret);
    for part in [b"penstock one-time code\0", phone.as_bytes(), b"\0", code.as_bytes()] {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phone_numbers_are_read_in_the_ways_people_write_them() {
        for text in [
            "+86 138-0013-8000",
            " (+86) 138.0013.8000\t",
            "[+86]\u{a0}138\u{3000}0013\u{2009}8000",
            "+86\u{2011}138\u{2013}0013\u{2212}8000",
            "\u{202a}+86 138 0013 8000\u{202c}",
            "＋８６（１３８）００１３－８０００",
            "008613800138000",
            "00 86 138 0013 8000",
        ] {
            assert_eq!(parse(text).unwrap(), "+8613800138000", "{text}");
        }
        for text in ["13800138000", "138 0013 8000", "(138) 0013-8000"] {
            assert_eq!(parse(text).unwrap(), "13800138000", "no country is made up: {text}");
        }
        for text in [
            "",
            "+",
            "12345",
            "+1234567890123456",
            "abc1234567",
            "+86١٢٣٤٥٦٧",
            "012345678",
            "1+234567",
            "000123456",
            "00+8613800138000",
            "+008613800138000",
            &format!("+8613800138000{}", " ".repeat(MAX_TEXT_BYTES)),
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn codes_have_six_digits_and_differ() {
        let codes: Vec<String> = (0..100).map(|_| random_code().unwrap()).collect();
        assert!(codes.iter().all(|code| is_code(code)));
        assert!(codes.iter().any(|code| *code != codes[0]));
    }
}
