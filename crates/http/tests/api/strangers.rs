//! Strangers who try somebody's password, or request codes for somebody's phone, are slowed down; the owner
//! is not.

use std::{num::NonZeroU32, time::Duration};

use penstock_domain::Timestamp;
use penstock_gate::LimitOptions;
use penstock_http::ServerOptions;
use penstock_records::NewAccount;
use penstock_shop::identity::{Country, new_account};
use serde_json::{Value, json};

use crate::support::{Answer, START, Shop};

const PHONE: &str = "+8613800138000";
const PASSWORD: &str = "correct horse";
const OWNER: &str = "198.51.100.7";
const STRANGER: &str = "203.0.113.9";

/// A shop behind a proxy, so that requests can come from any address.
fn shop_behind_a_proxy(change: impl FnOnce(&mut ServerOptions)) -> Shop {
    Shop::open_with(|options| {
        options.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
        options.shop.identity.password_core_percent = 100;
        change(options);
    })
}

fn post(shop: &Shop, address: &str, cookie: Option<&str>, path: &str, body: &Value) -> Answer {
    let mut headers = vec![("content-type", "application/json"), ("x-forwarded-for", address)];
    headers.extend(cookie.map(|cookie| ("cookie", cookie)));
    shop.client().request("POST", path, &headers, body.to_string().as_bytes())
}

fn sign_in(shop: &Shop, address: &str, cookie: Option<&str>, password: &str) -> Answer {
    post(shop, address, cookie, "/api/v1/sessions", &json!({ "phone": PHONE, "password": password }))
}

fn ask_for_code(shop: &Shop, address: &str) -> Answer {
    post(shop, address, None, "/api/v1/otp", &json!({ "phone": PHONE }))
}

fn sign_up(shop: &Shop, address: &str, otp: &str) -> Answer {
    let body = json!({ "phone": PHONE, "otp": otp, "name": "Ann", "password": PASSWORD });
    post(shop, address, None, "/api/v1/accounts", &body)
}

/// The device cookie in this answer.
fn device_of(answer: &Answer) -> String {
    assert!(matches!(answer.status, 201 | 204), "{answer:?}");
    let cookies = answer.headers.iter().filter(|(name, _)| name == "set-cookie");
    let mut devices = cookies.map(|(_, value)| value).filter(|value| value.starts_with("penstock_device="));
    let device = devices.next().expect("a device that signs in is known from then on");
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/api/v1/sessions", "Max-Age=31536000"] {
        assert!(device.contains(attribute), "{device}");
    }
    device.split(';').next().unwrap().to_owned()
}

fn wrong(code: &str) -> &'static str {
    if code == "000000" { "000001" } else { "000000" }
}

#[test]
fn a_stranger_who_guesses_does_not_lock_the_owner_out() {
    let shop = shop_behind_a_proxy(|_| {});
    shop.account(PHONE, PASSWORD);
    let device = device_of(&sign_in(&shop, OWNER, None, PASSWORD));
    for _ in 0..10 {
        sign_in(&shop, STRANGER, None, "wrong horse").problem(401, "bad_credentials");
    }
    sign_in(&shop, STRANGER, None, "wrong horse").problem(429, "rate_limited");
    sign_in(&shop, STRANGER, None, PASSWORD).problem(429, "rate_limited");
    assert_eq!(sign_in(&shop, OWNER, None, PASSWORD).status, 201, "without the cookie, at home");
    assert_eq!(sign_in(&shop, "192.0.2.77", None, PASSWORD).status, 201, "a new device elsewhere");
    assert_eq!(sign_in(&shop, STRANGER, Some(&device), PASSWORD).status, 201, "a known device, even there");
    // A stranger who goes on with one guess every half minute is nearly always refused, and the owner never.
    let mut guesses = 0;
    for _ in 0..40 {
        shop.advance_seconds(30);
        guesses += u32::from(sign_in(&shop, STRANGER, None, "wrong horse").status == 401);
    }
    assert!(guesses <= 2, "{guesses} in twenty minutes");
    assert_eq!(sign_in(&shop, "192.0.2.78", None, PASSWORD).status, 201);
}

#[test]
fn all_strangers_share_one_allowance_of_guesses_and_known_devices_have_their_own() {
    let shop = shop_behind_a_proxy(|options| {
        let burst = NonZeroU32::new(6).unwrap();
        options.shop.identity.sign_in_by_phone =
            LimitOptions { burst, ..options.shop.identity.sign_in_by_phone };
        options.shop.identity.sign_in_by_device =
            LimitOptions { burst: NonZeroU32::new(3).unwrap(), ..options.shop.identity.sign_in_by_device };
    });
    shop.account(PHONE, PASSWORD);
    let device = device_of(&sign_in(&shop, OWNER, None, PASSWORD));
    let guesses = (1..=40)
        .filter(|host| sign_in(&shop, &format!("203.0.113.{host}"), None, "wrong horse").status == 401);
    assert_eq!(guesses.count(), 6, "of forty addresses");
    for _ in 0..5 {
        let again = sign_in(&shop, "203.0.113.99", Some(&device), PASSWORD);
        assert_eq!(again.status, 201, "right passwords use up nothing");
    }
    // A stolen device gains no more than one allowance.
    let guesses = (0..6).filter(|_| sign_in(&shop, OWNER, Some(&device), "wrong horse").status == 401);
    assert_eq!(guesses.count(), 3);
    let forged = device.replace('=', "=A");
    sign_in(&shop, "203.0.113.99", Some(&forged), PASSWORD).problem(429, "rate_limited");
}

#[test]
fn right_passwords_use_up_no_allowance() {
    let shop = shop_behind_a_proxy(|_| {});
    shop.account(PHONE, PASSWORD);
    for _ in 0..12 {
        assert_eq!(sign_in(&shop, OWNER, None, PASSWORD).status, 201);
    }
}

#[test]
fn one_account_has_one_allowance_for_work_however_many_devices_it_has() {
    let shop = shop_behind_a_proxy(|options| {
        let few = |limit| LimitOptions { burst: NonZeroU32::new(4).unwrap(), ..limit };
        options.shop.identity.sign_in_by_address = few(options.shop.identity.sign_in_by_address);
        options.shop.identity.sign_in_by_account = few(options.shop.identity.sign_in_by_account);
    });
    shop.account(PHONE, PASSWORD);
    let devices: Vec<String> = (1..=12)
        .map(|host| device_of(&sign_in(&shop, &format!("198.51.100.{host}"), None, PASSWORD)))
        .collect();
    let checked =
        devices.iter().filter(|device| sign_in(&shop, STRANGER, Some(device), PASSWORD).status == 201);
    assert_eq!(checked.count(), 8, "four as known devices, and four as strangers at the address");
    sign_in(&shop, STRANGER, Some(&devices[0]), PASSWORD).problem(429, "rate_limited");
    assert_eq!(sign_in(&shop, OWNER, Some(&devices[0]), PASSWORD).status, 201, "at home as a stranger");
}

#[test]
fn known_devices_of_an_account_share_one_allowance_of_wrong_passwords() {
    let shop = shop_behind_a_proxy(|options| {
        options.shop.identity.sign_in_by_phone =
            LimitOptions { burst: NonZeroU32::MIN, ..options.shop.identity.sign_in_by_phone };
    });
    shop.account(PHONE, PASSWORD);
    let devices: Vec<String> = (0..6).map(|_| device_of(&sign_in(&shop, OWNER, None, PASSWORD))).collect();
    let guess = |device: &String| sign_in(&shop, STRANGER, Some(device), "wrong horse").status == 401;
    let guesses = devices.iter().flat_map(|device| [device; 10]).filter(|device| guess(device));
    assert_eq!(guesses.count(), 30 + 1, "of sixty, one of them as a stranger");
}

#[test]
fn a_new_password_turns_all_devices_into_strangers() {
    let shop = shop_behind_a_proxy(|options| {
        let burst = NonZeroU32::new(3).unwrap();
        options.shop.identity.sign_in_by_phone =
            LimitOptions { burst, ..options.shop.identity.sign_in_by_phone };
    });
    let token = shop.account(PHONE, PASSWORD);
    let old = device_of(&sign_in(&shop, OWNER, None, PASSWORD));
    assert_eq!(sign_in(&shop, OWNER, Some(&old), PASSWORD).status, 201);
    shop.advance_seconds(1);
    let change = json!({ "current_password": PASSWORD, "new_password": "another horse" });
    let changed = shop.client().with_token(&token).json("PUT", "/api/v1/me/password", &change);
    assert_eq!(changed.status, 204, "{changed:?}");
    shop.advance_seconds(1);
    let new = device_of(&sign_in(&shop, OWNER, Some(&old), "another horse"));
    let guesses = (0..8).filter(|_| sign_in(&shop, STRANGER, Some(&old), "wrong horse").status == 401);
    assert_eq!(guesses.count(), 3, "the allowance of strangers");
    sign_in(&shop, OWNER, Some(&old), "another horse").problem(429, "rate_limited");
    let guesses = (0..8).filter(|_| sign_in(&shop, STRANGER, Some(&new), "wrong horse").status == 401);
    assert_eq!(guesses.count(), 8, "it counts as a new device, with a full allowance");
    assert_eq!(sign_in(&shop, OWNER, Some(&new), "another horse").status, 201);
}

#[test]
fn strangers_do_not_lock_an_owner_out_who_changes_the_password_because_of_them() {
    let shop = shop_behind_a_proxy(|options| {
        options.shop.identity.sign_in_by_phone =
            LimitOptions { burst: NonZeroU32::MIN, ..options.shop.identity.sign_in_by_phone };
    });
    // Stored in the old form of numbers.
    let account =
        new_account(PHONE, Country::default(), "Ann", PASSWORD, false, Timestamp::from_millis(START));
    let account = NewAccount { phone: PHONE.replace("+86", ""), ..account.unwrap() };
    shop.block_on(shop.records.create_account(account)).unwrap();
    let token = shop.sign_in(PHONE, PASSWORD);
    shop.advance_seconds(1);
    let change = json!({ "current_password": PASSWORD, "new_password": "another horse" });
    let changed = shop.client().with_token(&token).json("PUT", "/api/v1/me/password", &change);
    let device = device_of(&changed);
    sign_in(&shop, STRANGER, None, "wrong horse").problem(401, "bad_credentials");
    sign_in(&shop, OWNER, None, "another horse").problem(429, "rate_limited");
    assert_eq!(sign_in(&shop, OWNER, Some(&device), "another horse").status, 201);
}

#[test]
fn strangers_do_not_lock_out_a_person_who_has_just_signed_up() {
    let shop = shop_behind_a_proxy(|options| {
        options.shop.identity.sign_in_by_phone =
            LimitOptions { burst: NonZeroU32::MIN, ..options.shop.identity.sign_in_by_phone };
    });
    assert_eq!(ask_for_code(&shop, OWNER).status, 202);
    let device = device_of(&sign_up(&shop, OWNER, &shop.outbox.last_code(PHONE)));
    sign_in(&shop, STRANGER, None, "wrong horse").problem(401, "bad_credentials");
    sign_in(&shop, OWNER, None, PASSWORD).problem(429, "rate_limited");
    assert_eq!(sign_in(&shop, OWNER, Some(&device), PASSWORD).status, 201);
}

#[test]
fn a_stranger_does_not_keep_a_signed_in_person_from_a_new_password() {
    let shop = shop_behind_a_proxy(|options| {
        options.shop.identity.sign_in_by_phone =
            LimitOptions { burst: NonZeroU32::MIN, ..options.shop.identity.sign_in_by_phone };
    });
    let token = shop.account(PHONE, PASSWORD);
    sign_in(&shop, STRANGER, None, "wrong horse").problem(401, "bad_credentials");
    sign_in(&shop, "203.0.113.10", None, "wrong horse").problem(429, "rate_limited");
    let change = json!({ "current_password": PASSWORD, "new_password": "another horse" });
    let changed = shop.client().with_token(&token).json("PUT", "/api/v1/me/password", &change);
    assert_eq!(changed.status, 204, "{changed:?}");
}

#[test]
fn a_stolen_session_does_not_keep_the_owner_from_a_new_password() {
    let shop = shop_behind_a_proxy(|_| {});
    let [stolen, own] = [shop.account(PHONE, PASSWORD), shop.sign_in(PHONE, PASSWORD)];
    let change = |token: &str, current: &str| {
        let change = json!({ "current_password": current, "new_password": "another horse" });
        shop.client().with_token(token).json("PUT", "/api/v1/me/password", &change)
    };
    for _ in 0..10 {
        change(&stolen, "wrong horse").problem(401, "bad_credentials");
    }
    change(&stolen, "wrong horse").problem(429, "rate_limited");
    assert_eq!(change(&own, PASSWORD).status, 204);
}

#[test]
fn sign_ups_are_limited_by_address() {
    let shop = shop_behind_a_proxy(|options| {
        let burst = NonZeroU32::new(3).unwrap();
        options.shop.identity.sign_up_by_address =
            LimitOptions { burst, ..options.shop.identity.sign_up_by_address };
    });
    for _ in 0..3 {
        sign_up(&shop, STRANGER, "123456").problem(422, "otp_invalid");
    }
    sign_up(&shop, STRANGER, "123456").problem(429, "rate_limited");
    sign_up(&shop, OWNER, "123456").problem(422, "otp_invalid");
}

#[test]
fn a_stranger_who_requests_codes_keeps_nobody_from_signing_up() {
    let shop = shop_behind_a_proxy(|_| {});
    for _ in 0..5 {
        assert_eq!(ask_for_code(&shop, STRANGER).status, 202);
    }
    ask_for_code(&shop, STRANGER).problem(429, "rate_limited");
    assert_eq!(ask_for_code(&shop, OWNER).status, 202);
    let code = shop.outbox.last_code(PHONE);
    // Neither a code that somebody else requests nor wrong guesses spoil it.
    assert_eq!(ask_for_code(&shop, "203.0.113.10").status, 202);
    for host in 9..=20 {
        sign_up(&shop, &format!("203.0.113.{host}"), wrong(&code)).problem(422, "otp_invalid");
    }
    assert_eq!(sign_up(&shop, OWNER, &code).status, 201);
}

#[test]
fn half_of_a_phones_codes_are_reserved_for_two_to_each_address() {
    let shop = shop_behind_a_proxy(|_| {});
    for host in 1..=3 {
        for _ in 0..5 {
            ask_for_code(&shop, &format!("203.0.113.{host}"));
        }
    }
    assert_eq!(shop.outbox.count(), 12, "five for each of two addresses, and two for the third");
    assert_eq!(ask_for_code(&shop, OWNER).status, 202);
    assert_eq!(ask_for_code(&shop, OWNER).status, 202, "the first one may get lost on its way");
    ask_for_code(&shop, OWNER).problem(429, "rate_limited");
    let code = shop.outbox.last_code(PHONE);
    for host in 100..=200 {
        ask_for_code(&shop, &format!("203.0.113.{host}"));
    }
    assert_eq!(shop.outbox.count(), 20, "no phone gets more in an hour");
    assert_eq!(sign_up(&shop, OWNER, &code).status, 201);
}

#[test]
fn all_networks_of_an_ipv6_household_count_as_one_address_for_codes() {
    let shop = shop_behind_a_proxy(|_| {});
    for network in 0..20 {
        ask_for_code(&shop, &format!("2001:db8:0:{network:x}::1"));
    }
    assert_eq!(shop.outbox.count(), 5);
    assert_eq!(ask_for_code(&shop, "2001:db8:0:100::1").status, 202, "the neighbours");
}

#[test]
fn the_last_code_that_was_sent_can_be_used_from_another_network() {
    let shop = shop_behind_a_proxy(|_| {});
    ask_for_code(&shop, OWNER);
    let first = shop.outbox.last_code(PHONE);
    ask_for_code(&shop, "192.0.2.50");
    let last = shop.outbox.last_code(PHONE);
    if first != last {
        sign_up(&shop, "192.0.2.77", &first).problem(422, "otp_invalid");
    }
    assert_eq!(sign_up(&shop, "192.0.2.77", &last).status, 201);
    sign_up(&shop, OWNER, &first).problem(422, "otp_invalid");
}

#[test]
fn all_other_networks_together_have_few_guesses_at_a_code() {
    let shop = shop_behind_a_proxy(|_| {});
    ask_for_code(&shop, OWNER);
    let code = shop.outbox.last_code(PHONE);
    for host in 1..=5 {
        sign_up(&shop, &format!("203.0.113.{host}"), wrong(&code)).problem(422, "otp_invalid");
    }
    sign_up(&shop, "203.0.113.6", &code).problem(422, "otp_invalid");
    assert_eq!(sign_up(&shop, OWNER, &code).status, 201, "its own address still has its tries");
}

#[test]
fn a_wrong_code_costs_no_hash_and_a_right_one_survives_a_busy_answer() {
    let shop = Shop::open_with(|options| options.shop.identity.password_hashes_waiting = 0);
    assert_eq!(shop.client().post("/api/v1/otp", &json!({ "phone": PHONE })).status, 202);
    let code = shop.outbox.last_code(PHONE);
    let body = json!({ "phone": PHONE, "otp": code, "name": "Ann", "password": PASSWORD });
    sign_up(&shop, OWNER, wrong(&code)).problem(422, "otp_invalid");
    shop.client().post("/api/v1/accounts", &body).problem(503, "busy");
    let shop = shop.reopen();
    assert_eq!(shop.client().post("/api/v1/accounts", &body).status, 201);
}

#[test]
fn a_password_that_will_not_be_checked_costs_no_look_up() {
    let shop = Shop::open_with(|options| options.shop.identity.password_hashes_waiting = 0);
    shop.block_on(shop.records.close());
    sign_in(&shop, OWNER, None, PASSWORD).problem(503, "busy");
}

#[test]
fn a_new_password_that_will_not_be_hashed_costs_no_look_up() {
    let shop = Shop::open();
    let token = shop.account(PHONE, PASSWORD);
    let full = shop.reopen_with(|options| options.shop.identity.password_hashes_waiting = 0);
    full.block_on(full.records.close());
    let change = json!({ "current_password": PASSWORD, "new_password": "another horse" });
    for _ in 0..40 {
        let answer = full.client().with_token(&token).json("PUT", "/api/v1/me/password", &change);
        answer.problem(503, "busy");
    }
}

#[test]
fn a_limit_of_an_hour_ends_after_an_hour() {
    let shop = shop_behind_a_proxy(|options| {
        let once =
            LimitOptions { burst: NonZeroU32::MIN, one_per: Duration::from_secs(3600), max_keys: 1_000 };
        options.shop.identity.sign_in_by_phone_and_address = once;
    });
    shop.account(PHONE, PASSWORD);
    sign_in(&shop, STRANGER, None, "wrong horse").problem(401, "bad_credentials");
    let refused = sign_in(&shop, STRANGER, None, PASSWORD);
    refused.problem(429, "rate_limited");
    let seconds = refused.header("retry-after").unwrap().parse::<i64>().unwrap();
    shop.advance_seconds(seconds);
    assert_eq!(sign_in(&shop, STRANGER, None, PASSWORD).status, 201);
}
