//! Health, metrics, documentation.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Shop, new_key};

#[test]
fn a_shop_that_can_sell_is_ready() {
    let shop = Shop::open();
    assert_eq!(shop.client().get("/healthz").json(), json!({ "status": "alive" }));
    let ready = shop.client().get("/readyz");
    assert_eq!(
        (ready.status, ready.json()),
        (200, json!({ "status": "ready", "ledger": "ready", "storefront": "ready", "records": "ready" }))
    );
}

#[test]
fn records_that_are_down_are_reported_but_orders_go_on() {
    let shop = Shop::open();
    let sale = shop.sale(5);
    shop.block_on(shop.records.close());
    let ready = shop.client().get("/readyz");
    assert_eq!((ready.status, &ready.json()["records"]), (200, &json!("unavailable")));
    let mut ann = shop.buyer("ann");
    let order = ann.buy(&sale);
    assert_eq!(ann.get("/api/v1/orders").json()["data"][0]["id"], order.as_str());
    assert_eq!(ann.get(&format!("/api/v1/orders/{order}")).status, 200);
    assert_eq!(ann.post_empty(&format!("/api/v1/orders/{order}/pay")).status, 200);
    assert_eq!(ann.get("/api/v1/sales").status, 200);
    shop.steer(&sale, "pause");
    let refused = ann.get("/api/v1/items");
    refused.problem(503, "unavailable");
    assert_eq!(refused.header("retry-after"), Some("1"));
}

#[test]
fn a_stopped_ledger_is_reported() {
    let shop = Shop::open();
    let sale = shop.sale(5);
    shop.block_on(shop.ledger.stop());
    let ready = shop.client().get("/readyz");
    assert_eq!((ready.status, &ready.json()["ledger"]), (503, &json!("stopped")));
    assert_eq!(ready.header("content-type"), Some("application/problem+json"));
    let refused = shop.buyer("ann").order(&sale, 1, &new_key());
    refused.problem(503, "unavailable");
    assert!(refused.header("retry-after").is_some());
}

fn all_counted(text: &str) -> u64 {
    let counters = text.lines().filter_map(|line| line.strip_prefix("penstock_requests_total{code="));
    counters.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

#[test]
fn every_request_is_counted_exactly_once() {
    let shop = Shop::open();
    let sale = shop.sale(1);
    let mut client = shop.client();
    let before = all_counted(&client.get("/metrics").text());
    let mut ann = shop.buyer("ann");
    ann.buy(&sale);
    ann.order(&sale, 1, "new-key-1").problem(409, "sold_out");
    ann.order("nonsense", 1, "k").problem(404, "sale_not_found");
    ann.get("/nowhere").problem(404, "not_found");
    ann.request("PUT", "/api/v1/orders", &[], b"").problem(405, "method_not_allowed");
    ann.get("/api/v1/orders");
    // The six requests, and reading the metrics itself.
    assert_eq!(all_counted(&client.get("/metrics").text()) - before, 7);
}

#[test]
fn a_client_that_goes_away_is_counted_too() {
    let shop = Shop::open();
    let sale = shop.sale(5);
    let mut ann = shop.buyer("ann");
    let head = format!(
        "POST /api/v1/sales/{sale}/orders HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         idempotency-key: gone\r\nauthorization: Bearer x\r\ncontent-length: 14\r\n\r\n{{"
    );
    ann.send_raw(
        head.replace(
            "Bearer x",
            &format!("Bearer {}", crate::support::jwt(&json!({"sub": "ann", "exp": 1_900_000_000}))),
        )
        .as_bytes(),
    );
    // By now the server waits for the rest of the body, which will never come.
    std::thread::sleep(std::time::Duration::from_millis(100));
    socket2::SockRef::from(ann.stream()).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(ann);
    let began = std::time::Instant::now();
    while shop.counted("client_gone") + shop.counted("bad_request") == 0 {
        assert!(began.elapsed().as_secs() < 20, "it was never counted");
    }
}

#[test]
fn the_metrics_show_ledger_latency_and_settlement() {
    let shop = Shop::open_with(|options| {
        options.shop.settlement = std::sync::Arc::new(|| penstock_shop::SettlementView {
            position: 3,
            lag_decisions: 7,
            lag_seconds: 1.5,
            ..penstock_shop::SettlementView::default()
        });
    });
    let sale = shop.sale(5);
    shop.buyer("ann").buy(&sale);
    let mut client = shop.client();
    let asks = [("accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")];
    let answer = client.request("GET", "/metrics", &asks, b"");
    assert_eq!(
        answer.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert_eq!(answer.header("vary"), Some("accept"));
    let text = answer.text();
    let version = format!("penstock_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
    for line in [
        &*version,
        "# UNIT process_resident_memory_bytes bytes",
        "penstock_requests_total{code=\"accepted\"} 1",
        "penstock_request_duration_seconds_count{group=\"claim\"} 1",
        "penstock_request_duration_seconds_bucket{le=\"+Inf\",group=\"claim\"} 1",
        "penstock_ledger_queue_depth 0",
        "penstock_ledger_ready 1",
        "penstock_settlement_position 3",
        "penstock_settlement_lag_decisions 7",
        "penstock_settlement_lag_seconds 1.5",
        "# EOF",
    ] {
        assert!(text.lines().any(|known| known == line), "{line} is not in\n{text}");
    }
    assert!(text.contains("penstock_ledger_batch_size_bucket{le=\"1.0\"}"), "{text}");
    assert!(text.contains("penstock_ledger_commands_total"), "{text}");
}

#[test]
fn a_client_that_does_not_know_openmetrics_gets_the_older_format() {
    let shop = Shop::open();
    let mut client = shop.client();
    for accept in ["*/*", "text/plain;version=0.0.4", "text/html,*/*;q=0.8"] {
        let answer = client.request("GET", "/metrics", &[("accept", accept)], b"");
        assert_eq!(
            answer.header("content-type"),
            Some("text/plain; version=0.0.4; charset=utf-8"),
            "{accept}"
        );
        let text = answer.text();
        assert!(text.contains("# TYPE penstock_requests_total counter\n"), "{text}");
        assert!(!text.contains("# UNIT") && !text.contains("# EOF"), "{text}");
    }
}

#[test]
fn the_metrics_show_the_resources_of_the_process() {
    let shop = Shop::open();
    let mut client = shop.client();
    let text = client.get("/metrics").text();
    let value = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is not in\n{text}")).parse().unwrap()
    };
    assert!(value("process_cpu_seconds_total") >= 0.0);
    assert!(value("process_resident_memory_bytes") > 1e6);
    assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
    assert!(value("process_threads") >= 2.0);
    assert!(value("process_open_fds") >= 3.0 && value("process_open_fds") <= value("process_max_fds"));
    // By the machine's clock, not by the one that tests set.
    assert!(value("process_start_time_seconds") > 1.7e9);
}

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let shop = Shop::open();
    let mut client = shop.client();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");
    let pages: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "README.md")
        .map(|name| name.strip_suffix(".md").expect("pages are markdown").to_owned())
        .collect();
    let codes: BTreeSet<String> =
        penstock_shop::Code::ALL.iter().map(|code| code.as_str().to_owned()).collect();
    assert_eq!(pages, codes);
    let index = client.get("/errors/").text();
    for code in penstock_shop::Code::ALL {
        let page = client.get(&format!("/errors/{}", code.as_str()));
        assert_eq!(page.status, 200);
        let text = page.text();
        assert!(text.starts_with(&format!("# `{}`", code.as_str())), "{text}");
        assert!(index.contains(&format!(
            "[`{0}`]({0}.md) | {1} | {2} |",
            code.as_str(),
            penstock_http::status_of(*code).as_u16(),
            code.title()
        )));
        let example: Value =
            serde_json::from_str(text.split("```json\n").nth(1).unwrap().split("```").next().unwrap())
                .unwrap();
        assert_eq!(example["code"], code.as_str());
        assert_eq!(example["status"], penstock_http::status_of(*code).as_u16());
        assert_eq!(example["title"], code.title());
        assert_eq!(example["type"], format!("/errors/{}", code.as_str()));
    }
    client.get("/errors/nonsense").problem(404, "not_found");
}

#[test]
fn the_document_lists_every_call_and_swagger_ui_is_served_locally() {
    let shop = Shop::open();
    let mut client = shop.client();
    let document = client.get("/openapi.json");
    assert_eq!(document.text(), penstock_http::openapi());
    let document = document.json();
    for (path, method) in [
        ("/api/v1/otp", "post"),
        ("/api/v1/accounts", "post"),
        ("/api/v1/sessions", "post"),
        ("/api/v1/sessions/current", "delete"),
        ("/api/v1/me", "get"),
        ("/api/v1/me/password", "put"),
        ("/api/v1/items", "get"),
        ("/api/v1/items/{id}", "get"),
        ("/api/v1/sales", "get"),
        ("/api/v1/sales/{id}", "get"),
        ("/api/v1/sales/{id}/orders", "post"),
        ("/api/v1/orders", "get"),
        ("/api/v1/orders/{id}", "get"),
        ("/api/v1/orders/{id}/pay", "post"),
        ("/api/v1/orders/{id}/cancel", "post"),
        ("/api/v1/admin/items", "post"),
        ("/api/v1/admin/items/{id}", "patch"),
        ("/api/v1/admin/sales", "post"),
        ("/api/v1/admin/sales", "get"),
        ("/api/v1/admin/sales/{id}/publish", "post"),
        ("/api/v1/admin/sales/{id}/pause", "post"),
        ("/api/v1/admin/sales/{id}/resume", "post"),
        ("/api/v1/admin/sales/{id}/close", "post"),
        ("/api/v1/admin/sales/{id}/restock", "post"),
        ("/api/v1/admin/sales/{id}/stats", "get"),
        ("/api/v1/admin/orders", "get"),
        ("/api/v1/admin/dead-letters", "get"),
        ("/api/v1/admin/dead-letters/{id}/retry", "post"),
        ("/api/v1/admin/audit", "get"),
        ("/healthz", "get"),
        ("/readyz", "get"),
        ("/metrics", "get"),
    ] {
        assert!(document["paths"][path][method].is_object(), "{method} {path}");
    }
    let page = client.get("/docs");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(client.get("/docs/").text(), page.text());
    assert!(page.text().contains("<base href=\"/docs/\" />"), "its assets are found without the slash, too");
    for tag in page.text().split("src=\"").skip(1).chain(page.text().split("<link").skip(1)) {
        let tag = tag.rsplit("href=\"").next().unwrap();
        let asset = tag.split('"').next().unwrap().trim_start_matches("./");
        assert!(!asset.starts_with("http") && !asset.starts_with("//"), "{asset}");
        assert_eq!(client.get(&format!("/docs/{asset}")).status, 200, "{asset}");
    }
    assert!(client.get("/docs/swagger-initializer.js").text().contains("/openapi.json"));
    client.get("/docs/nonsense").problem(404, "not_found");
}

/// The fields of a schema that may be `null`, according to the document, with the names of what they are in.
fn nullable(schemas: &Value, name: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (field, property) in schemas[name]["properties"].as_object().into_iter().flatten() {
        let kinds = property["type"].as_array().into_iter().flatten();
        let choices: Vec<&Value> = property["oneOf"].as_array().into_iter().flatten().collect();
        if kinds.chain(choices.iter().map(|choice| &choice["type"])).any(|kind| kind == "null") {
            found.push(vec![field.clone()]);
        }
        for reference in choices.into_iter().chain([property]).filter_map(|choice| choice["$ref"].as_str()) {
            let inner = nullable(schemas, name_of(reference)).into_iter();
            found.extend(inner.map(|path| [vec![field.clone()], path].concat()));
        }
    }
    found
}

fn name_of(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap()
}

/// The schemas of all JSON bodies that calls accept.
fn bodies(document: &Value) -> BTreeSet<String> {
    let calls =
        document["paths"].as_object().unwrap().values().flat_map(|calls| calls.as_object().unwrap().values());
    let schemas = calls
        .filter_map(|call| call["requestBody"]["content"]["application/json"]["schema"]["$ref"].as_str());
    schemas.map(|reference| name_of(reference).to_owned()).collect()
}

#[test]
fn null_is_accepted_wherever_the_document_allows_it() {
    let shop = Shop::open();
    let mut client = shop.client();
    let document = client.get("/openapi.json").json();
    let schemas = &document["components"]["schemas"];
    let (item, draft) = (shop.item(), shop.draft(|_| {}));
    let gated = shop.published(|sale| sale["gate"] = json!({ "challenge": "pow" }));
    let new_item = json!({ "title": "Kettle", "regular_price": { "amount": "5", "currency": "EUR" } });
    let phone = "+8613800138000";
    let session = json!({ "phone": phone, "password": "correct horse" });
    assert_eq!(client.post("/api/v1/otp", &json!({ "phone": phone })).status, 202);
    let otp = shop.outbox.last_code(phone);
    let account = json!({ "phone": phone, "password": "correct horse", "otp": otp, "name": "Ann" });
    let calls = [
        ("POST", "/api/v1/admin/items".to_owned(), "ItemRequest", new_item, 201),
        ("PATCH", format!("/api/v1/admin/items/{item}"), "ItemChange", json!({}), 200),
        ("POST", "/api/v1/admin/sales".to_owned(), "SaleRequest", shop.sale_request(), 201),
        ("PATCH", format!("/api/v1/admin/sales/{draft}"), "SaleChange", json!({}), 200),
        ("POST", format!("/api/v1/sales/{gated}/challenge"), "ChallengeRequest", json!({}), 201),
        ("POST", format!("/api/v1/sales/{gated}/pass"), "PassRequest", json!({}), 403),
        ("POST", "/api/v1/accounts".to_owned(), "AccountRequest", account, 201),
        ("POST", "/api/v1/sessions".to_owned(), "SessionRequest", session, 201),
        ("POST", "/api/v1/otp".to_owned(), "OtpRequest", json!({ "phone": phone }), 202),
    ];
    for name in bodies(&document) {
        let is_here = calls.iter().any(|(_, _, schema, _, _)| *schema == name);
        assert!(is_here || nullable(schemas, &name).is_empty(), "{name} is not tried");
    }
    for (method, path, schema, good, status) in calls {
        let fields = nullable(schemas, schema);
        assert!(!fields.is_empty(), "{schema} has no field that may be null, and need not be listed here");
        for field in fields {
            let mut body = good.clone();
            *field.iter().fold(&mut body, |inner, name| &mut inner[name]) = Value::Null;
            let mut caller = if path.contains("/admin/") { shop.admin() } else { shop.buyer("ann") };
            let headers = [("content-type", "application/json")];
            let answer = caller.request(method, &path, &headers, body.to_string().as_bytes());
            assert_eq!(answer.status, status, "{method} {path} with {body}: {}", answer.text());
        }
    }
}

#[test]
fn every_call_names_an_argument_that_appears_twice() {
    let shop = Shop::open();
    let document = shop.client().get("/openapi.json").json();
    let sale = shop.sale(1);
    let mut tried = 0;
    for (path, calls) in document["paths"].as_object().unwrap() {
        let parameters = calls["get"]["parameters"].as_array().into_iter().flatten();
        for parameter in parameters.filter(|parameter| parameter["in"] == "query") {
            let name = parameter["name"].as_str().unwrap();
            let mut caller = if path.contains("/admin/") { shop.admin() } else { shop.buyer("ann") };
            let answer = caller.get(&format!("{}?{name}=1&x=%ff&{name}=2", path.replace("{id}", &sale)));
            answer.names_field(name);
            assert_eq!(answer.json()["errors"][0]["message"], "appears twice", "{path}");
            tried += 1;
        }
    }
    assert!(tried >= 10, "only {tried} calls have arguments");
}
