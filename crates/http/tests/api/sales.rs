//! Sales and items as buyers see them.

use serde_json::json;

use crate::support::{Shop, new_key};

#[test]
fn a_sale_has_the_fields_of_the_contract() {
    let shop = Shop::open();
    let sale = shop.published(|sale| {
        sale["opens_at"] = "2027-01-15T10:00:00+01:00".into();
        sale["closes_at"] = "2027-01-15T10:00:00Z".into();
    });
    let body = shop.client().get(&format!("/api/v1/sales/{sale}")).json();
    let item_id = body["item"]["id"].clone();
    assert_eq!(
        body,
        json!({
            "id": sale,
            "item": { "id": item_id, "title": "Kettle", "description": "Boils.", "picture": "/kettle.jpg" },
            "price": { "amount": "19.90", "currency": "EUR" },
            "regular_price": { "amount": "59.90", "currency": "EUR" },
            "opens_at": "2027-01-15T09:00:00.000Z",
            "closes_at": "2027-01-15T10:00:00.000Z",
            "state": "scheduled",
            "stock": { "total": 10, "available": 10 },
            "limit_per_buyer": 2,
            "hold_seconds": 60,
            "gate": { "challenge": "none", "waiting_room": false, "pass_required": false },
            "server_time": "2027-01-15T08:00:00.000Z",
        })
    );
}

#[test]
fn the_state_follows_the_clock_and_the_stock() {
    let shop = Shop::open();
    let sale = shop.published(|sale| {
        sale["units"] = 1.into();
        sale["opens_at"] = "2027-01-15T08:00:10Z".into();
        sale["closes_at"] = "2027-01-15T09:00:00Z".into();
    });
    let state = || shop.client().get(&format!("/api/v1/sales/{sale}")).json()["state"].clone();
    assert_eq!(state(), "scheduled");
    shop.advance_seconds(10);
    assert_eq!(state(), "open");
    shop.buyer("ann").buy(&sale);
    assert_eq!(state(), "sold_out");
    shop.steer(&sale, "pause");
    assert_eq!(state(), "paused");
    shop.advance_seconds(3600);
    assert_eq!(state(), "closed");
}

#[test]
fn the_entity_tag_changes_with_everything_but_the_time() {
    let shop = Shop::open();
    let sale = shop.sale(10);
    let path = format!("/api/v1/sales/{sale}");
    let mut client = shop.client();
    let first = client.get(&path);
    let etag = first.header("etag").unwrap().to_owned();
    shop.advance_seconds(1);
    let unchanged = client.request("GET", &path, &[("if-none-match", &etag)], b"");
    assert_eq!((unchanged.status, unchanged.header("etag")), (304, Some(etag.as_str())));
    let listed = format!("\"other\", {}", etag.trim_start_matches("W/"));
    assert_eq!(client.request("GET", &path, &[("if-none-match", &listed)], b"").status, 304);
    assert_eq!(client.get(&path).json()["server_time"], "2027-01-15T08:00:01.000Z");
    shop.buyer("ann").buy(&sale);
    let changed = client.request("GET", &path, &[("if-none-match", &etag)], b"");
    assert_eq!((changed.status, &changed.json()["stock"]["available"]), (200, &json!(9)));
    let item = changed.json()["item"]["id"].as_str().unwrap().to_owned();
    let etag = changed.header("etag").unwrap().to_owned();
    shop.admin().json("PATCH", &format!("/api/v1/admin/items/{item}"), &json!({ "title": "Teapot" }));
    let renamed = client.request("GET", &path, &[("if-none-match", &etag)], b"");
    assert_eq!((renamed.status, &renamed.json()["item"]["title"]), (200, &json!("Teapot")));
    let order = shop.buyer("bob").order(&sale, 1, &new_key());
    assert_eq!(order.json()["item"]["title"], "Teapot");
    assert_eq!(shop.counted("not_modified"), 2);
}

#[test]
fn drafts_are_for_admins_only() {
    let shop = Shop::open();
    let draft = shop.draft(|_| {});
    let published = shop.sale(1);
    let path = format!("/api/v1/sales/{draft}");
    shop.client().get(&path).problem(404, "sale_not_found");
    shop.buyer("ann").get(&path).problem(404, "sale_not_found");
    shop.client().with_token("nonsense").get(&path).problem(404, "sale_not_found");
    assert_eq!(shop.admin().get(&path).json()["state"], "draft");
    let ids = |list: serde_json::Value| -> Vec<String> {
        list["data"].as_array().unwrap().iter().map(|sale| sale["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(shop.client().get("/api/v1/sales").json()), std::slice::from_ref(&published));
    let mut all = ids(shop.admin().get("/api/v1/admin/sales").json());
    all.sort();
    let mut expected = [draft, published];
    expected.sort();
    assert_eq!(all, expected);
}

#[test]
fn sales_come_in_pages_newest_first() {
    let shop = Shop::open();
    let mut published: Vec<String> = (0..5)
        .map(|_| {
            shop.advance_seconds(1);
            shop.sale(1)
        })
        .collect();
    published.reverse();
    let mut client = shop.client();
    let mut seen = Vec::new();
    let mut path = "/api/v1/sales?limit=2".to_owned();
    loop {
        let page = client.get(&path).json();
        seen.extend(
            page["data"].as_array().unwrap().iter().map(|sale| sale["id"].as_str().unwrap().to_owned()),
        );
        match page["next"].as_str() {
            Some(next) => path = format!("/api/v1/sales?limit=2&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, published);
    client.get("/api/v1/sales?limit=1000").names_field("limit");
    client.get("/api/v1/sales?after=0000000000001").names_field("after");
    client.get("/api/v1/sales/nonsense").problem(404, "sale_not_found");
}

#[test]
fn sales_are_on_show_again_after_a_restart() {
    let shop = Shop::open();
    let sale = shop.sale(3);
    shop.buyer("ann").buy(&sale);
    let before = shop.client().get(&format!("/api/v1/sales/{sale}"));
    let shop = shop.reopen();
    let after = shop.client().get(&format!("/api/v1/sales/{sale}"));
    assert_eq!((after.status, after.body), (200, before.body));
}

#[test]
fn items_can_be_read() {
    let shop = Shop::open();
    let item = shop.item();
    let mut client = shop.client();
    let found = client.get(&format!("/api/v1/items/{item}")).json();
    assert_eq!(
        found,
        json!({ "id": item, "title": "Kettle", "description": "Boils.", "picture": "/kettle.jpg",
            "regular_price": { "amount": "59.90", "currency": "EUR" }, "created_at": "2027-01-15T08:00:00.000Z" })
    );
    assert_eq!(client.get("/api/v1/items").json(), json!({ "data": [found], "next": null }));
    client.get("/api/v1/items/0000000000001").problem(404, "item_not_found");
    client.get("/api/v1/items/nonsense").problem(404, "item_not_found");
    client.get("/api/v1/items?limit=0").names_field("limit");
}

#[test]
fn the_servers_time_is_returned_and_never_cached() {
    let shop = Shop::open();
    let told = shop.client().get("/api/v1/time");
    assert_eq!((told.status, told.header("cache-control")), (200, Some("no-store")));
    assert_eq!(told.json(), json!({ "server_time": "2027-01-15T08:00:00.000Z" }));
    shop.advance_seconds(61);
    assert_eq!(shop.client().get("/api/v1/time").json()["server_time"], "2027-01-15T08:01:01.000Z");
}
