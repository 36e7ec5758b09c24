//! Signing in and out.

use std::sync::Arc;

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
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    app::App,
    identity::{Caller, DEVICE_COOKIE, DEVICE_SECONDS, DeviceId, KnownDevice, OwnPage, SESSION_COOKIE},
    json::{Complaints, Json},
    neighbours::Change,
    passwords::{Line, MAX_PASSWORD_BYTES},
    peer::{CameByHttps, Peer},
    phone::Phone,
    problem::{Code, Problem},
    wire::{AccountView, Rfc3339},
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
    responses((status = 201, body = SessionView, headers(("Set-Cookie" = String)))))]
pub(crate) async fn create_session(
    State(app): State<Arc<App>>,
    _: OwnPage,
    came_by_https: CameByHttps,
    peer: Peer,
    headers: HeaderMap,
    Json(request): Json<SessionRequest>,
) -> Result<Response, Problem> {
    let now = app.now();
    let mut complaints = Complaints::default();
    let country = complaints.take("country", request.country.as_deref().map(str::parse).transpose());
    let phone = Phone::of_account(&request.phone, country.flatten(), app.options.default_country);
    let phone = complaints.take("phone", phone);
    complaints.require(request.password.len() <= MAX_PASSWORD_BYTES, "password", "is too long");
    complaints.check()?;
    let phone = phone.ok_or(Code::InvalidRequest)?;
    let device = app.identity.known_device(&headers, &phone.number, now);
    let sign_in = SignIn { app: &app, phone: &phone, peer, now };
    let (account, device) = sign_in.check(device, request.password).await?;
    // The session counts from before the password was checked, so a password change meanwhile ends it, too.
    let (token, session) = app.identity.sign_in(account.id, account.admin, now)?;
    let mut cookies = cookies(&app, came_by_https, &token, app.options.session_seconds)?;
    let device = app.identity.device_cookie(&headers, device, &phone.number, now)?;
    cookies.push(set_device_cookie(&app, came_by_https, &device)?);
    let view =
        SessionView { token, expires_at: Rfc3339(session.expires_at), account: AccountView::from(&account) };
    Ok((StatusCode::CREATED, AppendHeaders(cookies), axum::Json(view)).into_response())
}

/// An attempt to sign in to an account of a phone.
struct SignIn<'a> {
    app: &'a App,
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
        let Self { app, phone, peer, now } = *self;
        let mut attempt = app.attempts.begin(&phone.number, device.map(|device| device.id), peer, now)?;
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
        match app.passwords.check(attempt.line(), password, hashes).await {
            Ok(None) => Err(Code::BadCredentials.into()),
            Ok(Some(place)) => {
                attempt.was_right();
                Ok((accounts.swap_remove(place), device.map(|device| device.id)))
            }
            Err(busy) => {
                attempt.was_not_looked_at();
                Err(busy)
            }
        }
    }

    async fn accounts(&self, line: &Line) -> Result<Vec<Account>, Problem> {
        self.app.passwords.have_place(line)?;
        Ok(self.app.records.accounts_by_phone(&self.phone.forms).await?)
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
    security(("bearer" = []), ("session" = [])), responses((status = 204)))]
pub(crate) async fn delete_session(
    State(app): State<Arc<App>>,
    came_by_https: CameByHttps,
    caller: Caller,
) -> Result<Response, Problem> {
    let session = *caller.session()?;
    let now = app.now();
    app.records.revoke_session(&session.id.to_text(), session.expires_at, now).await?;
    app.identity.revocations.revoke_session(session.id, session.expires_at, now).map_err(|_| Code::Busy)?;
    let ended = Change::SessionEnded { session: session.id.to_text(), expires_at: session.expires_at };
    app.options.neighbours.tell(ended).await;
    let cookies = cookies(&app, came_by_https, "", 0)?;
    Ok((StatusCode::NO_CONTENT, AppendHeaders(cookies)).into_response())
}

/// The session cookie, and a second one that says that there is a session. The pages can't read the first;
/// with the second, a million visitors who are not signed in need not ask who they are. No other site can
/// make a browser send them, not even by a link. The pages are the same for everybody, so a visitor who
/// follows a link misses nothing.
fn cookies(
    app: &App,
    came_by_https: CameByHttps,
    token: &str,
    max_age_seconds: u32,
) -> Result<Vec<(HeaderName, HeaderValue)>, Problem> {
    let session = format!("{SESSION_COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/");
    let signed_in = format!("{SIGNED_IN_COOKIE}=1; SameSite=Strict; Path=/");
    [session, signed_in]
        .iter()
        .map(|cookie| set_cookie(app, came_by_https, cookie, max_age_seconds))
        .collect()
}

pub(crate) fn set_device_cookie(
    app: &App,
    came_by_https: CameByHttps,
    device: &str,
) -> Result<(HeaderName, HeaderValue), Problem> {
    let cookie = format!("{DEVICE_COOKIE}={device}; HttpOnly; SameSite=Strict; Path={DEVICE_PATH}");
    set_cookie(app, came_by_https, &cookie, DEVICE_SECONDS)
}

fn set_cookie(
    app: &App,
    CameByHttps(came_by_https): CameByHttps,
    cookie: &str,
    max_age_seconds: u32,
) -> Result<(HeaderName, HeaderValue), Problem> {
    let secure = if app.options.secure_cookies || came_by_https { "; Secure" } else { "" };
    let cookie = HeaderValue::try_from(format!("{cookie}; Max-Age={max_age_seconds}{secure}"));
    Ok((SET_COOKIE, cookie.map_err(|_| Code::Internal)?))
}
