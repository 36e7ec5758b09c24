//! Whether the process is alive, and whether it can sell.

use std::{collections::BTreeMap, time::Duration};

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use hyper::header::{CONTENT_TYPE, RETRY_AFTER};
use penstock_shop::{Code, tally::Outcome};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    api::Api,
    contract::{
        answer::CountAs,
        openapi::ProblemCode,
        problem::{PROBLEM_JSON, status_of},
        words::ReadinessWord,
    },
};

const RECORDS_PATIENCE: Duration = Duration::from_millis(500);

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Alive {
    #[schema(value_type = String, example = "alive")]
    status: &'static str,
}

/// Check that the process is alive
#[utoipa::path(get, path = "/healthz", tag = "operation", responses((status = 200, body = Alive)))]
pub(crate) async fn healthz() -> Json<Alive> {
    Json(Alive { status: "alive" })
}

/// The state of everything that selling depends on.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Readiness {
    #[schema(value_type = ReadinessWord)]
    status: &'static str,
    /// `ready`, `recovering`, `stopped`, or what is wrong with the journal or Redis.
    #[schema(example = "ready")]
    ledger: String,
    /// `ready`, or how many sales are still to be loaded.
    #[schema(example = "ready")]
    storefront: String,
    /// `ready` or `unavailable`. Orders are accepted without them.
    #[schema(value_type = String, example = "ready")]
    records: &'static str,
    /// The name of this node in a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// The state of the other parts of a cluster: `ready`, or what is wrong. Orders are accepted without
    /// them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = std::collections::HashMap<String, String>)]
    parts: BTreeMap<&'static str, String>,
    /// The address of the page that explains the code. This and the next three make the answer a problem;
    /// they are there only if the status is 503.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "/errors/unavailable")]
    r#type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, nullable = false)]
    title: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ProblemCode>, nullable = false)]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    detail: Option<String>,
}

/// Check whether the node can sell
///
/// 503 until recovery is done, and while the journal can't be written or Redis can't be reached. The answer
/// says what is wrong.
#[utoipa::path(get, path = "/readyz", tag = "operation",
    responses((status = 200, body = Readiness), (status = 503, body = Readiness, content_type = "application/problem+json",
        headers(("Retry-After" = u32, description = "The seconds to wait before trying again")))))]
pub(crate) async fn readyz(State(api): State<Api>) -> Response {
    let shop = &api.shop;
    let (ledger, storefront) = (shop.ledger_trouble(), shop.storefront_trouble());
    let records = match tokio::time::timeout(RECORDS_PATIENCE, shop.records.ping()).await {
        Ok(Ok(())) => "ready",
        _ => "unavailable",
    };
    let trouble = ledger.clone().or(storefront.clone());
    let is_ready = trouble.is_none();
    let red = (!is_ready).then_some(Code::Unavailable.as_str());
    let ready = || "ready".to_owned();
    let parts = shop.options.parts.iter();
    let readiness = Readiness {
        status: if is_ready { "ready" } else { "not ready" },
        ledger: ledger.unwrap_or_else(ready),
        storefront: storefront.unwrap_or_else(ready),
        records,
        node: Some(shop.options.node.clone()).filter(|node| !node.is_empty()),
        parts: parts.map(|part| (part.name(), part.trouble().unwrap_or_else(ready))).collect(),
        r#type: red.map(|code| format!("{}{code}", api.options.problem_type_base)),
        title: red.map(|_| "This node can't sell at the moment"),
        code: red,
        detail: trouble,
    };
    if is_ready {
        return Json(readiness).into_response();
    }
    let mut response = (status_of(Code::Unavailable), Json(readiness)).into_response();
    response.headers_mut().insert(CONTENT_TYPE, PROBLEM_JSON);
    response.headers_mut().insert(RETRY_AFTER, 1.into());
    response.extensions_mut().insert(CountAs(Outcome::Refused(Code::Unavailable)));
    response
}
