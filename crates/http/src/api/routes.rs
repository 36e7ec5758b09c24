//! Maps calls to handlers.

use std::sync::LazyLock;

use axum::{
    Router,
    response::{IntoResponse as _, Response},
    routing::get,
};
use hyper::header::CONTENT_TYPE;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    account::{accounts, countries, me, otp, sessions},
    admin::{self, live},
    buyer::{challenges, items, orders, passes, sales, tickets, time, waitlist},
    operator::{health, metrics},
    pictures,
};
use crate::contract::{answer::APPLICATION_JSON, openapi};

/// All calls of the API contract, with their documentation.
pub(crate) fn documented() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(openapi::skeleton())
        .routes(routes!(countries::list_countries))
        .routes(routes!(otp::request_otp))
        .routes(routes!(accounts::create_account))
        .routes(routes!(sessions::create_session))
        .routes(routes!(sessions::delete_session))
        .routes(routes!(me::get_me))
        .routes(routes!(me::change_password))
        .routes(routes!(items::list_items))
        .routes(routes!(items::get_item))
        .routes(routes!(time::get_time))
        .routes(routes!(sales::list_sales))
        .routes(routes!(sales::get_sale))
        .routes(routes!(challenges::create_challenge))
        .routes(routes!(tickets::create_ticket))
        .routes(routes!(tickets::get_ticket))
        .routes(routes!(tickets::watch_ticket))
        .routes(routes!(passes::create_pass))
        .routes(routes!(orders::place_order))
        .routes(routes!(orders::list_orders))
        .routes(routes!(orders::get_order))
        .routes(routes!(orders::pay_order))
        .routes(routes!(orders::cancel_order))
        .routes(routes!(waitlist::join_waitlist, waitlist::get_waitlist_place, waitlist::leave_waitlist))
        .routes(routes!(admin::items::create_item))
        .routes(routes!(admin::items::change_item))
        .routes(routes!(pictures::create_picture))
        .routes(routes!(pictures::get_picture))
        .routes(routes!(admin::sales::list_all_sales, admin::drafts::create_sale))
        .routes(routes!(admin::sales::get_any_sale, admin::drafts::change_sale))
        .routes(routes!(admin::sales::publish_sale))
        .routes(routes!(admin::sales::pause_sale))
        .routes(routes!(admin::sales::resume_sale))
        .routes(routes!(admin::sales::close_sale))
        .routes(routes!(admin::sales::restock_sale))
        .routes(routes!(admin::sales::sale_stats))
        .routes(routes!(admin::orders::list_all_orders))
        .routes(routes!(admin::orders::export_orders))
        .routes(routes!(admin::dead_letters::list_dead_letters))
        .routes(routes!(admin::dead_letters::retry_dead_letter))
        .routes(routes!(admin::audit::audit))
        .routes(routes!(live::watch_shop))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(metrics::metrics))
}

/// The calls, and the document that describes them.
pub(crate) fn router(api: Api) -> Router {
    let (calls, _) = documented().split_for_parts();
    calls.route("/openapi.json", get(document)).with_state(api)
}

/// The OpenAPI document as JSON.
pub fn openapi() -> String {
    let (_, document) = documented().split_for_parts();
    openapi::finish(document)
}

async fn document() -> Response {
    static DOCUMENT: LazyLock<String> = LazyLock::new(openapi);
    ([(CONTENT_TYPE, APPLICATION_JSON)], DOCUMENT.as_str()).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use penstock_shop::Code;
    use serde_json::Value;

    use super::*;

    fn parsed() -> Value {
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
        let document = parsed();
        let text = document.to_string();
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
        }
    }

    #[test]
    fn no_two_calls_have_the_same_name() {
        let document = parsed();
        let mut names = BTreeSet::new();
        for (call, operation) in calls(&document) {
            assert!(names.insert(operation["operationId"].as_str().unwrap()), "{call}");
            assert!(operation["security"].is_array(), "{call}: who may use it?");
        }
    }

    #[test]
    fn every_answer_and_every_entry_of_a_list_has_a_named_schema() {
        let document = parsed();
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
        let document = parsed();
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
        let document = parsed();
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
        let document = parsed();
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
        let document = parsed();
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
        let document = parsed();
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
        let document = parsed();
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
