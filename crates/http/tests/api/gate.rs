//! Challenges and passes: who may order, and what happens to everybody else.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
    time::Duration,
};

use penstock_domain::{BuyerId, Timestamp};
use penstock_gate::{KeyRing, issue_pass, solves};
use penstock_shop::Secrets;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::{Answer, Client, START, Shop, new_key, until};

const PASS_SECONDS: i64 = 120;

fn gated(shop: &Shop, units: u32, gate: Value) -> String {
    shop.published(|sale| {
        sale["units"] = units.into();
        sale["gate"] = gate;
    })
}

fn with_pass(shop: &Shop, units: u32) -> String {
    gated(shop, units, json!({ "pass_required": true }))
}

fn ask_pass(client: &mut Client, sale: &str, body: &Value) -> Answer {
    client.post(&format!("/api/v1/sales/{sale}/pass"), body)
}

/// Gets a pass for a sale that has only passes, without a challenge or a waiting room.
#[track_caller]
fn pass(client: &mut Client, sale: &str) -> String {
    let answer = ask_pass(client, sale, &json!({}));
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()["pass"].as_str().unwrap().to_owned()
}

fn order(client: &mut Client, sale: &str, pass: &str, key: &str) -> Answer {
    let headers = [("content-type", "application/json"), ("idempotency-key", key), ("penstock-pass", pass)];
    client.request("POST", &format!("/api/v1/sales/{sale}/orders"), &headers, br#"{"quantity":1}"#)
}

fn challenge(client: &mut Client, sale: &str) -> Value {
    let answer = client.post_empty(&format!("/api/v1/sales/{sale}/challenge"));
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()
}

fn solve(challenge: &Value) -> String {
    let (salt, difficulty) =
        (challenge["salt"].as_str().unwrap(), challenge["difficulty"].as_u64().unwrap() as u8);
    (0u64..).map(|number| number.to_string()).find(|answer| solves(salt, answer, difficulty)).unwrap()
}

fn solved(challenge: &Value) -> Value {
    json!({ "challenge": challenge["id"], "answer": solve(challenge) })
}

#[test]
fn an_order_with_a_pass_is_accepted_and_one_without_is_not() {
    let shop = Shop::open();
    let sale = with_pass(&shop, 10);
    let mut ann = shop.buyer("ann");
    let before = shop.ledger.stats().commands;
    ann.order(&sale, 1, &new_key()).problem(403, "pass_required");
    assert_eq!(shop.ledger.stats().commands, before, "the ledger was asked");
    let pass = pass(&mut ann, &sale);
    assert_eq!(order(&mut ann, &sale, &pass, &new_key()).status, 201);
    assert_eq!(shop.counted("pass_required"), 1);
}

#[test]
fn a_forged_pass_is_refused_and_the_ledger_never_sees_it() {
    let shop = Shop::open();
    let sale = with_pass(&shop, 100);
    let other_sale = with_pass(&shop, 100);
    let (mut ann, mut bob) = (shop.buyer("ann"), shop.buyer("bob"));
    let good = pass(&mut ann, &sale);
    let mut wrong = vec![
        pass(&mut bob, &sale),
        pass(&mut ann, &other_sale),
        String::from("nonsense"),
        format!("{good}A"),
        good.to_uppercase(),
    ];
    wrong.extend((0..good.len()).map(|length| good[..length].to_owned()).filter(|cut| !cut.is_empty()));
    // Each bit of each character, unless a header can't carry the result.
    for place in 0..good.len() {
        for bit in 0..7 {
            let mut bytes = good.clone().into_bytes();
            bytes[place] ^= 1 << bit;
            wrong.extend(
                String::from_utf8(bytes).ok().filter(|text| text.bytes().all(|b| b.is_ascii_graphic())),
            );
        }
    }
    let before = shop.ledger.stats().commands;
    let asked = wrong.len() as u64;
    assert!(asked > 250);
    for wrong in wrong {
        // Too many wrong passes in a row would be limited, so let time pass.
        shop.clock.fetch_add(60, Relaxed);
        order(&mut ann, &sale, &wrong, &new_key()).problem(403, "pass_invalid");
    }
    shop.advance_seconds(PASS_SECONDS);
    order(&mut ann, &sale, &good, &new_key()).problem(403, "pass_invalid");
    assert_eq!(shop.ledger.stats().commands, before, "the ledger was asked");
    assert_eq!(shop.counted("pass_invalid"), asked + 1);
    let fresh = pass(&mut ann, &sale);
    assert_eq!(order(&mut ann, &sale, &fresh, &new_key()).status, 201);
}

#[test]
fn a_retry_gets_its_order_after_the_pass_has_expired_but_no_new_order_is_possible() {
    let shop = Shop::open();
    let sale = with_pass(&shop, 10);
    let mut ann = shop.buyer("ann");
    let pass = pass(&mut ann, &sale);
    let key = new_key();
    let first = order(&mut ann, &sale, &pass, &key);
    assert_eq!(first.status, 201);
    shop.advance_seconds(PASS_SECONDS + 1);
    assert_eq!(order(&mut ann, &sale, &pass, &key).body, first.body);
    assert_eq!(ann.order(&sale, 1, &key).body, first.body, "without any pass");
    order(&mut ann, &sale, &pass, &new_key()).problem(403, "pass_invalid");
    let stats = shop.admin().get(&format!("/api/v1/admin/sales/{sale}/stats")).json();
    assert_eq!(stats["available"], 9);
}

#[test]
fn a_cookie_session_needs_a_pass_too() {
    let shop = Shop::open();
    let sale = with_pass(&shop, 10);
    let token = shop.account("+8613800138000", "a long password");
    let cookie = format!("penstock_session={token}");
    let mut client = shop.client();
    let path = format!("/api/v1/sales/{sale}/orders");
    let ask = |client: &mut Client, pass: Option<&str>| {
        let key = new_key();
        let mut headers =
            vec![("content-type", "application/json"), ("idempotency-key", &*key), ("cookie", &*cookie)];
        headers.extend(pass.map(|pass| ("penstock-pass", pass)));
        client.request("POST", &path, &headers, br#"{"quantity":1}"#)
    };
    ask(&mut client, None).problem(403, "pass_required");
    ask(&mut client, Some("psp_nonsense")).problem(403, "pass_invalid");
    let pass = pass(&mut shop.client().with_token(&token), &sale);
    assert_eq!(ask(&mut client, Some(&pass)).status, 201);
}

#[test]
fn passes_are_limited_to_a_multiple_of_the_remaining_units() {
    let shop = Shop::open();
    let sale = with_pass(&shop, 1);
    let name = |number: usize| format!("buyer-{number}");
    let passes: Vec<String> = (0..5).map(|number| pass(&mut shop.buyer(&name(number)), &sale)).collect();
    let late = || ask_pass(&mut shop.buyer("late"), &sale, &json!({}));
    late().problem(409, "passes_exhausted");
    assert_eq!(pass(&mut shop.buyer(&name(2)), &sale), passes[2], "a buyer who has one gets the same again");

    // Restocking makes room for five more.
    let restock = format!("/api/v1/admin/sales/{sale}/restock");
    assert_eq!(shop.admin().post(&restock, &json!({ "units": 1 })).status, 200);
    for number in 5..10 {
        pass(&mut shop.buyer(&name(number)), &sale);
    }
    late().problem(409, "passes_exhausted");

    // Both units are bought: sold out. Then one comes back: 8 passes are out, 5 are allowed.
    let held = order(&mut shop.buyer(&name(0)), &sale, &passes[0], &new_key());
    assert_eq!(held.status, 201);
    assert_eq!(order(&mut shop.buyer(&name(1)), &sale, &passes[1], &new_key()).status, 201);
    late().problem(409, "sold_out");
    let cancel = format!("/api/v1/orders/{}/cancel", held.json()["id"].as_str().unwrap());
    assert_eq!(shop.buyer(&name(0)).post_empty(&cancel).status, 200);
    late().problem(409, "passes_exhausted");

    // Nobody has used theirs: they return at their deadline.
    shop.advance_seconds(PASS_SECONDS);
    assert_eq!(late().status, 201);
}

#[test]
fn a_hundred_people_at_once_get_no_more_passes_than_there_are() {
    let shop = Shop::open();
    let sale = with_pass(&shop, 4);
    let statuses: Vec<u16> = thread::scope(|scope| {
        let asking: Vec<_> = (0..100)
            .map(|number| {
                let (shop, sale) = (&shop, &sale);
                scope.spawn(move || ask_pass(&mut shop.buyer(&format!("b{number}")), sale, &json!({})).status)
            })
            .collect();
        asking.into_iter().map(|asking| asking.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 20);
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 80);
}

#[test]
fn a_pass_is_given_only_while_the_sale_is_open() {
    let shop = Shop::open();
    let sale = shop.published(|sale| {
        sale["opens_at"] = "2027-01-15T08:01:00Z".into();
        sale["gate"] = json!({ "pass_required": true });
    });
    let mut ann = shop.buyer("ann");
    let none = json!({});
    ask_pass(&mut ann, &sale, &none).problem(409, "not_open");
    shop.advance_seconds(60);
    assert_eq!(ask_pass(&mut ann, &sale, &none).status, 201);
    shop.steer(&sale, "pause");
    ask_pass(&mut ann, &sale, &none).problem(409, "paused");
    shop.steer(&sale, "close");
    ask_pass(&mut ann, &sale, &none).problem(409, "closed");
    ask_pass(&mut shop.client(), &sale, &none).problem(401, "unauthorized");
    ask_pass(&mut shop.admin(), &sale, &none).problem(403, "forbidden");
    ask_pass(&mut ann, &"0".repeat(13), &none).problem(404, "sale_not_found");
    ask_pass(&mut ann, &shop.sale(1), &none).problem(409, "not_gated");
    ask_pass(&mut ann, &sale, &json!({ "nonsense": 1 })).names_field("nonsense");
}

#[test]
fn a_proof_of_work_leads_to_a_pass_once() {
    let shop = Shop::open();
    let sale = gated(&shop, 10, json!({ "challenge": "pow" }));
    let view = shop.client().get(&format!("/api/v1/sales/{sale}")).json();
    assert_eq!(view["gate"], json!({ "challenge": "pow", "waiting_room": false, "pass_required": true }));
    let mut ann = shop.buyer("ann");
    let given = challenge(&mut ann, &sale);
    assert_eq!((&given["kind"], &given["algorithm"]), (&json!("pow"), &json!("sha256")));
    assert_eq!(given["expires_at"], "2027-01-15T08:02:00.000Z");
    let solved = solved(&given);
    let answer = ask_pass(&mut ann, &sale, &solved);
    assert_eq!(answer.status, 201, "{answer:?}");
    let pass = answer.json()["pass"].as_str().unwrap().to_owned();
    assert_eq!(order(&mut ann, &sale, &pass, &new_key()).status, 201);
    ask_pass(&mut ann, &sale, &solved).problem(403, "challenge_failed");
    let next = challenge(&mut ann, &sale);
    let number: u64 = solve(&next).parse().unwrap();
    let as_number = json!({ "challenge": next["id"], "answer": number });
    assert_eq!(ask_pass(&mut ann, &sale, &as_number).status, 201, "a number is accepted, too");
    ask_pass(&mut ann, &sale, &json!({ "challenge": next["id"], "answer": [1] })).names_field("answer");
}

#[test]
fn a_challenge_is_valid_only_for_its_buyer_and_its_sale_and_for_a_while() {
    let shop = Shop::open();
    let sale = gated(&shop, 10, json!({ "challenge": "pow" }));
    let other_sale = gated(&shop, 10, json!({ "challenge": "pow" }));
    let (mut ann, mut bob) = (shop.buyer("ann"), shop.buyer("bob"));
    let given = challenge(&mut ann, &sale);
    let solved_by_ann = solved(&given);
    ask_pass(&mut bob, &sale, &solved_by_ann).problem(403, "challenge_failed");
    ask_pass(&mut ann, &other_sale, &solved_by_ann).problem(403, "challenge_failed");
    ask_pass(&mut ann, &sale, &json!({})).problem(403, "challenge_failed");
    ask_pass(&mut ann, &sale, &json!({ "challenge": given["id"] })).problem(403, "challenge_failed");
    let forged = json!({ "challenge": "nonsense", "answer": "1" });
    ask_pass(&mut ann, &sale, &forged).problem(403, "challenge_failed");
    assert_eq!(ask_pass(&mut ann, &sale, &solved_by_ann).status, 201, "others have not used it up");
    let stale = solved(&challenge(&mut ann, &sale));
    shop.advance_seconds(121);
    ask_pass(&mut ann, &sale, &stale).problem(403, "challenge_failed");
    assert_eq!(shop.counted("challenge_failed"), 6);
}

#[test]
fn a_wrong_answer_uses_up_the_challenge() {
    let shop = Shop::open();
    let sale = gated(&shop, 10, json!({ "challenge": "pow" }));
    let mut ann = shop.buyer("ann");
    let given = challenge(&mut ann, &sale);
    let right = solve(&given);
    let (salt, bits) = (given["salt"].as_str().unwrap(), given["difficulty"].as_u64().unwrap() as u8);
    let wrong = (0u64..).map(|n| format!("w{n}")).find(|answer| !solves(salt, answer, bits)).unwrap();
    let ask = |client: &mut Client, answer: &str| {
        ask_pass(client, &sale, &json!({ "challenge": given["id"], "answer": answer }))
    };
    ask(&mut ann, &wrong).problem(403, "challenge_failed");
    ask(&mut ann, &right).problem(403, "challenge_failed");
}

#[test]
fn of_a_hundred_parallel_uses_of_a_challenge_exactly_one_wins() {
    let shop = Shop::open();
    let sale = gated(&shop, 100, json!({ "challenge": "pow" }));
    let solved = solved(&challenge(&mut shop.buyer("ann"), &sale));
    let answers: Vec<Answer> = thread::scope(|scope| {
        let using: Vec<_> =
            (0..100).map(|_| scope.spawn(|| ask_pass(&mut shop.buyer("ann"), &sale, &solved))).collect();
        using.into_iter().map(|using| using.join().unwrap()).collect()
    });
    let (won, lost): (Vec<&Answer>, Vec<&Answer>) = answers.iter().partition(|answer| answer.status == 201);
    assert_eq!(won.len(), 1);
    for answer in lost {
        answer.problem(403, "challenge_failed");
    }
}

#[test]
fn a_challenge_from_before_a_restart_counts_as_used() {
    let shop = Shop::open();
    let sale = gated(&shop, 10, json!({ "challenge": "pow" }));
    let solved = solved(&challenge(&mut shop.buyer("ann"), &sale));
    assert_eq!(ask_pass(&mut shop.buyer("ann"), &sale, &solved).status, 201);
    shop.advance_seconds(1);
    let shop = shop.reopen();
    ask_pass(&mut shop.buyer("ann"), &sale, &solved).problem(403, "challenge_failed");
}

#[test]
fn a_captcha_is_a_picture_or_a_proof_of_work_on_request() {
    let shop = Shop::open_with(|options| options.shop.gate.captcha_pool = 10);
    let sale = gated(&shop, 10, json!({ "challenge": "captcha" }));
    let mut ann = shop.buyer("ann");
    let path = format!("/api/v1/sales/{sale}/challenge");
    // The first picture is drawn when the sale is published. Until it is ready the answer is a proof of work.
    let given = until("a captcha", || {
        thread::sleep(Duration::from_millis(50));
        let given = ann.post(&path, &json!({ "kind": "captcha" }));
        assert_eq!(given.status, 201, "{given:?}");
        Some(given.json()).filter(|given| given["kind"] == "captcha")
    });
    assert!(given["image"].as_str().unwrap().starts_with("data:image/png;base64,iVBORw0KGgo"));
    assert!(given.get("salt").is_none());
    let wrong = json!({ "challenge": given["id"], "answer": "?????" });
    ask_pass(&mut ann, &sale, &wrong).problem(403, "challenge_failed");

    let work = ann.post(&path, &json!({ "kind": "pow" }));
    assert_eq!(work.status, 201, "{work:?}");
    let work = work.json();
    assert_eq!(work["kind"], "pow");
    assert_eq!(ask_pass(&mut ann, &sale, &solved(&work)).status, 201);
    ann.post(&path, &json!({ "kind": "song" })).names_field("kind");
}

/// Somebody takes challenge after challenge and keeps the pictures, to have their answers ready for the sale.
#[test]
fn a_collector_of_captchas_hardly_ever_sees_a_picture_twice() {
    const CHALLENGES: usize = 150;
    let shop = Shop::open_with(|options| options.shop.gate.captcha_pool = 10);
    let sale = gated(&shop, 10, json!({ "challenge": "captcha" }));
    let path = format!("/api/v1/sales/{sale}/challenge");
    let mut shown: HashMap<String, usize> = HashMap::new();
    let mut given = 0;
    let mut work = None;
    for ask in 0.. {
        let answer = shop.buyer(&format!("collector {}", ask % 50)).post_empty(&path);
        assert_eq!(answer.status, 201, "nobody is refused for lack of pictures: {answer:?}");
        let challenge = answer.json();
        if challenge["kind"] == "captcha" {
            *shown.entry(challenge["image"].as_str().unwrap().to_owned()).or_default() += 1;
            given += 1;
        } else {
            assert_eq!(challenge["kind"], "pow");
            work = Some((ask % 50, challenge));
            thread::sleep(Duration::from_millis(20));
        }
        if given == CHALLENGES {
            break;
        }
        assert!(ask < 5_000, "only {given} challenges");
        // The simulated clock, by which a picture is shown for a few seconds only.
        shop.advance_seconds(i64::from(ask % 10 == 9));
    }
    assert!(shown.values().all(|times| *times <= 4), "{:?}", shown.values());
    assert!(shown.len() >= CHALLENGES / 4, "{} pictures for {CHALLENGES} challenges", shown.len());
    let (buyer, work) = work.expect("more were requested than drawn");
    let mut buyer = shop.buyer(&format!("collector {buyer}"));
    assert_eq!(ask_pass(&mut buyer, &sale, &solved(&work)).status, 201);
}

#[test]
fn a_sale_without_a_challenge_gives_none() {
    let shop = Shop::open();
    let mut ann = shop.buyer("ann");
    for sale in [shop.sale(1), with_pass(&shop, 1)] {
        ann.post_empty(&format!("/api/v1/sales/{sale}/challenge")).problem(409, "not_gated");
    }
}

#[test]
fn a_gate_that_makes_no_sense_is_refused() {
    let shop = Shop::open();
    let draft = |gate: Value| {
        let mut request = shop.sale_request();
        request["gate"] = gate;
        shop.admin().post("/api/v1/admin/sales", &request)
    };
    draft(json!({ "challenge": "riddle" })).names_field("gate.challenge");
    draft(json!({ "challenge": "pow", "pass_required": false })).names_field("gate.pass_required");
    draft(json!({ "waiting_room": true, "pass_required": false })).names_field("gate.pass_required");
    draft(json!({ "moat": true })).names_field("gate.moat");
    let plain = draft(json!({})).json();
    assert_eq!(plain["gate"], json!({ "challenge": "none", "waiting_room": false, "pass_required": false }));
}

#[test]
fn only_a_buyer_who_sends_too_many_requests_is_slowed_down() {
    let shop = Shop::open_with(|options| options.shop.gate.by_buyer.burst = 5.try_into().unwrap());
    let sale = shop.published(|sale| sale["limit_per_buyer"] = 100.into());
    let mut ann = shop.buyer("ann");
    for _ in 0..5 {
        assert_eq!(ann.order(&sale, 1, &new_key()).status, 201);
    }
    let refused = ann.order(&sale, 1, &new_key());
    refused.problem(429, "rate_limited");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(shop.buyer("bob").order(&sale, 1, &new_key()).status, 201);
    shop.advance_seconds(1);
    assert_eq!(ann.order(&sale, 1, &new_key()).status, 201);
    assert_eq!(shop.counted("rate_limited"), 1);
}

#[test]
fn requests_over_the_limits_of_the_node_or_the_ledger_are_told_to_come_back() {
    let shop = Shop::open_with(|options| options.shop.gate.into_ledger.burst = 3.try_into().unwrap());
    let sale = shop.sale(10);
    for number in 0..3 {
        assert_eq!(shop.buyer(&format!("b{number}")).order(&sale, 1, &new_key()).status, 201);
    }
    let refused = shop.buyer("late").order(&sale, 1, &new_key());
    refused.problem(503, "busy");
    assert_eq!(refused.header("retry-after"), Some("1"));

    let shop = Shop::open_with(|options| options.shop.gate.by_node.burst = 3.try_into().unwrap());
    let sale = shop.sale(10);
    for number in 0..3 {
        assert_eq!(shop.buyer(&format!("b{number}")).order(&sale, 1, &new_key()).status, 201);
    }
    shop.buyer("late").order(&sale, 1, &new_key()).problem(429, "rate_limited");
}

#[test]
fn a_new_secret_invalidates_no_token_in_use() {
    let secrets = |current: u8, previous: Option<u8>| Secrets {
        current: [current; 32],
        previous: previous.map(|previous| [previous; 32]),
    };
    let (rotate, told) = watch::channel(secrets(1, None));
    let shop = Shop::open_with(|options| options.shop.secrets = told);
    let sale = with_pass(&shop, 100);
    let token = shop.account("+8613800138000", "a long password");
    let mut account = shop.client().with_token(&token);
    let mut ann = shop.buyer("ann");
    let signed_with = |secret: u8, pass: &str| {
        let deadline = Timestamp::from_millis(START + PASS_SECONDS * 1000);
        let (sale, buyer) = (sale.parse().unwrap(), BuyerId::of_subject("ann").unwrap());
        issue_pass(&KeyRing::new(&[secret; 32], None), sale, &buyer, deadline) == pass
    };
    let old = pass(&mut ann, &sale);
    assert!(signed_with(1, &old));

    rotate.send(secrets(2, Some(1))).unwrap();
    let new = until("the new secret signs", || Some(pass(&mut ann, &sale)).filter(|new| *new != old));
    assert!(signed_with(2, &new));
    assert_eq!(order(&mut ann, &sale, &old, &new_key()).status, 201);
    assert_eq!(account.get("/api/v1/me").status, 200);

    rotate.send(secrets(3, Some(2))).unwrap();
    until("two rotations end what the first secret signed", || {
        Some(()).filter(|()| account.get("/api/v1/me").status == 401)
    });
    order(&mut ann, &sale, &old, &new_key()).problem(403, "pass_invalid");
}

#[test]
fn a_retry_of_an_earlier_order_does_not_use_the_current_pass() {
    let shop = Shop::open();
    let sale = with_pass(&shop, 10);
    let mut ann = shop.buyer("ann");
    let live = || {
        let stats = shop.admin().get(&format!("/api/v1/admin/sales/{sale}/stats")).json();
        stats["passes_live"].as_u64().unwrap()
    };
    let (first_pass, key) = (pass(&mut ann, &sale), new_key());
    assert_eq!(live(), 1);
    assert_eq!(order(&mut ann, &sale, &first_pass, &key).status, 201);
    assert_eq!(live(), 0, "it is used");
    let second_pass = pass(&mut ann, &sale);
    assert_eq!(live(), 1);
    assert_eq!(order(&mut ann, &sale, &second_pass, &key).status, 201, "a retry");
    assert_eq!(live(), 1, "the second pass can still be used");
}

#[test]
fn an_order_uses_its_pass_even_if_the_ledgers_clock_is_behind() {
    let shop = Shop::open_with(|options| {
        let clock = options.shop.clock.clone();
        options.shop.clock = Arc::new(move || match std::thread::current().name() {
            Some("ledger-writer") => clock().plus_millis(-10_000),
            _ => clock(),
        });
    });
    let sale = with_pass(&shop, 10);
    let mut ann = shop.buyer("ann");
    let pass = pass(&mut ann, &sale);
    let ordered = order(&mut ann, &sale, &pass, &new_key());
    assert_eq!(ordered.status, 201);
    let stats = shop.admin().get(&format!("/api/v1/admin/sales/{sale}/stats")).json();
    assert_eq!(stats["passes_live"], 0, "{stats}");
}

/// Orders from the given address, as if through a proxy on this machine.
fn order_from(shop: &Shop, sale: &str, buyer: &str, address: &str) -> Answer {
    let key = new_key();
    let headers =
        [("content-type", "application/json"), ("idempotency-key", &*key), ("x-forwarded-for", address)];
    let path = format!("/api/v1/sales/{sale}/orders");
    shop.buyer(buyer).request("POST", &path, &headers, br#"{"quantity":1}"#)
}

#[test]
fn an_address_over_its_limit_takes_nothing_from_others() {
    let shop = Shop::open_with(|options| {
        options.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
        options.shop.gate.by_address.burst = 2.try_into().unwrap();
        options.shop.gate.by_node.burst = 5.try_into().unwrap();
    });
    let sale = shop.sale(100);
    for number in 0..20 {
        let answer = order_from(&shop, &sale, &format!("flood-{number}"), "192.0.2.1");
        assert_eq!(answer.status, if number < 2 { 201 } else { 429 }, "{number}");
    }
    assert_eq!(order_from(&shop, &sale, "ann", "192.0.2.2").status, 201);
    let metrics = shop.client().get("/metrics").text();
    assert!(metrics.contains("penstock_gate_refusals_total{reason=\"address\"} 18"), "{metrics}");
    assert!(metrics.contains("penstock_gate_refusals_total{reason=\"node\"} 0"), "{metrics}");
}
