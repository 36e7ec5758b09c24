//! Signing in and out.

use axum::{
    extract::State,
    response::{AppendHeaders, IntoResponse, Response},
};
use hyper::{
    HeaderMap, StatusCode,
    header::{HeaderName, HeaderValue, SET_COOKIE},
};
use penstock_domain::Timestamp;
use penstock_records::Account;
use penstock_shop::{
    Code, Shop,
    complaints::Complaints,
    gate::Peer,
    identity::{
        Caller, DEVICE_SECONDS, DeviceId, KnownDevice, MAX_PASSWORD_BYTES, PasswordLine, PasswordRefusal,
        Phone,
    },
    ports::Change,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    api::{
        Api,
        caller::{CameByHttps, DEVICE_COOKIE, OwnPage, SESSION_COOKIE, cookie},
    },
    contract::{
        json::Json,
        problem::Problem,
        refusals::refusals,
        wire::{AccountView, Rfc3339},
    },
};

/// Says that there is a session, without revealing it.
const SIGNED_IN_COOKIE: &str = "penstock_signed_in";
/// Known devices matter only at sign-in.
const DEVICE_PATH: &str = "/api/v1/sessions";

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionRequest {
    /// In the same form as for `POST /api/v1/otp`.
    #[schema(example = "+8613800138000", pattern = "^[+0-9(][0-9 ().-]{5,63}$")]
    phone: String,
    /// As for `POST /api/v1/otp`.
    #[schema(example = "CN", min_length = 2, max_length = 2)]
    country: Option<String>,
    password: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Session)]
pub(crate) struct SessionView {
    /// Send it as `Authorization: Bearer …`. Browsers also get it as a cookie.
    token: String,
    #[schema(value_type = String, format = DateTime)]
    expires_at: Rfc3339,
    account: AccountView,
}

/// Sign in
///
/// An unknown number and a wrong password get the same answer, equally fast, except for phones with several
/// accounts from the time when numbers were stored as written. The cookie `penstock_device` marks a browser
/// that has signed in before. Sent along, it gives the browser its own allowance, which strangers who try
/// passwords can't use up. It is valid until the password changes.
#[utoipa::path(post, path = "/api/v1/sessions", tag = "accounts", request_body = SessionRequest,
    responses((status = 201, body = SessionView, headers(("Set-Cookie" = String)))),
    extensions(("x-refusals" = json!(refusals!(OwnPage, Json<SessionRequest>, PasswordRefusal; BadCredentials)))))]
pub(crate) async fn create_session(
    State(api): State<Api>,
    _: OwnPage,
    came_by_https: CameByHttps,
    peer: Peer,
    headers: HeaderMap,
    Json(request): Json<SessionRequest>,
) -> Result<Response, Problem> {
    let shop = &api.shop;
    let now = shop.now();
    let mut complaints = Complaints::default();
    let country = complaints.take("country", request.country.as_deref().map(str::parse).transpose());
    let phone = Phone::of_account(&request.phone, country.flatten(), shop.options.identity.default_country);
    let phone = complaints.take("phone", phone);
    complaints.require(request.password.len() <= MAX_PASSWORD_BYTES, "password", "is too long");
    complaints.check()?;
    let phone = phone.ok_or(Code::InvalidRequest)?;
    let kept = cookie(&headers, DEVICE_COOKIE).unwrap_or_default();
    let device = shop.identity.known_device(kept, &phone.number, now);
    let sign_in = SignIn { shop, phone: &phone, peer, now };
    let (account, device) = sign_in.check(device, request.password).await?;
    // The session counts from before the password was checked, so a password change meanwhile ends it, too.
    let (token, session) = shop.identity.sign_in(account.id, account.admin, now)?;
    let mut cookies = cookies(&api, came_by_https, &token, shop.options.identity.session_seconds)?;
    cookies.push(device_cookie(&api, came_by_https, &headers, device, &phone.number, now)?);
    let view =
        SessionView { token, expires_at: Rfc3339(session.expires_at), account: AccountView::from(&account) };
    Ok((StatusCode::CREATED, AppendHeaders(cookies), axum::Json(view)).into_response())
}

/// An attempt to sign in to an account of a phone.
struct SignIn<'a> {
    shop: &'a Shop,
    phone: &'a Phone,
    peer: Peer,
    now: Timestamp,
}

impl SignIn<'_> {
    /// The account with this password, and the device if it is still known.
    async fn check(
        &self,
        device: Option<KnownDevice>,
        password: String,
    ) -> Result<(Account, Option<DeviceId>), Problem> {
        let Self { shop, phone, peer, now } = *self;
        let mut attempt = shop.attempts.begin(&phone.number, device.map(|device| device.id), peer, now)?;
        let mut accounts = match self.accounts(&attempt.line()).await {
            Ok(accounts) => accounts,
            Err(problem) => {
                attempt.was_not_looked_at();
                return Err(problem);
            }
        };
        let device = device.filter(|device| is_known_to(&accounts, device));
        if device.is_none() {
            attempt = attempt.go_on_as_stranger(&phone.number, peer, now)?;
        }
        let hashes = accounts.iter().map(|account| account.password_hash.clone()).collect();
        match shop.passwords.check(attempt.line(), password, hashes).await {
            Ok(None) => Err(Code::BadCredentials.into()),
            Ok(Some(place)) => {
                attempt.was_right();
                Ok((accounts.swap_remove(place), device.map(|device| device.id)))
            }
            Err(busy) => {
                attempt.was_not_looked_at();
                Err(busy.into())
            }
        }
    }

    async fn accounts(&self, line: &PasswordLine) -> Result<Vec<Account>, Problem> {
        self.shop.passwords.have_place(line)?;
        Ok(self.shop.records.accounts_by_phone(&self.phone.forms).await?)
    }
}

/// A new password makes the account's devices unknown and ends its sessions, because one of them may be why
/// it was changed. The device that changed it is known from that moment on.
fn is_known_to(accounts: &[Account], device: &KnownDevice) -> bool {
    accounts.iter().all(|account| account.sessions_valid_after <= device.known_since)
}

/// Sign out
///
/// Ends this session only. Its token is void at once.
#[utoipa::path(delete, path = "/api/v1/sessions/current", tag = "accounts",
    security(("bearer" = []), ("session" = [])), responses((status = 204)),
    extensions(("x-refusals" = json!(refusals!(Caller; Busy)))))]
pub(crate) async fn delete_session(
    State(api): State<Api>,
    came_by_https: CameByHttps,
    caller: Caller,
) -> Result<Response, Problem> {
    let shop = &api.shop;
    let session = *caller.session()?;
    let now = shop.now();
    shop.records.revoke_session(&session.id.to_text(), session.expires_at, now).await?;
    shop.identity.revocations.revoke_session(session.id, session.expires_at, now).map_err(|_| Code::Busy)?;
    let ended = Change::SessionEnded { session: session.id.to_text(), expires_at: session.expires_at };
    shop.options.neighbours.tell(ended).await;
    let cookies = cookies(&api, came_by_https, "", 0)?;
    Ok((StatusCode::NO_CONTENT, AppendHeaders(cookies)).into_response())
}

/// The session cookie, and a second one that says that there is a session. The pages can't read the first;
/// with the second, a million visitors who are not signed in need not ask who they are. No other site can
/// make a browser send them, not even by a link. The pages are the same for everybody, so a visitor who
/// follows a link misses nothing.
fn cookies(
    api: &Api,
    came_by_https: CameByHttps,
    token: &str,
    max_age_seconds: u32,
) -> Result<Vec<(HeaderName, HeaderValue)>, Problem> {
    let session = format!("{SESSION_COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/");
    let signed_in = format!("{SIGNED_IN_COOKIE}=1; SameSite=Strict; Path=/");
    [session, signed_in]
        .iter()
        .map(|cookie| set_cookie(api, came_by_https, cookie, max_age_seconds))
        .collect()
}

/// The cookie for a device that has just signed in, or that was just used to register.
pub(crate) fn device_cookie(
    api: &Api,
    came_by_https: CameByHttps,
    headers: &HeaderMap,
    known: Option<DeviceId>,
    phone: &str,
    now: Timestamp,
) -> Result<(HeaderName, HeaderValue), Problem> {
    let kept = cookie(headers, DEVICE_COOKIE).unwrap_or_default();
    let device = api.shop.identity.device_to_keep(kept, known, phone, now)?;
    let cookie = format!("{DEVICE_COOKIE}={device}; HttpOnly; SameSite=Strict; Path={DEVICE_PATH}");
    set_cookie(api, came_by_https, &cookie, DEVICE_SECONDS)
}

fn set_cookie(
    api: &Api,
    CameByHttps(came_by_https): CameByHttps,
    cookie: &str,
    max_age_seconds: u32,
) -> Result<(HeaderName, HeaderValue), Problem> {
    let secure = if api.options.secure_cookies || came_by_https { "; Secure" } else { "" };
    let cookie = HeaderValue::try_from(format!("{cookie}; Max-Age={max_age_seconds}{secure}"));
    Ok((SET_COOKIE, cookie.map_err(|_| Code::Internal)?))
}
