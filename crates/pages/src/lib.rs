//! The files of the shop and the console as `make web` built them, inside the binary, so that it needs no
//! other files. It does not know how they are sent.

/// A file of `web/dist`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path as a browser requests it, such as `/assets/shop-Bx3k1a9Q.js`.
    pub path: &'static str,
    pub content_type: &'static str,
    /// Changes with the content, and consists of letters and digits only.
    pub fingerprint: &'static str,
    pub bytes: &'static [u8],
    /// The same, compressed by Brotli, if that is smaller.
    pub brotli: Option<&'static [u8]>,
    /// The same, compressed by gzip, if that is smaller.
    pub gzip: Option<&'static [u8]>,
}

include!(concat!(env!("OUT_DIR"), "/files.rs"));
