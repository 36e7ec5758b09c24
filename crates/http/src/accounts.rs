//! Registration: buyers who prove their phone, and operators who vouch for one. The same rules apply to both.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{AppendHeaders, IntoResponse, Response},
};
use hyper::{HeaderMap, StatusCode};
use penstock_domain::{AccountId, Timestamp};
use penstock_gate::AddressKey;
use penstock_records::{CodeCheck, CreateAccountError, NewAccount};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    app::App,
    json::{Complaints, Json},
    one_time_code,
    otp::read_phone,
    passwords::{self, Line, MAX_PASSWORD_BYTES, MIN_PASSWORD_CHARACTERS},
    peer::{CameByHttps, Peer},
    phone::{Country, Phone},
    problem::{Code, Problem},
    sessions::set_device_cookie,
    wire::AccountView,
};

const MAX_NAME_CHARACTERS: usize = 100;

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AccountRequest {
    /// In the same form as for `POST /api/v1/otp`.
    #[schema(example = "+8613800138000", pattern = "^[+0-9(][0-9 ().-]{5,63}$")]
    phone: String,
    /// As for `POST /api/v1/otp`.
    #[schema(example = "CN", min_length = 2, max_length = 2)]
    country: Option<String>,
    /// The one-time code that was sent to the phone.
    #[schema(example = "123456", pattern = "^[0-9]{6}$")]
    otp: String,
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    #[schema(min_length = 8)]
    password: String,
}

pub(crate) fn check_password(complaints: &mut Complaints, field: &'static str, password: &str) {
    let fine = password.chars().count() >= MIN_PASSWORD_CHARACTERS && password.len() <= MAX_PASSWORD_BYTES;
    let bounds = format!(
        "has to have at least {MIN_PASSWORD_CHARACTERS} characters, at most {MAX_PASSWORD_BYTES} bytes"
    );
    complaints.require(fine, field, bounds);
}

/// A person who registers, after the checks.
struct Registrant {
    phone: Phone,
    name: String,
}

fn check(
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

fn account_of(
    registrant: Registrant,
    password_hash: String,
    admin: bool,
    created_at: Timestamp,
) -> Result<NewAccount, Code> {
    let id = AccountId::from_random(getrandom::u64().map_err(|_| Code::Internal)?);
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
    let registrant = check(&mut complaints, phone, name, password);
    if let (Some(registrant), Ok(())) = (registrant, complaints.as_sentence()) {
        let hashed = passwords::hash(password.as_bytes());
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

/// Register
///
/// Needs a one-time code, see `POST /api/v1/otp`. After five wrong tries the code is void. A code that was
/// requested from another address works too, as long as no other code has been sent to the phone since. The
/// device gets the cookie `penstock_device`, as it does at sign-in, so that strangers who guess passwords
/// can't keep it from signing in.
#[utoipa::path(post, path = "/api/v1/accounts", tag = "accounts", request_body = AccountRequest,
    responses((status = 201, body = AccountView, headers(("Set-Cookie" = String)))))]
pub(crate) async fn create_account(
    State(app): State<Arc<App>>,
    came_by_https: CameByHttps,
    peer: Peer,
    headers: HeaderMap,
    Json(request): Json<AccountRequest>,
) -> Result<Response, Problem> {
    let mut complaints = Complaints::default();
    let phone = read_phone(&mut complaints, &request.phone, request.country.as_deref(), &app);
    let registrant = check(&mut complaints, phone, &request.name, &request.password);
    complaints.require(one_time_code::is_code(&request.otp), "otp", "has to have six digits");
    complaints.check()?;
    let registrant = registrant.ok_or(Code::InvalidRequest)?;
    peer.within(&app.sign_up_by_address, app.now())?;
    let phone = registrant.phone.number.clone();
    let digest = one_time_code::digest(&app.options.secrets.borrow().current, &phone, &request.otp);
    let origin = peer.origin();
    let right = |check| if check == CodeCheck::Right { Ok(()) } else { Err(Code::OtpInvalid) };
    // A password is hashed only for a person who has proved the phone. The code is used up afterwards, so
    // that a person who is told `busy` can try again with it.
    right(app.records.check_code(&phone, &origin, &digest, app.now()).await?)?;
    let line = Line::Address(AddressKey::of(peer.0));
    let hash = app.passwords.hash(line, request.password).await?;
    right(app.records.take_code(&phone, &origin, &digest, app.now()).await?)?;
    // An older account may have the same number in another form.
    if !app.records.accounts_by_phone(&registrant.phone.forms).await?.is_empty() {
        return Err(Code::PhoneTaken.into());
    }
    let new = account_of(registrant, hash, false, app.now())?;
    let account = match app.records.create_account(new).await {
        Ok(account) => account,
        Err(CreateAccountError::PhoneTaken) => return Err(Code::PhoneTaken.into()),
        Err(CreateAccountError::Records(error)) => return Err(error.into()),
    };
    let device = app.identity.device_cookie(&headers, None, &phone, app.now())?;
    let cookie = set_device_cookie(&app, came_by_https, &device)?;
    Ok((StatusCode::CREATED, AppendHeaders([cookie]), axum::Json(AccountView::from(&account)))
        .into_response())
}
