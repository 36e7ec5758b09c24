//! The countries that a phone number can belong to, for a page that asks for one.

use axum::{extract::State, response::IntoResponse};
use bytes::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use penstock_shop::identity::Country;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{api::Api, contract::answer::APPLICATION_JSON};

/// It changes only with a setting or with the program.
const KEPT: HeaderValue = HeaderValue::from_static("public, max-age=3600");

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Countries {
    /// The default country of numbers without a country code.
    #[schema(example = "CN", min_length = 2, max_length = 2)]
    default: &'static str,
    data: Vec<CountryView>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Country)]
pub(crate) struct CountryView {
    /// An ISO 3166 code.
    #[schema(example = "CN", min_length = 2, max_length = 2)]
    country: &'static str,
    /// The digits after the plus.
    #[schema(example = "86")]
    calling_code: String,
}

/// List the countries of phone numbers
///
/// Calls that take a `phone` also take the `country` of a number without a country code.
#[utoipa::path(get, path = "/api/v1/countries", tag = "accounts", responses((status = 200, body = Countries)))]
pub(crate) async fn list_countries(State(api): State<Api>) -> impl IntoResponse {
    ([(CACHE_CONTROL, KEPT), (CONTENT_TYPE, APPLICATION_JSON)], api.countries.clone())
}

/// The answer, which is always the same.
pub(crate) fn listed(default: Country) -> Bytes {
    let view = |country: &Country| CountryView {
        country: country.code(),
        calling_code: country.calling_code().to_string(),
    };
    let countries = Countries { default: default.code(), data: Country::all().iter().map(view).collect() };
    // Texts can always be serialized.
    serde_json::to_vec(&countries).unwrap_or_default().into()
}
