//! The files of the pages: their compressed variants, and what caches may do with them.

use std::collections::HashMap;

use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use hyper::{
    HeaderMap, StatusCode,
    header::{
        ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH,
        VARY,
    },
};
use penstock_shop::Code;

use super::{
    encoding::{self, Encoding},
    policy,
};
use crate::{contract::problem::Problem, options::PageFile};

pub(super) const SHOP: &str = "/index.html";
pub(super) const CONSOLE: &str = "/console.html";
pub(super) const ASSETS: &str = "/assets/";

/// The name of an asset changes with its bytes, so clients never have to ask again.
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// The page names its assets, so clients should see a new version soon. Meanwhile nobody waits for it, and
/// while all nodes are away the old version will do.
const FOR_A_MINUTE: HeaderValue =
    HeaderValue::from_static("public, max-age=60, stale-while-revalidate=600, stale-if-error=86400");
const FOR_AN_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600, stale-if-error=86400");

/// All files, with their headers prepared.
pub(super) struct Pages(HashMap<&'static str, Prepared>);

pub(super) struct Prepared {
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
    pub(super) fn new(files: &[PageFile]) -> Self {
        Self(files.iter().filter_map(|file| Some((file.path, Prepared::new(file)?))).collect())
    }

    pub(super) fn find(&self, path: &str) -> Option<&Prepared> {
        self.0.get(path)
    }

    pub(super) fn shop(&self) -> Result<&Prepared, Problem> {
        self.find(SHOP).ok_or(Code::NotFound.into())
    }

    /// If the pages were not built, there is only one page, which says so.
    pub(super) fn console(&self) -> Result<&Prepared, Problem> {
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

    pub(super) fn respond(&self, headers: &HeaderMap) -> Result<Response, Problem> {
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
