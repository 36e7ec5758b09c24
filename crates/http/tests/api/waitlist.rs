//! The waitlist: units that come back go to the first person on it, as orders with their own deadline.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{Answer, Client, Shop, new_key};

fn path(sale: &str) -> String {
    format!("/api/v1/sales/{sale}/waitlist")
}

fn join(client: &mut Client, sale: &str, quantity: u32) -> Answer {
    client.post(&path(sale), &json!({ "quantity": quantity }))
}

fn position(client: &mut Client, sale: &str) -> u64 {
    let answer = client.get(&path(sale));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["position"].as_u64().unwrap()
}

/// The buyer's only order.
fn order_of(client: &mut Client) -> Value {
    let mut orders = client.get("/api/v1/orders").json()["data"].as_array().unwrap().clone();
    assert_eq!(orders.len(), 1, "{orders:?}");
    orders.remove(0)
}

fn has_no_order(client: &mut Client) -> bool {
    client.get("/api/v1/orders").json()["data"] == json!([])
}

fn cancel(client: &mut Client, order: &str) {
    assert_eq!(client.post_empty(&format!("/api/v1/orders/{order}/cancel")).status, 200);
}

/// A sale whose units are all held, each by another buyer, and the buyers' orders.
fn sold_out(shop: &Shop, units: u32) -> (String, Vec<(Client, String)>) {
    let sale = shop.sale(units);
    let holders = (0..units).map(|number| {
        let mut client = shop.buyer(&format!("holder-{number}"));
        let order = client.buy(&sale);
        (client, order)
    });
    let holders = holders.collect();
    (sale, holders)
}

#[test]
fn the_first_person_on_the_waitlist_is_offered_returned_units() {
    let shop = Shop::open();
    let (sale, mut holders) = sold_out(&shop, 2);
    let (mut ann, mut ben) = (shop.buyer("ann"), shop.buyer("ben"));
    let joined = join(&mut ann, &sale, 1);
    assert_eq!(joined.status, 201, "{}", joined.text());
    assert_eq!(
        joined.json(),
        json!({ "sale_id": sale, "quantity": 1, "position": 1, "joined_at": "2027-01-15T08:00:00.000Z" })
    );
    assert_eq!(join(&mut ben, &sale, 1).json()["position"], 2);

    shop.advance_seconds(10);
    let (holder, order) = &mut holders[0];
    cancel(holder, order);
    let offer = order_of(&mut ann);
    assert_eq!((&offer["state"], &offer["quantity"]), (&json!("held"), &json!(1)));
    assert_eq!(offer["pay_before"], "2027-01-15T08:01:10.000Z", "the offer has its own deadline");
    ann.get(&path(&sale)).problem(404, "not_waiting");
    assert_eq!(position(&mut ben, &sale), 1);

    // The unit was never on sale.
    shop.buyer("stranger").order(&sale, 1, &new_key()).problem(409, "sold_out");
    let seen = shop.client().get(&format!("/api/v1/sales/{sale}")).json();
    assert_eq!((&seen["state"], &seen["stock"]["available"]), (&json!("sold_out"), &json!(0)));

    let pay = format!("/api/v1/orders/{}/pay", offer["id"].as_str().unwrap());
    assert_eq!(ann.post_empty(&pay).json()["state"], "paid");
    shop.settle();
    assert_eq!(shop.admin().get("/api/v1/admin/audit").json()["ok"], true);
}

#[test]
fn an_offer_that_nobody_takes_goes_to_the_next() {
    let shop = Shop::open();
    let (sale, mut holders) = sold_out(&shop, 1);
    let (mut ann, mut ben) = (shop.buyer("ann"), shop.buyer("ben"));
    join(&mut ann, &sale, 1);
    join(&mut ben, &sale, 1);
    shop.advance_seconds(30);
    let (holder, order) = &mut holders[0];
    cancel(holder, order);
    shop.advance_seconds(59);
    shop.expire_holds();
    assert!(has_no_order(&mut ben), "the offer is ann's until its deadline");
    shop.advance_seconds(1);
    shop.expire_holds();
    assert_eq!(order_of(&mut ann)["state"], "expired");
    assert_eq!(order_of(&mut ben)["state"], "held");
    ben.get(&path(&sale)).problem(404, "not_waiting");
}

#[test]
fn a_late_payment_takes_nothing_from_the_person_who_was_offered_the_unit() {
    let shop = Shop::open();
    let (sale, mut holders) = sold_out(&shop, 1);
    let mut ann = shop.buyer("ann");
    join(&mut ann, &sale, 1);
    shop.advance_seconds(60);
    shop.expire_holds();
    let (holder, order) = &mut holders[0];
    holder.post_empty(&format!("/api/v1/orders/{order}/pay")).problem(409, "refund_due");
    let offer = order_of(&mut ann);
    let paid = ann.post_empty(&format!("/api/v1/orders/{}/pay", offer["id"].as_str().unwrap()));
    assert_eq!(paid.json()["state"], "paid", "{}", paid.text());
}

#[test]
fn the_units_of_expired_holds_and_restocks_are_offered_too() {
    let shop = Shop::open();
    let (sale, _) = sold_out(&shop, 2);
    let mut waiting: Vec<Client> = ["ann", "ben", "cay", "dan"].map(|name| shop.buyer(name)).into();
    for (place, client) in waiting.iter_mut().enumerate() {
        assert_eq!(join(client, &sale, 1).json()["position"], place as u64 + 1);
    }
    shop.advance_seconds(60);
    shop.expire_holds();
    for client in &mut waiting[..2] {
        assert_eq!(order_of(client)["state"], "held");
    }
    assert_eq!(position(&mut waiting[2], &sale), 1);
    let restock = format!("/api/v1/admin/sales/{sale}/restock");
    let restocked = shop.admin().post(&restock, &json!({ "units": 5 }));
    assert_eq!(restocked.json()["stock"], json!({ "total": 7, "available": 3 }), "{}", restocked.text());
    for client in &mut waiting[2..] {
        assert_eq!(order_of(client)["state"], "held");
    }
}

#[test]
fn a_person_who_wants_two_gets_one_when_one_comes_back() {
    let shop = Shop::open();
    let (sale, mut holders) = sold_out(&shop, 2);
    let mut ann = shop.buyer("ann");
    assert_eq!(join(&mut ann, &sale, 2).json()["quantity"], 2);
    let (holder, order) = &mut holders[0];
    cancel(holder, order);
    assert_eq!(order_of(&mut ann)["quantity"], 1);
    ann.get(&path(&sale)).problem(404, "not_waiting");
}

#[test]
fn joining_twice_keeps_the_place_and_leaving_gives_it_up() {
    let shop = Shop::open();
    let (sale, mut holders) = sold_out(&shop, 1);
    let (mut ann, mut ben) = (shop.buyer("ann"), shop.buyer("ben"));
    let first = join(&mut ann, &sale, 1).json();
    join(&mut ben, &sale, 1);
    shop.advance_seconds(5);
    let again = join(&mut ann, &sale, 2);
    assert_eq!((again.status, again.json()), (201, first), "the first request counts");
    for _ in 0..2 {
        let left = ann.request("DELETE", &path(&sale), &[], b"");
        assert_eq!((left.status, left.text().as_str()), (204, ""));
        ann.get(&path(&sale)).problem(404, "not_waiting");
    }
    assert_eq!(position(&mut ben, &sale), 1);
    assert_eq!(join(&mut ann, &sale, 2).json()["position"], 2, "a person who comes back is last");
    let (holder, order) = &mut holders[0];
    cancel(holder, order);
    assert_eq!(order_of(&mut ben)["state"], "held");
    assert!(has_no_order(&mut ann));
}

#[test]
fn a_pause_keeps_the_list_and_the_end_of_the_pause_makes_the_offers() {
    let shop = Shop::open();
    let (sale, mut holders) = sold_out(&shop, 1);
    let mut ann = shop.buyer("ann");
    join(&mut ann, &sale, 1);
    shop.steer(&sale, "pause");
    let (holder, order) = &mut holders[0];
    cancel(holder, order);
    assert!(has_no_order(&mut ann), "nothing is offered during a pause");
    assert_eq!(position(&mut ann, &sale), 1);
    join(&mut shop.buyer("ben"), &sale, 1).problem(409, "paused");
    shop.steer(&sale, "resume");
    assert_eq!(order_of(&mut ann)["state"], "held");
}

#[test]
fn a_merchant_sees_how_many_wait_even_if_units_are_free_in_a_pause() {
    let shop = Shop::open();
    let (sale, mut holders) = sold_out(&shop, 2);
    let seen = || {
        let stats = shop.admin().get(&format!("/api/v1/admin/sales/{sale}/stats"));
        assert_eq!(stats.status, 200, "{}", stats.text());
        let stats = stats.json();
        (stats["state"].as_str().unwrap().to_owned(), stats["available"].clone(), stats["waitlist"].clone())
    };
    assert_eq!(seen(), ("sold_out".to_owned(), json!(0), json!(0)));
    for name in ["ann", "ben", "cay"] {
        join(&mut shop.buyer(name), &sale, 1);
    }
    shop.settle();
    assert_eq!(seen(), ("sold_out".to_owned(), json!(0), json!(3)));
    shop.steer(&sale, "pause");
    let (holder, order) = &mut holders[0];
    cancel(holder, order);
    shop.settle();
    assert_eq!(seen(), ("paused".to_owned(), json!(1), json!(3)));
    shop.steer(&sale, "resume");
    shop.settle();
    assert_eq!(seen(), ("sold_out".to_owned(), json!(0), json!(2)));
    shop.block_on(shop.records.close());
    assert_eq!(seen(), ("sold_out".to_owned(), json!(0), Value::Null), "an unknown length stays empty");
    shop.steer(&sale, "close");
    assert_eq!(seen(), ("closed".to_owned(), json!(0), json!(0)));
}

#[test]
fn a_closed_sale_has_no_waitlist() {
    let shop = Shop::open();
    let (sale, mut holders) = sold_out(&shop, 1);
    let mut ann = shop.buyer("ann");
    join(&mut ann, &sale, 1);
    shop.steer(&sale, "close");
    let (holder, order) = &mut holders[0];
    cancel(holder, order);
    assert!(has_no_order(&mut ann));
    ann.get(&path(&sale)).problem(404, "not_waiting");
    join(&mut ann, &sale, 1).problem(409, "closed");
    assert_eq!(ann.request("DELETE", &path(&sale), &[], b"").status, 204);
    shop.settle();
    assert_eq!(shop.admin().get("/api/v1/admin/audit").json()["ok"], true);
}

#[test]
fn a_person_who_can_not_wait_is_told_why() {
    let shop = Shop::open();
    let sale = shop.sale(2);
    let mut ann = shop.buyer("ann");
    join(&mut ann, &sale, 1).problem(409, "not_sold_out");
    ann.buy(&sale);
    shop.buyer("ben").buy(&sale);
    join(&mut ann, &sale, 2).problem(409, "limit_reached");
    join(&mut ann, &sale, 0).names_field("quantity");
    ann.post(&path(&sale), &json!({})).names_field("quantity");
    ann.post(&path(&sale), &json!({ "quantity": 1, "place": 1 })).names_field("place");
    assert_eq!(join(&mut ann, &sale, 1).status, 201, "one more is within the limit");

    let later = shop.published(|sale| sale["opens_at"] = "2027-01-15T09:00:00Z".into());
    join(&mut ann, &later, 1).problem(409, "not_open");
    let unknown = shop.draft(|_| {});
    for sale in [unknown.as_str(), "nothing"] {
        join(&mut ann, sale, 1).problem(404, "sale_not_found");
        ann.get(&path(sale)).problem(404, "sale_not_found");
        ann.request("DELETE", &path(sale), &[], b"").problem(404, "sale_not_found");
    }
    let mut nobody = shop.client();
    join(&mut nobody, &sale, 1).problem(401, "unauthorized");
    nobody.get(&path(&sale)).problem(401, "unauthorized");
    nobody.request("DELETE", &path(&sale), &[], b"").problem(401, "unauthorized");
    join(&mut shop.admin(), &sale, 1).problem(403, "forbidden");
}

#[test]
fn a_restart_keeps_the_list_and_its_order() {
    let shop = Shop::open();
    let (sale, holders) = sold_out(&shop, 2);
    let names = ["ann", "ben", "cay"];
    for name in names {
        join(&mut shop.buyer(name), &sale, 1);
    }
    shop.buyer("ann").request("DELETE", &path(&sale), &[], b"");
    let order = holders[0].1.clone();
    drop(holders);
    let shop = shop.reopen();
    shop.buyer("ann").get(&path(&sale)).problem(404, "not_waiting");
    assert_eq!(position(&mut shop.buyer("ben"), &sale), 1);
    assert_eq!(position(&mut shop.buyer("cay"), &sale), 2);
    cancel(&mut shop.buyer("holder-0"), &order);
    assert_eq!(order_of(&mut shop.buyer("ben"))["state"], "held");
    assert_eq!(position(&mut shop.buyer("cay"), &sale), 1);
}

#[test]
fn an_offered_order_never_answers_a_claim() {
    let shop = Shop::open();
    let (sale, mut holders) = sold_out(&shop, 1);
    let mut ann = shop.buyer("ann");
    let key = new_key();
    ann.order(&sale, 1, &key).problem(409, "sold_out");
    join(&mut ann, &sale, 1);
    let (holder, order) = &mut holders[0];
    cancel(holder, order);
    let offer = order_of(&mut ann);
    // The refused claim stays a separate claim, and is refused again because the sale is sold out.
    ann.order(&sale, 1, &key).problem(409, "sold_out");
    cancel(&mut ann, offer["id"].as_str().unwrap());
    let bought = ann.order(&sale, 1, &key);
    assert_eq!(bought.status, 201, "{}", bought.text());
    assert_ne!(bought.json()["id"], offer["id"]);
}

#[test]
fn a_sale_shows_how_many_wait_so_that_the_next_person_knows_their_likely_place() {
    let shop = Shop::open();
    let (sale, mut holders) = sold_out(&shop, 1);
    let look = |length: Value| {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let answer = shop.client().get(&format!("/api/v1/sales/{sale}"));
            if answer.json()["waitlist"] == length {
                return answer.header("etag").unwrap().to_owned();
            }
            assert!(Instant::now() < until, "not {length}: {}", answer.text());
            thread::sleep(Duration::from_millis(50));
        }
    };
    let nobody = look(json!(0));
    for name in ["ann", "ben"] {
        assert_eq!(join(&mut shop.buyer(name), &sale, 1).status, 201);
    }
    shop.settle();
    assert_ne!(look(json!(2)), nobody, "a cache must not keep it");
    assert_eq!(join(&mut shop.buyer("cid"), &sale, 1).json()["position"], 3);
    // The unit that comes back goes to the first person. A sale with units left has no waitlist.
    let (holder, order) = holders.first_mut().unwrap();
    cancel(holder, order);
    shop.settle();
    look(json!(2));
    for name in ["ann", "ben", "cid"] {
        shop.buyer(name).request("DELETE", &path(&sale), &[], b"");
    }
    let mut ann = shop.buyer("ann");
    let order = order_of(&mut ann)["id"].as_str().unwrap().to_owned();
    cancel(&mut ann, &order);
    look(Value::Null);
}
