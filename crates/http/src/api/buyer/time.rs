//! The server's time, so that a page can count down by this clock and not by its visitor's.

use std::sync::Arc;

use axum::{extract::State, response::IntoResponse};
use hyper::header::{CACHE_CONTROL, HeaderValue};
use penstock_shop::Shop;
use serde::Serialize;
use utoipa::ToSchema;

use crate::contract::wire::Rfc3339;

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Time)]
pub(crate) struct TimeView {
    #[schema(value_type = String, format = DateTime)]
    server_time: Rfc3339,
}

/// Get the server's time
///
/// Sales open and holds expire by this clock. Allow for the time that the answer takes.
#[utoipa::path(get, path = "/api/v1/time", tag = "sales", responses((status = 200, body = TimeView)))]
pub(crate) async fn get_time(State(shop): State<Arc<Shop>>) -> impl IntoResponse {
    let view = TimeView { server_time: Rfc3339(shop.now()) };
    ([(CACHE_CONTROL, HeaderValue::from_static("no-store"))], axum::Json(view))
}
