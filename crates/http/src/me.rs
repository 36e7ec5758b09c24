//! The caller's own account.

use std::sync::Arc;

use axum::extract::State;
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    accounts::check_password,
    app::{Admin, App},
    gate::Looking,
    identity::Caller,
    json::{Complaints, Json},
    neighbours::Change,
    passwords::MAX_PASSWORD_BYTES,
    problem::{Code, Problem},
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

/// Who you are
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
/// Ends all sessions of the account, this one too.
#[utoipa::path(put, path = "/api/v1/me/password", tag = "accounts", request_body = PasswordRequest,
    security(("bearer" = []), ("session" = [])), responses((status = 204)))]
pub(crate) async fn change_password(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(request): Json<PasswordRequest>,
) -> Result<StatusCode, Problem> {
    let session = *caller.session()?;
    let mut complaints = Complaints::default();
    check_password(&mut complaints, "new_password", &request.new_password);
    let is_short = request.current_password.len() <= MAX_PASSWORD_BYTES;
    complaints.require(is_short, "current_password", "is too long");
    complaints.check()?;
    let account = app.records.account(session.account).await?.ok_or(Code::Unauthorized)?;
    let attempt = app.attempts.begin_signed_in(account.id, app.now())?;
    let line = attempt.line();
    let checked = app.passwords.check(line, request.current_password, vec![account.password_hash]).await;
    match checked {
        Ok(None) => return Err(Code::BadCredentials.into()),
        Ok(Some(_)) => attempt.was_no_guess(),
        Err(busy) => {
            attempt.was_no_guess();
            return Err(busy);
        }
    }
    let hash = app.passwords.hash(line, request.new_password).await?;
    let now = app.now();
    app.records.set_password(account.id, &hash, now).await?;
    let revocations = &app.identity.revocations;
    revocations.revoke_account(account.id, now, app.session_horizon()).map_err(|_| Code::Busy)?;
    app.options.neighbours.tell(Change::SessionsEnded { account: account.id, since: now }).await;
    Ok(StatusCode::NO_CONTENT)
}
