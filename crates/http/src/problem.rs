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
use serde::Serialize;

pub(crate) const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
/// Tells a proxy in front that another node may be able to answer. Not sent with `busy`: if there are too
/// many requests, each refused one would become two.
const ASK_ANOTHER: HeaderName = HeaderName::from_static("penstock-ask-another");

macro_rules! codes {
    ($($variant:ident = $name:literal, $status:ident, $title:literal;)*) => {
        /// Why a request was refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $($variant,)*
        }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            pub const fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status,)* }
            }

            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// The page that explains it.
            pub const fn page(self) -> &'static str {
                match self {
                    $(Self::$variant => include_str!(concat!("../../../docs/errors/", $name, ".md")),)*
                }
            }
        }
    };
}

codes! {
    MalformedJson = "malformed_json", BAD_REQUEST, "The body is not JSON";
    BadRequest = "bad_request", BAD_REQUEST, "The request can't be understood";
    IdempotencyKeyRequired = "idempotency_key_required", BAD_REQUEST, "The Idempotency-Key header is missing";
    IdempotencyKeyInvalid = "idempotency_key_invalid", BAD_REQUEST, "The Idempotency-Key header is malformed";
    Unauthorized = "unauthorized", UNAUTHORIZED, "You are not signed in";
    BadCredentials = "bad_credentials", UNAUTHORIZED, "Phone number and password don't match";
    Forbidden = "forbidden", FORBIDDEN, "You may not do this";
    CrossSite = "cross_site", FORBIDDEN, "The request comes from another site";
    ChallengeFailed = "challenge_failed", FORBIDDEN, "The challenge is not solved";
    NotAdmitted = "not_admitted", FORBIDDEN, "It is not your turn";
    PassRequired = "pass_required", FORBIDDEN, "This sale needs a pass";
    PassInvalid = "pass_invalid", FORBIDDEN, "The pass is not valid for this order";
    NotFound = "not_found", NOT_FOUND, "There is nothing here";
    ItemNotFound = "item_not_found", NOT_FOUND, "There is no such item";
    SaleNotFound = "sale_not_found", NOT_FOUND, "There is no such sale";
    OrderNotFound = "order_not_found", NOT_FOUND, "There is no such order";
    TicketNotFound = "ticket_not_found", NOT_FOUND, "There is no such ticket";
    NotWaiting = "not_waiting", NOT_FOUND, "You are not on the waitlist";
    DeadLetterNotFound = "dead_letter_not_found", NOT_FOUND, "There is no such dead letter";
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "This address has no such method";
    RequestTimeout = "request_timeout", REQUEST_TIMEOUT, "The request did not arrive in time";
    SoldOut = "sold_out", CONFLICT, "The sale is sold out";
    LimitReached = "limit_reached", CONFLICT, "The limit per buyer is reached";
    NotOpen = "not_open", CONFLICT, "The sale has not opened yet";
    Paused = "paused", CONFLICT, "The sale is paused";
    Closed = "closed", CONFLICT, "The sale is closed";
    NotSoldOut = "not_sold_out", CONFLICT, "The sale is not sold out";
    WaitlistFull = "waitlist_full", CONFLICT, "The waitlist is full";
    PassesExhausted = "passes_exhausted", CONFLICT, "No more passes for now";
    NotGated = "not_gated", CONFLICT, "The sale does not ask for this";
    HoldExpired = "hold_expired", CONFLICT, "The hold is over";
    RefundDue = "refund_due", CONFLICT, "The payment has to be refunded";
    AlreadyPaid = "already_paid", CONFLICT, "The order is paid";
    PhoneTaken = "phone_taken", CONFLICT, "The phone number has an account already";
    NotPublished = "not_published", CONFLICT, "The sale is still a draft";
    AlreadyPublished = "already_published", CONFLICT, "The sale is no longer a draft";
    DeadLetterStuck = "dead_letter_stuck", CONFLICT, "The dead letter still can't be settled";
    BodyTooLarge = "body_too_large", PAYLOAD_TOO_LARGE, "The body is too large";
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "The body is of the wrong type";
    InvalidRequest = "invalid_request", UNPROCESSABLE_ENTITY, "The request has values that can't be used";
    IdempotencyKeyReused = "idempotency_key_reused", UNPROCESSABLE_ENTITY, "The Idempotency-Key belongs to another order";
    OtpInvalid = "otp_invalid", UNPROCESSABLE_ENTITY, "The one-time code is not valid";
    RateLimited = "rate_limited", TOO_MANY_REQUESTS, "Too many requests";
    Internal = "internal", INTERNAL_SERVER_ERROR, "Something went wrong here";
    Busy = "busy", SERVICE_UNAVAILABLE, "Too many requests are waiting";
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, "This can't be answered at the moment";
}

impl Code {
    /// The detail for a problem that has nothing more specific to say.
    pub(crate) const fn detail(self) -> &'static str {
        match self {
            Self::RequestTimeout => "Send the whole request at once, on a new connection.",
            Self::SoldOut => "No unit is left. Units of unpaid orders may come back.",
            Self::NotOpen => "The sale opens later; see opens_at.",
            Self::Paused => "The merchant has paused the sale. Try again later.",
            Self::Closed => "The sale is over.",
            Self::LimitReached => "With this order you would have more units than one buyer may have.",
            Self::Unauthorized => "Send a session token or a shop's token as Authorization: Bearer.",
            Self::IdempotencyKeyRequired => {
                "Send a new random Idempotency-Key with each order, and the same one with each retry of it."
            }
            Self::IdempotencyKeyInvalid => "An Idempotency-Key is 1 to 128 visible ASCII characters.",
            Self::IdempotencyKeyReused => "An order with this key and another body was accepted before.",
            Self::HoldExpired => "The order was cancelled and its units are no longer held. Don't charge.",
            Self::RefundDue => {
                "The payment came after the hold expired, and no unit is left for it. Give the money back."
            }
            Self::ChallengeFailed => {
                "The challenge is unknown, used, expired or not yours, or the answer is wrong. Get a new one."
            }
            Self::NotAdmitted => "Wait in the waiting room until your ticket is admitted, and send it along.",
            Self::PassRequired => "Get one with POST /sales/{id}/pass and send it as Penstock-Pass.",
            Self::PassInvalid => "It is not yours, not for this sale, expired or damaged. Get a new one.",
            Self::PassesExhausted => {
                "Passes for all remaining units are held by others. Try again later: some may not be used."
            }
            Self::NotSoldOut => "Units are left: place an order instead.",
            Self::WaitlistFull => "Too many people wait for this sale already.",
            Self::NotWaiting => "If you were offered units, they are a held order in your orders.",
            Self::UnsupportedMediaType => "Send the body as application/json.",
            Self::OtpInvalid => "The code is wrong, expired, used or was tried too often. Ask for a new one.",
            Self::Busy => "Try again in a moment.",
            Self::Internal => "The fault is on the server's side and has been logged.",
            _ => self.title(),
        }
    }
}

impl From<QuickRefusal> for Code {
    fn from(refusal: QuickRefusal) -> Self {
        match refusal {
            QuickRefusal::SoldOut => Self::SoldOut,
            QuickRefusal::NotOpen => Self::NotOpen,
            QuickRefusal::Paused => Self::Paused,
            QuickRefusal::Closed => Self::Closed,
        }
    }
}

/// A value of the request that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FieldError {
    pub(crate) field: Cow<'static, str>,
    pub(crate) message: Cow<'static, str>,
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
        let retry_after_seconds = (code.status() == StatusCode::SERVICE_UNAVAILABLE).then_some(1);
        Self { code, detail: code.detail().into(), errors: Vec::new(), retry_after_seconds }
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
            status: self.code.status().as_u16(),
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
        *response.status_mut() = self.code.status();
        self.write_headers(response.headers_mut());
        response.extensions_mut().insert(self);
        response
    }
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
pub(crate) trait Refusal {
    fn problem(self) -> Problem;
}

impl Refusal for std::convert::Infallible {
    fn problem(self) -> Problem {
        match self {}
    }
}

impl Refusal for ClaimRefusal {
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

impl Refusal for JoinRefusal {
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

impl Refusal for PaymentRefusal {
    fn problem(self) -> Problem {
        match self {
            Self::UnknownOrder => Code::OrderNotFound.into(),
            Self::HoldExpired => Code::HoldExpired.into(),
            Self::RefundDue => Code::RefundDue.into(),
        }
    }
}

impl Refusal for CancelRefusal {
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

impl Refusal for SaleRefusal {
    fn problem(self) -> Problem {
        match self {
            Self::UnknownSale => Code::NotPublished.into(),
            Self::Closed => Code::Closed.into(),
            Self::TooManyUnits => Problem::invalid_field("units", self.to_string()),
            Self::InvalidTerms => Problem::with_detail(Code::InvalidRequest, self.to_string()),
        }
    }
}

impl<R: Refusal> From<LedgerError<R>> for Problem {
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
