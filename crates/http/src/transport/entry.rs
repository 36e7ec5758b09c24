//! The entrance for every request that the fast lane did not answer. Each is counted once, and a panic becomes an
//! answer.

use std::{
    convert::Infallible,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::Router;
use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::{Body, Frame, Incoming, SizeHint},
    header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
};
use penstock_shop::{
    Code,
    gate::Peer,
    tally::{Group, Outcome, Pending, Tally},
};
use tower::Service as _;

use super::{
    answers::PreparedRefusals,
    arriving::Arriving,
    connections::{Connections, MAX_WAITS},
    held,
    peer::{Remote, X_FORWARDED_FOR},
    pulse::Pulse,
};
use crate::{
    api::{Api, buyer::tickets::TicketStreams, origin::X_FORWARDED_PROTO, pictures},
    contract::{
        answer::CountAs,
        json::MAX_BODY_BYTES,
        problem::{Problem, panicked, status_of},
    },
};

const EVENT_STREAM: &str = "text/event-stream";
const NOT_TO_BE_KEPT: HeaderValue = HeaderValue::from_static("no-store");

/// A long answer that is read as fast as it is written yields to others after this much of it.
const TURN_BYTES: usize = 64 * 1024;

type EntryFuture = BoxFuture<'static, Result<Response<CountedReply>, Infallible>>;

/// The service of one connection.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) api: Api,
    pub(crate) refusals: Arc<PreparedRefusals>,
    pub(crate) router: Router,
    pub(crate) tally: Arc<Tally>,
    pub(crate) remote: Remote,
    pub(crate) pulse: Arc<Pulse>,
    /// The list that the connection is in.
    pub(crate) connections: Arc<Connections>,
    pub(crate) ticket_streams: TicketStreams,
}

impl hyper::service::Service<Request<Incoming>> for Entry {
    type Response = Response<CountedReply>;
    type Error = Infallible;
    type Future = EntryFuture;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.pulse.call();
        let pulse = &self.pulse;
        let max_bytes = pictures::max_bytes_of_body(request.uri().path()).unwrap_or(MAX_BODY_BYTES);
        let request = request.map(|body| Arriving::new(body, pulse, max_bytes));
        self.route(request)
    }
}

impl Entry {
    fn peer(&self, headers: &HeaderMap) -> Peer {
        let forwarded = headers.get_all(X_FORWARDED_FOR).iter().map(HeaderValue::as_bytes);
        self.remote.peer(forwarded, &self.api.options.trusted_proxies)
    }

    fn route(&self, request: Request<Arriving>) -> EntryFuture {
        let api = self.api.clone();
        let pending = Pending::new(&self.tally, group_of(request.method(), request.uri().path()));
        let pulse = Arc::clone(&self.pulse);
        let working = self.pulse.working();
        let mut router = self.router.clone();
        let mut request = request.map(axum::body::Body::new);
        let peer = self.peer(request.headers());
        let proto = request.headers().get(X_FORWARDED_PROTO).map(HeaderValue::as_bytes);
        let came_by_https = self.remote.came_by_https(proto);
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(came_by_https);
        request.extensions_mut().insert(self.ticket_streams.clone());
        request.extensions_mut().insert(Arc::clone(&self.tally));
        let is_call = request.uri().path().starts_with("/api/");
        let is_read = request.method().is_safe();
        let connections = Arc::clone(&self.connections);
        Box::pin(async move {
            for _ in 0..MAX_WAITS {
                if !connections.is_full() {
                    break;
                }
                // Connections that were given up leave before this answer takes any memory.
                tokio::task::yield_now().await;
            }
            let routed = AssertUnwindSafe(async move { router.call(request).await }).catch_unwind().await;
            let (mut reply, outcome) = match routed {
                Ok(Ok(response)) => finish(&api, response),
                Ok(Err(never)) => match never {},
                Err(_) => problem_reply(&api, &panicked()),
            };
            if is_read && (is_call || matches!(outcome, Outcome::Refused(_))) {
                // Most answers are private, and what is missing now may exist later. A cache on the way must
                // not have to guess. It never keeps the answer to a change.
                reply.headers_mut().entry(CACHE_CONTROL).or_insert(NOT_TO_BE_KEPT);
            }
            if reply.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == EVENT_STREAM) {
                pulse.stream();
            }
            pending.answered(outcome);
            drop(working);
            Ok(reply.map(|body| CountedReply::new(body, pulse)))
        })
    }
}

fn group_of(method: &Method, path: &str) -> Group {
    match path.strip_prefix("/api/v1/") {
        Some(call) if call.starts_with("sales") => match *method {
            Method::POST if call.ends_with("/orders") => Group::Claim,
            _ => Group::Sales,
        },
        Some(call) if call.starts_with("orders") => Group::Orders,
        Some(call) if call.starts_with("admin") => Group::Admin,
        _ => Group::Other,
    }
}

fn problem_reply(api: &Api, problem: &Problem) -> (Response<ReplyBody>, Outcome) {
    let body = ReplyBody::Whole(problem.body(&api.options.problem_type_base).into());
    let mut response = Response::new(body);
    *response.status_mut() = status_of(problem.code);
    problem.write_headers(response.headers_mut());
    (response, Outcome::Refused(problem.code))
}

/// Gives a routed response its outcome, and its body if it is a problem. If the router itself refused the
/// request, for example because of a wrong method, the refusal becomes a problem here.
fn finish(api: &Api, response: axum::response::Response) -> (Response<ReplyBody>, Outcome) {
    let (mut parts, body) = response.into_parts();
    let problem = parts.extensions.remove::<Problem>();
    let counted = parts.extensions.remove::<CountAs>();
    let problem = problem.or_else(|| match counted {
        Some(_) => None,
        None => unnamed(parts.status).map(Problem::from),
    });
    if let Some(problem) = problem {
        problem.write_headers(&mut parts.headers);
        parts.headers.remove(hyper::header::CONTENT_LENGTH);
        let body = ReplyBody::Whole(problem.body(&api.options.problem_type_base).into());
        return (Response::from_parts(parts, body), Outcome::Refused(problem.code));
    }
    let outcome = match counted {
        Some(CountAs(outcome)) => outcome,
        None if parts.status == StatusCode::NOT_MODIFIED => Outcome::NotModified,
        None => Outcome::Ok,
    };
    (Response::from_parts(parts, ReplyBody::Routed(body)), outcome)
}

fn unnamed(status: StatusCode) -> Option<Code> {
    match status {
        StatusCode::NOT_FOUND => Some(Code::NotFound),
        StatusCode::METHOD_NOT_ALLOWED => Some(Code::MethodNotAllowed),
        status if status.is_client_error() => Some(Code::BadRequest),
        status if status.is_server_error() => Some(Code::Internal),
        _ => None,
    }
}

/// The body of an answer: ready as a whole, or as a handler made it.
#[derive(Debug)]
pub(crate) enum ReplyBody {
    Whole(Bytes),
    Routed(axum::body::Body),
}

/// A body that tells the connection when hyper has taken all of it.
#[derive(Debug)]
pub(crate) struct CountedReply {
    body: ReplyBody,
    /// What hyper has taken since others last had their turn.
    turn_bytes: usize,
    whole: Whole,
}

impl CountedReply {
    fn new(body: ReplyBody, pulse: Arc<Pulse>) -> Self {
        Self { body, turn_bytes: 0, whole: Whole(pulse) }
    }
}

#[derive(Debug)]
struct Whole(Arc<Pulse>);

impl Drop for Whole {
    fn drop(&mut self) {
        self.0.answer();
    }
}

impl Body for CountedReply {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let reply = self.get_mut();
        if reply.turn_bytes >= TURN_BYTES {
            reply.turn_bytes = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = match &mut reply.body {
            ReplyBody::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            ReplyBody::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            ReplyBody::Routed(body) => Pin::new(body).poll_frame(context),
        };
        let pulse = &reply.whole.0;
        polled.map_ok(|frame| {
            // A stream of events may go on for hours. Hyper polls it for more only while its client reads.
            pulse.beat();
            reply.turn_bytes += frame.data_ref().map_or(0, Bytes::len);
            frame.map_data(|bytes| held::count(bytes, pulse))
        })
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            ReplyBody::Whole(bytes) => bytes.is_empty(),
            ReplyBody::Routed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            ReplyBody::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            ReplyBody::Routed(body) => body.size_hint(),
        }
    }
}
