//! Where every request enters. A claim that the latch refuses is answered right here; other claims go straight
//! to the ledger; everything else goes to the router. Each is counted once, and a panic becomes an answer.

use std::{
    convert::Infallible,
    future::Future,
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
    header::{CONTENT_TYPE, HeaderValue},
};
use penstock_domain::{KeyDigest, SaleId};
use penstock_gate::QuickRefusal;
use tower::Service as _;

use crate::{
    app::{App, Peer},
    connection::Pulse,
    json::{MAX_BODY_BYTES, read_frames},
    orders,
    problem::{Code, PROBLEM_JSON, Problem},
    tally::{Group, Outcome, Pending, Tally},
};

/// What a handler leaves in a response to say how it is to be counted, where the status does not tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountAs(pub(crate) Outcome);

/// The service of one connection.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) app: Arc<App>,
    pub(crate) router: Router,
    pub(crate) tally: Arc<Tally>,
    pub(crate) peer: Peer,
    pub(crate) pulse: Arc<Pulse>,
}

impl hyper::service::Service<Request<Incoming>> for Entry {
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, request: Request<Incoming>) -> Answer {
        self.pulse.beat();
        let Some(sale) = order_call(request.method(), request.uri().path()) else {
            return self.route(request);
        };
        match self.quick_refusal(sale, request.headers()) {
            Some(refusal) => self.refuse(request, refusal),
            None => self.claim(sale, request),
        }
    }
}

/// The sale, if this is `POST /api/v1/sales/{id}/orders`. Odd spellings of it go through the router.
fn order_call(method: &Method, path: &str) -> Option<SaleId> {
    if *method != Method::POST {
        return None;
    }
    path.strip_prefix("/api/v1/sales/")?.strip_suffix("/orders")?.parse().ok()
}

impl Entry {
    fn quick_refusal(&self, sale: SaleId, headers: &HeaderMap) -> Option<QuickRefusal> {
        let key = KeyDigest::of(headers.get(orders::IDEMPOTENCY_KEY)?.as_bytes()).ok()?;
        self.app.storefront.with_latch(sale, |latch| latch.refuses(key, self.app.now()))
    }

    /// The hottest answer there is. It allocates nothing: the body is static, and the headers live in the
    /// request's own map, which the connection takes back for its next request.
    fn refuse(&self, request: Request<Incoming>, refusal: QuickRefusal) -> Answer {
        let (parts, body) = request.into_parts();
        let reply = reply(
            parts.headers,
            StatusCode::CONFLICT,
            PROBLEM_JSON,
            ReplyBody::Whole(self.app.canned.body(refusal)),
        );
        let pending = Pending::untimed(&self.tally);
        Answer::Refusing(Refusing { body, discarded: 0, reply: Some((reply, pending, refusal)) })
    }

    fn claim(&self, sale: SaleId, request: Request<Incoming>) -> Answer {
        let app = Arc::clone(&self.app);
        let pending = Pending::timed(&self.tally, Group::Claim);
        let pulse = Arc::clone(&self.pulse);
        Answer::Working(Box::pin(async move {
            let (parts, body) = request.into_parts();
            // As long as the client owes us the body, the connection counts as idle, which bounds the wait.
            let body = read_frames(body).await;
            let working = pulse.working();
            let placed =
                AssertUnwindSafe(orders::place(&app, sale, &parts.headers, body)).catch_unwind().await;
            let (reply, outcome) = match placed.unwrap_or_else(|_| Err(panicked())) {
                Ok(order) => {
                    let body = ReplyBody::Whole(order.into());
                    (reply(parts.headers, StatusCode::CREATED, APPLICATION_JSON, body), Outcome::Accepted)
                }
                Err(problem) => problem_reply(&app, &problem, parts.headers),
            };
            pending.answered(outcome);
            drop(working);
            reply
        }))
    }

    fn route(&self, request: Request<Incoming>) -> Answer {
        let app = Arc::clone(&self.app);
        let pending = Pending::timed(&self.tally, Group::of_path(request.uri().path()));
        let working = self.pulse.working();
        let mut router = self.router.clone();
        let mut request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(self.peer);
        Answer::Working(Box::pin(async move {
            let routed = AssertUnwindSafe(async move { router.call(request).await }).catch_unwind().await;
            let (reply, outcome) = match routed {
                Ok(Ok(response)) => finish(&app, response),
                Ok(Err(never)) => match never {},
                Err(_) => problem_reply(&app, &panicked(), HeaderMap::new()),
            };
            pending.answered(outcome);
            drop(working);
            reply
        }))
    }
}

pub(crate) const APPLICATION_JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The panic itself was logged by the process's hook, with its place.
fn panicked() -> Problem {
    tracing::error!("a handler panicked; the request is answered `internal`");
    Code::Internal.into()
}

/// Makes a response of a header map that is at hand.
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

/// Gives a routed response its outcome, and its body if it is a problem. What the router itself refused, such
/// as a wrong method, becomes a problem here.
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

/// The body of an answer: at hand as a whole, or what a handler made.
#[derive(Debug)]
pub(crate) enum ReplyBody {
    Whole(Bytes),
    Routed(axum::body::Body),
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Routed(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Routed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Routed(body) => body.size_hint(),
        }
    }
}

/// An answer on its way.
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is the hot one: a box would be its only allocation"
)]
pub(crate) enum Answer {
    Refusing(Refusing),
    Working(BoxFuture<'static, Response<ReplyBody>>),
}

impl Future for Answer {
    type Output = Result<Response<ReplyBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Refusing(refusing) => refusing.poll(context).map(Ok),
            Self::Working(working) => working.as_mut().poll(context).map(Ok),
        }
    }
}

/// A refusal that waits only for the request's body to have come in, so that the connection can go on.
pub(crate) struct Refusing {
    body: Incoming,
    discarded: usize,
    reply: Option<(Response<ReplyBody>, Pending, QuickRefusal)>,
}

impl Refusing {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Response<ReplyBody>> {
        while !self.body.is_end_stream() && self.discarded <= MAX_BODY_BYTES {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => self.discarded += frame.data_ref().map_or(0, Bytes::len),
                Poll::Ready(Some(Err(_)) | None) => break,
            }
        }
        let Some((reply, pending, refusal)) = self.reply.take() else { return Poll::Pending };
        pending.answered(Outcome::Refused(refusal.into()));
        Poll::Ready(reply)
    }
}
