//! The OpenAPI document, derived from the handlers. This adds the codes that each call can answer, and
//! everything that client generators need.

mod shape;

use std::collections::BTreeMap;

use hyper::StatusCode;
use penstock_shop::Code;
use utoipa::{
    Modify, OpenApi, PartialSchema, ToSchema,
    openapi::{
        Content, Header, HeaderBuilder, ObjectBuilder, Ref, RefOr, ResponseBuilder, Schema,
        path::Operation,
        schema::Type,
        security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

use super::{problem::status_of, refusals::REFUSALS};

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
    components(schemas(ProblemBody, FieldErrorBody, ProblemCode)),
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
        let cookie = SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::new("penstock_session")));
        components.add_security_scheme("session", cookie);
    }
}

/// All codes by name, so that the author of a page for each of them notices when there is a new one.
/// The codes, in the document.
pub(crate) struct ProblemCode;

impl PartialSchema for ProblemCode {
    fn schema() -> RefOr<Schema> {
        let names = Code::ALL.iter().map(|code| code.as_str());
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).into()
    }
}

impl ToSchema for ProblemCode {
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
    code: ProblemCode,
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

/// The document as JSON, from what the handlers say about themselves.
pub(crate) fn finish(mut document: utoipa::openapi::OpenApi) -> String {
    for (path, item) in &mut document.paths.paths {
        let reads = item.get.iter_mut().map(|operation| (operation, false));
        let changes = [&mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        let changes = changes.into_iter().flatten().map(|operation| (operation, true));
        for (operation, is_change) in reads.chain(changes) {
            describe_success(operation);
            add_problems(path, is_change, operation);
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

fn add_problems(path: &str, is_change: bool, operation: &mut Operation) {
    let named = operation.extensions.as_mut().and_then(|extensions| extensions.remove(REFUSALS));
    let is_named = |code: &Code| named.as_ref().is_some_and(|named| lists(named, code.as_str()));
    let can_answer = |code: &&Code| match code {
        // A proxy in front may have its own limits, for any call.
        Code::RateLimited | Code::Internal => true,
        Code::Unavailable => path.starts_with("/api/") || is_named(code),
        // Reading on behalf of another site does no harm.
        Code::CrossSite => is_change && is_named(code),
        code => is_named(code),
    };
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for code in Code::ALL.iter().filter(can_answer) {
        by_status.entry(status_of(*code).as_u16()).or_default().push(code.as_str());
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

fn lists(names: &serde_json::Value, name: &str) -> bool {
    names.as_array().is_some_and(|names| names.iter().any(|other| other == name))
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
