//! Registering.

use std::sync::Arc;

use axum::extract::State;
use hyper::StatusCode;
use penstock_domain::AccountId;
use penstock_records::{CodeCheck, CreateAccountError, NewAccount};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    app::App,
    json::{Complaints, Json},
    passwords::{MAX_PASSWORD_BYTES, MIN_PASSWORD_CHARACTERS},
    phone,
    problem::{Code, Problem},
    wire::AccountView,
};

const MAX_NAME_CHARACTERS: usize = 100;

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AccountRequest {
    #[schema(example = "+8613800138000")]
    phone: String,
    /// The one-time code that was sent to the phone.
    #[schema(example = "123456")]
    otp: String,
    #[schema(max_length = 100)]
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

/// Register
///
/// Needs a one-time code, see `POST /api/v1/otp`. After five wrong tries the code is void.
#[utoipa::path(post, path = "/api/v1/accounts", tag = "accounts", request_body = AccountRequest,
    responses((status = 201, body = AccountView)))]
pub(crate) async fn create_account(
    State(app): State<Arc<App>>,
    Json(request): Json<AccountRequest>,
) -> Result<(StatusCode, axum::Json<AccountView>), Problem> {
    let mut complaints = Complaints::default();
    let phone = complaints.take("phone", phone::parse(&request.phone));
    let name = request.name.trim();
    let name_is_fine =
        (1..=MAX_NAME_CHARACTERS).contains(&name.chars().count()) && !name.chars().any(char::is_control);
    complaints.require(name_is_fine, "name", format!("has to have 1 to {MAX_NAME_CHARACTERS} characters"));
    complaints.require(phone::is_code(&request.otp), "otp", "has to have six digits");
    check_password(&mut complaints, "password", &request.password);
    complaints.check()?;
    let phone = phone.unwrap_or_default();
    // Before the code is used up: who is told `busy` can come again with it.
    let turn = app.passwords.turn().await?;
    let digest = phone::code_digest(&app.options.session_secret, &phone, &request.otp);
    match app.records.take_code(&phone, &digest, app.now()).await? {
        CodeCheck::Right => {}
        CodeCheck::Wrong | CodeCheck::Void => return Err(Code::OtpInvalid.into()),
    }
    let new = NewAccount {
        id: AccountId::from_random(getrandom::u64().map_err(|_| Code::Internal)?),
        phone,
        name: name.to_owned(),
        password_hash: turn.hash(request.password).await?,
        admin: false,
        created_at: app.now(),
    };
    match app.records.create_account(new).await {
        Ok(account) => Ok((StatusCode::CREATED, axum::Json(AccountView::from(&account)))),
        Err(CreateAccountError::PhoneTaken) => Err(Code::PhoneTaken.into()),
        Err(CreateAccountError::Records(error)) => Err(error.into()),
    }
}
