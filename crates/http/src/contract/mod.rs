//! The outside contract: the shapes of requests and answers, the errors, and the document that describes them.
//! It knows no handler and no connection.

pub(crate) mod accept;
pub(crate) mod answer;
pub(crate) mod json;
pub(crate) mod openapi;
pub(crate) mod page;
pub(crate) mod problem;
pub(crate) mod refusals;
pub(crate) mod wire;
pub(crate) mod words;
