//! The digits of one-time codes, and the digest that is stored in their place.

use hmac::Mac as _;

use super::signature::keyed;

const DIGITS: usize = 6;

/// A new code.
pub fn random() -> Result<String, getrandom::Error> {
    const CODES: u32 = 10u32.pow(DIGITS as u32);
    // Numbers at the end of the range would make some codes likelier than others.
    const FAIR: u32 = u32::MAX - u32::MAX % CODES;
    loop {
        let number = getrandom::u32()?;
        if number < FAIR {
            return Ok(format!("{:0width$}", number % CODES, width = DIGITS));
        }
    }
}

pub fn is_code(text: &str) -> bool {
    text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The digest that is stored instead of the code.
pub fn digest(secret: &[u8; 32], phone: &str, code: &str) -> Vec<u8> {
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
    fn codes_have_six_digits_and_differ() {
        let codes: Vec<String> = (0..100).map(|_| random().unwrap()).collect();
        assert!(codes.iter().all(|code| is_code(code)));
        assert!(codes.iter().any(|code| *code != codes[0]));
    }
}
