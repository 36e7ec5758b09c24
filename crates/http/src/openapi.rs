//! The OpenAPI document, derived from the handlers. This adds the codes that each call can answer, and
//! everything that client generators need.

mod codes;
mod shape;

use std::{collections::BTreeMap, sync::LazyLock};

use axum::response::{IntoResponse, Response};
use hyper::{StatusCode, header::CONTENT_TYPE};
use utoipa::{
    Modify, OpenApi, PartialSchema, ToSchema,
    openapi::{
        Content, Header, HeaderBuilder, ObjectBuilder, Ref, RefOr, ResponseBuilder, Schema,
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
    servers((url = "/", description = "The server that the document comes from")),
    tags(
        (name = "sales", description = "Sales as buyers see them"),
        (name = "gate", description = "Challenges, the waiting room and passes, for sales that need them"),
        (name = "orders", description = "Buying"),
        (name = "items", description = "Products"),
        (name = "accounts", description = "Registering and signing in"),
        (name = "admin", description = "For the merchant"),
        (name = "operation", description = "For operators")
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

/// All codes by name, so that the author of a page for each of them notices when there is a new one.
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

/// Why a request was refused (RFC 9457).
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
    /// Stable, for programs to rely on.
    code: Code,
    #[schema(example = "No unit is left. Units of unpaid orders may come back.")]
    detail: String,
    /// The fields that are wrong, if the status is 422.
    #[schema(required = false)]
    errors: Vec<FieldErrorBody>,
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
            shape::finish_call(operation);
        }
    }
    shape::finish(&mut document);
    document.to_pretty_json().unwrap_or_default()
}

/// OpenAPI wants a description for every answer; plain ones get HTTP's own words.
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
    for code in codes::of_call(path, operation) {
        by_status.entry(code.status().as_u16()).or_default().push(code.as_str());
    }
    for (status, mut codes) in by_status {
        codes.sort_unstable();
        let names: Vec<String> = codes.iter().map(|code| format!("`{code}`")).collect();
        let content = Content::new(Some(RefOr::<Schema>::Ref(Ref::from_schema_name("Problem"))));
        let mut response = ResponseBuilder::new()
            .description(names.join(", "))
            .content("application/problem+json", content)
            .build();
        response.headers.extend(headers_of(status).map(|(name, header)| (name.to_owned(), header.into())));
        operation.responses.responses.entry(status.to_string()).or_insert(RefOr::T(response));
    }
}

/// The header that comes with every problem of this status.
fn headers_of(status: u16) -> Option<(&'static str, Header)> {
    let header = |schema: ObjectBuilder, description| {
        HeaderBuilder::new().schema(Some(schema)).description(Some(description)).build()
    };
    match status {
        401 => {
            let text = ObjectBuilder::new().schema_type(Type::String);
            Some(("WWW-Authenticate", header(text, "How to authenticate; missing after a wrong password")))
        }
        429 | 503 => {
            let seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1));
            Some(("Retry-After", header(seconds, "The seconds to wait before trying again")))
        }
        _ => None,
    }
}

pub(crate) async fn serve() -> Response {
    static DOCUMENT: LazyLock<String> = LazyLock::new(openapi);
    ([(CONTENT_TYPE, APPLICATION_JSON)], DOCUMENT.as_str()).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    fn document() -> Value {
        serde_json::from_str(&openapi()).unwrap()
    }

    fn calls(document: &Value) -> Vec<(String, &Value)> {
        let paths = document["paths"].as_object().unwrap().iter();
        let calls = paths.flat_map(|(path, item)| {
            let calls = item.as_object().unwrap().iter();
            calls.map(move |(method, call)| (format!("{method} {path}"), call))
        });
        calls.collect()
    }

    #[test]
    fn every_schema_that_is_referred_to_exists() {
        let document = document();
        let text = document.to_string();
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
        }
    }

    #[test]
    fn no_two_calls_have_the_same_name() {
        let document = document();
        let mut names = BTreeSet::new();
        for (call, operation) in calls(&document) {
            assert!(names.insert(operation["operationId"].as_str().unwrap()), "{call}");
            assert!(operation["security"].is_array(), "{call}: who may use it?");
        }
    }

    #[test]
    fn every_answer_and_every_entry_of_a_list_has_a_named_schema() {
        let document = document();
        for (call, operation) in calls(&document) {
            for (status, response) in operation["responses"].as_object().unwrap() {
                for (kind, content) in response["content"].as_object().into_iter().flatten() {
                    let is_text = content["schema"]["type"] == "string";
                    assert!(is_text || content["schema"]["$ref"].is_string(), "{call} {status} {kind}");
                }
            }
        }
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            for (field, property) in schema["properties"].as_object().into_iter().flatten() {
                for inner in [property, &property["items"]] {
                    assert!(inner.get("properties").is_none(), "{name}.{field} has no name");
                }
            }
        }
        assert_eq!(
            document["components"]["schemas"]["OrderPage"]["properties"]["data"]["items"]["$ref"],
            "#/components/schemas/Order"
        );
    }

    /// An `allOf` that includes a schema without additional properties can't be satisfied.
    #[test]
    fn no_schema_extends_one_that_allows_no_more_properties() {
        let document = document();
        let schemas = &document["components"]["schemas"];
        for (name, schema) in schemas.as_object().unwrap() {
            for part in schema["allOf"].as_array().into_iter().flatten() {
                let reference = part["$ref"].as_str().unwrap_or_default();
                let part = schemas.get(reference.rsplit('/').next().unwrap()).unwrap_or(part);
                assert!(part.get("additionalProperties").is_none(), "{name}");
            }
        }
    }

    #[test]
    fn every_kind_of_difference_has_a_name_and_is_told_apart_by_its_kind() {
        let document = document();
        let schemas = &document["components"]["schemas"];
        let difference = &schemas["Difference"];
        let discriminator = &difference["discriminator"];
        assert_eq!(discriminator["propertyName"], "kind");
        let mapping = discriminator["mapping"].as_object().unwrap();
        assert_eq!(mapping.len(), difference["oneOf"].as_array().unwrap().len());
        assert!(mapping.len() > 30);
        for (kind, reference) in mapping {
            let name = reference.as_str().unwrap().rsplit('/').next().unwrap();
            let schema = &schemas[name];
            assert_eq!(schema["properties"]["kind"]["enum"], serde_json::json!([kind]));
            assert_eq!(schema["title"], name);
            for field in ["what", "sale", "order"] {
                assert!(schema["properties"][field].is_object(), "{name}.{field}");
            }
        }
    }

    #[test]
    fn words_of_the_contract_are_named_one_by_one() {
        let document = document();
        let schemas = &document["components"]["schemas"];
        for (schema, field, word, known) in [
            ("Sale", "state", "SaleState", "sold_out"),
            ("SaleStats", "state", "SaleState", "paused"),
            ("LiveSale", "state", "SaleState", "scheduled"),
            ("Order", "state", "OrderState", "expired"),
            ("Gate", "challenge", "GateChallenge", "none"),
            ("Challenge", "kind", "ChallengeKind", "captcha"),
            ("Me", "role", "Role", "admin"),
            ("Ticket", "state", "TicketState", "gone"),
            ("DeadLetter", "event", "DecisionKind", "held"),
            ("Problem", "code", "ProblemCode", "sold_out"),
            ("DifferenceOrderState", "ledger", "OrderState", "held"),
            ("DifferenceOrderState", "records", "OrderState", "held"),
            ("DifferenceOrderInWrongState", "needed", "OrderState", "held"),
            ("DifferenceOrderInWrongState", "records", "OrderState", "held"),
            ("DifferenceOrderMovements", "state", "OrderState", "held"),
        ] {
            let reference = &schemas[schema]["properties"][field]["$ref"];
            assert_eq!(*reference, format!("#/components/schemas/{word}"), "{schema}.{field}");
            let words = schemas[word]["enum"].as_array().unwrap();
            assert!(words.iter().any(|other| other == known), "{word}: {words:?}");
        }
        for (schema, field) in [("Money", "currency"), ("Money", "amount"), ("AccountRequest", "phone")] {
            assert!(schemas[schema]["properties"][field]["pattern"].is_string(), "{schema}.{field}");
        }
        let required = schemas["Sale"]["required"].as_array().unwrap();
        assert!(required.iter().any(|field| field == "server_time"));
    }

    #[test]
    fn headers_that_a_client_needs_are_documented() {
        let document = document();
        let paths = &document["paths"];
        let order = &paths["/api/v1/sales/{id}/orders"]["post"];
        for status in ["429", "503"] {
            let retry_after = &order["responses"][status]["headers"]["Retry-After"]["schema"]["type"];
            assert_eq!(*retry_after, "integer", "{status}");
        }
        let parameter = |call: &Value, name: &str| {
            let parameters = call["parameters"].as_array().unwrap();
            parameters.iter().find(|parameter| parameter["name"] == name).cloned()
        };
        let key = parameter(order, "Idempotency-Key").unwrap();
        assert_eq!((&key["required"], &key["schema"]["pattern"]), (&true.into(), &"^[!-~]{1,128}$".into()));
        for path in ["/api/v1/sales/{id}", "/pictures/{name}"] {
            let call = &paths[path]["get"];
            assert_eq!(parameter(call, "If-None-Match").unwrap()["in"], "header", "{path}");
            assert!(call["responses"]["200"]["headers"]["ETag"].is_object(), "{path}");
        }
    }

    #[test]
    fn the_codes_of_a_problem_are_named_one_by_one() {
        let document = document();
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
        let document = document();
        let order = &document["paths"]["/api/v1/sales/{id}/orders"]["post"]["responses"];
        for code in ["sold_out", "limit_reached", "not_open", "paused", "closed"] {
            assert!(order["409"]["description"].as_str().unwrap().contains(code), "{code}");
        }
        for (call, operation) in calls(&document) {
            assert!(operation["responses"].get("500").is_some(), "{call}");
            assert!(operation["summary"].is_string(), "{call}");
            for (status, response) in operation["responses"].as_object().unwrap() {
                assert!(response["description"].is_string(), "{call} {status}");
            }
        }
    }
}
