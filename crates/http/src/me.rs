//! The caller's own account.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{AppendHeaders, IntoResponse, Response},
};
use hyper::{HeaderMap, StatusCode};
use penstock_records::Account;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    accounts::check_password,
    app::{Admin, App},
    gate::Looking,
    identity::{Caller, Session},
    json::{Complaints, Json},
    neighbours::Change,
    passwords::{Line, MAX_PASSWORD_BYTES},
    peer::CameByHttps,
    phone::Phone,
    problem::{Code, Problem},
    sessions::set_device_cookie,
    wire::AccountView,
    words::RoleWord,
};

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Me {
    /// The buyer that orders belong to; empty for the admin token.
    buyer: Option<String>,
    #[schema(value_type = RoleWord)]
    role: &'static str,
    /// Empty for a shop's token and for the admin token.
    account: Option<AccountView>,
}

/// Get your own identity
#[utoipa::path(get, path = "/api/v1/me", tag = "accounts", security(("bearer" = []), ("session" = [])),
    responses((status = 200, body = Me)))]
pub(crate) async fn get_me(
    State(app): State<Arc<App>>,
    Looking(caller): Looking,
) -> Result<axum::Json<Me>, Problem> {
    let account = match &caller {
        Caller::Account(session) => {
            Some(app.records.account(session.account).await?.ok_or(Code::Unauthorized)?)
        }
        _ => None,
    };
    let is_admin = Admin::verify(&caller, &app).await.is_ok();
    Ok(axum::Json(Me {
        buyer: caller.buyer().ok().map(|buyer| buyer.to_string()),
        role: if is_admin { "admin" } else { "buyer" },
        account: account.as_ref().map(AccountView::from),
    }))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PasswordRequest {
    current_password: String,
    #[schema(min_length = 8)]
    new_password: String,
}

/// Change the password
///
/// Ends all sessions of the account, including this one. All devices but this one become strangers: it gets
/// the cookie `penstock_device`, as it does at sign-in.
#[utoipa::path(put, path = "/api/v1/me/password", tag = "accounts", request_body = PasswordRequest,
    security(("bearer" = []), ("session" = [])), responses((status = 204, headers(("Set-Cookie" = String)))))]
pub(crate) async fn change_password(
    State(app): State<Arc<App>>,
    came_by_https: CameByHttps,
    headers: HeaderMap,
    caller: Caller,
    Json(request): Json<PasswordRequest>,
) -> Result<Response, Problem> {
    let session = *caller.session()?;
    let mut complaints = Complaints::default();
    check_password(&mut complaints, "new_password", &request.new_password);
    let is_short = request.current_password.len() <= MAX_PASSWORD_BYTES;
    complaints.require(is_short, "current_password", "is too long");
    complaints.check()?;
    let attempt = app.attempts.begin_signed_in(&session, app.now())?;
    let line = attempt.line();
    let account = match account_to_check(&app, &session, &line).await {
        Ok(account) => account,
        Err(problem) => {
            attempt.was_not_looked_at();
            return Err(problem);
        }
    };
    let hashes = vec![account.password_hash];
    let checked = app.passwords.check(line.clone(), request.current_password, hashes).await;
    match checked {
        Ok(None) => return Err(Code::BadCredentials.into()),
        Ok(Some(_)) => attempt.was_right(),
        Err(busy) => {
            attempt.was_not_looked_at();
            return Err(busy);
        }
    }
    let hash = app.passwords.hash(line, request.new_password).await?;
    let now = app.now();
    app.records.set_password(account.id, &hash, now).await?;
    let revocations = &app.identity.revocations;
    revocations.revoke_account(account.id, now, app.session_horizon()).map_err(|_| Code::Busy)?;
    app.options.neighbours.tell(Change::SessionsEnded { account: account.id, since: now }).await;
    // The owner has to sign in again. Without this they would be a stranger, among the very strangers who may
    // be why the password was changed.
    let phone = Phone::of_account(&account.phone, None, app.options.default_country);
    let phone = phone.map_or(account.phone, |phone| phone.number);
    let device = app.identity.device_cookie(&headers, None, &phone, now)?;
    let cookie = set_device_cookie(&app, came_by_https, &device)?;
    Ok((StatusCode::NO_CONTENT, AppendHeaders([cookie])).into_response())
}

/// The account of the session, if there is a place in the queue to check its password.
async fn account_to_check(app: &App, session: &Session, line: &Line) -> Result<Account, Problem> {
    app.passwords.have_place(line)?;
    Ok(app.records.account(session.account).await?.ok_or(Code::Unauthorized)?)
}
