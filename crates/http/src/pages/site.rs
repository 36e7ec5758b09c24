//! Which page answers which path. The pages are the same for everybody; they fetch personal data from the API.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use hyper::{
    HeaderMap, Method, StatusCode, Uri,
    header::{CACHE_CONTROL, ETAG, HeaderValue, IF_NONE_MATCH},
};
use penstock_domain::SaleId;
use penstock_shop::{Code, Shop, tally::Outcome};

use super::files::{ASSETS, CONSOLE, Pages, SHOP};
use crate::{
    api::buyer::sales,
    contract::{accept::AcceptedKinds, answer::CountAs, json::PathId, problem::Problem},
};

const NOT_AT_ALL: HeaderValue = HeaderValue::from_static("no-store");

/// What the paths share.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) shop: Arc<Shop>,
    pub(super) pages: Arc<Pages>,
}

pub(super) async fn shop(
    State(site): State<Site>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if !is_plain(uri.path()) {
        return lost(&site, uri.path(), headers, Code::NotFound);
    }
    site.pages.shop()?.respond(&headers)
}

/// The shop's page for a sale, with the status that the API gives a stranger for it. Only this node's memory
/// is asked, so that a flood of invented ids reaches no database. To an anonymous visitor, a merchant's draft
/// does not exist; but the page that comes with the 404 still shows it to the merchant.
pub(super) async fn sale(
    State(site): State<Site>,
    id: Result<PathId<SaleId>, Problem>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if !is_plain(uri.path()) {
        return lost(&site, uri.path(), headers, Code::NotFound);
    }
    let Ok(PathId(id)) = id else {
        return lost(&site, uri.path(), headers, Code::SaleNotFound);
    };
    let now = site.shop.now();
    if site.shop.storefront.with_sale(id, now, |_| ()).is_some() {
        return site.pages.shop()?.respond(&headers);
    }
    if sales::not_on_show(&site.shop, id, now).code == Code::SaleNotFound {
        return lost(&site, uri.path(), headers, Code::SaleNotFound);
    }
    // The sale's state is unknown at the moment. The page tries again by itself; no cache may take it for an
    // existing sale.
    let mut response = site.pages.shop()?.respond(&headers)?;
    response.headers_mut().insert(CACHE_CONTROL, NOT_AT_ALL);
    Ok(response)
}

pub(super) async fn console(
    State(site): State<Site>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if !is_plain(uri.path()) {
        return lost(&site, uri.path(), headers, Code::NotFound);
    }
    site.pages.console()?.respond(&headers)
}

/// Whether everybody agrees on what is at this path. A proxy in front may take `/console/../assets/x` for
/// `/assets/x`, and would cache the console's page under that name. All our pages have plain paths.
fn is_plain(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let whole = path.strip_prefix('/').unwrap_or(path);
    let whole = whole.strip_suffix('/').unwrap_or(whole);
    whole.is_empty()
        || whole.split('/').all(|part| !matches!(part, "" | "." | "..") && part.bytes().all(is_plain))
}

/// Answers paths that no call has: with a file, or with not found.
pub(super) async fn other(
    State(site): State<Site>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let path = uri.path();
    if !matches!(method, Method::GET | Method::HEAD) {
        return Err(Code::NotFound.into());
    }
    if let Some(file) = site.pages.find(path).filter(|_| !matches!(path, SHOP | CONSOLE)) {
        return file.respond(&headers);
    }
    lost(&site, path, headers, Code::NotFound)
}

/// Nothing is here. A person gets a page that says so, a program gets a problem.
fn lost(site: &Site, path: &str, headers: HeaderMap, code: Code) -> Result<Response, Problem> {
    if !is_for_a_person(path, &headers) {
        return Err(code.into());
    }
    let mut response = site.pages.shop()?.respond(&without_condition(headers))?;
    *response.status_mut() = StatusCode::NOT_FOUND;
    response.headers_mut().insert(CACHE_CONTROL, NOT_AT_ALL);
    response.headers_mut().remove(ETAG);
    response.extensions_mut().insert(CountAs(Outcome::Refused(code)));
    Ok(response)
}

/// Whether a person may be looking for a page there. Only programs request the other paths.
fn is_for_a_person(path: &str, headers: &HeaderMap) -> bool {
    let is_no_page =
        ["/api/", ASSETS, "/pictures/", "/docs/", "/errors/"].iter().any(|start| path.starts_with(start));
    !is_no_page && AcceptedKinds::of(headers).named("text/html", None) > 0
}

/// An answer of not found must never become "not modified".
fn without_condition(mut headers: HeaderMap) -> HeaderMap {
    headers.remove(IF_NONE_MATCH);
    headers
}
