//! The one place that maps errors to HTTP. Every refusal has a stable code, a status, a title and a page.

use std::{borrow::Cow, sync::Arc};

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

impl From<QuickRefusal> for Problem {
    fn from(refusal: QuickRefusal) -> Self {
        match refusal {
            QuickRefusal::SoldOut => Code::SoldOut.into(),
            QuickRefusal::NotOpen => Code::NotOpen.into(),
            QuickRefusal::Paused => Code::Paused.into(),
            QuickRefusal::Closed => Code::Closed.into(),
        }
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

/// A refusal of the ledger, as a problem.
pub(crate) trait LedgerRefusal {
    fn problem(self) -> Problem;
}

impl LedgerRefusal for std::convert::Infallible {
    fn problem(self) -> Problem {
        match self {}
    }
}

impl LedgerRefusal for ClaimRefusal {
    fn problem(self) -> Problem {
        match self {
            Self::UnknownSale => Code::SaleNotFound.into(),
            Self::NotOpen => Code::NotOpen.into(),
            Self::Paused => Code::Paused.into(),
            Self::Closed => Code::Closed.into(),
            Self::LimitReached => Code::LimitReached.into(),
            Self::SoldOut => Code::SoldOut.into(),
            Self::KeyReused => Code::IdempotencyKeyReused.into(),
            Self::InvalidQuantity => Problem::invalid_field("quantity", "has to be at least 1"),
            // Only a recall gets this, and its refusals never reach a client.
            Self::NotAccepted => Code::Internal.into(),
        }
    }
}

impl LedgerRefusal for JoinRefusal {
    fn problem(self) -> Problem {
        match self {
            Self::UnknownSale => Code::SaleNotFound.into(),
            Self::NotOpen => Code::NotOpen.into(),
            Self::Paused => Code::Paused.into(),
            Self::Closed => Code::Closed.into(),
            Self::LimitReached => Code::LimitReached.into(),
            Self::NotSoldOut => Code::NotSoldOut.into(),
            Self::WaitlistFull => Code::WaitlistFull.into(),
            Self::InvalidQuantity => Problem::invalid_field("quantity", "has to be at least 1"),
        }
    }
}

impl LedgerRefusal for PaymentRefusal {
    fn problem(self) -> Problem {
        match self {
            Self::UnknownOrder => Code::OrderNotFound.into(),
            Self::HoldExpired => Code::HoldExpired.into(),
            Self::RefundDue => Code::RefundDue.into(),
        }
    }
}

impl LedgerRefusal for CancelRefusal {
    fn problem(self) -> Problem {
        match self {
            Self::UnknownOrder => Code::OrderNotFound.into(),
            Self::AlreadyPaid => Problem::with_detail(Code::AlreadyPaid, "A paid order can't be cancelled."),
            Self::HoldExpired => {
                Problem::with_detail(Code::HoldExpired, "The hold has expired; there is nothing to cancel.")
            }
        }
    }
}

impl LedgerRefusal for SaleRefusal {
    fn problem(self) -> Problem {
        match self {
            Self::UnknownSale => Code::NotPublished.into(),
            Self::Closed => Code::Closed.into(),
            Self::TooManyUnits => Problem::invalid_field("units", self.to_string()),
            Self::InvalidTerms => Problem::with_detail(Code::InvalidRequest, self.to_string()),
        }
    }
}

impl<R: LedgerRefusal> From<LedgerError<R>> for Problem {
    fn from(error: LedgerError<R>) -> Self {
        match error {
            LedgerError::Refused(refusal) => refusal.problem(),
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

impl From<RetryError> for Problem {
    fn from(error: RetryError) -> Self {
        match error {
            RetryError::Unknown => Code::DeadLetterNotFound.into(),
            RetryError::Records(error) => error.into(),
            stuck => Self::with_detail(Code::DeadLetterStuck, stuck.to_string()),
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

impl From<SaleMissing> for Problem {
    fn from(missing: SaleMissing) -> Self {
        let unavailable = |detail| Self::with_detail(Code::Unavailable, detail);
        match missing {
            SaleMissing::Unknown => Code::SaleNotFound.into(),
            SaleMissing::Loading => unavailable("The sales are being loaded."),
            SaleMissing::Dark => unavailable("The state of the sales can't be read at the moment."),
        }
    }
}

impl From<NoRoom> for Problem {
    fn from(refusal: NoRoom) -> Self {
        match refusal {
            NoRoom::NotGated => Self::with_detail(Code::NotGated, "The sale has no waiting room."),
            NoRoom::Opening => Self::with_detail(
                Code::Unavailable,
                "The waiting room is being opened. Try again in a moment.",
            ),
        }
    }
}

impl From<NoPass> for Problem {
    fn from(refusal: NoPass) -> Self {
        match refusal {
            NoPass::Missing => Code::PassRequired.into(),
            NoPass::Invalid => Code::PassInvalid.into(),
        }
    }
}

impl From<IdentityRefusal> for Problem {
    fn from(refusal: IdentityRefusal) -> Self {
        match refusal {
            IdentityRefusal::NotSignedIn => Code::Unauthorized.into(),
            IdentityRefusal::CannotCheck => {
                Self::with_detail(Code::Unavailable, "Sessions can't be checked until the database is back.")
            }
            IdentityRefusal::NotABuyer => {
                Self::with_detail(Code::Forbidden, "The admin token is not a buyer. Use an account.")
            }
            IdentityRefusal::NotAnAccount => {
                Self::with_detail(Code::Forbidden, "Only an account can do this.")
            }
            IdentityRefusal::NoRandomness => Code::Internal.into(),
        }
    }
}

impl From<PasswordRefusal> for Problem {
    fn from(refusal: PasswordRefusal) -> Self {
        match refusal {
            PasswordRefusal::Busy => Code::Busy.into(),
            PasswordRefusal::NotHashed => Code::Internal.into(),
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

impl<R: LedgerRefusal> From<OrderError<R>> for Problem {
    fn from(error: OrderError<R>) -> Self {
        match error {
            OrderError::Ledger(error) => error.into(),
            OrderError::Records(error) => error.into(),
        }
    }
}
