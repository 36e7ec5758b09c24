//! The pages of the shop and the console: which file answers which path, and what caches may do with it. They
//! are the same for everybody; the pages fetch personal data from the API.

mod encoding;
mod policy;

use std::{collections::HashMap, sync::Arc};

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use hyper::{
    HeaderMap, Method, StatusCode, Uri,
    header::{
        ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH,
        VARY,
    },
};
use penstock_domain::SaleId;

use self::encoding::Encoding;
pub(crate) use self::policy::{guard_docs, guard_page, guard_part, never_guess};
use crate::{
    accept::Accepted,
    app::App,
    entry::CountAs,
    json::PathId,
    problem::{Code, Problem},
    sales,
    tally::Outcome,
};

const SHOP: &str = "/index.html";
const CONSOLE: &str = "/console.html";
const ASSETS: &str = "/assets/";

/// The name of an asset changes with its bytes, so clients never have to ask again.
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// The page names its assets, so clients should see a new version soon. Meanwhile nobody waits for it, and
/// while all nodes are away the old version will do.
const FOR_A_MINUTE: HeaderValue =
    HeaderValue::from_static("public, max-age=60, stale-while-revalidate=600, stale-if-error=86400");
const FOR_AN_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600, stale-if-error=86400");
const NOT_AT_ALL: HeaderValue = HeaderValue::from_static("no-store");

/// A file of the pages, with its compressed variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFile {
    /// The path that clients request. `/index.html` is the shop's page and `/console.html` the console's;
    /// both are shown at other paths. Under `/assets/` the name has to change with the bytes.
    pub path: &'static str,
    pub content_type: &'static str,
    /// Changes with the bytes. Only letters and digits.
    pub fingerprint: &'static str,
    pub bytes: &'static [u8],
    pub brotli: Option<&'static [u8]>,
    pub gzip: Option<&'static [u8]>,
}

/// All files, with their headers prepared.
pub(crate) struct Pages(HashMap<&'static str, Prepared>);

struct Prepared {
    content_type: HeaderValue,
    guard: fn(&mut HeaderMap),
    cache_control: HeaderValue,
    /// The best first.
    variants: Vec<Variant>,
}

struct Variant {
    encoding: Encoding,
    etag: HeaderValue,
    bytes: Bytes,
}

impl Pages {
    pub(crate) fn new(files: &[PageFile]) -> Self {
        Self(files.iter().filter_map(|file| Some((file.path, Prepared::new(file)?))).collect())
    }

    fn find(&self, path: &str) -> Option<&Prepared> {
        self.0.get(path)
    }

    fn shop(&self) -> Result<&Prepared, Problem> {
        self.find(SHOP).ok_or(Code::NotFound.into())
    }

    /// If the pages were not built, there is only one page, which says so.
    fn console(&self) -> Result<&Prepared, Problem> {
        self.find(CONSOLE).map_or_else(|| self.shop(), Ok)
    }
}

impl Prepared {
    /// None if a name can't be sent as a header, which no build produces.
    fn new(file: &PageFile) -> Option<Self> {
        let variant = |encoding: Encoding, bytes: Option<&'static [u8]>| {
            let etag = format!("\"{}{}\"", file.fingerprint, encoding.suffix());
            let etag = HeaderValue::try_from(etag).ok()?;
            Some(Variant { encoding, etag, bytes: Bytes::from_static(bytes?) })
        };
        let variants = [
            variant(Encoding::Brotli, file.brotli),
            variant(Encoding::Gzip, file.gzip),
            variant(Encoding::Identity, Some(file.bytes)),
        ];
        Some(Self {
            content_type: HeaderValue::from_static(file.content_type),
            guard: match file.content_type {
                kind if kind.starts_with("text/html") => policy::guard_page,
                kind if kind.starts_with("text/javascript") => policy::guard_script,
                _ => policy::guard_part,
            },
            cache_control: match file.path {
                SHOP | CONSOLE => FOR_A_MINUTE,
                path if path.starts_with(ASSETS) => FOR_EVER,
                _ => FOR_AN_HOUR,
            },
            variants: variants.into_iter().flatten().collect(),
        })
    }

    fn respond(&self, headers: &HeaderMap) -> Result<Response, Problem> {
        let accepted = headers.get_all(ACCEPT_ENCODING).iter().map(HeaderValue::as_bytes);
        let wanted = encoding::choose(accepted, self.variants.iter().map(|variant| variant.encoding));
        let variant = self.variants.iter().find(|variant| variant.encoding == wanted);
        let variant = variant.ok_or(Code::Internal)?;
        let is_known = headers.get_all(IF_NONE_MATCH).iter().any(|known| names(known, &variant.etag));
        let mut response = if is_known {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            let mut response = variant.bytes.clone().into_response();
            response.headers_mut().insert(CONTENT_TYPE, self.content_type.clone());
            if let Some(name) = variant.encoding.name() {
                response.headers_mut().insert(CONTENT_ENCODING, name);
            }
            response
        };
        let sent = response.headers_mut();
        sent.insert(ETAG, variant.etag.clone());
        sent.insert(CACHE_CONTROL, self.cache_control.clone());
        sent.insert(VARY, HeaderValue::from_static("accept-encoding"));
        (self.guard)(sent);
        Ok(response)
    }
}

/// Whether an `If-None-Match` names this tag. Proxies that compress make tags weak, which does not matter
/// here.
fn names(known: &HeaderValue, etag: &HeaderValue) -> bool {
    known.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii).any(|tag| {
        let strong = tag.strip_prefix(b"W/").unwrap_or(tag);
        tag == b"*" || strong == etag.as_bytes()
    })
}

pub(crate) async fn shop(
    State(app): State<Arc<App>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if !is_plain(uri.path()) {
        return lost(&app, uri.path(), headers, Code::NotFound);
    }
    app.pages.shop()?.respond(&headers)
}

/// The shop's page for a sale, with the status that the API gives a stranger for it. Only this node's memory
/// is asked, so that a flood of invented ids reaches no database. To an anonymous visitor, a merchant's draft
/// does not exist; but the page that comes with the 404 still shows it to the merchant.
pub(crate) async fn sale(
    State(app): State<Arc<App>>,
    id: Result<PathId<SaleId>, Problem>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if !is_plain(uri.path()) {
        return lost(&app, uri.path(), headers, Code::NotFound);
    }
    let Ok(PathId(id)) = id else {
        return lost(&app, uri.path(), headers, Code::SaleNotFound);
    };
    let now = app.now();
    if app.storefront.with_sale(id, now, |_| ()).is_some() {
        return app.pages.shop()?.respond(&headers);
    }
    if sales::not_on_show(&app, id, now).code == Code::SaleNotFound {
        return lost(&app, uri.path(), headers, Code::SaleNotFound);
    }
    // The sale's state is unknown at the moment. The page tries again by itself; no cache may take it for an
    // existing sale.
    let mut response = app.pages.shop()?.respond(&headers)?;
    response.headers_mut().insert(CACHE_CONTROL, NOT_AT_ALL);
    Ok(response)
}

pub(crate) async fn console(
    State(app): State<Arc<App>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if !is_plain(uri.path()) {
        return lost(&app, uri.path(), headers, Code::NotFound);
    }
    app.pages.console()?.respond(&headers)
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
pub(crate) async fn other(
    State(app): State<Arc<App>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let path = uri.path();
    if !matches!(method, Method::GET | Method::HEAD) {
        return Err(Code::NotFound.into());
    }
    if let Some(file) = app.pages.find(path).filter(|_| !matches!(path, SHOP | CONSOLE)) {
        return file.respond(&headers);
    }
    lost(&app, path, headers, Code::NotFound)
}

/// Nothing is here. A person gets a page that says so, a program gets a problem.
fn lost(app: &App, path: &str, headers: HeaderMap, code: Code) -> Result<Response, Problem> {
    if !is_for_a_person(path, &headers) {
        return Err(code.into());
    }
    let mut response = app.pages.shop()?.respond(&without_condition(headers))?;
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
    !is_no_page && Accepted::of(headers).named("text/html", None) > 0
}

/// An answer of not found must never become "not modified".
fn without_condition(mut headers: HeaderMap) -> HeaderMap {
    headers.remove(IF_NONE_MATCH);
    headers
}
