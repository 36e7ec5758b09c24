//! The countries that a phone number can be of, for a page that asks for one.

use std::sync::Arc;

use axum::{extract::State, response::IntoResponse};
use bytes::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{app::App, entry::APPLICATION_JSON, phone::Country};

/// It changes with a setting or with the program.
const KEPT: HeaderValue = HeaderValue::from_static("public, max-age=3600");

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Countries {
    /// The country of numbers that are sent without one.
    #[schema(example = "CN", min_length = 2, max_length = 2)]
    default: &'static str,
    data: Vec<CountryView>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Country)]
pub(crate) struct CountryView {
    /// As in ISO 3166.
    #[schema(example = "CN", min_length = 2, max_length = 2)]
    country: &'static str,
    /// What stands after the plus.
    #[schema(example = "86")]
    calling_code: String,
}

/// The countries of phone numbers
///
/// Calls that take a `phone` take the `country` of a number that has no country's code.
#[utoipa::path(get, path = "/api/v1/countries", tag = "accounts", responses((status = 200, body = Countries)))]
pub(crate) async fn list_countries(State(app): State<Arc<App>>) -> impl IntoResponse {
    ([(CACHE_CONTROL, KEPT), (CONTENT_TYPE, APPLICATION_JSON)], app.countries.clone())
}

/// The answer, which is always the same.
pub(crate) fn listed(default: Country) -> Bytes {
    let view = |country: &Country| CountryView {
        country: country.code(),
        calling_code: country.calling_code().to_string(),
    };
    let countries = Countries { default: default.code(), data: Country::all().iter().map(view).collect() };
    // Texts can always be written.
    serde_json::to_vec(&countries).unwrap_or_default().into()
}
