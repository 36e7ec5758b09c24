//! An account that an operator makes instead of a buyer who registers: the same rules, without a one-time code.

use anyhow::Context as _;
use argon2::{Argon2, PasswordHasher as _};
use penstock_domain::AccountId;
use penstock_records::NewAccount;

use crate::clock;

const MIN_PASSWORD_CHARACTERS: usize = 8;
const MAX_PASSWORD_BYTES: usize = 256;
const MAX_NAME_CHARACTERS: usize = 100;
const PHONE_DIGITS: std::ops::RangeInclusive<usize> = 6..=15;

/// What was asked can't be done because of how it was asked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unacceptable(String);

impl Unacceptable {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// Reads a phone number as the API does: an optional plus and 6 to 15 digits, without what people put between.
pub(crate) fn phone(text: &str) -> Result<String, Unacceptable> {
    let mut phone = text.trim().to_owned();
    phone.retain(|character| !matches!(character, ' ' | '-' | '(' | ')' | '.'));
    let digits = phone.strip_prefix('+').unwrap_or(&phone);
    let fine = PHONE_DIGITS.contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && !digits.starts_with('0');
    if fine {
        Ok(phone)
    } else {
        Err(Unacceptable(format!("{text:?} is no phone number such as +8613800138000")))
    }
}

pub(crate) fn new(phone: &str, name: &str, password: &str, admin: bool) -> anyhow::Result<NewAccount> {
    let phone = self::phone(phone)?;
    let name = name.trim();
    let fine =
        (1..=MAX_NAME_CHARACTERS).contains(&name.chars().count()) && !name.chars().any(char::is_control);
    if !fine {
        return Err(
            Unacceptable(format!("the name has to have 1 to {MAX_NAME_CHARACTERS} characters")).into()
        );
    }
    let fine = password.chars().count() >= MIN_PASSWORD_CHARACTERS && password.len() <= MAX_PASSWORD_BYTES;
    if !fine {
        let bounds = format!("{MIN_PASSWORD_CHARACTERS} characters, at most {MAX_PASSWORD_BYTES} bytes");
        return Err(Unacceptable(format!("the password has to have at least {bounds}")).into());
    }
    let hashed = Argon2::default().hash_password(password.as_bytes());
    let password_hash = hashed.map_err(|error| anyhow::anyhow!("the password can't be hashed: {error}"))?;
    Ok(NewAccount {
        id: AccountId::from_random(getrandom::u64().context("the system gives no random bytes")?),
        phone,
        name: name.to_owned(),
        password_hash: password_hash.to_string(),
        admin,
        created_at: clock::now(),
    })
}
