//! Drafts: reading and changing them, until they are published.

use std::thread;

use serde_json::{Value, json};

use crate::support::Shop;

fn path(sale: &str) -> String {
    format!("/api/v1/admin/sales/{sale}")
}

#[test]
fn a_change_of_a_draft_changes_only_the_named_fields() {
    let shop = Shop::open();
    let draft = shop.draft(|sale| sale["opens_at"] = "2027-01-15T10:00:00Z".into());
    let mut admin = shop.admin();
    let before = admin.get(&path(&draft)).json();
    assert_eq!((&before["state"], &before["stock"]["total"]), (&json!("draft"), &json!(10)));
    let mut change = |change: Value| {
        let answer = admin.json("PATCH", &path(&draft), &change);
        assert_eq!(answer.status, 200, "{answer:?}");
        let seen = admin.get(&path(&draft)).json();
        assert_eq!(seen, answer.json(), "the answer is the stored draft");
        seen
    };
    let mut expected = before.clone();
    assert_eq!(change(json!({})), expected, "an empty change changes nothing");
    expected["stock"] = json!({ "total": 7, "available": 7 });
    assert_eq!(change(json!({ "units": 7 })), expected);
    expected["opens_at"] = Value::Null;
    assert_eq!(change(json!({ "opens_at": null })), expected);
    expected["closes_at"] = json!("2027-01-15T12:00:00.000Z");
    assert_eq!(change(json!({ "closes_at": "2027-01-15T12:00:00Z" })), expected);
    let all = json!({ "item_id": shop.item(), "price": { "amount": "1.50", "currency": "EUR" }, "units": 3,
        "limit_per_buyer": 1, "opens_at": null, "closes_at": null, "hold_seconds": 30,
        "gate": { "challenge": "pow", "waiting_room": true } });
    let changed = change(all);
    assert_eq!(changed["price"]["amount"], "1.50");
    assert_ne!(changed["item"]["id"], before["item"]["id"]);
    assert_eq!(changed["gate"], json!({ "challenge": "pow", "waiting_room": true, "pass_required": true }));
    let open_to_all = change(json!({ "gate": {} }));
    assert_eq!(
        open_to_all["gate"],
        json!({ "challenge": "none", "waiting_room": false, "pass_required": false })
    );
}

#[test]
fn a_change_to_unusable_terms_is_refused_and_changes_nothing() {
    let shop = Shop::open();
    let draft = shop.draft(|sale| sale["opens_at"] = "2027-01-15T10:00:00Z".into());
    let mut admin = shop.admin();
    let before = admin.get(&path(&draft)).json();
    for (field, value) in [
        ("units", json!(0)),
        ("limit_per_buyer", json!(0)),
        ("hold_seconds", json!(0)),
        ("opens_at", json!("tomorrow")),
        // Before the opening time that the draft already has.
        ("closes_at", json!("2027-01-15T09:00:00Z")),
        ("price", json!({ "amount": "-1", "currency": "EUR" })),
        ("item_id", json!("0000000000001")),
        ("item_id", json!("nonsense")),
        ("gate.challenge", json!({ "challenge": "riddle" })),
        ("colour", json!("red")),
        ("state", json!("open")),
    ] {
        let change = json!({ "units": 9, (field.split('.').next().unwrap()): value });
        admin.json("PATCH", &path(&draft), &change).names_field(field);
    }
    assert_eq!(admin.get(&path(&draft)).json(), before);
    admin.json("PATCH", &path("0000000000001"), &json!({})).problem(404, "sale_not_found");
    admin.get(&path("0000000000001")).problem(404, "sale_not_found");
}

#[test]
fn a_published_sale_keeps_its_terms() {
    let shop = Shop::open();
    let sale = shop.sale(5);
    let mut admin = shop.admin();
    admin.json("PATCH", &path(&sale), &json!({ "units": 50 })).problem(409, "already_published");
    let seen = admin.get(&path(&sale)).json();
    assert_eq!((&seen["state"], &seen["stock"]["total"]), (&json!("open"), &json!(5)));
}

#[test]
fn a_sale_whose_publishing_was_interrupted_keeps_its_terms_and_can_be_published() {
    let shop = Shop::open();
    let draft = shop.draft(|sale| sale["units"] = 5.into());
    let now = penstock_domain::Timestamp::from_millis(crate::support::START);
    // As if the process had died before it called the ledger.
    shop.block_on(shop.records.fix_terms(draft.parse().unwrap(), now)).unwrap();
    let mut admin = shop.admin();
    admin.json("PATCH", &path(&draft), &json!({ "units": 50 })).problem(409, "already_published");
    assert_eq!(admin.get(&path(&draft)).json()["state"], "draft");
    shop.steer(&draft, "publish");
    assert_eq!(admin.get(&path(&draft)).json()["stock"]["total"], 5);
}

#[test]
fn two_merchants_change_different_things_of_a_draft() {
    let shop = Shop::open();
    let draft = shop.draft(|_| {});
    let patch = |change: &dyn Fn(i64) -> Value| {
        let mut admin = shop.admin();
        for turn in 1..=50 {
            let answer = admin.json("PATCH", &path(&draft), &change(turn));
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| patch(&|turn| json!({ "units": 100 + turn })));
        scope.spawn(|| patch(&|turn| json!({ "hold_seconds": 100 + turn })));
        scope.spawn(|| {
            patch(&|turn| json!({ "price": { "amount": format!("{turn}.00"), "currency": "EUR" } }));
        });
    });
    let row = shop.block_on(shop.records.sale(draft.parse().unwrap())).unwrap().unwrap();
    assert_eq!((row.units, row.hold_seconds, row.price.minor), (150, 150, 5_000));
}

#[test]
fn a_sale_that_only_the_ledger_knows_as_published_keeps_its_terms() {
    let shop = Shop::open();
    let draft = shop.draft(|_| {});
    // As older versions left it, which fixed no terms first, if they died before they marked the sale.
    shop.block_on(async {
        let row = shop.records.sale(draft.parse().unwrap()).await.unwrap().unwrap();
        shop.ledger.publish(row.terms()).await.unwrap();
    });
    shop.admin().json("PATCH", &path(&draft), &json!({ "units": 50 })).problem(409, "already_published");
    let row = shop.block_on(shop.records.sale(draft.parse().unwrap())).unwrap().unwrap();
    assert_eq!((row.units, row.published_at), (10, None));
}

#[test]
fn a_change_during_publication_is_either_refused_or_applied() {
    let shop = Shop::open();
    for _ in 0..10 {
        let draft = shop.draft(|_| {});
        let answered = thread::scope(|scope| {
            let changing = scope.spawn(|| {
                let mut admin = shop.admin();
                let mut last_units = 10;
                for units in 11.. {
                    match admin.json("PATCH", &path(&draft), &json!({ "units": units })).status {
                        200 => last_units = units,
                        status => {
                            assert_eq!(status, 409);
                            break;
                        }
                    }
                }
                last_units
            });
            let published = shop.admin().post_empty(&format!("{}/publish", path(&draft)));
            assert_eq!(published.status, 200, "{published:?}");
            changing.join().unwrap()
        });
        let row = shop.block_on(shop.records.sale(draft.parse().unwrap())).unwrap().unwrap();
        let shown = shop.client().get(&format!("/api/v1/sales/{draft}")).json();
        assert_eq!(shown["stock"]["total"], answered, "the ledger has the last accepted change");
        assert_eq!(row.units, answered, "so do the records");
    }
}

#[test]
fn a_published_sale_that_the_ledger_has_forgotten_is_closed() {
    let shop = Shop::open();
    let sale = shop.draft(|_| {});
    let now = penstock_domain::Timestamp::from_millis(crate::support::START);
    // Only the records know the sale. That happens after the ledger has forgotten it and a node has
    // restarted, or for a moment on a node that missed that another one published it.
    shop.block_on(shop.records.mark_published(sale.parse().unwrap(), now)).unwrap();
    shop.admin().get(&path(&sale)).problem(503, "unavailable");
    shop.admin().get(&format!("/api/v1/sales/{sale}")).problem(503, "unavailable");
    shop.advance_seconds(10);
    assert_eq!(shop.admin().get(&path(&sale)).json()["state"], "closed");
    assert_eq!(shop.admin().get(&format!("/api/v1/sales/{sale}")).json()["state"], "closed");
    assert_eq!(shop.admin().get("/api/v1/admin/sales").json()["data"][0]["state"], "closed");
    shop.admin().json("PATCH", &path(&sale), &json!({ "units": 50 })).problem(409, "already_published");
}
