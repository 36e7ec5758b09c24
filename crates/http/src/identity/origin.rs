//! Tells whether a browser sends a request on behalf of another site. Only requests that rely on the cookie
//! have to be asked: nothing else is sent along without the page's knowledge.

use hyper::{
    HeaderMap,
    header::{HOST, ORIGIN},
};

/// True if the request changes something on behalf of a page of another site.
///
/// Current browsers say so in `Sec-Fetch-Site`. Older ones send at least `Origin`. What sends neither is no
/// browser, and has nobody's cookie but its own.
pub(super) fn is_cross_site(headers: &HeaderMap) -> bool {
    match headers.get("sec-fetch-site").map(|value| value.as_bytes()) {
        Some(b"same-origin" | b"none") => return false,
        Some(_) => return true,
        None => {}
    }
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let origin_host = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    match (origin_host, host) {
        (Some(origin_host), Some(host)) => !origin_host.eq_ignore_ascii_case(host),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn another_site_is_recognised() {
        for (expected, pairs) in [
            (false, &[][..]),
            (false, &[("sec-fetch-site", "same-origin"), ("origin", "https://shop.example")]),
            (false, &[("sec-fetch-site", "none")]),
            (true, &[("sec-fetch-site", "cross-site")]),
            (true, &[("sec-fetch-site", "same-site"), ("host", "shop.example")]),
            (false, &[("origin", "https://shop.example"), ("host", "shop.example")]),
            (true, &[("origin", "https://evil.example"), ("host", "shop.example")]),
            (true, &[("origin", "null"), ("host", "shop.example")]),
            (true, &[("origin", "https://shop.example")]),
        ] {
            assert_eq!(is_cross_site(&headers(pairs)), expected, "{pairs:?}");
        }
    }
}
