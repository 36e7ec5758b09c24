//! Orders as a merchant searches and downloads them.

use std::io::Read as _;

use serde_json::{Value, json};

use crate::support::{Client, Shop, new_key};

fn found(admin: &mut Client, query: &str) -> Vec<String> {
    let answer = admin.get(&format!("/api/v1/admin/orders{query}"));
    assert_eq!(answer.status, 200, "{answer:?}");
    let orders = answer.json()["data"].as_array().unwrap().clone();
    orders.iter().map(|order| order["id"].as_str().unwrap().to_owned()).collect()
}

/// The head and the body of a table, which comes in chunks.
fn export(shop: &Shop, query: &str) -> (String, String) {
    let mut admin = shop.admin();
    admin.send("GET", &format!("/api/v1/admin/orders.csv{query}"), &[("connection", "close")], b"");
    let mut answer = Vec::new();
    admin.stream().read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, mut rest) = answer.split_once("\r\n\r\n").unwrap();
    let mut body = String::new();
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    while let Some((length, chunk)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return (head.to_owned(), body);
        }
        body.push_str(&chunk[..length]);
        rest = &chunk[length + 2..];
    }
    panic!("the table has no end: {head}");
}

#[test]
fn an_order_is_found_by_its_id_its_buyer_and_the_phone_of_its_account() {
    let shop = Shop::open();
    let sale = shop.sale(9);
    let token = shop.account("+8613800138000", "a good password");
    let of_account = shop.client().with_token(&token).buy(&sale);
    let of_ann = [shop.buyer("ann").buy(&sale), shop.buyer("ann").buy(&sale)];
    shop.buyer("13800138001").buy(&sale);
    shop.settle();
    let mut admin = shop.admin();
    assert_eq!(found(&mut admin, &format!("?q={of_account}")), [of_account.as_str()]);
    assert_eq!(found(&mut admin, "?q=ann"), [of_ann[1].as_str(), of_ann[0].as_str()]);
    for phone in [
        "%2B8613800138000",
        "+8613800138000",
        "8613800138000",
        "%2B86%20138-0013-8000",
        "%28%2B86%29%20138.0013%C2%A08000",
        "0086+138+0013+8000",
        "13800138000",
    ] {
        assert_eq!(found(&mut admin, &format!("?q={phone}")), [of_account.as_str()], "{phone}");
    }
    let own = admin.get(&format!("/api/v1/admin/orders?q={of_account}")).json()["data"][0].clone();
    let buyer = own["buyer"].as_str().unwrap();
    assert!(buyer.starts_with("account:"), "{own}");
    assert_eq!(own["refund_due"], false);
    assert_eq!(found(&mut admin, &format!("?q={buyer}")), [of_account.as_str()]);
    let account = buyer.strip_prefix("account:").unwrap();
    assert_eq!(found(&mut admin, &format!("?q=%20{account}")), [of_account.as_str()]);
    assert_eq!(
        found(&mut admin, "?q=13800138001").len(),
        1,
        "no account has this phone, but it is the name of a buyer"
    );

    assert_eq!(found(&mut admin, "?q=").len(), 4, "an empty search finds everything");
    for nothing in
        ["?q=bob", &format!("?q={sale}-99"), "?q=ann&state=paid", &format!("?q={of_account}&state=paid")]
    {
        assert!(found(&mut admin, nothing).is_empty(), "{nothing}");
    }
    admin.get("/api/v1/admin/orders?q=ann&buyer=ann").names_field("q");
}

#[test]
fn orders_are_found_by_the_sale_that_their_ids_begin_with() {
    let shop = Shop::open();
    let (sale, other, unsold) = (shop.sale(9), shop.sale(9), shop.sale(9));
    let orders = [shop.buyer("ann").buy(&sale), shop.buyer("bob").buy(&sale)];
    shop.buyer("ann").buy(&other);
    shop.settle();
    let mut admin = shop.admin();
    let newest_first = [orders[1].as_str(), orders[0].as_str()];
    for query in [format!("?q={sale}"), format!("?q={sale}&sale={sale}"), format!("?q={sale}&state=held")] {
        assert_eq!(found(&mut admin, &query), newest_first, "{query}");
    }
    // Also page by page.
    let page = admin.get(&format!("/api/v1/admin/orders?q={sale}&limit=1")).json();
    let next = format!("?q={sale}&limit=1&after={}", page["next"].as_str().unwrap());
    assert_eq!(found(&mut admin, &next), [orders[0].as_str()]);
    for nothing in
        [format!("?q={unsold}"), format!("?q={sale}&sale={other}"), format!("?q={sale}&state=paid")]
    {
        assert!(found(&mut admin, &nothing).is_empty(), "{nothing}");
    }
    assert_eq!(export(&shop, &format!("?q={sale}")).1.lines().count(), 3);
}

#[test]
fn a_buyer_does_not_see_the_merchants_orders() {
    let shop = Shop::open();
    let sale = shop.sale(1);
    let order = shop.buyer("ann").buy(&sale);
    let seen = shop.buyer("ann").get(&format!("/api/v1/orders/{order}")).json();
    assert_eq!(seen["buyer"], Value::Null);
}

#[test]
fn all_orders_can_be_downloaded_as_a_table_for_spreadsheets() {
    let shop = Shop::open();
    let sale = shop.published(|sale| {
        sale["units"] = 2000.into();
        sale["limit_per_buyer"] = 2000.into();
    });
    let item = shop.client().get(&format!("/api/v1/sales/{sale}")).json()["item"]["id"].clone();
    let title = json!({ "title": "=水壶, \"K\"" });
    let path = format!("/api/v1/admin/items/{}", item.as_str().unwrap());
    assert_eq!(shop.admin().json("PATCH", &path, &title).status, 200);
    // More orders than are in memory at once, by several buyers because of the limit per buyer.
    let buyers: Vec<String> = (0..11).map(|number| format!("buyer-{number}")).collect();
    let buy = |name: &String| {
        let mut buyer = shop.buyer(name);
        (0..100).map(|_| buyer.buy(&sale)).collect::<Vec<String>>()
    };
    let mut orders: Vec<String> = buyers.iter().flat_map(buy).collect();
    let paid = shop.buyer("@SUM(A1)").order(&sale, 2, &new_key()).json()["id"].as_str().unwrap().to_owned();
    shop.buyer("@SUM(A1)").post_empty(&format!("/api/v1/orders/{paid}/pay"));
    shop.settle();

    let (head, table) = export(&shop, "");
    for line in [
        "content-type: text/csv; charset=utf-8",
        "content-disposition: attachment; filename=\"orders-2027-01-15.csv\"",
        "cache-control: no-store",
    ] {
        assert!(head.contains(line), "{line}: {head}");
    }
    let lines: Vec<&str> = table.trim_end().split("\r\n").collect();
    assert!(lines[0].starts_with("\u{feff}order,sale,item,buyer,quantity,"), "{}", lines[0]);
    let expected = format!("{paid},{sale},\"'=水壶, \"\"K\"\"\",'@SUM(A1),2,19.90,39.80,EUR,paid,");
    assert!(lines[1].starts_with(&expected), "{} is not {expected}", lines[1]);
    let exported: Vec<&str> = lines[2..].iter().map(|line| line.split(',').next().unwrap()).collect();
    orders.reverse();
    assert!(exported == orders, "{} orders of {}", exported.len(), orders.len());

    let (_, only_paid) = export(&shop, "?state=paid");
    assert_eq!(only_paid.lines().count(), 2);
    let (_, nothing) = export(&shop, "?q=bob");
    assert_eq!(nothing.lines().count(), 1, "only the headings");
    shop.admin().get("/api/v1/admin/orders.csv?state=lost").names_field("state");
}
