//! Registration of buyers, who prove their phone.

use axum::{
    extract::State,
    response::{AppendHeaders, IntoResponse, Response},
};
use hyper::{HeaderMap, StatusCode};
use penstock_gate::AddressKey;
use penstock_records::{CodeCheck, CreateAccountError};
use penstock_shop::{
    Code,
    complaints::Complaints,
    gate::Peer,
    identity::{PasswordLine, PasswordRefusal, account_of, check_registrant, digest_of_code, is_code},
};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    api::{
        Api,
        account::{otp::read_phone, sessions::device_cookie},
        caller::CameByHttps,
    },
    contract::{json::Json, problem::Problem, refusals::refusals, wire::AccountView},
};

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

/// Register
///
/// Needs a one-time code, see `POST /api/v1/otp`. After five wrong tries the code is void. A code that was
/// requested from another address works too, as long as no other code has been sent to the phone since. The
/// device gets the cookie `penstock_device`, as it does at sign-in, so that strangers who guess passwords
/// can't keep it from signing in.
#[utoipa::path(post, path = "/api/v1/accounts", tag = "accounts", request_body = AccountRequest,
    responses((status = 201, body = AccountView, headers(("Set-Cookie" = String)))),
    extensions(("x-refusals" = json!(refusals!(Json<AccountRequest>, PasswordRefusal; OtpInvalid, PhoneTaken)))))]
pub(crate) async fn create_account(
    State(api): State<Api>,
    came_by_https: CameByHttps,
    peer: Peer,
    headers: HeaderMap,
    Json(request): Json<AccountRequest>,
) -> Result<Response, Problem> {
    let shop = &api.shop;
    let mut complaints = Complaints::default();
    let phone = read_phone(&mut complaints, &request.phone, request.country.as_deref(), shop);
    let registrant = check_registrant(&mut complaints, phone, &request.name, &request.password);
    complaints.require(is_code(&request.otp), "otp", "has to have six digits");
    complaints.check()?;
    let registrant = registrant.ok_or(Code::InvalidRequest)?;
    peer.within(&shop.sign_up_by_address, shop.now())?;
    let phone = registrant.phone.number.clone();
    let digest = digest_of_code(&shop.options.secrets.borrow().current, &phone, &request.otp);
    let origin = peer.origin();
    let right = |check| if check == CodeCheck::Right { Ok(()) } else { Err(Code::OtpInvalid) };
    // A password is hashed only for a person who has proved the phone. The code is used up afterwards, so
    // that a person who is told `busy` can try again with it.
    right(shop.records.check_code(&phone, &origin, &digest, shop.now()).await?)?;
    let line = PasswordLine::Address(AddressKey::of(peer.0));
    let hash = shop.passwords.hash(line, request.password).await?;
    right(shop.records.take_code(&phone, &origin, &digest, shop.now()).await?)?;
    // An older account may have the same number in another form.
    if !shop.records.accounts_by_phone(&registrant.phone.forms).await?.is_empty() {
        return Err(Code::PhoneTaken.into());
    }
    let new = account_of(registrant, hash, false, shop.now())?;
    let account = match shop.records.create_account(new).await {
        Ok(account) => account,
        Err(CreateAccountError::PhoneTaken) => return Err(Code::PhoneTaken.into()),
        Err(CreateAccountError::Records(error)) => return Err(error.into()),
    };
    let cookie = device_cookie(&api, came_by_https, &headers, None, &phone, shop.now())?;
    Ok((StatusCode::CREATED, AppendHeaders([cookie]), axum::Json(AccountView::from(&account)))
        .into_response())
}
