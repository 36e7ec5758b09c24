//! The caller's own account.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{AppendHeaders, IntoResponse, Response},
};
use hyper::{HeaderMap, StatusCode};
use penstock_records::Account;
use penstock_shop::{
    Code, Shop,
    complaints::Complaints,
    identity::{Caller, MAX_PASSWORD_BYTES, PasswordLine, PasswordRefusal, Phone, Session, check_password},
    ports::Change,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    api::{
        Api,
        account::sessions::device_cookie,
        caller::{Admin, CameByHttps},
        visit::Looking,
    },
    contract::{json::Json, problem::Problem, refusals::refusals, wire::AccountView, words::RoleWord},
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
    responses((status = 200, body = Me)),
    extensions(("x-refusals" = json!(refusals!(Looking)))))]
pub(crate) async fn get_me(
    State(shop): State<Arc<Shop>>,
    Looking(caller): Looking,
) -> Result<axum::Json<Me>, Problem> {
    let account = match &caller {
        Caller::Account(session) => {
            Some(shop.records.account(session.account).await?.ok_or(Code::Unauthorized)?)
        }
        _ => None,
    };
    let is_admin = Admin::verify(&caller, &shop).await.is_ok();
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
    security(("bearer" = []), ("session" = [])), responses((status = 204, headers(("Set-Cookie" = String)))),
    extensions(("x-refusals" = json!(refusals!(Caller, Json<PasswordRequest>, PasswordRefusal; BadCredentials)))))]
pub(crate) async fn change_password(
    State(api): State<Api>,
    came_by_https: CameByHttps,
    headers: HeaderMap,
    caller: Caller,
    Json(request): Json<PasswordRequest>,
) -> Result<Response, Problem> {
    let shop = &api.shop;
    let session = *caller.session()?;
    let mut complaints = Complaints::default();
    check_password(&mut complaints, "new_password", &request.new_password);
    let is_short = request.current_password.len() <= MAX_PASSWORD_BYTES;
    complaints.require(is_short, "current_password", "is too long");
    complaints.check()?;
    let attempt = shop.attempts.begin_signed_in(&session, shop.now())?;
    let line = attempt.line();
    let account = match account_to_check(shop, &session, &line).await {
        Ok(account) => account,
        Err(problem) => {
            attempt.was_not_looked_at();
            return Err(problem);
        }
    };
    let hashes = vec![account.password_hash];
    let checked = shop.passwords.check(line.clone(), request.current_password, hashes).await;
    match checked {
        Ok(None) => return Err(Code::BadCredentials.into()),
        Ok(Some(_)) => attempt.was_right(),
        Err(busy) => {
            attempt.was_not_looked_at();
            return Err(busy.into());
        }
    }
    let hash = shop.passwords.hash(line, request.new_password).await?;
    let now = shop.now();
    shop.records.set_password(account.id, &hash, now).await?;
    let revocations = &shop.identity.revocations;
    revocations.revoke_account(account.id, now, shop.session_horizon()).map_err(|_| Code::Busy)?;
    shop.options.neighbours.tell(Change::SessionsEnded { account: account.id, since: now }).await;
    // The owner has to sign in again. Without this they would be a stranger, among the very strangers who may
    // be why the password was changed.
    let phone = Phone::of_account(&account.phone, None, shop.options.identity.default_country);
    let phone = phone.map_or(account.phone, |phone| phone.number);
    let cookie = device_cookie(&api, came_by_https, &headers, None, &phone, now)?;
    Ok((StatusCode::NO_CONTENT, AppendHeaders([cookie])).into_response())
}

/// The account of the session, if there is a place in the queue to check its password.
async fn account_to_check(shop: &Shop, session: &Session, line: &PasswordLine) -> Result<Account, Problem> {
    shop.passwords.have_place(line)?;
    Ok(shop.records.account(session.account).await?.ok_or(Code::Unauthorized)?)
}
