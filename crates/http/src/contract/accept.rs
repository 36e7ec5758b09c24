//! Reads the preferences of a client: the lists in `Accept` and `Accept-Encoding`. It does not know what the
//! server has to offer.

use hyper::{
    HeaderMap,
    header::{ACCEPT, HeaderValue},
};

/// How much something is wanted, in thousandths.
pub(crate) type Quality = u32;
const FULL: Quality = 1000;

/// One entry of such a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish<'a> {
    pub(crate) name: &'a [u8],
    /// Everything after the name, including the quality.
    parameters: &'a [u8],
    pub(crate) quality: Quality,
}

impl<'a> Wish<'a> {
    fn read(text: &'a [u8]) -> Self {
        let (name, parameters) = match text.iter().position(|byte| *byte == b';') {
            Some(end) => (&text[..end], &text[end + 1..]),
            None => (text, &b""[..]),
        };
        let wish = Self { name: name.trim_ascii(), parameters, quality: FULL };
        // A quality that is not a number counts as 0.
        let quality = wish.parameter(b"q").map_or(FULL, |quality| thousandths(quality).unwrap_or(0));
        Self { quality, ..wish }
    }

    fn parameter(&self, name: &[u8]) -> Option<&'a [u8]> {
        let parameters = self.parameters.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        parameters
            .filter_map(|parameter| parameter.split_at_checked(name.len()))
            .find(|(start, rest)| start.eq_ignore_ascii_case(name) && rest.starts_with(b"="))
            .map(|(_, rest)| rest[1..].trim_ascii_start())
    }
}

/// `1`, `0.5` or `0.125`.
fn thousandths(quality: &[u8]) -> Option<Quality> {
    let text = std::str::from_utf8(quality).ok()?;
    let value: f32 = text.parse().ok()?;
    // Clamped, so that it fits.
    value.is_finite().then(|| (value.clamp(0.0, 1.0) * FULL as f32) as Quality)
}

/// All entries of a list that may come in several headers.
pub(crate) fn wishes<'a>(lists: impl Iterator<Item = &'a [u8]>) -> Vec<Wish<'a>> {
    lists.flat_map(|list| list.split(|byte| *byte == b',')).map(Wish::read).collect()
}

/// The media types that a client takes.
pub(crate) struct AcceptedKinds<'a>(Vec<Wish<'a>>);

impl<'a> AcceptedKinds<'a> {
    pub(crate) fn of(headers: &'a HeaderMap) -> Self {
        Self(wishes(headers.get_all(ACCEPT).iter().map(HeaderValue::as_bytes)))
    }

    /// How much exactly this type is wanted; 0 if it is not named. If the client asks for another version, it
    /// asks for something else.
    pub(crate) fn named(&self, name: &str, version: Option<&str>) -> Quality {
        let is_meant = |wish: &&Wish<'_>| {
            let asked = wish.parameter(b"version").map(|asked| asked.trim_ascii_end());
            wish.name.eq_ignore_ascii_case(name.as_bytes())
                && asked.is_none_or(|asked| version.is_none_or(|version| asked == version.as_bytes()))
        };
        self.0.iter().filter(is_meant).map(|wish| wish.quality).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(accept: &str, name: &str, version: Option<&str>) -> Quality {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_str(accept).unwrap())]);
        AcceptedKinds::of(&headers).named(name, version)
    }

    #[test]
    fn a_type_is_wanted_as_much_as_its_quality_says() {
        assert_eq!(named("text/html", "text/html", None), 1000);
        assert_eq!(named("a/b, TEXT/HTML ; level=1 ; Q=0.25", "text/html", None), 250);
        for accept in ["", "*/*", "text/*", "text/htm", "text/html;q=0", "text/html;q=x", "text/html;q=nan"] {
            assert_eq!(named(accept, "text/html", None), 0, "{accept}");
        }
    }

    #[test]
    fn another_version_is_something_else() {
        let accept = "text/plain;version=0.0.4;q=0.5, text/plain;version=2;q=0.9";
        assert_eq!(named(accept, "text/plain", Some("0.0.4")), 500);
        assert_eq!(named(accept, "text/plain", Some("2")), 900);
        assert_eq!(named("text/plain;q=0.3", "text/plain", Some("2")), 300);
        assert_eq!(named(accept, "text/plain", Some("3")), 0);
    }
}
