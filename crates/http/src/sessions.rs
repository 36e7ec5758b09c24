//! Signing in and out.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{AppendHeaders, IntoResponse, Response},
};
use hyper::{
    StatusCode,
    header::{HeaderName, HeaderValue, SET_COOKIE},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    app::App,
    identity::{Caller, OwnPage, SESSION_COOKIE},
    json::Json,
    neighbours::Change,
    passwords::MAX_PASSWORD_BYTES,
    peer::{CameByHttps, Peer},
    phone,
    problem::{Code, Problem},
    wire::{AccountView, Rfc3339},
};

/// Says that there is a session, and nothing of it.
const SIGNED_IN_COOKIE: &str = "penstock_signed_in";

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionRequest {
    /// Written as for `POST /api/v1/otp`.
    #[schema(example = "+8613800138000")]
    phone: String,
    password: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Session)]
pub(crate) struct SessionView {
    /// Send it as `Authorization: Bearer …`. Browsers have it as a cookie too.
    token: String,
    #[schema(value_type = String, format = DateTime)]
    expires_at: Rfc3339,
    account: AccountView,
}

/// Sign in
///
/// An unknown number and a wrong password are answered alike, and equally fast.
#[utoipa::path(post, path = "/api/v1/sessions", tag = "accounts", request_body = SessionRequest,
    responses((status = 201, body = SessionView, headers(("Set-Cookie" = String)))))]
pub(crate) async fn create_session(
    State(app): State<Arc<App>>,
    _: OwnPage,
    came_by_https: CameByHttps,
    peer: Peer,
    Json(request): Json<SessionRequest>,
) -> Result<Response, Problem> {
    let now = app.now();
    let phone = phone::parse(&request.phone).map_err(|message| Problem::invalid_field("phone", message))?;
    if request.password.len() > MAX_PASSWORD_BYTES {
        return Err(Problem::invalid_field("password", "is too long"));
    }
    peer.within(&app.sign_in_by_address, now)?;
    app.sign_in_by_phone.check(&phone, now)?;
    let turn = app.passwords.turn().await?;
    let account = app.records.account_by_phone(&phone).await?;
    let hash = account.as_ref().map(|account| account.password_hash.clone());
    let is_right = turn.verify(request.password, hash).await?;
    let account = account.filter(|_| is_right).ok_or(Code::BadCredentials)?;
    // The session counts from before the password was checked: a change that came meanwhile ends it too.
    let (token, session) = app.identity.sign_in(account.id, account.admin, now)?;
    let cookies = cookies(&app, came_by_https, &token, app.options.session_seconds)?;
    let view =
        SessionView { token, expires_at: Rfc3339(session.expires_at), account: AccountView::from(&account) };
    Ok((StatusCode::CREATED, cookies, axum::Json(view)).into_response())
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
    Ok((StatusCode::NO_CONTENT, cookies(&app, came_by_https, "", 0)?).into_response())
}

/// The session, and beside it that there is one, for the pages: they can't see the first, and a million visitors who are not
/// signed in need not ask who they are. No other site can make a browser send them, not even by a link: the pages are the
/// same for everybody, so a visitor who follows one misses nothing.
fn cookies(
    app: &App,
    CameByHttps(came_by_https): CameByHttps,
    token: &str,
    max_age_seconds: u32,
) -> Result<AppendHeaders<[(HeaderName, HeaderValue); 2]>, Problem> {
    let secure = if app.options.secure_cookies || came_by_https { "; Secure" } else { "" };
    let rest = format!("SameSite=Strict; Path=/; Max-Age={max_age_seconds}{secure}");
    let cookie = |text: String| HeaderValue::try_from(text).map_err(|_| Code::Internal);
    Ok(AppendHeaders([
        (SET_COOKIE, cookie(format!("{SESSION_COOKIE}={token}; HttpOnly; {rest}"))?),
        (SET_COOKIE, cookie(format!("{SIGNED_IN_COOKIE}=1; {rest}"))?),
    ]))
}
