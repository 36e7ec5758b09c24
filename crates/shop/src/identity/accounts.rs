//! The rules for new accounts: those of buyers who prove their phone, and of operators who vouch for one.

use penstock_domain::{AccountId, Timestamp};
use penstock_records::NewAccount;

use super::{
    IdentityRefusal,
    passwords::{MAX_PASSWORD_BYTES, MIN_PASSWORD_CHARACTERS, hash},
    phone::{Country, Phone},
};
use crate::complaints::Complaints;

const MAX_NAME_CHARACTERS: usize = 100;

pub fn check_password(complaints: &mut Complaints, field: &'static str, password: &str) {
    let fine = password.chars().count() >= MIN_PASSWORD_CHARACTERS && password.len() <= MAX_PASSWORD_BYTES;
    let bounds = format!(
        "has to have at least {MIN_PASSWORD_CHARACTERS} characters, at most {MAX_PASSWORD_BYTES} bytes"
    );
    complaints.require(fine, field, bounds);
}

/// A person who registers, after the checks.
pub struct Registrant {
    pub phone: Phone,
    pub name: String,
}

pub fn check_registrant(
    complaints: &mut Complaints,
    phone: Option<Phone>,
    name: &str,
    password: &str,
) -> Option<Registrant> {
    let name = name.trim();
    let name_is_fine =
        (1..=MAX_NAME_CHARACTERS).contains(&name.chars().count()) && !name.chars().any(char::is_control);
    complaints.require(name_is_fine, "name", format!("has to have 1 to {MAX_NAME_CHARACTERS} characters"));
    check_password(complaints, "password", password);
    Some(Registrant { phone: phone?, name: name.to_owned() })
}

/// The account of somebody whose password is hashed.
pub fn account_of(
    registrant: Registrant,
    password_hash: String,
    admin: bool,
    created_at: Timestamp,
) -> Result<NewAccount, IdentityRefusal> {
    let id = AccountId::from_random(getrandom::u64().map_err(|_| IdentityRefusal::NoRandomness)?);
    let Registrant { phone, name } = registrant;
    Ok(NewAccount { id, phone: phone.number, name, password_hash, admin, created_at })
}

/// Says in a sentence why an operator can't make this account.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidAccount(String);

/// An account made by an operator: without a one-time code, but otherwise like one that its owner registered.
pub fn new_account(
    phone: &str,
    home: Country,
    name: &str,
    password: &str,
    admin: bool,
    now: Timestamp,
) -> Result<NewAccount, InvalidAccount> {
    let mut complaints = Complaints::default();
    let phone = complaints.take("phone", Phone::read(phone, None, home));
    let registrant = check_registrant(&mut complaints, phone, name, password);
    if let (Some(registrant), Ok(())) = (registrant, complaints.as_sentence()) {
        let hashed = hash(password.as_bytes());
        let account = hashed.and_then(|hash| account_of(registrant, hash, admin, now).ok());
        return account.ok_or_else(|| InvalidAccount("the password can't be hashed".into()));
    }
    Err(InvalidAccount(complaints.as_sentence().err().unwrap_or_default()))
}

/// The forms in which the account of this phone may be stored, the likeliest first.
pub fn phone_forms(text: &str, home: Country) -> Result<Vec<String>, InvalidAccount> {
    let phone = Phone::of_account(text, None, home);
    Ok(phone.map_err(|message| InvalidAccount(format!("the phone {message}")))?.forms)
}
