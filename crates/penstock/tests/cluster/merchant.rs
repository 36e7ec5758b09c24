//! What a merchant prepares on one node is there on all others: pictures, drafts, and the list of buyers.

use penstock_local::RedisKind;
use penstock_testkit::{ADMIN_TOKEN, Client, OfferTerms};
use serde_json::json;

use crate::trial::{Trial, expect, look, must_buy, text, until};

/// Each is asked for on another node a moment later.
const PUBLISHED: usize = 20;
const PICTURE: &[u8] = include_bytes!("../../demo/kettle.webp");

#[test]
fn what_a_merchant_prepares_on_one_node_is_there_on_the_others() {
    let trial = Trial::start(RedisKind::Single);
    let [a, b, c] = [0, 1, 2].map(|number| trial.node(number));
    let admin = |node| Client::new(node).with_token(ADMIN_TOKEN);

    let head = format!(
        "POST /api/v1/admin/pictures HTTP/1.1\r\nhost: shop\r\nauthorization: Bearer {ADMIN_TOKEN}\r\n\
         content-type: image/webp\r\ncontent-length: {}\r\n\r\n",
        PICTURE.len()
    );
    let upload = [head.as_bytes(), PICTURE].concat();
    let picture = text(&expect(201, &Client::new(a).send_bytes(&upload).unwrap())["picture"]);
    for place in [a, b, c, trial.front()] {
        let shown = Client::new(place).get(&picture).unwrap();
        assert_eq!((shown.status, shown.header("content-type")), (200, Some("image/webp")));
        assert!(shown.body == PICTURE, "{place} shows another picture");
    }
    let again = expect(201, &Client::new(b).send_bytes(&upload).unwrap());
    assert_eq!(text(&again["picture"]), picture, "the same picture is one picture");

    let draft = trial.merchant(0).draft(OfferTerms::default());
    let path = format!("/api/v1/admin/sales/{draft}");
    let change = json!({ "units": 7, "limit_per_buyer": 2 }).to_string();
    expect(200, &admin(b).send("PATCH", &path, &[], Some(change.as_bytes())).unwrap());
    assert_eq!(expect(200, &admin(c).get(&path).unwrap())["stock"]["total"], 7);
    trial.merchant(2).act(&draft, "publish", None);
    let late = admin(a).send("PATCH", &path, &[], Some(change.as_bytes())).unwrap();
    assert_eq!((late.status, late.code().as_str()), (409, "already_published"), "{}", late.text());
    for node in [a, b, c] {
        let sale = until("a node shows the sale", || look(node, &draft));
        assert_eq!(sale["stock"]["total"], 7, "as it was changed on another node");
    }

    let order = must_buy(a, &draft, "ann", 2);
    let found = until("the order is settled", || {
        let page = expect(200, &admin(b).get("/api/v1/admin/orders?q=ann").unwrap());
        page["data"].get(0).cloned()
    });
    assert_eq!((text(&found["id"]), text(&found["buyer"])), (order.clone(), "ann".to_owned()));
    let by_id = expect(200, &admin(c).get(&format!("/api/v1/admin/orders?q={order}")).unwrap());
    assert_eq!(by_id["data"][0]["buyer"], "ann");
    let table = admin(trial.front()).get("/api/v1/admin/orders.csv").unwrap();
    assert_eq!(table.status, 200, "{}", table.text());
    assert!(table.text().lines().nth(1).is_some_and(|line| line.starts_with(&order)), "{}", table.text());
}

#[test]
fn a_node_that_has_not_heard_of_a_sale_says_later_instead_of_calling_it_a_draft() {
    let trial = Trial::start(RedisKind::Cluster);
    for _ in 0..PUBLISHED {
        let sale = trial.merchant(0).publish(OfferTerms::default());
        let paths = [format!("/api/v1/admin/sales/{sale}/stats"), format!("/api/v1/sales/{sale}")];
        for (node, path) in [1, 2].into_iter().flat_map(|node| paths.iter().map(move |path| (node, path))) {
            let mut admin = Client::new(trial.node(node)).with_token(ADMIN_TOKEN);
            until("a node shows the sale", || {
                let answer = admin.get(path).unwrap();
                if answer.status == 200 {
                    return Some(());
                }
                assert_eq!(
                    (answer.status, answer.header("retry-after")),
                    (503, Some("1")),
                    "{}",
                    answer.text()
                );
                None
            });
        }
    }
}
