//! One-time codes: proof that somebody owns a phone number.

use axum::extract::State;
use hyper::StatusCode;
use penstock_records::NewCode;
use penstock_shop::{
    Code, Shop,
    complaints::Complaints,
    gate::Peer,
    identity::{Phone, digest_of_code, random_code},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    api::Api,
    contract::{json::Json, problem::Problem, refusals::refusals},
};

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OtpRequest {
    /// A number with its country code after a plus, or a number of `country`. Spaces, hyphens, brackets and
    /// dots are ignored, and a leading `00` means `+`.
    #[schema(example = "+8613800138000", pattern = "^[+0-9(][0-9 ().-]{5,63}$")]
    phone: String,
    /// The country of a `phone` without a plus, as an ISO 3166 code: see `GET /api/v1/countries`. By default
    /// the shop's own.
    #[schema(example = "CN", min_length = 2, max_length = 2)]
    country: Option<String>,
}

/// Says that the code is on its way.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OtpAnswer {
    /// Only in rehearsals and demos, where the setting `identity.codes_in_answers` is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "123456", nullable = false)]
    code: Option<String>,
}

/// Request a one-time code
///
/// The answer is the same whether or not the number has an account. The code has six digits, is valid for
/// five minutes and can be tried five times. In a rehearsal or a demo (`identity.codes_in_answers`) the
/// answer contains the code; otherwise it is an empty object.
#[utoipa::path(post, path = "/api/v1/otp", tag = "accounts", request_body = OtpRequest,
    responses((status = 202, description = "The code is on its way", body = OtpAnswer)),
    extensions(("x-refusals" = json!(refusals!(Json<OtpRequest>)))))]
pub(crate) async fn request_otp(
    State(api): State<Api>,
    peer: Peer,
    Json(request): Json<OtpRequest>,
) -> Result<(StatusCode, axum::Json<OtpAnswer>), Problem> {
    let shop = &api.shop;
    let mut complaints = Complaints::default();
    let phone = read_phone(&mut complaints, &request.phone, request.country.as_deref(), shop);
    complaints.check()?;
    let Phone { number: phone, reached_at, .. } = phone.ok_or(Code::InvalidRequest)?;
    let now = shop.now();
    peer.within(&shop.otp_by_address, now)?;
    let code = random_code().map_err(|_| Code::Internal)?;
    let digest = digest_of_code(&shop.options.secrets.borrow().current, &phone, &code);
    let codes = shop.options.identity.one_time_codes;
    let origin = peer.origin();
    let new = NewCode {
        phone: &phone,
        origin: &origin,
        digest: &digest,
        expires_at: now.plus_seconds(codes.lifetime_seconds),
        now,
        max_per_origin: codes.max_per_window,
        max_per_phone: codes.max_per_phone,
        window_seconds: codes.window_seconds,
    };
    shop.records.put_code(new).await?;
    shop.options.identity.code_sender.send(&reached_at, &code).await.map_err(|error| {
        tracing::warn!(%error, "a one-time code was not sent");
        Problem::with_detail(Code::Unavailable, "The code can't be sent at the moment.")
    })?;
    let code = api.options.codes_in_answers.then_some(code);
    Ok((StatusCode::ACCEPTED, axum::Json(OtpAnswer { code })))
}

/// Reads the phone of somebody who may not have an account yet.
pub(crate) fn read_phone(
    complaints: &mut Complaints,
    phone: &str,
    country: Option<&str>,
    shop: &Shop,
) -> Option<Phone> {
    let country = complaints.take("country", country.map(str::parse).transpose())?;
    complaints.take("phone", Phone::read(phone, country, shop.options.identity.default_country))
}
