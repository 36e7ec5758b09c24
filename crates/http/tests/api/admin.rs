//! Calls of the merchant.

use penstock_records::{Cause, Refusal};
use serde_json::{Value, json};

use crate::support::{Shop, new_key};

#[test]
fn admin_calls_are_for_admins() {
    let shop = Shop::open();
    let sale = shop.sale(1);
    for (method, path) in [
        ("POST", "/api/v1/admin/items".to_owned()),
        ("PATCH", "/api/v1/admin/items/0000000000001".to_owned()),
        ("POST", "/api/v1/admin/pictures".to_owned()),
        ("POST", "/api/v1/admin/sales".to_owned()),
        ("GET", "/api/v1/admin/sales".to_owned()),
        ("GET", format!("/api/v1/admin/sales/{sale}")),
        ("PATCH", format!("/api/v1/admin/sales/{sale}")),
        ("POST", format!("/api/v1/admin/sales/{sale}/publish")),
        ("POST", format!("/api/v1/admin/sales/{sale}/pause")),
        ("POST", format!("/api/v1/admin/sales/{sale}/resume")),
        ("POST", format!("/api/v1/admin/sales/{sale}/close")),
        ("POST", format!("/api/v1/admin/sales/{sale}/restock")),
        ("GET", format!("/api/v1/admin/sales/{sale}/stats")),
        ("GET", "/api/v1/admin/orders".to_owned()),
        ("GET", "/api/v1/admin/orders.csv".to_owned()),
        ("GET", "/api/v1/admin/dead-letters".to_owned()),
        ("POST", "/api/v1/admin/dead-letters/1/retry".to_owned()),
        ("GET", "/api/v1/admin/audit".to_owned()),
    ] {
        shop.client().request(method, &path, &[], b"").problem(401, "unauthorized");
        shop.buyer("ann").request(method, &path, &[], b"").problem(403, "forbidden");
    }
}

#[test]
fn a_change_of_an_item_changes_only_the_named_fields() {
    let shop = Shop::open();
    let item = shop.item();
    let path = format!("/api/v1/admin/items/{item}");
    let mut admin = shop.admin();
    let changed = admin.json("PATCH", &path, &json!({ "title": "Teapot" })).json();
    assert_eq!((&changed["title"], &changed["picture"]), (&json!("Teapot"), &json!("/kettle.jpg")));
    let changed = admin.json("PATCH", &path, &json!({ "picture": null })).json();
    assert_eq!((&changed["title"], &changed["picture"]), (&json!("Teapot"), &Value::Null));
    let price = json!({ "regular_price": { "amount": "5", "currency": "EUR" } });
    assert_eq!(admin.json("PATCH", &path, &price).json()["regular_price"]["amount"], "5.00");
    admin.json("PATCH", &path, &json!({ "title": "" })).names_field("title");
    admin.json("PATCH", &path, &json!({ "picture": "javascript:alert(1)" })).names_field("picture");
    let refused = admin.json("PATCH", &path, &json!({ "picture": "http://example.org/x.png" }));
    refused.names_field("picture");
    assert!(refused.text().contains("browsers show no picture from http://"), "{}", refused.text());
    admin.json("PATCH", &path, &json!({ "colour": "red" })).names_field("colour");
    admin.json("PATCH", "/api/v1/admin/items/0000000000001", &json!({})).problem(404, "item_not_found");
}

#[test]
fn a_picture_that_was_accepted_earlier_does_not_block_changes_of_its_item() {
    let shop = Shop::open();
    let item = shop.item();
    shop.block_on(async {
        let mut stored = shop.records.item(item.parse().unwrap()).await.unwrap().unwrap();
        stored.picture = Some("http://example.org/x.png".to_owned());
        assert!(shop.records.update_item(&stored).await.unwrap());
    });
    let path = format!("/api/v1/admin/items/{item}");
    for change in
        [json!({ "title": "Teapot" }), json!({ "title": "Teapot", "picture": "http://example.org/x.png" })]
    {
        let changed = shop.admin().json("PATCH", &path, &change).json();
        assert_eq!(
            (&changed["title"], &changed["picture"]),
            (&json!("Teapot"), &json!("http://example.org/x.png"))
        );
    }
}

#[test]
fn an_item_with_unusable_values_is_refused() {
    let shop = Shop::open();
    let mut admin = shop.admin();
    let good = json!({ "title": "Kettle", "regular_price": { "amount": "59.90", "currency": "EUR" } });
    for picture in [json!(null), json!("/kettle.jpg"), json!("https://example.org/x.png")] {
        let mut request = good.clone();
        request["picture"] = picture;
        assert_eq!(admin.post("/api/v1/admin/items", &request).status, 201, "{request}");
    }
    for (field, value) in [
        ("title", json!("")),
        ("title", json!("x".repeat(201))),
        ("description", json!("x".repeat(10_001))),
        ("picture", json!("ftp://example.org/x.png")),
        ("picture", json!("http://example.org/x.png")),
        ("picture", json!("//example.org/x.png")),
        ("picture", json!("/\\example.org/x.png")),
        ("picture", json!("https://example.org/a b.png")),
        ("regular_price", json!({ "amount": "-1", "currency": "EUR" })),
        ("regular_price", json!({ "amount": "1.001", "currency": "EUR" })),
        ("regular_price", json!({ "amount": "1", "currency": "euro" })),
        ("regular_price", json!({ "amount": "1", "currency": "ABC" })),
        ("regular_price", json!(["1", "EUR"])),
        ("regular_price", json!({ "amount": "99999999999999", "currency": "EUR" })),
        ("regular_price", json!("1 EUR")),
        ("regular_price.amount", json!({ "amount": 1, "currency": "EUR" })),
    ] {
        let mut request = good.clone();
        request[field.split('.').next().unwrap()] = value;
        admin.post("/api/v1/admin/items", &request).names_field(field);
    }
}

#[test]
fn a_sale_with_unusable_terms_is_refused() {
    let shop = Shop::open();
    let mut admin = shop.admin();
    let good = shop.sale_request();
    for (field, value) in [
        ("units", json!(0)),
        ("units", json!(-1)),
        ("units", json!(100_000_001)),
        ("limit_per_buyer", json!(0)),
        ("limit_per_buyer", json!(1_000_001)),
        ("hold_seconds", json!(0)),
        ("hold_seconds", json!(30 * 24 * 3600 + 1)),
        ("opens_at", json!("tomorrow")),
        ("opens_at", json!(1_800_000_000)),
        ("price", json!({ "amount": "10000000000.01", "currency": "EUR" })),
        ("item_id", json!("0000000000001")),
        ("item_id", json!("nonsense")),
        ("gate.challenge", json!({ "challenge": "riddle" })),
        ("gate.waiting_room", json!({ "waiting_room": "yes" })),
        ("gate.pass_required", json!({ "challenge": "pow", "pass_required": false })),
        ("gate.colour", json!({ "colour": "red" })),
        ("colour", json!("red")),
    ] {
        let mut request = good.clone();
        request[field.split('.').next().unwrap()] = value;
        admin.post("/api/v1/admin/sales", &request).names_field(field);
    }
    let mut backwards = good.clone();
    backwards["opens_at"] = "2027-01-15T10:00:00Z".into();
    backwards["closes_at"] = "2027-01-15T10:00:00Z".into();
    admin.post("/api/v1/admin/sales", &backwards).names_field("closes_at");
    let mut lacking = good.clone();
    lacking.as_object_mut().unwrap().remove("units");
    admin.post("/api/v1/admin/sales", &lacking).names_field("units");
}

#[test]
fn an_empty_gate_is_accepted_and_holds_last_a_quarter_of_an_hour() {
    let shop = Shop::open();
    let mut request = shop.sale_request();
    request["gate"] = json!({ "challenge": "none", "waiting_room": false, "pass_required": false });
    request.as_object_mut().unwrap().remove("hold_seconds");
    let draft = shop.admin().post("/api/v1/admin/sales", &request);
    assert_eq!((draft.status, &draft.json()["hold_seconds"]), (201, &json!(900)));
    assert_eq!(draft.json()["state"], "draft");
}

#[test]
fn publishing_twice_changes_nothing() {
    let shop = Shop::open();
    let sale = shop.sale(2);
    shop.buyer("ann").buy(&sale);
    let again = shop.admin().post_empty(&format!("/api/v1/admin/sales/{sale}/publish"));
    assert_eq!(again.status, 200);
    assert_eq!(again.json()["stock"], json!({ "total": 2, "available": 1 }));
    shop.admin().post_empty("/api/v1/admin/sales/0000000000001/publish").problem(404, "sale_not_found");
}

#[test]
fn a_draft_that_would_be_over_at_once_is_not_published() {
    let shop = Shop::open();
    let ends = |closes_at: &'static str| move |sale: &mut Value| sale["closes_at"] = closes_at.into();
    let draft = shop.draft(ends("2027-01-15T08:00:00Z"));
    let publish = |sale: &str| shop.admin().post_empty(&format!("/api/v1/admin/sales/{sale}/publish"));
    publish(&draft).names_field("closes_at");
    let change = json!({ "closes_at": "2027-01-15T08:00:01Z" });
    let mended = shop.admin().json("PATCH", &format!("/api/v1/admin/sales/{draft}"), &change);
    assert_eq!(mended.status, 200, "a refused draft can still be changed: {mended:?}");
    shop.steer(&draft, "publish");
    // A published sale may be over. Publishing it again still changes nothing.
    shop.advance_seconds(60);
    assert_eq!(publish(&draft).json()["state"], "closed");
}

#[test]
fn an_interrupted_publication_is_completed() {
    let shop = Shop::open();
    let draft = shop.draft(|_| {});
    let row = shop.block_on(shop.records.sale(draft.parse().unwrap())).unwrap().unwrap();
    // As if the process had died between the ledger and the records.
    shop.block_on(shop.ledger.publish(row.terms())).unwrap();
    let shop = shop.reopen();
    let began = std::time::Instant::now();
    while shop.client().get("/readyz").status != 200 {
        assert!(began.elapsed().as_secs() < 20, "it never becomes ready");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    shop.buyer("ann").buy(&draft);
    shop.steer(&draft, "publish");
    let row = shop.block_on(shop.records.sale(draft.parse().unwrap())).unwrap().unwrap();
    assert!(row.published_at.is_some());
}

#[test]
fn a_draft_can_not_be_steered() {
    let shop = Shop::open();
    let draft = shop.draft(|_| {});
    let mut admin = shop.admin();
    for how in ["pause", "resume", "close"] {
        admin.post_empty(&format!("/api/v1/admin/sales/{draft}/{how}")).problem(409, "not_published");
        admin.post_empty(&format!("/api/v1/admin/sales/0000000000001/{how}")).problem(404, "sale_not_found");
    }
    admin.get(&format!("/api/v1/admin/sales/{draft}/stats")).problem(409, "not_published");
    admin.get("/api/v1/admin/sales/0000000000001/stats").problem(404, "sale_not_found");
}

#[test]
fn restocking_reopens_a_sold_out_sale() {
    let shop = Shop::open();
    let sale = shop.sale(1);
    shop.buyer("ann").buy(&sale);
    shop.buyer("bob").order(&sale, 1, &new_key()).problem(409, "sold_out");
    let path = format!("/api/v1/admin/sales/{sale}/restock");
    let mut admin = shop.admin();
    let restocked = admin.post(&path, &json!({ "units": 3 }));
    assert_eq!(restocked.json()["stock"], json!({ "total": 4, "available": 3 }));
    shop.buyer("bob").buy(&sale);
    for units in [json!(0), json!(-1), json!(100_000_000), json!("3")] {
        admin.post(&path, &json!({ "units": units })).names_field("units");
    }
    shop.steer(&sale, "close");
    admin.post(&path, &json!({ "units": 1 })).problem(409, "closed");
    admin.post_empty(&format!("/api/v1/admin/sales/{sale}/pause")).problem(409, "closed");
}

#[test]
fn the_counts_of_a_sale_add_up() {
    let shop = Shop::open();
    let sale = shop.sale(5);
    let mut ann = shop.buyer("ann");
    let order = ann.buy(&sale);
    ann.buy(&sale);
    ann.post_empty(&format!("/api/v1/orders/{order}/pay"));
    let stats = shop.admin().get(&format!("/api/v1/admin/sales/{sale}/stats")).json();
    assert_eq!(stats["total"], 5);
    assert_eq!((&stats["available"], &stats["held"], &stats["paid"]), (&json!(3), &json!(1), &json!(1)));
    assert_eq!(stats["state"], "open");
}

#[test]
fn settled_orders_are_listed_by_sale_state_and_buyer() {
    let shop = Shop::open();
    let (first, second) = (shop.sale(5), shop.sale(5));
    let paid = shop.buyer("ann").buy(&first);
    shop.buyer("ann").post_empty(&format!("/api/v1/orders/{paid}/pay"));
    shop.buyer("bob").buy(&first);
    shop.buyer("bob").buy(&second);
    shop.settle();
    let mut admin = shop.admin();
    let mut count = |query: &str| {
        admin.get(&format!("/api/v1/admin/orders{query}")).json()["data"].as_array().unwrap().len()
    };
    assert_eq!(count(""), 3);
    assert_eq!(count(&format!("?sale={first}")), 2);
    assert_eq!(count("?state=paid"), 1);
    assert_eq!(count("?buyer=bob"), 2);
    assert_eq!(count(&format!("?buyer=bob&sale={second}&state=held")), 1);
    admin.get("/api/v1/admin/orders?state=lost").names_field("state");
    admin.get("/api/v1/admin/orders?sale=x").names_field("sale");
    let page = admin.get("/api/v1/admin/orders?limit=2").json();
    let next = page["next"].as_str().unwrap();
    let last = admin.get(&format!("/api/v1/admin/orders?limit=2&after={next}")).json();
    assert_eq!((last["data"].as_array().unwrap().len(), &last["next"]), (1, &Value::Null));
}

#[test]
fn dead_letters_are_listed() {
    let shop = Shop::open();
    let mut admin = shop.admin();
    assert_eq!(admin.get("/api/v1/admin/dead-letters").json(), json!({ "data": [], "next": null }));
    for id in ["1", "nonsense", "-1"] {
        let path = format!("/api/v1/admin/dead-letters/{id}/retry");
        admin.post_empty(&path).problem(404, "dead_letter_not_found");
    }
    admin.get("/api/v1/admin/dead-letters?after=x").names_field("after");
}

#[test]
fn a_dead_letter_is_retried_and_resolved() {
    let shop = Shop::open();
    let sale = shop.sale(5);
    let order = shop.buyer("ann").buy(&sale);
    shop.block_on(async {
        let decisions = shop
            .ledger
            .feed()
            .read("ledger", penstock_domain::Cursor::default(), 100)
            .await
            .unwrap()
            .decisions;
        let (last, earlier) = decisions.split_last().unwrap();
        let (lease, mark) =
            (shop.records.lease("ledger", "tests", 60).await.unwrap().unwrap(), Default::default());
        shop.records.settle(&lease, earlier, mark).await.unwrap();
        let now = penstock_domain::Timestamp::from_millis(crate::support::START);
        let refusal = Refusal::new(Cause::Database, "it was the wrong weather");
        shop.records.dead_letter(&lease, last, mark, &refusal, 5, now).await.unwrap();
    });
    let mut admin = shop.admin();
    let letters = admin.get("/api/v1/admin/dead-letters").json();
    let letter = &letters["data"][0];
    assert_eq!((&letter["order_id"], &letter["event"]), (&json!(order), &json!("held")));
    assert_eq!(
        (&letter["cause"], &letter["reason"]),
        (&json!("database"), &json!("it was the wrong weather"))
    );
    let path = format!("/api/v1/admin/dead-letters/{}/retry", letter["id"].as_str().unwrap());
    assert!(admin.post_empty(&path).json()["resolved_at"].is_string());
    assert_eq!(admin.get("/api/v1/admin/dead-letters").json()["data"], json!([]));
    assert_eq!(admin.get("/api/v1/admin/orders").json()["data"][0]["id"], order.as_str());
}

#[test]
fn the_audit_adds_up_while_settlement_is_behind() {
    let shop = Shop::open();
    let sale = shop.sale(5);
    shop.buyer("ann").buy(&sale);
    shop.settle();
    shop.buyer("bob").buy(&sale);
    let report = shop.admin().get("/api/v1/admin/audit").json();
    assert_eq!((&report["ok"], &report["pending"]), (&json!(true), &json!(1)), "{report}");
    shop.settle();
    let report = shop.admin().get("/api/v1/admin/audit").json();
    assert_eq!((&report["ok"], &report["pending"]), (&json!(true), &json!(0)), "{report}");
}
