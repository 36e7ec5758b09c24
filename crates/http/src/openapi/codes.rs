//! Which codes a call can answer. A new code of a call is added here.

use utoipa::openapi::{RefOr, path::Operation};

use crate::problem::Code;

/// The codes that a call can answer, besides those that any call can.
pub(super) fn of_call(path: &str, operation: &Operation) -> Vec<Code> {
    use Code::{
        AlreadyPaid, AlreadyPublished, BadCredentials, BodyTooLarge, Busy, ChallengeFailed, Closed,
        CrossSite, DeadLetterNotFound, DeadLetterStuck, Forbidden, HoldExpired, IdempotencyKeyInvalid,
        IdempotencyKeyRequired, IdempotencyKeyReused, InvalidRequest, ItemNotFound, LimitReached,
        MalformedJson, NotAdmitted, NotFound, NotGated, NotOpen, NotPublished, NotSoldOut, NotWaiting,
        OrderNotFound, OtpInvalid, PassInvalid, PassRequired, PassesExhausted, Paused, PhoneTaken,
        RateLimited, RefundDue, SaleNotFound, SoldOut, TicketNotFound, Unauthorized, Unavailable,
        UnsupportedMediaType, WaitlistFull,
    };
    let call = path.strip_prefix("/api/v1").unwrap_or(path);
    let mut codes: Vec<Code> = match call {
        "/otp" => vec![RateLimited],
        "/accounts" => vec![OtpInvalid, PhoneTaken, RateLimited, Busy],
        "/sessions" => vec![BadCredentials, CrossSite, RateLimited, Busy],
        "/me/password" => vec![BadCredentials, RateLimited, Busy],
        "/items/{id}" => vec![ItemNotFound],
        "/sales/{id}" => vec![SaleNotFound, RateLimited],
        "/sales/{id}/orders" => vec![
            IdempotencyKeyRequired,
            IdempotencyKeyInvalid,
            IdempotencyKeyReused,
            SaleNotFound,
            SoldOut,
            LimitReached,
            NotOpen,
            Paused,
            Closed,
            PassRequired,
            PassInvalid,
            RateLimited,
            Busy,
        ],
        "/sales/{id}/challenge" => vec![SaleNotFound, NotGated, SoldOut, Closed, RateLimited],
        "/sales/{id}/tickets" => vec![SaleNotFound, NotGated, Closed, RateLimited, Busy],
        "/sales/{id}/pass" => vec![
            SaleNotFound,
            NotGated,
            NotAdmitted,
            ChallengeFailed,
            PassesExhausted,
            SoldOut,
            NotOpen,
            Paused,
            Closed,
            RateLimited,
            Busy,
        ],
        call if call.starts_with("/sales/{id}/tickets/") => {
            vec![SaleNotFound, NotGated, TicketNotFound, RateLimited]
        }
        "/sales/{id}/waitlist" if operation.request_body.is_some() => vec![
            SaleNotFound,
            NotSoldOut,
            WaitlistFull,
            LimitReached,
            NotOpen,
            Paused,
            Closed,
            RateLimited,
            Busy,
        ],
        "/sales/{id}/waitlist" if operation.responses.responses.contains_key("204") => {
            vec![SaleNotFound, RateLimited, Busy]
        }
        "/sales/{id}/waitlist" => vec![SaleNotFound, NotWaiting, RateLimited, Busy],
        "/me" | "/orders" => vec![RateLimited],
        "/orders/{id}" => vec![OrderNotFound, RateLimited, Busy],
        "/orders/{id}/pay" => vec![OrderNotFound, HoldExpired, RefundDue, RateLimited, Busy],
        "/orders/{id}/cancel" => vec![OrderNotFound, HoldExpired, AlreadyPaid, RateLimited, Busy],
        "/pictures/{name}" => vec![NotFound, Unavailable],
        "/admin/items/{id}" => vec![ItemNotFound],
        "/admin/orders.csv" => vec![InvalidRequest],
        "/admin/sales/{id}" if operation.request_body.is_some() => vec![SaleNotFound, AlreadyPublished],
        "/admin/sales/{id}" => vec![SaleNotFound],
        "/admin/sales/{id}/publish" => vec![SaleNotFound, Busy],
        "/admin/sales/{id}/stats" => vec![SaleNotFound, NotPublished],
        "/admin/dead-letters/{id}/retry" => vec![DeadLetterNotFound, DeadLetterStuck],
        "/admin/audit" => vec![Busy],
        "/admin/live" => vec![SaleNotFound, NotPublished, Busy],
        call if call.starts_with("/admin/sales/{id}/") => vec![SaleNotFound, NotPublished, Closed, Busy],
        _ => Vec::new(),
    };
    if let Some(RefOr::T(body)) = &operation.request_body {
        codes.extend([BodyTooLarge, UnsupportedMediaType, InvalidRequest]);
        if body.content.contains_key("application/json") {
            codes.push(MalformedJson);
        }
    } else if is_list(operation) {
        codes.push(InvalidRequest);
    }
    if operation.security.is_some() {
        codes.extend([Unauthorized, CrossSite]);
    }
    if call.starts_with("/admin") {
        codes.push(RateLimited);
    }
    if call.starts_with("/admin") || operation.security.is_some() {
        codes.push(Forbidden);
    }
    if path.starts_with("/api/") {
        codes.push(Unavailable);
    }
    codes.push(Code::Internal);
    codes
}

fn is_list(operation: &Operation) -> bool {
    let mut parameters = operation.parameters.iter().flatten();
    parameters.any(|parameter| matches!(parameter, RefOr::T(parameter) if parameter.name == "limit"))
}
