//! Reads bodies, paths and queries. If one can't be used, the answer is a problem that names the field.

mod strict;

use std::{error::Error, future::poll_fn, pin::Pin, str::FromStr};

use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use bytes::{Buf as _, Bytes, BytesMut};
use hyper::{HeaderMap, body::Body, header::CONTENT_TYPE, http::request::Parts};
use penstock_domain::{ItemId, OrderId, SaleId};
use penstock_shop::Code;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::error::Category;

use self::strict::Tree;
use super::{problem::Problem, refusals::Refuses};

pub(crate) const MAX_BODY_BYTES: usize = 64 * 1024;

/// How large a body may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimit {
    pub(crate) max_bytes: usize,
    /// This much more is read and thrown away, so that the client gets to see why it is refused.
    pub(crate) discarded_bytes: usize,
}

/// Why a body can't be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArrivalError {
    #[error("the body did not arrive in time")]
    Late,
    #[error(transparent)]
    Broken(hyper::Error),
}

impl ArrivalError {
    /// Whether lateness caused the error, however often it was wrapped.
    fn is_late(error: &(dyn Error + 'static)) -> bool {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if matches!(error.downcast_ref(), Some(Self::Late)) {
                return true;
            }
            cause = error.source();
        }
        false
    }
}

/// The limit of every call but one.
const LIMIT: BodyLimit = BodyLimit { max_bytes: MAX_BODY_BYTES, discarded_bytes: 1024 * 1024 };

const DEFAULT_PAGE: u32 = 50;
const MAX_PAGE: u32 = 200;

/// A JSON body.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        expect_json(&parts.headers)?;
        parse(&read_body(body).await?).map(Self)
    }
}

/// A JSON body that may be left out.
#[derive(Debug)]
pub(crate) struct OptionalJson<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for OptionalJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let body = read_body(body).await?;
        if body.is_empty() {
            return Ok(Self(T::default()));
        }
        expect_json(&parts.headers)?;
        parse(&body).map(Self)
    }
}

pub(crate) fn expect_json(headers: &HeaderMap) -> Result<(), Problem> {
    let is_json = headers.get(CONTENT_TYPE).is_some_and(|value| is_json(value.as_bytes()));
    if is_json { Ok(()) } else { Err(Code::UnsupportedMediaType.into()) }
}

/// Whether a `Content-Type` is JSON, or something that is JSON underneath.
pub(crate) fn is_json(content_type: &[u8]) -> bool {
    let kind = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    kind.eq_ignore_ascii_case(b"application/json")
        || (kind.len() > 17
            && kind[..12].eq_ignore_ascii_case(b"application/")
            && kind[kind.len() - 5..].eq_ignore_ascii_case(b"+json"))
}

/// Reads a whole body within the limit of nearly all calls.
pub(crate) async fn read_body<B>(body: B) -> Result<Bytes, Problem>
where
    B: Body<Data = Bytes, Error: Error + 'static> + Unpin,
{
    read_body_within(body, LIMIT).await
}

/// Reads a whole body of bounded size. Fails by itself if the body takes too long to arrive.
pub(crate) async fn read_body_within<B>(mut body: B, limit: BodyLimit) -> Result<Bytes, Problem>
where
    B: Body<Data = Bytes, Error: Error + 'static> + Unpin,
{
    let too_large = || {
        let detail = format!("A body may have at most {} bytes.", limit.max_bytes);
        Problem::with_detail(Code::BodyTooLarge, detail)
    };
    let heard_bytes = limit.max_bytes + limit.discarded_bytes;
    if body.size_hint().lower() > heard_bytes as u64 {
        return Err(too_large());
    }
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    let mut length = 0;
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|error| match ArrivalError::is_late(&error) {
            true => Problem::from(Code::RequestTimeout),
            false => Problem::with_detail(Code::BadRequest, "The body was cut off."),
        })?;
        let Ok(data) = frame.into_data() else { continue };
        length += data.remaining();
        if length > heard_bytes {
            break;
        }
        if length > limit.max_bytes {
            (first, all) = (Bytes::new(), BytesMut::new());
            continue;
        }
        // Nearly all bodies come in one piece, which is used without a copy.
        if all.is_empty() && first.is_empty() {
            first = data;
        } else {
            if all.is_empty() {
                let rest = usize::try_from(body.size_hint().lower()).unwrap_or(limit.max_bytes);
                all.reserve((length + rest).min(limit.max_bytes));
                all.extend_from_slice(&std::mem::take(&mut first));
            }
            all.extend_from_slice(&data);
        }
    }
    if length > limit.max_bytes {
        return Err(too_large());
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

/// Reads JSON. Syntax errors are 400. JSON that does not match the expected type is 422, and the problem
/// names the field.
pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    // Without a bracket no list can pass for an object, so the short way is just as strict.
    if !body.contains(&b'[')
        && let Ok(value) = serde_json::from_slice(body)
    {
        return Ok(value);
    }
    let tree: Tree = serde_json::from_slice(body).map_err(|error| malformed(body, &error))?;
    read(&tree)
}

fn read<T: DeserializeOwned>(tree: &Tree) -> Result<T, Problem> {
    T::deserialize(tree).map_err(|misfit| Problem::invalid_field(misfit.field(), misfit.message))
}

fn malformed(body: &[u8], error: &serde_json::Error) -> Problem {
    let message = error.to_string();
    if !message.starts_with("number out of range") {
        return Problem::with_detail(Code::MalformedJson, in_words(body, error, &message));
    }
    // It is JSON, but the number does not fit our types. Its field is the name before it.
    let line = body.split(|byte| *byte == b'\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let before = line.get(..error.column().min(line.len())).unwrap_or_default();
    let field = before.rsplit(|byte| *byte == b'"').nth(1).unwrap_or(b"body");
    Problem::invalid_field(String::from_utf8_lossy(field).into_owned(), "is a number out of range")
}

/// Serde's own messages are for programmers who know it.
fn in_words(body: &[u8], error: &serde_json::Error, message: &str) -> String {
    let what = match error.classify() {
        Category::Eof if body.trim_ascii().is_empty() => return "The body is empty.".to_owned(),
        Category::Eof => "ends too early",
        _ if message.starts_with("recursion limit exceeded") => "is nested too deeply",
        _ => "is not JSON",
    };
    format!("The body {what}, see line {}, column {}.", error.line(), error.column())
}

/// Something with an id in a path. An id that can't exist is answered like one that doesn't: not found.
pub(crate) trait Resource: FromStr {
    const MISSING: Code;
}

impl Resource for SaleId {
    const MISSING: Code = Code::SaleNotFound;
}

impl Resource for ItemId {
    const MISSING: Code = Code::ItemNotFound;
}

impl Resource for OrderId {
    const MISSING: Code = Code::OrderNotFound;
}

/// The id in the path.
#[derive(Debug)]
pub(crate) struct PathId<T>(pub(crate) T);

impl<S: Send + Sync, T: Resource> FromRequestParts<S> for PathId<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let missing = Problem::from(T::MISSING);
        let params = RawPathParams::from_request_parts(parts, state).await.map_err(|_| missing.clone())?;
        let id = params.iter().find(|(name, _)| *name == "id").and_then(|(_, id)| id.parse().ok());
        id.map(Self).ok_or(missing)
    }
}

/// A query string, read into `T`.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // Read as text first, so that errors are worded like those of a body.
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        let axum::extract::Query(pairs) =
            pairs.map_err(|_| Problem::with_detail(Code::BadRequest, "The query can't be read."))?;
        let tree = Tree::Object(pairs.into_iter().map(|(name, text)| (name, Tree::Text(text))).collect());
        read(&tree).map(Self)
    }
}

/// The requested part of a list, as the client sent it.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// The length of the page: 1 to 200; 50 by default.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    pub(crate) limit: Option<String>,
    /// The `next` of the previous page.
    pub(crate) after: Option<String>,
}

impl PageQuery {
    pub(crate) fn limit(&self) -> Result<u32, Problem> {
        let Some(limit) = &self.limit else { return Ok(DEFAULT_PAGE) };
        let limit = limit.parse().ok().filter(|limit| (1..=MAX_PAGE).contains(limit));
        limit.ok_or_else(|| Problem::invalid_field("limit", format!("has to be 1 to {MAX_PAGE}")))
    }

    pub(crate) fn after<T: FromStr>(&self) -> Result<Option<T>, Problem> {
        let parse = |after: &String| after.parse().map_err(|_| bad_cursor());
        self.after.as_ref().map(parse).transpose()
    }
}

pub(crate) fn bad_cursor() -> Problem {
    Problem::invalid_field("after", "has to be the `next` of an earlier page")
}

impl<T> Refuses for Json<T> {
    fn codes() -> Vec<Code> {
        vec![
            Code::MalformedJson,
            Code::BadRequest,
            Code::BodyTooLarge,
            Code::UnsupportedMediaType,
            Code::InvalidRequest,
            Code::RequestTimeout,
        ]
    }
}

impl<T> Refuses for OptionalJson<T> {
    fn codes() -> Vec<Code> {
        Json::<T>::codes()
    }
}

impl<T: Resource> Refuses for PathId<T> {
    fn codes() -> Vec<Code> {
        vec![T::MISSING]
    }
}

impl<T> Refuses for Query<T> {
    fn codes() -> Vec<Code> {
        vec![Code::BadRequest, Code::InvalidRequest]
    }
}
