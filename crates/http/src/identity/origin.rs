//! Tells whether a browser sends a request on behalf of another site. Only requests that rely on the cookie, or begin to,
//! have to be asked: nothing else is sent along without the page's knowledge.

use hyper::{
    HeaderMap,
    header::{HOST, HeaderName, HeaderValue, ORIGIN, REFERER},
};

use crate::peer::X_FORWARDED_PROTO;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// True if the request changes something on behalf of a page of another site.
///
/// Current browsers say so in `Sec-Fetch-Site`, if they came by HTTPS or to this machine. Others send at least `Origin`, and
/// very old ones `Referer`. What sends none of them is no browser, and has nobody's cookie but its own.
pub(super) fn is_cross_site(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter().map(HeaderValue::as_bytes).peekable();
    if sites.peek().is_some() {
        return !sites.all(|site| matches!(site, b"same-origin" | b"none"));
    }
    let mut origins = headers.get_all(ORIGIN).iter().peekable();
    if origins.peek().is_some() {
        return !origins.all(|origin| is_own(origin, headers));
    }
    !headers.get_all(REFERER).iter().all(|page| is_own(page, headers))
}

/// Whether an address, of a page or only of its host, is where the request went to.
fn is_own(address: &HeaderValue, headers: &HeaderMap) -> bool {
    let address = address.to_str().ok().and_then(|address| address.split_once("://"));
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let (Some((scheme, rest)), Some(host)) = (address, host) else { return false };
    let of_address = rest.split(['/', '?', '#']).next().unwrap_or_default();
    of_address.eq_ignore_ascii_case(host) && !(came_by_https(headers) && scheme.eq_ignore_ascii_case("http"))
}

/// Who could read and change what is sent in the clear could also make up a page of this host. It need not be a trusted proxy
/// that says so, because then nothing is permitted but only more refused.
fn came_by_https(headers: &HeaderMap) -> bool {
    headers.get(X_FORWARDED_PROTO).is_some_and(|proto| proto.as_bytes().eq_ignore_ascii_case(b"https"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[track_caller]
    fn judges(is_cross: bool, cases: &[&[(&'static str, &str)]]) {
        for pairs in cases {
            assert_eq!(is_cross_site(&headers(pairs)), is_cross, "{pairs:?}");
        }
    }

    #[test]
    fn a_page_of_this_site_is_recognised() {
        judges(
            false,
            &[
                &[],
                &[("sec-fetch-site", "same-origin"), ("origin", "https://shop.example")],
                &[("sec-fetch-site", "none")],
                &[("origin", "https://shop.example"), ("host", "shop.example")],
                &[("origin", "http://shop.example:8080"), ("host", "Shop.Example:8080")],
                &[("referer", "https://shop.example/sales/1?a=b"), ("host", "shop.example")],
                &[
                    ("origin", "https://shop.example"),
                    ("host", "shop.example"),
                    ("x-forwarded-proto", "https"),
                ],
                &[
                    ("origin", "https://shop.example"),
                    ("host", "shop.example"),
                    ("x-forwarded-proto", "http"),
                ],
            ],
        );
    }

    #[test]
    fn another_site_is_recognised() {
        judges(
            true,
            &[
                &[("sec-fetch-site", "cross-site")],
                &[("sec-fetch-site", "same-site"), ("host", "shop.example")],
                &[("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")],
                &[("sec-fetch-site", "")],
                &[("origin", "https://evil.example"), ("host", "shop.example")],
                &[("origin", "https://shop.example.evil.example"), ("host", "shop.example")],
                &[("origin", "https://shop.example:8443"), ("host", "shop.example")],
                &[("origin", "null"), ("host", "shop.example")],
                &[("origin", "https://shop.example")],
                &[
                    ("origin", "https://shop.example"),
                    ("origin", "https://evil.example"),
                    ("host", "shop.example"),
                ],
                &[("referer", "https://evil.example/shop.example"), ("host", "shop.example")],
                &[("referer", "https://evil.example?://shop.example"), ("host", "shop.example")],
            ],
        );
    }

    #[test]
    fn a_page_that_came_in_the_clear_is_none_of_a_site_with_https() {
        judges(
            true,
            &[&[("origin", "http://shop.example"), ("host", "shop.example"), ("x-forwarded-proto", "https")]],
        );
    }
}
