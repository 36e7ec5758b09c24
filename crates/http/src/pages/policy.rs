//! Restricts what a browser lets a page do, so that a mistake in a page does little harm.

use hyper::{
    HeaderMap,
    header::{CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS},
};

/// Code, styles and data come from this server alone, and no inline script runs. Pictures of items may be
/// stored elsewhere, a captcha is a data URL, and a picture about to be uploaded is a blob in the browser.
const PAGES: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob: https:; connect-src 'self'; \
     worker-src 'self'; font-src 'self'; manifest-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
);
/// Swagger UI has one inline style, which is allowed by its hash, and its page has a base element.
const DOCS: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self' 'sha256-RL3ie0nH+Lzz2YNqQN83mnU0J1ot4QL7b99vMdIX99w='; \
     img-src 'self' data:; connect-src 'self'; font-src 'self'; form-action 'none'; base-uri 'self'; frame-ancestors 'none'",
);
/// None of these are needed.
const PERMISSIONS: HeaderValue = HeaderValue::from_static(
    "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), hid=(), \
     magnetometer=(), microphone=(), midi=(), payment=(), serial=(), usb=()",
);

const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");

/// For the shop, the console and the pages of the error codes.
pub(super) fn guard_page(headers: &mut HeaderMap) {
    guard(headers, PAGES);
}

/// For scripts: a worker has the policy of its own file.
pub(super) fn guard_script(headers: &mut HeaderMap) {
    headers.insert(CONTENT_SECURITY_POLICY, PAGES);
    guard_part(headers);
}

/// For styles and images, which do nothing by themselves.
pub(super) fn guard_part(headers: &mut HeaderMap) {
    headers.insert(RESOURCE_POLICY, SAME_ORIGIN);
    never_guess(headers);
}

/// For the documentation of the API.
pub(super) fn guard_docs(headers: &mut HeaderMap) {
    guard(headers, DOCS);
}

/// For files that a browser might mistake for something else.
pub(super) fn never_guess(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

fn guard(headers: &mut HeaderMap, policy: HeaderValue) {
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    headers.insert(REFERRER_POLICY, SAME_ORIGIN);
    headers.insert(OPENER_POLICY, SAME_ORIGIN);
    headers.insert(RESOURCE_POLICY, SAME_ORIGIN);
    headers.insert(PERMISSIONS_POLICY, PERMISSIONS);
    never_guess(headers);
}
