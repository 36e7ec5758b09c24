//! The OpenAPI document, made from the handlers and completed with the codes each call can answer.

use std::{collections::BTreeMap, sync::LazyLock};

use axum::response::{IntoResponse, Response};
use hyper::{StatusCode, header::CONTENT_TYPE};
use utoipa::{
    Modify, OpenApi, PartialSchema, ToSchema,
    openapi::{
        Content, ObjectBuilder, Ref, RefOr, ResponseBuilder, Schema,
        path::Operation,
        schema::Type,
        security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

use crate::{entry::APPLICATION_JSON, identity::SESSION_COOKIE, problem::Code, routes};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Penstock",
        description = "Flash sales that neither oversell nor forget. Errors are `application/problem+json` with a \
                       stable `code`; `/errors/` has a page for each.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    tags(
        (name = "sales", description = "What is on sale"),
        (name = "gate", description = "Challenges, the waiting room and passes, where a sale asks for them"),
        (name = "orders", description = "Buying"),
        (name = "items", description = "Products"),
        (name = "accounts", description = "Registering and signing in"),
        (name = "admin", description = "For the merchant"),
        (name = "operation", description = "For who runs it")
    ),
    components(schemas(ProblemBody, FieldErrorBody, Code)),
    modifiers(&Security)
)]
struct Skeleton;

struct Security;

impl Modify for Security {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        let bearer = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("A session token, a shop's JWT, or the admin token"))
            .build();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
        let cookie = SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::new(SESSION_COOKIE)));
        components.add_security_scheme("session", cookie);
    }
}

/// All codes by name, so that who writes a page for each is told when there is a new one.
impl PartialSchema for Code {
    fn schema() -> RefOr<Schema> {
        let names = Self::ALL.iter().map(|code| code.as_str());
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).into()
    }
}

impl ToSchema for Code {
    fn name() -> std::borrow::Cow<'static, str> {
        "ProblemCode".into()
    }
}

/// Why a request was not done (RFC 9457).
#[derive(ToSchema)]
#[schema(as = Problem)]
#[expect(dead_code, reason = "documents what problem::Problem writes")]
struct ProblemBody {
    /// The address of the page that explains the code.
    #[schema(example = "/errors/sold_out")]
    r#type: String,
    #[schema(example = "The sale is sold out")]
    title: String,
    #[schema(example = 409)]
    status: u16,
    /// Stable; programs go by it.
    code: Code,
    #[schema(example = "No unit is left. Units of unpaid orders may come back.")]
    detail: String,
    /// The fields that are to blame, on 422.
    errors: Option<Vec<FieldErrorBody>>,
}

#[derive(ToSchema)]
#[schema(as = FieldError)]
#[expect(dead_code, reason = "documents what problem::FieldError writes")]
struct FieldErrorBody {
    #[schema(example = "quantity")]
    field: String,
    #[schema(example = "has to be at least 1")]
    message: String,
}

pub(crate) fn skeleton() -> utoipa::openapi::OpenApi {
    let mut document = Skeleton::openapi();
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    document
}

/// The document as JSON.
pub fn openapi() -> String {
    let (_, mut document) = routes::documented().split_for_parts();
    for (path, item) in &mut document.paths.paths {
        for operation in [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete]
            .into_iter()
            .flatten()
        {
            describe_success(operation);
            add_problems(path, operation);
        }
    }
    document.to_pretty_json().unwrap_or_default()
}

/// The codes that a call can answer, besides those that any call can.
fn codes_of(path: &str, operation: &Operation) -> Vec<Code> {
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
        "/accounts" => vec![OtpInvalid, PhoneTaken, Busy],
        "/sessions" => vec![BadCredentials, CrossSite, RateLimited, Busy],
        "/me/password" => vec![BadCredentials, RateLimited, Busy],
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
            RateLimited,
            Busy,
        ],
        "/sales/{id}/challenge" => vec![SaleNotFound, NotGated, SoldOut, Closed, RateLimited, Busy],
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
        call if call.starts_with("/sales/{id}/tickets/") => vec![SaleNotFound, NotGated, TicketNotFound],
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
        "/orders/{id}" => vec![OrderNotFound, Busy],
        "/orders/{id}/pay" => vec![OrderNotFound, HoldExpired, RefundDue, Busy],
        "/orders/{id}/cancel" => vec![OrderNotFound, HoldExpired, AlreadyPaid, Busy],
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

/// OpenAPI wants a sentence for every answer; the plain ones have the words of HTTP.
fn describe_success(operation: &mut Operation) {
    for (status, response) in &mut operation.responses.responses {
        if let (RefOr::T(response), Ok(status)) = (response, StatusCode::from_bytes(status.as_bytes()))
            && response.description.is_empty()
        {
            response.description = status.canonical_reason().unwrap_or_default().to_owned();
        }
    }
}

fn add_problems(path: &str, operation: &mut Operation) {
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for code in codes_of(path, operation) {
        by_status.entry(code.status().as_u16()).or_default().push(code.as_str());
    }
    for (status, mut codes) in by_status {
        codes.sort_unstable();
        let names: Vec<String> = codes.iter().map(|code| format!("`{code}`")).collect();
        let content = Content::new(Some(RefOr::<Schema>::Ref(Ref::from_schema_name("Problem"))));
        let response = ResponseBuilder::new()
            .description(names.join(", "))
            .content("application/problem+json", content)
            .build();
        operation.responses.responses.entry(status.to_string()).or_insert(RefOr::T(response));
    }
}

pub(crate) async fn serve() -> Response {
    static DOCUMENT: LazyLock<String> = LazyLock::new(openapi);
    ([(CONTENT_TYPE, APPLICATION_JSON)], DOCUMENT.as_str()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_that_is_referred_to_exists() {
        let document: serde_json::Value = serde_json::from_str(&openapi()).unwrap();
        let text = document.to_string();
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
        }
    }

    #[test]
    fn the_codes_of_a_problem_are_named_one_by_one() {
        let document: serde_json::Value = serde_json::from_str(&openapi()).unwrap();
        let schemas = &document["components"]["schemas"];
        assert_eq!(schemas["Problem"]["properties"]["code"]["$ref"], "#/components/schemas/ProblemCode");
        let named: Vec<&str> = schemas["ProblemCode"]["enum"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        let codes: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(named, codes);
    }

    #[test]
    fn every_call_documents_its_codes() {
        let document: serde_json::Value = serde_json::from_str(&openapi()).unwrap();
        let order = &document["paths"]["/api/v1/sales/{id}/orders"]["post"]["responses"];
        for code in ["sold_out", "limit_reached", "not_open", "paused", "closed"] {
            assert!(order["409"]["description"].as_str().unwrap().contains(code), "{code}");
        }
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                assert!(operation["responses"].get("500").is_some(), "{method} {path}");
                assert!(operation["summary"].is_string(), "{method} {path}");
                for (status, response) in operation["responses"].as_object().unwrap() {
                    assert!(response["description"].is_string(), "{method} {path} {status}");
                }
            }
        }
    }
}
