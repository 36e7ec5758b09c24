//! Placing, reading, paying and cancelling orders.

use serde_json::{Value, json};

use crate::support::{Shop, new_key};

#[test]
fn an_accepted_order_is_a_hold() {
    let shop = Shop::open();
    let sale = shop.sale(10);
    let answer = shop.buyer("ann").order(&sale, 2, &new_key());
    assert_eq!(answer.status, 201);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let order = answer.json();
    let item_id = order["item"]["id"].clone();
    assert_eq!(
        order,
        json!({
            "id": format!("{sale}-{}", order["id"].as_str().unwrap().rsplit('-').next().unwrap()),
            "sale_id": sale,
            "item": { "id": item_id, "title": "Kettle", "picture": "/kettle.jpg" },
            "quantity": 2,
            "unit_price": { "amount": "19.90", "currency": "EUR" },
            "total": { "amount": "39.80", "currency": "EUR" },
            "state": "held",
            "created_at": "2027-01-15T08:00:00.000Z",
            "pay_before": "2027-01-15T08:01:00.000Z",
            "paid_at": null,
        })
    );
}

#[test]
fn a_retry_gets_the_first_answer() {
    let shop = Shop::open();
    let sale = shop.sale(10);
    let mut ann = shop.buyer("ann");
    let key = new_key();
    let first = ann.order(&sale, 1, &key);
    shop.advance_seconds(5);
    let retry = ann.order(&sale, 1, &key);
    assert_eq!((retry.status, retry.body), (201, first.body));
    assert_eq!(ann.get("/api/v1/orders").json()["data"].as_array().unwrap().len(), 1);
}

#[test]
fn a_retry_gets_the_first_answer_after_the_sale_has_sold_out_or_closed() {
    let shop = Shop::open();
    let sale = shop.sale(1);
    let mut ann = shop.buyer("ann");
    let key = new_key();
    let first = ann.order(&sale, 1, &key);
    assert_eq!(first.status, 201);
    shop.buyer("bob").order(&sale, 1, &new_key()).problem(409, "sold_out");
    assert_eq!(ann.order(&sale, 1, &key).body, first.body);
    shop.steer(&sale, "close");
    shop.buyer("bob").order(&sale, 1, &new_key()).problem(409, "closed");
    let retry = ann.order(&sale, 1, &key);
    assert_eq!((retry.status, retry.body), (201, first.body));
}

#[test]
fn a_retry_gets_the_first_answer_after_a_restart() {
    let shop = Shop::open();
    let sale = shop.sale(1);
    let key = new_key();
    let first = shop.buyer("ann").order(&sale, 1, &key);
    let shop = shop.reopen();
    let retry = shop.buyer("ann").order(&sale, 1, &key);
    assert_eq!((retry.status, retry.body), (201, first.body));
    shop.buyer("bob").order(&sale, 1, &new_key()).problem(409, "sold_out");
}

#[test]
fn the_same_key_with_another_body_is_refused() {
    let shop = Shop::open();
    let sale = shop.sale(10);
    let mut ann = shop.buyer("ann");
    let key = new_key();
    assert_eq!(ann.order(&sale, 1, &key).status, 201);
    ann.order(&sale, 2, &key).problem(422, "idempotency_key_reused");
    assert_eq!(shop.buyer("bob").order(&sale, 2, &key).status, 201, "keys count per buyer");
}

#[test]
fn an_order_needs_a_valid_idempotency_key() {
    let shop = Shop::open();
    let sale = shop.sale(10);
    let mut ann = shop.buyer("ann");
    let path = format!("/api/v1/sales/{sale}/orders");
    ann.post(&path, &json!({ "quantity": 1 })).problem(400, "idempotency_key_required");
    for key in ["two words", &"x".repeat(129), "schlüssel"] {
        ann.order(&sale, 1, key).problem(400, "idempotency_key_invalid");
    }
    assert_eq!(ann.order(&sale, 1, &"x".repeat(128)).status, 201);
}

#[test]
fn an_invalid_quantity_is_refused() {
    let shop = Shop::open();
    let sale = shop.sale(10);
    let mut ann = shop.buyer("ann");
    for quantity in [
        "0",
        "-1",
        "4294967296",
        "99999999999999999999999",
        "1e400",
        "1.5",
        "\"1\"",
        "null",
        "true",
        "[1]",
        "{}",
    ] {
        let body = format!("{{\"quantity\":{quantity}}}");
        let refused = ann.order_body(&sale, body.as_bytes(), &new_key());
        refused.names_field("quantity");
        let is_in_words = refused.text().contains("has to be a whole number from 1 to 4294967295");
        assert!(is_in_words || refused.text().contains("out of range"), "{refused:?}");
    }
    ann.order_body(&sale, b"{}", &new_key()).names_field("quantity");
    for body in ["[1]", "[{\"quantity\":1}]", "null", "1", "\"quantity\""] {
        let refused = ann.order_body(&sale, body.as_bytes(), &new_key()).problem(422, "invalid_request");
        assert_eq!(refused["detail"], "body: has to be an object", "{body}");
    }
    ann.order_body(&sale, br#"{"quantity":1,"colour":"red"}"#, &new_key()).names_field("colour");
    ann.order(&sale, 3, &new_key()).problem(409, "limit_reached");
    ann.order(&sale, u32::MAX, &new_key()).problem(409, "limit_reached");
    assert_eq!(shop.client().get(&format!("/api/v1/sales/{sale}")).json()["stock"]["available"], 10);
}

#[test]
fn a_body_that_is_not_json_is_refused() {
    let shop = Shop::open();
    let sale = shop.sale(10);
    let mut ann = shop.buyer("ann");
    for body in ["{", "quantity=1", "{\"quantity\":1}x", "{\"quantity\":1,}", "\u{feff}{}"] {
        ann.order_body(&sale, body.as_bytes(), &new_key()).problem(400, "malformed_json");
    }
    ann.order_body(&sale, b"{\"quantity\":\xff}", &new_key()).problem(400, "malformed_json");
    let deep = "[".repeat(10_000);
    for (body, expected) in [
        ("", "The body is empty."),
        (" \n", "The body is empty."),
        ("{\"quantity\":", "The body ends too early, see line 1, column 12."),
        ("{\"quantity\":1\n,}", "The body is not JSON, see line 2, column 2."),
        ("{}{}", "The body is not JSON, see line 1, column 3."),
        (deep.as_str(), "The body is nested too deeply, see line 1, column 128."),
    ] {
        let refused = ann.order_body(&sale, body.as_bytes(), &new_key()).problem(400, "malformed_json");
        assert_eq!(refused["detail"], expected);
    }
    ann.order_body(&sale, b"[]", &new_key()).problem(422, "invalid_request");
    let path = format!("/api/v1/sales/{sale}/orders");
    for content_type in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let headers = [("idempotency-key", "k"), ("content-type", content_type)];
        ann.request("POST", &path, &headers, b"{\"quantity\":1}").problem(415, "unsupported_media_type");
    }
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let shop = Shop::open();
    let sale = shop.sale(10);
    let mut ann = shop.buyer("ann");
    let just_fits = format!("{{\"quantity\":1{}}}", " ".repeat(65_536 - 14));
    assert_eq!(just_fits.len(), 65_536);
    assert_eq!(ann.order_body(&sale, just_fits.as_bytes(), &new_key()).status, 201);
    let too_large = format!("{just_fits} ");
    ann.order_body(&sale, too_large.as_bytes(), &new_key()).problem(413, "body_too_large");
    assert_eq!(ann.order(&sale, 1, &new_key()).status, 201, "the connection goes on");
}

#[test]
fn an_unknown_sale_and_a_draft_are_not_found() {
    let shop = Shop::open();
    let mut ann = shop.buyer("ann");
    for sale in ["0000000000001", "nonsense", "%30%30", &shop.draft(|_| {})] {
        ann.order(sale, 1, &new_key()).problem(404, "sale_not_found");
    }
}

#[test]
fn an_oddly_spelt_address_places_an_order_too() {
    let shop = Shop::open();
    let sale = shop.sale(1);
    let odd = format!("%{:02x}{}", sale.as_bytes()[0], &sale[1..]);
    assert_eq!(shop.buyer("ann").order(&odd, 1, &new_key()).status, 201);
    assert_eq!(shop.counted("accepted"), 1);
}

#[test]
fn the_limit_counts_over_all_orders_of_a_buyer() {
    let shop = Shop::open();
    let sale = shop.sale(10);
    let mut ann = shop.buyer("ann");
    ann.buy(&sale);
    let second = ann.buy(&sale);
    ann.order(&sale, 1, &new_key()).problem(409, "limit_reached");
    assert_eq!(ann.post_empty(&format!("/api/v1/orders/{second}/cancel")).status, 200);
    ann.buy(&sale);
}

#[test]
fn a_sale_refuses_outside_its_window_and_while_it_is_paused() {
    let shop = Shop::open();
    let sale = shop.published(|sale| {
        sale["opens_at"] = "2027-01-15T08:00:10Z".into();
        sale["closes_at"] = "2027-01-15T08:01:00Z".into();
    });
    let mut ann = shop.buyer("ann");
    ann.order(&sale, 1, &new_key()).problem(409, "not_open");
    shop.advance_seconds(10);
    ann.buy(&sale);
    shop.steer(&sale, "pause");
    ann.order(&sale, 1, &new_key()).problem(409, "paused");
    shop.steer(&sale, "resume");
    ann.buy(&sale);
    shop.advance_seconds(50);
    shop.buyer("bob").order(&sale, 1, &new_key()).problem(409, "closed");
}

#[test]
fn returned_units_are_on_sale_again_at_once() {
    let shop = Shop::open();
    let sale = shop.sale(1);
    let order = shop.buyer("ann").buy(&sale);
    shop.buyer("bob").order(&sale, 1, &new_key()).problem(409, "sold_out");
    let cancelled = shop.buyer("ann").post_empty(&format!("/api/v1/orders/{order}/cancel"));
    assert_eq!((cancelled.status, &cancelled.json()["state"]), (200, &Value::from("cancelled")));
    shop.buyer("bob").buy(&sale);
    shop.advance_seconds(61);
    shop.expire_holds();
    shop.buyer("carol").buy(&sale);
}

#[test]
fn an_order_is_paid_once() {
    let shop = Shop::open();
    let sale = shop.sale(1);
    let mut ann = shop.buyer("ann");
    let order = ann.buy(&sale);
    shop.advance_seconds(30);
    let paid = ann.post_empty(&format!("/api/v1/orders/{order}/pay"));
    assert_eq!(paid.status, 200);
    assert_eq!(paid.json()["state"], "paid");
    assert_eq!(paid.json()["paid_at"], "2027-01-15T08:00:30.000Z");
    shop.advance_seconds(1);
    let again = ann.post_empty(&format!("/api/v1/orders/{order}/pay"));
    assert_eq!((again.status, again.body), (200, paid.body));
    ann.post_empty(&format!("/api/v1/orders/{order}/cancel")).problem(409, "already_paid");
}

#[test]
fn a_late_payment_gets_a_unit_or_a_refund() {
    let shop = Shop::open();
    let sale = shop.sale(1);
    let mut ann = shop.buyer("ann");
    let order = ann.buy(&sale);
    shop.advance_seconds(61);
    shop.expire_holds();
    ann.post_empty(&format!("/api/v1/orders/{order}/cancel")).problem(409, "hold_expired");
    let second = shop.buyer("bob").buy(&sale);
    ann.post_empty(&format!("/api/v1/orders/{order}/pay")).problem(409, "refund_due");
    shop.advance_seconds(61);
    shop.expire_holds();
    assert_eq!(shop.buyer("bob").post_empty(&format!("/api/v1/orders/{second}/pay")).status, 200);
    let mut carol = shop.buyer("carol");
    let other_sale = shop.sale(1);
    let cancelled = carol.buy(&other_sale);
    carol.post_empty(&format!("/api/v1/orders/{cancelled}/cancel"));
    carol.post_empty(&format!("/api/v1/orders/{cancelled}/pay")).problem(409, "hold_expired");
}

#[test]
fn a_buyer_sees_that_a_refund_is_due_before_and_after_settlement_and_a_restart() {
    let shop = Shop::open();
    let sale = shop.sale(1);
    let order = shop.buyer("ann").buy(&sale);
    shop.advance_seconds(61);
    shop.expire_holds();
    let seen = |shop: &Shop| {
        let one = shop.buyer("ann").get(&format!("/api/v1/orders/{order}")).json();
        let list = shop.buyer("ann").get("/api/v1/orders").json();
        assert_eq!(list["data"], json!([one]));
        assert_eq!(one["state"], "expired");
        one["refund_due"].clone()
    };
    assert_eq!(seen(&shop), Value::Null, "nobody has paid");
    shop.buyer("bob").buy(&sale);
    shop.buyer("ann").post_empty(&format!("/api/v1/orders/{order}/pay")).problem(409, "refund_due");
    assert_eq!(seen(&shop), true);
    shop.settle();
    assert_eq!(seen(&shop), true);
    let merchants = shop.admin().get(&format!("/api/v1/admin/orders?q={order}"));
    assert_eq!(merchants.json()["data"][0]["refund_due"], true);
    assert_eq!(merchants.text().matches("refund_due").count(), 1, "{}", merchants.text());
    let shop = shop.reopen();
    assert_eq!(seen(&shop), true);
}

#[test]
fn orders_of_other_buyers_are_not_found() {
    let shop = Shop::open();
    let sale = shop.sale(10);
    let order = shop.buyer("ann").buy(&sale);
    shop.settle();
    let mut bob = shop.buyer("bob");
    for path in [format!("/api/v1/orders/{order}"), format!("/api/v1/orders/{sale}-77")] {
        bob.get(&path).problem(404, "order_not_found");
        bob.post_empty(&format!("{path}/pay")).problem(404, "order_not_found");
        bob.post_empty(&format!("{path}/cancel")).problem(404, "order_not_found");
    }
    bob.get("/api/v1/orders/nonsense").problem(404, "order_not_found");
    assert_eq!(bob.get("/api/v1/orders").json(), json!({ "data": [], "next": null }));
    bob.get(&format!("/api/v1/orders?after={order}")).names_field("after");
}

#[test]
fn a_buyer_with_many_orders_sees_each_of_them_once_newest_first() {
    let shop = Shop::open();
    let sales: Vec<String> = (0..3)
        .map(|_| shop.published(|sale| (sale["units"], sale["limit_per_buyer"]) = (100.into(), 50.into())))
        .collect();
    let mut ann = shop.buyer("ann");
    let mut expected: Vec<String> = Vec::new();
    for number in 0..120 {
        let order = ann.buy(&sales[number % sales.len()]);
        if number % 2 == 0 {
            assert_eq!(ann.post_empty(&format!("/api/v1/orders/{order}/cancel")).status, 200);
        }
        expected.insert(0, order);
        shop.advance_seconds(1);
        if number == 70 {
            shop.settle();
        }
    }
    let mut seen: Vec<String> = Vec::new();
    let mut after = String::new();
    loop {
        let page = ann.get(&format!("/api/v1/orders?limit=25{after}")).json();
        let orders = page["data"].as_array().unwrap();
        seen.extend(orders.iter().map(|order| order["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(seen, expected);
}

#[test]
fn buyers_read_their_own_writes_before_and_after_settlement() {
    let shop = Shop::open();
    let sale = shop.sale(10);
    let mut ann = shop.buyer("ann");
    let first = ann.buy(&sale);
    shop.settle();
    shop.advance_seconds(1);
    let second = ann.buy(&sale);
    ann.post_empty(&format!("/api/v1/orders/{first}/pay"));
    let list = ann.get("/api/v1/orders").json();
    let seen: Vec<(&str, &str)> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|order| (order["id"].as_str().unwrap(), order["state"].as_str().unwrap()))
        .collect();
    assert_eq!(seen, [(second.as_str(), "held"), (first.as_str(), "paid")]);
    assert_eq!(ann.get(&format!("/api/v1/orders/{first}")).json()["state"], "paid");
}

#[test]
fn orders_come_in_pages() {
    let shop = Shop::open();
    let sale = shop.published(|sale| {
        sale["units"] = 100.into();
        sale["limit_per_buyer"] = 100.into();
    });
    let mut ann = shop.buyer("ann");
    let mut bought = Vec::new();
    for number in 0..7 {
        bought.push(ann.buy(&sale));
        shop.advance_seconds(i64::from(number % 2 == 0));
        if number == 3 {
            shop.settle();
        }
    }
    bought.reverse();
    let mut seen = Vec::new();
    let mut path = "/api/v1/orders?limit=3".to_owned();
    loop {
        let page = ann.get(&path).json();
        seen.extend(
            page["data"].as_array().unwrap().iter().map(|order| order["id"].as_str().unwrap().to_owned()),
        );
        match page["next"].as_str() {
            Some(next) => path = format!("/api/v1/orders?limit=3&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, bought);
    for limit in ["0", "201", "-1", "x", ""] {
        ann.get(&format!("/api/v1/orders?limit={limit}")).names_field("limit");
    }
    ann.get("/api/v1/orders?after=nonsense").names_field("after");
}

#[test]
fn nobody_orders_without_an_identity() {
    let shop = Shop::open();
    let sale = shop.sale(1);
    let refused = shop.client().order(&sale, 1, &new_key());
    refused.problem(401, "unauthorized");
    assert_eq!(refused.header("www-authenticate"), Some("Bearer realm=\"penstock\""));
    shop.admin().order(&sale, 1, &new_key()).problem(403, "forbidden");
    for path in ["/api/v1/orders", "/api/v1/orders/x", "/api/v1/me"] {
        shop.client().get(path).problem(401, "unauthorized");
    }
}

#[test]
fn a_sold_out_sale_answers_every_claim_and_every_answer_is_counted() {
    let shop = Shop::open();
    let sale = shop.sale(1);
    shop.buyer("ann").buy(&sale);
    let mut bob = shop.buyer("bob");
    for _ in 0..50 {
        let body = bob.order(&sale, 1, &new_key()).problem(409, "sold_out");
        assert_eq!(
            body,
            json!({ "type": "/errors/sold_out", "title": "The sale is sold out", "status": 409,
                "code": "sold_out", "detail": "No unit is left. Units of unpaid orders may come back." })
        );
    }
    assert_eq!(shop.counted("sold_out"), 50);
    assert_eq!(shop.counted("accepted"), 1);
}

#[test]
fn concurrent_buyers_never_get_more_than_the_stock() {
    let shop = Shop::open();
    let sale = shop.sale(20);
    let accepted: usize = std::thread::scope(|scope| {
        let buyers: Vec<_> = (0..8)
            .map(|thread| {
                let (shop, sale) = (&shop, &sale);
                scope.spawn(move || {
                    let mut accepted = 0;
                    for number in 0..10 {
                        let mut buyer = shop.buyer(&format!("buyer-{thread}-{number}"));
                        let key = new_key();
                        let answers = [buyer.order(sale, 1, &key), buyer.order(sale, 1, &key)];
                        let statuses = answers.each_ref().map(|answer| answer.status);
                        // A unit may be released between the two, but an accepted order stays.
                        assert!([[201, 201], [409, 409]].contains(&statuses), "{statuses:?}");
                        accepted += usize::from(statuses[0] == 201);
                    }
                    accepted
                })
            })
            .collect();
        buyers.into_iter().map(|buyer| buyer.join().unwrap()).sum()
    });
    assert_eq!(accepted, 20);
}
