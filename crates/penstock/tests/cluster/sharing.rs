//! What one node issues is valid on the others, and what a merchant changes on one is seen on all.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use penstock_local::RedisKind;
use penstock_testkit::{ADMIN_TOKEN, Client, OfferTerms};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::trial::{Trial, buyer, expect, look, must_buy, text, until, within_a_second};

const PASSWORD: &str = "a long password";
const PEOPLE: usize = 9;
const OPENS_IN: SignedDuration = SignedDuration::from_secs(5);

/// A cluster with easy proofs of work.
fn with_small_riddles() -> Trial {
    Trial::start_with(RedisKind::Single, |plan| {
        plan.variables.push(("PENSTOCK_GATE__POW_MIN_BITS".to_owned(), "4".to_owned()));
    })
}

/// Follows the documentation of the challenge, and shares no code with the server.
fn solve(challenge: &Value) -> String {
    let (salt, difficulty) = (text(&challenge["salt"]), challenge["difficulty"].as_u64().unwrap());
    let leading_zeros = |answer: &String| {
        let digest = Sha256::digest(format!("{salt}{answer}").as_bytes());
        u64::from(u64::from_be_bytes(digest[..8].try_into().unwrap()).leading_zeros())
    };
    (0u64..).map(|number| number.to_string()).find(|answer| leading_zeros(answer) >= difficulty).unwrap()
}

/// Signs up at one node, and returns the token of the session.
fn sign_up(node: SocketAddr, phone: &str) -> String {
    let mut client = Client::new(node);
    let code = expect(202, &client.post("/api/v1/otp", &json!({ "phone": phone })).unwrap())["code"].clone();
    let account = json!({ "phone": phone, "otp": code, "name": "Ada", "password": PASSWORD });
    expect(201, &client.post("/api/v1/accounts", &account).unwrap());
    let session = json!({ "phone": phone, "password": PASSWORD });
    text(&expect(201, &client.post("/api/v1/sessions", &session).unwrap())["token"])
}

#[test]
fn what_one_node_issues_is_valid_on_the_others() {
    let trial = with_small_riddles();
    let [a, b, c] = [0, 1, 2].map(|number| trial.node(number));
    let signed_out = a_session_is_valid_everywhere_until_it_is_ended(a, b, c);
    a_challenge_is_good_once(&trial, a, b, c);
    a_ticket_has_one_place_and_a_pass_is_good_everywhere(&trial, a, b, c);
    eprintln!("signed out everywhere after {signed_out:?}");
}

fn a_session_is_valid_everywhere_until_it_is_ended(a: SocketAddr, b: SocketAddr, c: SocketAddr) -> Duration {
    let token = sign_up(a, "+8613800000001");
    let me = |node: SocketAddr| Client::new(node).with_token(&token).get("/api/v1/me").unwrap();
    for node in [a, b, c] {
        assert_eq!(expect(200, &me(node))["account"]["name"], "Ada");
    }
    let ended = Client::new(c).with_token(&token).send("DELETE", "/api/v1/sessions/current", &[], None);
    expect(204, &ended.unwrap());
    within_a_second("a session that ended on C has ended on A and B", || {
        [a, b, c].iter().all(|node| me(*node).status == 401)
    })
}

fn a_challenge_is_good_once(trial: &Trial, a: SocketAddr, b: SocketAddr, c: SocketAddr) {
    let gate = json!({ "challenge": "pow" });
    let sale = trial.merchant(0).publish_with(OfferTerms::default(), |sale| sale["gate"] = gate);
    until_open(trial, &sale);
    let challenge = buyer(a, "bob").post_nothing(&format!("/api/v1/sales/{sale}/challenge")).unwrap();
    let challenge = expect(201, &challenge);
    let answer = json!({ "challenge": challenge["id"], "answer": solve(&challenge) });
    let redeem = |node| buyer(node, "bob").post(&format!("/api/v1/sales/{sale}/pass"), &answer).unwrap();
    let pass = text(&expect(201, &redeem(b))["pass"]);
    let again = redeem(c);
    assert_eq!((again.status, again.code().as_str()), (403, "challenge_failed"), "{}", again.text());
    let order = order_with(c, "bob", &sale, &pass);
    assert_eq!(text(&order["sale_id"]), sale);
}

fn a_ticket_has_one_place_and_a_pass_is_good_everywhere(
    trial: &Trial,
    a: SocketAddr,
    b: SocketAddr,
    c: SocketAddr,
) {
    let opens_at = Timestamp::now() + OPENS_IN;
    let sale = trial.merchant(0).publish_with(OfferTerms::default(), |sale| {
        sale["opens_at"] = opens_at.to_string().into();
        sale["gate"] = json!({ "waiting_room": true });
    });
    let nodes = [a, b, c];
    for node in nodes {
        until("the sale is announced", || look(node, &sale));
    }
    let tickets: Vec<String> = (0..PEOPLE)
        .map(|number| {
            let mut person = buyer(nodes[number % nodes.len()], &format!("person-{number}"));
            text(&expect(201, &person.post_nothing(&format!("/api/v1/sales/{sale}/tickets")).unwrap())["ticket"])
        })
        .collect();
    let shown = |node: SocketAddr, ticket: &str| {
        expect(200, &Client::new(node).get(&format!("/api/v1/sales/{sale}/tickets/{ticket}")).unwrap())
    };
    assert_eq!(shown(b, &tickets[0])["state"], "waiting", "A's ticket is known to B before the opening");
    until_open(trial, &sale);
    for ticket in &tickets {
        for node in nodes {
            until("an admitted ticket", || (shown(node, ticket)["state"] == "admitted").then_some(()));
        }
        let places = nodes.map(|node| shown(node, ticket)["place"].clone());
        assert!(places[0].is_u64() && places.iter().all(|place| *place == places[0]), "{places:?}");
    }
    let draws = nodes.map(|node| look(node, &sale).unwrap()["draw"].clone());
    assert!(draws[0]["seed"].is_string() && draws.iter().all(|draw| *draw == draws[0]), "{draws:?}");

    let turn = json!({ "ticket": tickets[0] });
    let redeem = |node| buyer(node, "person-0").post(&format!("/api/v1/sales/{sale}/pass"), &turn).unwrap();
    let pass = text(&expect(201, &redeem(b))["pass"]);
    assert_eq!(
        text(&expect(201, &redeem(a))["pass"]),
        pass,
        "a client whose answer was lost gets the same pass again"
    );
    order_with(c, "person-0", &sale, &pass);
    until("a turn is valid for one order only", || (redeem(a).status != 201).then_some(()));
}

fn until_open(trial: &Trial, sale: &str) {
    for node in trial.nodes() {
        until("the sale opens", || (look(node, sale)?["state"] == "open").then_some(()));
    }
}

fn order_with(node: SocketAddr, name: &str, sale: &str, pass: &str) -> Value {
    let headers = [("idempotency-key", "only"), ("penstock-pass", pass)];
    let path = format!("/api/v1/sales/{sale}/orders");
    expect(201, &buyer(node, name).send("POST", &path, &headers, Some(br#"{"quantity":1}"#)).unwrap())
}

#[test]
fn what_a_merchant_changes_on_one_node_is_seen_on_all_within_a_second() {
    let trial = Trial::start(RedisKind::Single);
    let mut merchant = trial.merchant(0);
    let sale = merchant.publish(OfferTerms::default());
    let all_show = |what: &str, wanted: &dyn Fn(&Value) -> bool| {
        within_a_second(what, || {
            trial.nodes().iter().all(|node| look(*node, &sale).is_some_and(|seen| wanted(&seen)))
        })
    };
    let published = all_show("the sale", &|seen| seen["state"] == "open");
    merchant.act(&sale, "pause", None);
    let paused = all_show("that it is paused", &|seen| seen["state"] == "paused");
    for (number, node) in trial.nodes().into_iter().enumerate() {
        let name = format!("hasty-{number}");
        let answer = buyer(node, &name).claim(&sale, 1, &name).unwrap();
        assert_eq!((answer.status, answer.code().as_str()), (409, "paused"), "{}", answer.text());
    }
    merchant.act(&sale, "resume", None);
    let resumed = all_show("that it goes on", &|seen| seen["state"] == "open");
    must_buy(trial.node(2), &sale, "ann", 1);
    let sold = all_show("that one is gone", &|seen| seen["stock"]["available"] == 99);
    trial.merchant(1).restock(&sale, 5);
    let restocked = all_show("that there are more", &|seen| seen["stock"]["total"] == 105);

    let item = text(&look(trial.node(1), &sale).unwrap()["item"]["id"]);
    let item_path = format!("/api/v1/items/{item}");
    let title = |node: &SocketAddr| Client::new(*node).get(&item_path).unwrap().json()["title"].clone();
    assert!(trial.nodes().iter().all(|node| title(node) == "A very good phone"));
    let change = json!({ "title": "An even better phone" }).to_string();
    let mut admin = Client::new(trial.node(0)).with_token(ADMIN_TOKEN);
    let changed = admin.send("PATCH", &format!("/api/v1/admin/items/{item}"), &[], Some(change.as_bytes()));
    expect(200, &changed.unwrap());
    let renamed = within_a_second("the item's new title, in the item and in its sale", || {
        let in_sale = |node: &SocketAddr| look(*node, &sale).map(|seen| seen["item"]["title"].clone());
        trial.nodes().iter().all(|node| {
            title(node) == "An even better phone" && in_sale(node) == Some("An even better phone".into())
        })
    });
    eprintln!(
        "seen on all nodes after: published {published:?}, paused {paused:?}, resumed {resumed:?}, sold {sold:?}, \
         restocked {restocked:?}, item changed {renamed:?}"
    );
}

#[test]
fn a_node_without_the_ledger_shows_no_sale_until_the_ledger_is_back() {
    let mut trial = Trial::start(RedisKind::Single);
    let sale = trial.publish(OfferTerms::default());
    trial.shop.redis.single().unwrap().kill().unwrap();
    for node in trial.nodes() {
        for path in [format!("/api/v1/sales/{sale}"), "/api/v1/sales".to_owned()] {
            until("the sale is taken off show", || {
                // The node notices when somebody wants to buy.
                drop(buyer(node, "ann").claim(&sale, 1, "ann"));
                let page = Client::new(node).get(&path).unwrap();
                (page.status == 503 && page.code() == "unavailable").then_some(())
            });
        }
        // Any sale may exist, and no cache may take this for a definite answer.
        for id in [sale.as_str(), "0123456789abc"] {
            let page = Client::new(node).get(&format!("/sales/{id}")).unwrap();
            assert_eq!((page.status, page.header("cache-control")), (200, Some("no-store")), "{id}");
        }
    }
    trial.shop.redis.single().unwrap().restart().unwrap();
    for node in trial.nodes() {
        until("the sale is on show again", || look(node, &sale));
    }
}

#[test]
fn all_nodes_pick_up_a_new_secret_and_nobody_is_signed_out() {
    let trial = Trial::start(RedisKind::Single);
    let phones = ["+8613800000002", "+8613800000003", "+8613800000004", "+8613800000005"];
    let first: Vec<String> = phones.iter().map(|phone| sign_up(trial.node(0), phone)).collect();
    let status =
        |node: SocketAddr, token: &str| Client::new(node).with_token(token).get("/api/v1/me").unwrap().status;
    let rotated = trial.run(&["admin", "rotate-secret"]).unwrap();
    assert!(rotated.status.success(), "{}{}", rotated.stdout, rotated.stderr);
    let again = trial.run(&["admin", "rotate-secret"]).unwrap();
    assert!(!again.status.success() && again.stderr.contains("wait ten seconds"), "{}", again.stderr);

    // The new secret signs after three seconds, and nobody is refused before, during or after that.
    let began = Instant::now();
    let mut newest = String::new();
    for (number, phone) in phones.iter().chain(&phones).enumerate() {
        let sign_in = json!({ "phone": phone, "password": PASSWORD });
        let session = Client::new(trial.node(number % 3)).post("/api/v1/sessions", &sign_in).unwrap();
        newest = text(&expect(201, &session)["token"]);
        for node in trial.nodes() {
            assert_eq!(status(node, &newest), 200, "after {:?}", began.elapsed());
            assert_eq!(status(node, &first[0]), 200, "somebody is signed out after {:?}", began.elapsed());
        }
        thread::sleep(Duration::from_millis(600));
    }

    // What the first secret signed ends with the second rotation; what the new one signed does not.
    until("the secret can be replaced again", || {
        trial.run(&["admin", "rotate-secret"]).unwrap().status.success().then_some(())
    });
    for node in trial.nodes() {
        until("the first secret is forgotten", || (status(node, &first[0]) == 401).then_some(()));
        assert_eq!(status(node, &newest), 200, "no node had signed with the new secret");
    }
}
