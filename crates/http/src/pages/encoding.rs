//! Chooses the compressed variant that a browser accepts.

use hyper::header::HeaderValue;

use crate::contract::accept::{Quality, Wish, wishes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Brotli,
    Gzip,
    Identity,
}

impl Encoding {
    /// The name in `Content-Encoding`.
    pub(super) fn name(self) -> Option<HeaderValue> {
        match self {
            Self::Brotli => Some(HeaderValue::from_static("br")),
            Self::Gzip => Some(HeaderValue::from_static("gzip")),
            Self::Identity => None,
        }
    }

    /// Distinguishes the ETags of one file's variants.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Brotli => "-br",
            Self::Gzip => "-gz",
            Self::Identity => "",
        }
    }

    fn is_called(self, name: &[u8]) -> bool {
        match self {
            Self::Brotli => name.eq_ignore_ascii_case(b"br"),
            Self::Gzip => name.eq_ignore_ascii_case(b"gzip") || name.eq_ignore_ascii_case(b"x-gzip"),
            Self::Identity => name.eq_ignore_ascii_case(b"identity"),
        }
    }
}

/// The available encoding that the client wants most; the first one if several are wanted equally. A client
/// that wants none of them gets the plain file, which is more useful than a refusal.
pub(super) fn choose<'a>(
    accepted: impl Iterator<Item = &'a [u8]>,
    available: impl Iterator<Item = Encoding>,
) -> Encoding {
    let wishes = wishes(accepted);
    let mut best = (Encoding::Identity, 0);
    for encoding in available {
        let quality = quality_of(encoding, &wishes);
        if quality > best.1 {
            best = (encoding, quality);
        }
    }
    best.0
}

fn quality_of(encoding: Encoding, wishes: &[Wish<'_>]) -> Quality {
    let named = wishes.iter().find(|wish| encoding.is_called(wish.name));
    let any = || wishes.iter().find(|wish| wish.name == b"*");
    match named.or_else(any) {
        Some(wish) => wish.quality,
        // It need not be named, but anything named is preferred.
        None if encoding == Encoding::Identity => 1,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(accepted: &str) -> Encoding {
        choose(
            std::iter::once(accepted.as_bytes()),
            [Encoding::Brotli, Encoding::Gzip, Encoding::Identity].into_iter(),
        )
    }

    #[test]
    fn a_browser_gets_the_smallest_variant_that_it_accepts() {
        assert_eq!(chosen("gzip, deflate, br, zstd"), Encoding::Brotli);
        assert_eq!(chosen("gzip, deflate"), Encoding::Gzip);
        assert_eq!(chosen("GZIP"), Encoding::Gzip);
        assert_eq!(chosen("*"), Encoding::Brotli);
        assert_eq!(chosen("deflate"), Encoding::Identity);
        assert_eq!(chosen(""), Encoding::Identity);
        assert_eq!(choose(std::iter::empty(), [Encoding::Brotli].into_iter()), Encoding::Identity);
    }

    #[test]
    fn an_encoding_that_is_refused_or_less_wanted_is_not_sent() {
        assert_eq!(chosen("br;q=0, gzip"), Encoding::Gzip);
        assert_eq!(chosen("br; q=0.000, gzip ;Q=0.5"), Encoding::Gzip);
        assert_eq!(chosen("br;q=0.1, gzip;q=0.8"), Encoding::Gzip);
        assert_eq!(chosen("gzip;q=0, *"), Encoding::Brotli);
        assert_eq!(chosen("br;q=0.5, identity"), Encoding::Identity);
        assert_eq!(chosen("*;q=0"), Encoding::Identity);
        assert_eq!(chosen("br;q=much"), Encoding::Identity);
        assert_eq!(chosen("br;q=NaN"), Encoding::Identity);
    }

    #[test]
    fn a_variant_that_does_not_exist_is_not_chosen() {
        let only_gzip = [Encoding::Gzip, Encoding::Identity];
        assert_eq!(choose(std::iter::once(&b"br, gzip;q=0.2"[..]), only_gzip.into_iter()), Encoding::Gzip);
    }
}
