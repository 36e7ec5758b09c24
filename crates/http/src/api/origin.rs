//! Tells whether a browser sends a request on behalf of another site. Only requests that rely on the cookie,
//! or set it, need the check: browsers send nothing else without the page's knowledge.

use hyper::{
    HeaderMap,
    header::{HOST, HeaderName, ORIGIN, REFERER},
};

pub(crate) const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// At most this much of a header is repeated in an answer.
const SHOWN_LETTERS: usize = 100;

/// Why a request counts as sent by another site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CrossSite {
    /// The browser says so itself.
    Declared,
    /// The page has another address than the one the request went to. A proxy in between may have changed
    /// `Host`.
    Elsewhere { page: String, host: String },
    /// The page came by HTTP, but the proxy says that the request came by HTTPS.
    InTheClear { page: String },
}

impl CrossSite {
    /// What is wrong and what to do about it, for developers of clients and for operators of proxies.
    pub(crate) fn detail(&self) -> String {
        match self {
            Self::Declared => "The cookie is only accepted from pages of this site. The browser says that a page of another \
                               site sends this."
                .to_owned(),
            Self::Elsewhere { page, host } => format!(
                "The cookie is only accepted from pages of this site. The page is at \"{page}\", and the request arrived \
                 with the header \"Host: {host}\". If that page is the shop's own, a proxy in front changes the header: \
                 let it pass on what the browser sent (in nginx: proxy_set_header Host $http_host;)."
            ),
            Self::InTheClear { page } => format!(
                "The cookie is only accepted from pages of this site. The page is at \"{page}\", which came by HTTP, and a \
                 proxy says \"X-Forwarded-Proto: https\". Send visitors to https:// first, or let the proxy tell how they \
                 came (in nginx: proxy_set_header X-Forwarded-Proto $scheme;)."
            ),
        }
    }
}

/// What a browser says about the page that sends a request. A header that appears several times is empty, which
/// no page of this site sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SentBy<'a> {
    pub(crate) fetch_site: Option<&'a [u8]>,
    pub(crate) origin: Option<&'a [u8]>,
    pub(crate) referer: Option<&'a [u8]>,
    pub(crate) host: Option<&'a [u8]>,
    /// From a proxy, which may not be trusted: it can only cause more refusals.
    pub(crate) forwarded_proto: Option<&'a [u8]>,
}

impl<'a> SentBy<'a> {
    pub(crate) fn read(headers: &'a HeaderMap) -> Self {
        let only = |name: HeaderName| {
            let mut values = headers.get_all(name).iter();
            let first = values.next()?.as_bytes();
            Some(if values.next().is_none() { first } else { b"" })
        };
        Self {
            fetch_site: only(SEC_FETCH_SITE),
            origin: only(ORIGIN),
            referer: only(REFERER),
            host: only(HOST),
            forwarded_proto: only(X_FORWARDED_PROTO),
        }
    }

    /// Returns a reason if a page of another site sends the request.
    ///
    /// Current browsers send `Sec-Fetch-Site`, if the page came by HTTPS or from this machine. Others send at
    /// least `Origin`, and very old ones `Referer`. A client that sends none of them is not a browser, and has
    /// only its own cookie.
    pub(crate) fn another_site(&self) -> Option<CrossSite> {
        match (self.fetch_site, self.origin.or(self.referer)) {
            (Some(b"same-origin" | b"none"), _) | (None, None) => None,
            (Some(_), _) => Some(CrossSite::Declared),
            (None, Some(page)) => self.of_another(page),
        }
    }

    /// Whether an address, of a page or just of its host, differs from the one the request went to.
    fn of_another(&self, page: &[u8]) -> Option<CrossSite> {
        let elsewhere = || {
            Some(CrossSite::Elsewhere { page: shown(page), host: self.host.map(shown).unwrap_or_default() })
        };
        let parts = str::from_utf8(page).ok().and_then(|address| address.split_once("://"));
        let (Some((scheme, rest)), Some(host)) = (parts, self.host) else { return elsewhere() };
        let of_address = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if !of_address.as_bytes().eq_ignore_ascii_case(host) {
            return elsewhere();
        }
        // Anybody who can read and change plain HTTP could also forge a page of this host.
        let came_by_https = self.forwarded_proto.is_some_and(|proto| proto.eq_ignore_ascii_case(b"https"));
        let in_the_clear = came_by_https && scheme.eq_ignore_ascii_case("http");
        in_the_clear.then(|| CrossSite::InTheClear { page: shown(page) })
    }
}

/// The beginning of a header, without the private parts of a page's address: its path and its query.
fn shown(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    let end = text.find("://").map_or(0, |scheme| scheme + 3);
    let host_ends =
        text.get(end..).and_then(|rest| rest.find(['/', '?', '#'])).map_or(text.len(), |at| end + at);
    text.get(..host_ends).unwrap_or_default().chars().take(SHOWN_LETTERS).collect()
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
            assert_eq!(SentBy::read(&headers(pairs)).another_site().is_some(), is_cross, "{pairs:?}");
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
    fn a_page_that_came_by_http_does_not_belong_to_a_site_with_https() {
        judges(
            true,
            &[&[("origin", "http://shop.example"), ("host", "shop.example"), ("x-forwarded-proto", "https")]],
        );
    }

    #[test]
    fn the_refusal_says_what_is_wrong_and_what_to_set() {
        let detail = |pairs: &[_]| SentBy::read(&headers(pairs)).another_site().unwrap().detail();
        let wrong_host = detail(&[("origin", "https://shop.example"), ("host", "penstock")]);
        for word in ["https://shop.example", "Host: penstock", "proxy_set_header Host $http_host;"] {
            assert!(wrong_host.contains(word), "{word} is missing in: {wrong_host}");
        }
        let long = format!("https://{}/", "x".repeat(10_000));
        assert!(detail(&[("origin", &long), ("host", &long)]).len() < 600);
        let private =
            detail(&[("referer", "https://evil.example/reset?token=secret"), ("host", "shop.example")]);
        assert!(private.contains("\"https://evil.example\"") && !private.contains("secret"), "{private}");
        let clear =
            [("origin", "http://shop.example"), ("host", "shop.example"), ("x-forwarded-proto", "https")];
        assert!(detail(&clear).contains("proxy_set_header X-Forwarded-Proto $scheme;"));
        assert!(detail(&[("sec-fetch-site", "cross-site")]).contains("The browser says"));
    }
}
