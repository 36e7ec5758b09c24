//! The one place that maps errors to HTTP. Every refusal has a stable code, a status, a title and a page.

use std::{borrow::Cow, convert::Infallible, sync::Arc};

use axum::response::{IntoResponse, Response};
use hyper::{
    HeaderMap, StatusCode,
    header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE},
};
use penstock_domain::{CancelRefusal, ClaimRefusal, JoinRefusal, PaymentRefusal, SaleRefusal};
use penstock_gate::{QuickRefusal, TooMany};
use penstock_ledger::LedgerError;
use penstock_records::{PutCodeError, RecordsError, RetryError};
use penstock_shop::{
    Code, SaleMissing,
    complaints::{FieldError, Invalid},
    gate::{NoPass, NoRoom, TurnedAway},
    identity::{IdentityRefusal, PasswordRefusal},
    orders::{OrderError, OrderRefusal},
};
use serde::Serialize;

use super::refusals::Refuses;

pub(crate) const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
/// Tells a proxy in front that another node may be able to answer. Not sent with `busy`: if there are too
/// many requests, each refused one would become two.
const ASK_ANOTHER: HeaderName = HeaderName::from_static("penstock-ask-another");

/// The status of a refusal.
pub const fn status_of(code: Code) -> StatusCode {
    match code {
        Code::MalformedJson
        | Code::BadRequest
        | Code::IdempotencyKeyRequired
        | Code::IdempotencyKeyInvalid => StatusCode::BAD_REQUEST,
        Code::Unauthorized | Code::BadCredentials => StatusCode::UNAUTHORIZED,
        Code::Forbidden
        | Code::CrossSite
        | Code::ChallengeFailed
        | Code::NotAdmitted
        | Code::PassRequired
        | Code::PassInvalid => StatusCode::FORBIDDEN,
        Code::NotFound
        | Code::ItemNotFound
        | Code::SaleNotFound
        | Code::OrderNotFound
        | Code::TicketNotFound
        | Code::NotWaiting
        | Code::DeadLetterNotFound => StatusCode::NOT_FOUND,
        Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Code::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
        Code::SoldOut
        | Code::LimitReached
        | Code::NotOpen
        | Code::Paused
        | Code::Closed
        | Code::NotSoldOut
        | Code::WaitlistFull
        | Code::PassesExhausted
        | Code::NotGated
        | Code::HoldExpired
        | Code::RefundDue
        | Code::AlreadyPaid
        | Code::PhoneTaken
        | Code::NotPublished
        | Code::AlreadyPublished
        | Code::DeadLetterStuck => StatusCode::CONFLICT,
        Code::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Code::InvalidRequest | Code::IdempotencyKeyReused | Code::OtpInvalid => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        Code::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        Code::Busy | Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// The detail for a problem that has nothing more specific to say.
const fn detail_of(code: Code) -> &'static str {
    match code {
        Code::RequestTimeout => "Send the whole request at once, on a new connection.",
        Code::SoldOut => "No unit is left. Units of unpaid orders may come back.",
        Code::NotOpen => "The sale opens later; see opens_at.",
        Code::Paused => "The merchant has paused the sale. Try again later.",
        Code::Closed => "The sale is over.",
        Code::LimitReached => "With this order you would have more units than one buyer may have.",
        Code::Unauthorized => "Send a session token or a shop's token as Authorization: Bearer.",
        Code::IdempotencyKeyRequired => {
            "Send a new random Idempotency-Key with each order, and the same one with each retry of it."
        }
        Code::IdempotencyKeyInvalid => "An Idempotency-Key is 1 to 128 visible ASCII characters.",
        Code::IdempotencyKeyReused => "An order with this key and another body was accepted before.",
        Code::HoldExpired => "The order was cancelled and its units are no longer held. Don't charge.",
        Code::RefundDue => {
            "The payment came after the hold expired, and no unit is left for it. Give the money back."
        }
        Code::ChallengeFailed => {
            "The challenge is unknown, used, expired or not yours, or the answer is wrong. Get a new one."
        }
        Code::NotAdmitted => "Wait in the waiting room until your ticket is admitted, and send it along.",
        Code::PassRequired => "Get one with POST /sales/{id}/pass and send it as Penstock-Pass.",
        Code::PassInvalid => "It is not yours, not for this sale, expired or damaged. Get a new one.",
        Code::PassesExhausted => {
            "Passes for all remaining units are held by others. Try again later: some may not be used."
        }
        Code::NotSoldOut => "Units are left: place an order instead.",
        Code::WaitlistFull => "Too many people wait for this sale already.",
        Code::NotWaiting => "If you were offered units, they are a held order in your orders.",
        Code::UnsupportedMediaType => "Send the body as application/json.",
        Code::OtpInvalid => "The code is wrong, expired, used or was tried too often. Ask for a new one.",
        Code::Busy => "Try again in a moment.",
        Code::Internal => "The fault is on the server's side and has been logged.",
        _ => code.title(),
    }
}

/// A refusal on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) code: Code,
    pub(crate) detail: Cow<'static, str>,
    pub(crate) errors: Vec<FieldError>,
    pub(crate) retry_after_seconds: Option<u32>,
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: Cow<'a, str>,
    title: &'a str,
    status: u16,
    code: &'a str,
    detail: &'a str,
    #[serde(skip_serializing_if = "<[FieldError]>::is_empty")]
    errors: &'a [FieldError],
}

impl Problem {
    pub(crate) fn new(code: Code) -> Self {
        let retry_after_seconds = (status_of(code) == StatusCode::SERVICE_UNAVAILABLE).then_some(1);
        Self { code, detail: detail_of(code).into(), errors: Vec::new(), retry_after_seconds }
    }

    pub(crate) fn with_detail(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { detail: detail.into(), ..Self::new(code) }
    }

    /// A 422 that names the fields.
    pub(crate) fn invalid(errors: Vec<FieldError>) -> Self {
        let detail = errors.first().map_or(Cow::Borrowed(Code::InvalidRequest.title()), |error| {
            format!("{}: {}", error.field, error.message).into()
        });
        Self { errors, ..Self::with_detail(Code::InvalidRequest, detail) }
    }

    pub(crate) fn invalid_field(
        field: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::invalid(vec![FieldError { field: field.into(), message: message.into() }])
    }

    /// The body. `type_base` is the prefix of the code in `type`.
    pub(crate) fn body(&self, type_base: &str) -> Vec<u8> {
        let body = Body {
            r#type: format!("{type_base}{}", self.code.as_str()).into(),
            title: self.code.title(),
            status: status_of(self.code).as_u16(),
            code: self.code.as_str(),
            detail: &self.detail,
            errors: &self.errors,
        };
        serde_json::to_vec(&body).unwrap_or_default()
    }

    /// Writes the headers of the problem.
    pub(crate) fn write_headers(&self, headers: &mut HeaderMap) {
        headers.insert(CONTENT_TYPE, PROBLEM_JSON);
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.code == Code::RequestTimeout {
            // Nobody knows where the next request would begin.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if self.code == Code::Unavailable {
            headers.insert(ASK_ANOTHER, HeaderValue::from_static("yes"));
        }
        if self.code == Code::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"penstock\""));
        }
    }
}

/// Handlers return it. `entry` writes its body, because only `entry` knows the base of `type`.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(axum::body::Body::empty());
        *response.status_mut() = status_of(self.code);
        self.write_headers(response.headers_mut());
        response.extensions_mut().insert(self);
        response
    }
}

/// The process's hook has logged the panic itself and its place.
pub(crate) fn panicked() -> Problem {
    tracing::error!("a handler panicked; the request is answered `internal`");
    Code::Internal.into()
}

impl From<Code> for Problem {
    fn from(code: Code) -> Self {
        Self::new(code)
    }
}

impl From<TooMany> for Problem {
    fn from(limit: TooMany) -> Self {
        let detail = format!("Try again in {} seconds.", limit.retry_after_seconds);
        let retry_after_seconds = Some(limit.retry_after_seconds);
        Self { retry_after_seconds, ..Self::with_detail(Code::RateLimited, detail) }
    }
}

/// Makes problems of refusals, and says which codes they have.
macro_rules! problems {
    ($($refusal:ty: { $($pattern:pat => $code:ident $(($detail:expr))? $(= $problem:expr)?;)+ })+) => { $(
        impl From<$refusal> for Problem {
            fn from(refusal: $refusal) -> Self {
                match refusal { $($pattern => problems!(@one $code $(($detail))? $(= $problem)?),)+ }
            }
        }

        impl Refuses for $refusal {
            fn codes() -> Vec<Code> {
                vec![$(Code::$code),+]
            }
        }
    )+ };
    (@one $code:ident) => { Code::$code.into() };
    (@one $code:ident ($detail:expr)) => { Problem::with_detail(Code::$code, $detail) };
    (@one $code:ident = $problem:expr) => { $problem };
}

problems! {
    QuickRefusal: {
        QuickRefusal::SoldOut => SoldOut;
        QuickRefusal::NotOpen => NotOpen;
        QuickRefusal::Paused => Paused;
        QuickRefusal::Closed => Closed;
    }
    ClaimRefusal: {
        ClaimRefusal::UnknownSale => SaleNotFound;
        ClaimRefusal::NotOpen => NotOpen;
        ClaimRefusal::Paused => Paused;
        ClaimRefusal::Closed => Closed;
        ClaimRefusal::LimitReached => LimitReached;
        ClaimRefusal::SoldOut => SoldOut;
        ClaimRefusal::KeyReused => IdempotencyKeyReused;
        ClaimRefusal::InvalidQuantity => InvalidRequest = no_quantity();
        // Only a recall gets this, and its refusals never reach a client.
        ClaimRefusal::NotAccepted => Internal;
    }
    JoinRefusal: {
        JoinRefusal::UnknownSale => SaleNotFound;
        JoinRefusal::NotOpen => NotOpen;
        JoinRefusal::Paused => Paused;
        JoinRefusal::Closed => Closed;
        JoinRefusal::LimitReached => LimitReached;
        JoinRefusal::NotSoldOut => NotSoldOut;
        JoinRefusal::WaitlistFull => WaitlistFull;
        JoinRefusal::InvalidQuantity => InvalidRequest = no_quantity();
    }
    PaymentRefusal: {
        PaymentRefusal::UnknownOrder => OrderNotFound;
        PaymentRefusal::HoldExpired => HoldExpired;
        PaymentRefusal::RefundDue => RefundDue;
    }
    CancelRefusal: {
        CancelRefusal::UnknownOrder => OrderNotFound;
        CancelRefusal::AlreadyPaid => AlreadyPaid("A paid order can't be cancelled.");
        CancelRefusal::HoldExpired => HoldExpired("The hold has expired; there is nothing to cancel.");
    }
    SaleRefusal: {
        SaleRefusal::UnknownSale => NotPublished;
        SaleRefusal::Closed => Closed;
        refusal @ SaleRefusal::TooManyUnits => InvalidRequest =
            Problem::invalid_field("units", refusal.to_string());
        refusal @ SaleRefusal::InvalidTerms => InvalidRequest(refusal.to_string());
    }
    SaleMissing: {
        SaleMissing::Unknown => SaleNotFound;
        SaleMissing::Loading => Unavailable("The sales are being loaded.");
        SaleMissing::Dark => Unavailable("The state of the sales can't be read at the moment.");
    }
    NoRoom: {
        NoRoom::NotGated => NotGated("The sale has no waiting room.");
        NoRoom::Opening => Unavailable("The waiting room is being opened. Try again in a moment.");
    }
    NoPass: {
        NoPass::Missing => PassRequired;
        NoPass::Invalid => PassInvalid;
    }
    IdentityRefusal: {
        IdentityRefusal::NotSignedIn => Unauthorized;
        IdentityRefusal::CannotCheck =>
            Unavailable("Sessions can't be checked until the database is back.");
        IdentityRefusal::NotABuyer => Forbidden("The admin token is not a buyer. Use an account.");
        IdentityRefusal::NotAnAccount => Forbidden("Only an account can do this.");
        IdentityRefusal::NoRandomness => Internal;
    }
    PasswordRefusal: {
        PasswordRefusal::Busy => Busy;
        PasswordRefusal::NotHashed => Internal;
    }
    RetryError: {
        RetryError::Unknown => DeadLetterNotFound;
        RetryError::Records(error) => Internal = error.into();
        stuck => DeadLetterStuck(stuck.to_string());
    }
}

fn no_quantity() -> Problem {
    Problem::invalid_field("quantity", "has to be at least 1")
}

/// For operations that can't be refused.
impl From<Infallible> for Problem {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl Refuses for Infallible {
    fn codes() -> Vec<Code> {
        Vec::new()
    }
}

impl<R: Refuses> Refuses for LedgerError<R> {
    fn codes() -> Vec<Code> {
        [R::codes(), vec![Code::Busy, Code::Unavailable]].concat()
    }
}

impl<R: Refuses> Refuses for OrderError<R> {
    fn codes() -> Vec<Code> {
        LedgerError::<R>::codes()
    }
}

impl Refuses for TurnedAway {
    fn codes() -> Vec<Code> {
        vec![Code::RateLimited, Code::Busy]
    }
}

impl Refuses for OrderRefusal {
    fn codes() -> Vec<Code> {
        [
            SaleMissing::codes(),
            QuickRefusal::codes(),
            TurnedAway::codes(),
            NoPass::codes(),
            LedgerError::<ClaimRefusal>::codes(),
        ]
        .concat()
    }
}

impl<R> From<LedgerError<R>> for Problem
where
    Self: From<R>,
{
    fn from(error: LedgerError<R>) -> Self {
        match error {
            LedgerError::Refused(refusal) => refusal.into(),
            LedgerError::Busy => Code::Busy.into(),
            // The reason may name files. It is in the log and in /readyz, but buyers don't see it.
            LedgerError::Unavailable(_) => Self::with_detail(
                Code::Unavailable,
                "Nothing can be decided at the moment. Try again with the same Idempotency-Key.",
            ),
        }
    }
}

impl From<RecordsError> for Problem {
    fn from(error: RecordsError) -> Self {
        Self::from(&error)
    }
}

/// From a read that many callers have waited for.
impl From<Arc<RecordsError>> for Problem {
    fn from(error: Arc<RecordsError>) -> Self {
        Self::from(&*error)
    }
}

impl From<&RecordsError> for Problem {
    fn from(error: &RecordsError) -> Self {
        match error {
            RecordsError::Unavailable(reason) => {
                tracing::warn!(reason, "the records are unavailable");
                Self::with_detail(Code::Unavailable, "The database can't be reached at the moment.")
            }
            other => {
                tracing::error!(error = %other, "the records answered with an error");
                Code::Internal.into()
            }
        }
    }
}

impl From<PutCodeError> for Problem {
    fn from(error: PutCodeError) -> Self {
        match error {
            PutCodeError::TooMany { retry_after_seconds } => TooMany { retry_after_seconds }.into(),
            PutCodeError::Records(error) => error.into(),
        }
    }
}

impl From<Invalid> for Problem {
    fn from(Invalid(errors): Invalid) -> Self {
        Self::invalid(errors)
    }
}

impl From<TurnedAway> for Problem {
    fn from(TurnedAway { retry_after_seconds, .. }: TurnedAway) -> Self {
        match retry_after_seconds {
            Some(retry_after_seconds) => TooMany { retry_after_seconds }.into(),
            None => Code::Busy.into(),
        }
    }
}

impl From<OrderRefusal> for Problem {
    fn from(refusal: OrderRefusal) -> Self {
        match refusal {
            OrderRefusal::Missing(missing) => missing.into(),
            OrderRefusal::NotLoaded => Code::Unavailable.into(),
            OrderRefusal::Latched(refusal) => refusal.into(),
            OrderRefusal::TurnedAway(turned_away) => turned_away.into(),
            OrderRefusal::NoPass(no_pass) => no_pass.into(),
            OrderRefusal::Ledger(error) => error.into(),
        }
    }
}

impl<R> From<OrderError<R>> for Problem
where
    Self: From<R>,
{
    fn from(error: OrderError<R>) -> Self {
        match error {
            OrderError::Ledger(error) => error.into(),
            OrderError::Records(error) => error.into(),
        }
    }
}
