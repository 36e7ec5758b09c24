//! The entrance for every request that the fast lane did not answer. Claims go straight to the ledger,
//! everything else to the router. Each is counted once, and a panic becomes an answer.

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
use penstock_domain::SaleId;
use tower::Service as _;

use crate::{
    app::App,
    arriving::Arriving,
    connections::{Connections, MAX_WAITS},
    held,
    json::{MAX_BODY_BYTES, read_body},
    orders,
    peer::{Peer, Remote, X_FORWARDED_FOR, X_FORWARDED_PROTO},
    pictures,
    problem::{Code, PROBLEM_JSON, Problem},
    pulse::Pulse,
    tally::{Group, Outcome, Pending, Tally},
    tickets::TicketStreams,
};

/// Left in a response by a handler: how to count it where the status does not say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountAs(pub(crate) Outcome);

const SALES: &str = "/api/v1/sales/";
const EVENT_STREAM: &str = "text/event-stream";
const NOT_TO_BE_KEPT: HeaderValue = HeaderValue::from_static("no-store");

/// A long answer that is read as fast as it is written yields to others after this much of it.
const TURN_BYTES: usize = 64 * 1024;

type EntryFuture = BoxFuture<'static, Result<Response<Reply>, Infallible>>;

/// The service of one connection.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) app: Arc<App>,
    pub(crate) router: Router,
    pub(crate) tally: Arc<Tally>,
    pub(crate) remote: Remote,
    pub(crate) pulse: Arc<Pulse>,
    /// The list that the connection is in.
    pub(crate) connections: Arc<Connections>,
    pub(crate) ticket_streams: TicketStreams,
}

impl hyper::service::Service<Request<Incoming>> for Entry {
    type Response = Response<Reply>;
    type Error = Infallible;
    type Future = EntryFuture;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.pulse.call();
        let pulse = &self.pulse;
        let max_bytes = pictures::max_bytes_of_body(request.uri().path()).unwrap_or(MAX_BODY_BYTES);
        let request = request.map(|body| Arriving::new(body, pulse, max_bytes));
        match request.method() {
            &Method::POST => match sale_of_order_path(request.uri().path()) {
                Some(sale) => self.claim(sale, request),
                None => self.route(request),
            },
            _ => self.route(request),
        }
    }
}

/// The sale, if this is the path of its orders. Odd spellings go through the router.
pub(crate) fn sale_of_order_path(path: &str) -> Option<SaleId> {
    path.strip_prefix(SALES)?.strip_suffix("/orders")?.parse().ok()
}

/// The sale, if this is its path.
pub(crate) fn sale_of_path(path: &str) -> Option<SaleId> {
    path.strip_prefix(SALES)?.parse().ok()
}

impl Entry {
    fn peer(&self, headers: &HeaderMap) -> Peer {
        let forwarded = headers.get_all(X_FORWARDED_FOR).iter().map(HeaderValue::as_bytes);
        self.remote.peer(forwarded, &self.app.options.trusted_proxies)
    }

    fn claim(&self, sale: SaleId, request: Request<Arriving>) -> EntryFuture {
        let app = Arc::clone(&self.app);
        let pending = Pending::of_claim(&self.tally, app.storefront.sale_tally(sale, &self.tally));
        let pulse = Arc::clone(&self.pulse);
        let peer = self.peer(request.headers());
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            // While the client still owes us the body, the connection counts as idle, which bounds the wait.
            let body = read_body(body).await;
            let working = pulse.working();
            let placed = AssertUnwindSafe(orders::place(&app, (sale, peer), &parts.headers, body))
                .catch_unwind()
                .await;
            let (reply, outcome) = match placed.unwrap_or_else(|_| Err(panicked())) {
                Ok((order, outcome)) => {
                    let body = ReplyBody::Whole(order.into());
                    (reply(parts.headers, StatusCode::CREATED, APPLICATION_JSON, body), outcome)
                }
                Err(problem) => problem_reply(&app, &problem, parts.headers),
            };
            pending.answered(outcome);
            drop(working);
            Ok(reply.map(|body| Reply::new(body, pulse)))
        })
    }

    fn route(&self, request: Request<Arriving>) -> EntryFuture {
        let app = Arc::clone(&self.app);
        let pending = Pending::new(&self.tally, Group::of_path(request.uri().path()));
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
        let is_call = request.uri().path().starts_with("/api/");
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
                Ok(Ok(response)) => finish(&app, response),
                Ok(Err(never)) => match never {},
                Err(_) => problem_reply(&app, &panicked(), HeaderMap::new()),
            };
            if is_call || matches!(outcome, Outcome::Refused(_)) {
                // Most answers are private, and what is missing now may exist later. A cache on the way must
                // not have to guess.
                reply.headers_mut().entry(CACHE_CONTROL).or_insert(NOT_TO_BE_KEPT);
            }
            if reply.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == EVENT_STREAM) {
                pulse.stream();
            }
            pending.answered(outcome);
            drop(working);
            Ok(reply.map(|body| Reply::new(body, pulse)))
        })
    }
}

pub(crate) const APPLICATION_JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The process's hook has logged the panic itself and its place.
pub(crate) fn panicked() -> Problem {
    tracing::error!("a handler panicked; the request is answered `internal`");
    Code::Internal.into()
}

/// Builds a response, reusing a header map.
fn reply(
    mut headers: HeaderMap,
    status: StatusCode,
    content_type: HeaderValue,
    body: ReplyBody,
) -> Response<ReplyBody> {
    headers.clear();
    headers.insert(CONTENT_TYPE, content_type);
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn problem_reply(app: &App, problem: &Problem, headers: HeaderMap) -> (Response<ReplyBody>, Outcome) {
    let body = ReplyBody::Whole(problem.body(&app.options.problem_type_base).into());
    let mut response = reply(headers, problem.code.status(), PROBLEM_JSON, body);
    problem.write_headers(response.headers_mut());
    (response, Outcome::Refused(problem.code))
}

/// Gives a routed response its outcome, and its body if it is a problem. If the router itself refused the
/// request, for example because of a wrong method, the refusal becomes a problem here.
fn finish(app: &App, response: axum::response::Response) -> (Response<ReplyBody>, Outcome) {
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
        let body = ReplyBody::Whole(problem.body(&app.options.problem_type_base).into());
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
pub(crate) struct Reply {
    body: ReplyBody,
    /// What hyper has taken since others last had their turn.
    turn_bytes: usize,
    whole: Whole,
}

impl Reply {
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

impl Body for Reply {
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
