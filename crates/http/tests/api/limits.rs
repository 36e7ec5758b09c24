//! Limits on how often a buyer may read their own data, pay and cancel.

use std::{num::NonZeroU32, time::Duration};

use penstock_gate::LimitOptions;

use crate::support::{Answer, Shop};

fn limit(burst: u32) -> LimitOptions {
    let burst = NonZeroU32::new(burst).unwrap();
    LimitOptions { burst, one_per: Duration::from_secs(3_600), max_keys: 1_000 }
}

/// Sends a request from the given address, as if through a proxy on this machine.
fn ask(shop: &Shop, buyer: &str, address: &str, method: &str, path: &str) -> Answer {
    shop.buyer(buyer).request(method, path, &[("x-forwarded-for", address)], b"")
}

fn behind_a_proxy(change: impl FnOnce(&mut penstock_http::ServerOptions)) -> Shop {
    Shop::open_with(|options| {
        options.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
        change(options);
    })
}

fn refusals(shop: &Shop, reason: &str) -> u64 {
    let text = shop.client().get("/metrics").text();
    let start = format!("penstock_gate_refusals_total{{reason=\"{reason}\"}} ");
    text.lines()
        .find_map(|line| line.strip_prefix(&start))
        .expect("every reason has a counter")
        .parse()
        .unwrap()
}

#[test]
fn a_buyer_who_looks_too_often_is_told_to_wait_and_can_still_buy_and_pay() {
    let shop = behind_a_proxy(|options| options.shop.gate.reads_by_buyer = limit(3));
    let sale = shop.sale(10);
    let order = shop.buyer("ann").buy(&sale);
    let looks = ["/api/v1/orders", &format!("/api/v1/orders/{order}"), "/api/v1/me"];
    for path in looks {
        assert_eq!(ask(&shop, "ann", "192.0.2.1", "GET", path).status, 200, "{path}");
    }
    for path in looks {
        let answer = ask(&shop, "ann", "192.0.2.2", "GET", path);
        answer.problem(429, "rate_limited");
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
    }
    assert_eq!(refusals(&shop, "reads_buyer"), 3);
    assert_eq!(ask(&shop, "bob", "192.0.2.1", "GET", "/api/v1/me").status, 200, "others are not affected");
    let pay = format!("/api/v1/orders/{order}/pay");
    assert_eq!(ask(&shop, "ann", "192.0.2.1", "POST", &pay).status, 200);
    shop.buyer("ann").buy(&sale);
}

#[test]
fn lists_of_orders_have_a_smaller_limit_than_other_reads() {
    let shop = behind_a_proxy(|options| options.shop.gate.reads_by_buyer = limit(60));
    let sale = shop.sale(10);
    let order = shop.buyer("ann").buy(&sale);
    for _ in 0..3 {
        assert_eq!(ask(&shop, "ann", "192.0.2.1", "GET", "/api/v1/orders").status, 200);
    }
    let refused = ask(&shop, "ann", "192.0.2.2", "GET", "/api/v1/orders?limit=1");
    refused.problem(429, "rate_limited");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    assert_eq!(refusals(&shop, "reads_buyer"), 1);
    assert_eq!(ask(&shop, "ann", "192.0.2.1", "GET", &format!("/api/v1/orders/{order}")).status, 200);
    assert_eq!(
        ask(&shop, "bob", "192.0.2.1", "GET", "/api/v1/orders").status,
        200,
        "other buyers are not affected"
    );
}

#[test]
fn an_address_that_reads_too_often_is_told_to_wait_even_for_different_buyers() {
    let shop = behind_a_proxy(|options| options.shop.gate.reads_by_address = limit(2));
    let sale = shop.published(|sale| sale["gate"] = serde_json::json!({ "waiting_room": true }));
    let ticket = shop.buyer("ann").post_empty(&format!("/api/v1/sales/{sale}/tickets")).json();
    let ticket = format!("/api/v1/sales/{sale}/tickets/{}", ticket["ticket"].as_str().unwrap());
    let look = |buyer: &str, address: &str, path: &str| ask(&shop, buyer, address, "GET", path).status;
    assert_eq!(look("ann", "192.0.2.1", &ticket), 200);
    assert_eq!(look("bob", "192.0.2.1", "/api/v1/orders"), 200);
    for path in [&ticket, &format!("{ticket}/events"), "/api/v1/orders", "/api/v1/me"] {
        assert_eq!(look("cem", "192.0.2.1", path), 429, "{path}");
    }
    assert_eq!(refusals(&shop, "reads_address"), 4);
    assert_eq!(look("cem", "192.0.2.2", "/api/v1/orders"), 200, "other addresses are not affected");
}

#[test]
fn a_buyer_who_calls_admin_endpoints_is_looked_up_a_limited_number_of_times() {
    let shop = behind_a_proxy(|options| options.shop.gate.reads_by_buyer = limit(2));
    let (buyer, merchant) = ("+8613800138000", "+8613800138001");
    shop.account(merchant, "correct horse");
    assert!(shop.block_on(shop.records.promote(merchant, true)).unwrap());
    let [buyer, merchant] = [shop.account(buyer, "correct horse"), shop.sign_in(merchant, "correct horse")];
    let ask = |token: &str, path: &str| shop.client().with_token(token).get(path);
    for path in ["/api/v1/admin/orders", "/api/v1/admin/sales"] {
        ask(&buyer, path).problem(403, "forbidden");
    }
    let draft = format!("/api/v1/sales/{}", shop.draft(|_| {}));
    for path in ["/api/v1/admin/orders", "/api/v1/admin/audit", "/api/v1/admin/live", &draft] {
        ask(&buyer, path).problem(429, "rate_limited");
    }
    assert_eq!(refusals(&shop, "reads_buyer"), 4);
    for _ in 0..5 {
        assert_eq!(ask(&merchant, "/api/v1/admin/orders").status, 200, "a console asks often");
    }
}

#[test]
fn paying_and_cancelling_count_like_orders() {
    let shop = behind_a_proxy(|options| {
        options.shop.gate.by_buyer = limit(2);
        options.shop.gate.by_address = limit(2);
    });
    let sale = shop.sale(10);
    let order = shop.buyer("ann").buy(&sale);
    let act = |buyer: &str, address: &str, verb: &str| {
        ask(&shop, buyer, address, "POST", &format!("/api/v1/orders/{order}/{verb}")).status
    };
    assert_eq!(act("ann", "192.0.2.1", "cancel"), 200);
    assert_eq!(act("ann", "192.0.2.2", "cancel"), 429, "for the buyer, the order was the first");
    assert_eq!(act("ann", "192.0.2.3", "pay"), 429);
    assert_eq!(act("bob", "192.0.2.1", "pay"), 404, "not theirs");
    assert_eq!(act("cem", "192.0.2.1", "pay"), 429, "for the address, it is the third");
    assert_eq!((refusals(&shop, "buyer"), refusals(&shop, "address")), (2, 1));
}
