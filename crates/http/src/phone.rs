//! Phone numbers and one-time codes.

use hmac::Mac as _;

use crate::identity::keyed;

pub(crate) const CODE_DIGITS: usize = 6;

/// Reads a phone number. Separators that people write are dropped; what remains is an optional plus and 6 to
/// 15 digits (E.164).
pub(crate) fn parse(text: &str) -> Result<String, &'static str> {
    let mut phone = text.trim().to_owned();
    phone.retain(|character| !matches!(character, ' ' | '-' | '(' | ')' | '.'));
    let digits = phone.strip_prefix('+').unwrap_or(&phone);
    let acceptable = (6..=15).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && !digits.starts_with('0')
        && text.len() <= 32;
    if acceptable { Ok(phone) } else { Err("has to be a phone number such as +8613800138000") }
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
        assert_eq!(parse("+86 138-0013-8000").unwrap(), "+8613800138000");
        assert_eq!(parse("13800138000").unwrap(), "13800138000");
        for text in
            ["", "+", "12345", "+1234567890123456", "abc1234567", "+86١٢٣٤٥٦٧", "012345678", "1+234567"]
        {
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
