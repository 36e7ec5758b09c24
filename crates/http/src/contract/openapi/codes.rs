//! Which codes a call can answer. Add a call's new code here.

use utoipa::openapi::{
    RefOr,
    path::{Operation, ParameterIn},
};

use penstock_shop::Code;

/// The codes that a call can answer.
pub(super) fn of_call(path: &str, operation: &Operation) -> Vec<Code> {
    use Code::{
        AlreadyPaid, AlreadyPublished, BadCredentials, BodyTooLarge, Busy, ChallengeFailed, Closed,
        CrossSite, DeadLetterNotFound, DeadLetterStuck, Forbidden, HoldExpired, IdempotencyKeyInvalid,
        IdempotencyKeyRequired, IdempotencyKeyReused, InvalidRequest, ItemNotFound, LimitReached,
        MalformedJson, NotAdmitted, NotFound, NotGated, NotOpen, NotPublished, NotSoldOut, NotWaiting,
        OrderNotFound, OtpInvalid, PassInvalid, PassRequired, PassesExhausted, Paused, PhoneTaken,
        RateLimited, RefundDue, RequestTimeout, SaleNotFound, SoldOut, TicketNotFound, Unauthorized,
        Unavailable, UnsupportedMediaType, WaitlistFull,
    };
    let call = path.strip_prefix("/api/v1").unwrap_or(path);
    let mut codes: Vec<Code> = match call {
        "/accounts" => vec![OtpInvalid, PhoneTaken, Busy],
        "/sessions" => vec![BadCredentials, CrossSite, Busy],
        "/sessions/current" | "/orders" => vec![Busy],
        "/me/password" => vec![BadCredentials, Busy],
        "/items/{id}" => vec![ItemNotFound],
        "/sales/{id}" => vec![SaleNotFound],
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
            Busy,
        ],
        "/sales/{id}/challenge" => vec![SaleNotFound, NotGated, SoldOut, Closed],
        "/sales/{id}/tickets" => vec![SaleNotFound, NotGated, Closed, Busy],
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
            Busy,
        ],
        "/sales/{id}/tickets/{ticket}/events" => vec![SaleNotFound, NotGated, TicketNotFound, Busy],
        call if call.starts_with("/sales/{id}/tickets/") => {
            vec![SaleNotFound, NotGated, TicketNotFound]
        }
        "/sales/{id}/waitlist" if operation.request_body.is_some() => {
            vec![SaleNotFound, NotSoldOut, WaitlistFull, LimitReached, NotOpen, Paused, Closed, Busy]
        }
        "/sales/{id}/waitlist" if operation.responses.responses.contains_key("204") => {
            vec![SaleNotFound, Busy]
        }
        "/sales/{id}/waitlist" => vec![SaleNotFound, NotWaiting, Busy],
        "/orders/{id}" => vec![OrderNotFound, Busy],
        "/orders/{id}/pay" => vec![OrderNotFound, HoldExpired, RefundDue, Busy],
        "/orders/{id}/cancel" => vec![OrderNotFound, HoldExpired, AlreadyPaid, Busy],
        "/pictures/{name}" => vec![NotFound, Unavailable],
        "/admin/items/{id}" => vec![ItemNotFound],
        "/admin/sales/{id}" if operation.request_body.is_some() => vec![SaleNotFound, AlreadyPublished],
        "/admin/sales/{id}" => vec![SaleNotFound],
        "/admin/sales/{id}/publish" => vec![SaleNotFound, InvalidRequest, Busy],
        "/admin/sales/{id}/stats" => vec![SaleNotFound, NotPublished],
        "/admin/dead-letters/{id}/retry" => vec![DeadLetterNotFound, DeadLetterStuck],
        "/admin/audit" => vec![Busy],
        "/admin/live" => vec![SaleNotFound, NotPublished, Busy],
        call if call.starts_with("/admin/sales/{id}/") => vec![SaleNotFound, NotPublished, Closed, Busy],
        _ => Vec::new(),
    };
    if let Some(RefOr::T(body)) = &operation.request_body {
        codes.extend([BodyTooLarge, UnsupportedMediaType, InvalidRequest, RequestTimeout]);
        if body.content.contains_key("application/json") {
            codes.push(MalformedJson);
        }
    } else if takes_arguments(operation) {
        codes.push(InvalidRequest);
    }
    if operation.security.is_some() {
        codes.extend([Unauthorized, CrossSite]);
    }
    if call.starts_with("/admin") || operation.security.is_some() {
        codes.push(Forbidden);
    }
    if path.starts_with("/api/") {
        codes.push(Unavailable);
    }
    // A proxy in front may have its own limits, for any call.
    codes.extend([RateLimited, Code::Internal]);
    codes
}

/// Whether the call has query arguments, which may be invalid.
fn takes_arguments(operation: &Operation) -> bool {
    let mut parameters = operation.parameters.iter().flatten();
    parameters.any(
        |parameter| matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query),
    )
}
