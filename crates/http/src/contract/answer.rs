//! What handlers tell the transport about their answers.

use hyper::header::HeaderValue;
use penstock_shop::tally::Outcome;

pub(crate) const APPLICATION_JSON: HeaderValue = HeaderValue::from_static("application/json");
/// A client may keep its copy, but has to ask whether it is still up to date.
pub(crate) const REVALIDATE: HeaderValue = HeaderValue::from_static("no-cache");

/// Left in a response by a handler: how to count it where the status does not say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountAs(pub(crate) Outcome);
