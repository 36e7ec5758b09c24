//! One-time codes, registering, signing in and out, passwords.

use std::time::{Duration, Instant};

use penstock_domain::Timestamp;
use penstock_shop::identity::{Country, new_account};
use serde_json::json;

use crate::support::{Client, START, Shop, new_key};

const PHONE: &str = "+8613800138000";
const PASSWORD: &str = "correct horse";

#[test]
fn a_buyer_registers_signs_in_and_buys() {
    let shop = Shop::open();
    let sale = shop.sale(5);
    let token = shop.account(PHONE, PASSWORD);
    let mut ann = shop.client().with_token(&token);
    let me = ann.get("/api/v1/me").json();
    let account = me["account"]["id"].as_str().unwrap();
    assert_eq!(
        me,
        json!({ "buyer": format!("account:{account}"), "role": "buyer", "account": { "id": account,
            "phone": PHONE, "name": "Ann", "admin": false, "created_at": "2027-01-15T08:00:00.000Z" } })
    );
    ann.buy(&sale);
}

#[test]
fn the_session_is_also_sent_as_a_cookie() {
    let shop = Shop::open();
    let sale = shop.sale(5);
    shop.account(PHONE, PASSWORD);
    let answer = shop.client().post("/api/v1/sessions", &json!({ "phone": PHONE, "password": PASSWORD }));
    assert_eq!(answer.json()["expires_at"], "2027-02-14T08:00:00.000Z");
    let cookie = answer.header("set-cookie").unwrap();
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    let known =
        |(name, value): &(String, String)| name == "set-cookie" && value.starts_with("penstock_signed_in=1;");
    let hint = answer.headers.iter().find(|header| known(header)).map(|(_, value)| value.as_str()).unwrap();
    assert!(!hint.contains("HttpOnly"), "pages can see that there is a session: {hint}");
    let cookie = cookie.split(';').next().unwrap();
    let mut browser = shop.client();
    let path = format!("/api/v1/sales/{sale}/orders");
    let mut order = |site: &[(&str, &str)]| {
        let key = new_key();
        let mut headers =
            vec![("cookie", cookie), ("content-type", "application/json"), ("idempotency-key", &key)];
        headers.extend_from_slice(site);
        browser.request("POST", &path, &headers, b"{\"quantity\":1}")
    };
    assert_eq!(order(&[("sec-fetch-site", "same-origin")]).status, 201);
    assert_eq!(order(&[("origin", "http://shop.example")]).status, 201);
    order(&[("sec-fetch-site", "cross-site")]).problem(403, "cross_site");
    order(&[("origin", "https://evil.example")]).problem(403, "cross_site");
    order(&[("referer", "https://evil.example/")]).problem(403, "cross_site");
    let headers = [("cookie", cookie), ("sec-fetch-site", "cross-site")];
    assert_eq!(browser.request("GET", "/api/v1/me", &headers, b"").status, 200, "reading is harmless");
}

#[test]
fn cookies_are_secure_if_configured() {
    let shop = Shop::open_with(|options| options.secure_cookies = true);
    shop.account(PHONE, PASSWORD);
    let answer = shop.client().post("/api/v1/sessions", &json!({ "phone": PHONE, "password": PASSWORD }));
    assert!(answer.header("set-cookie").unwrap().ends_with("; Secure"));
}

#[test]
fn cookies_are_secure_where_a_trusted_proxy_was_reached_by_https() {
    let behind = |proxies: &str| {
        let proxies = vec![proxies.parse().unwrap()];
        let shop = Shop::open_with(|options| options.trusted_proxies = proxies);
        shop.account(PHONE, PASSWORD);
        shop
    };
    let sign_in = |shop: &Shop, proto: &str| {
        let headers = [("content-type", "application/json"), ("x-forwarded-proto", proto)];
        let body = json!({ "phone": PHONE, "password": PASSWORD }).to_string();
        let answer = shop.client().request("POST", "/api/v1/sessions", &headers, body.as_bytes());
        answer.header("set-cookie").unwrap().to_owned()
    };
    let shop = behind("127.0.0.0/8");
    let cookie = sign_in(&shop, "https");
    assert!(cookie.ends_with("; Secure"), "{cookie}");
    assert!(!sign_in(&shop, "http").contains("Secure"));
    let session = cookie.split(';').next().unwrap();
    let headers = [("cookie", session), ("x-forwarded-proto", "https")];
    let gone = shop.client().request("DELETE", "/api/v1/sessions/current", &headers, b"");
    assert!(gone.header("set-cookie").unwrap().ends_with("Max-Age=0; Secure"), "{gone:?}");
    assert!(!sign_in(&behind("10.0.0.0/8"), "https").contains("Secure"), "anybody can send that header");
}

#[test]
fn no_other_site_can_sign_a_visitor_in() {
    let shop = Shop::open();
    shop.account(PHONE, PASSWORD);
    let body = json!({ "phone": PHONE, "password": PASSWORD }).to_string();
    let sign_in = |site: (&str, &str)| {
        let headers = [("content-type", "application/json"), site];
        shop.client().request("POST", "/api/v1/sessions", &headers, body.as_bytes())
    };
    for site in [("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")] {
        let answer = sign_in(site);
        answer.problem(403, "cross_site");
        assert_eq!(answer.header("set-cookie"), None);
    }
    assert_eq!(sign_in(("origin", "http://shop.example")).status, 201);
    assert_eq!(sign_in(("sec-fetch-site", "same-origin")).status, 201);
}

#[test]
fn signing_out_ends_this_session_only_and_for_good() {
    let shop = Shop::open();
    let first = shop.account(PHONE, PASSWORD);
    let second = shop.sign_in(PHONE, PASSWORD);
    assert_eq!(
        shop.client().with_token(&first).request("DELETE", "/api/v1/sessions/current", &[], b"").status,
        204
    );
    shop.client().with_token(&first).get("/api/v1/me").problem(401, "unauthorized");
    assert_eq!(shop.client().with_token(&second).get("/api/v1/me").status, 200);
    let shop = shop.reopen();
    shop.client().with_token(&first).get("/api/v1/me").problem(401, "unauthorized");
    assert_eq!(shop.client().with_token(&second).get("/api/v1/me").status, 200);
    shop.admin().request("DELETE", "/api/v1/sessions/current", &[], b"").problem(403, "forbidden");
}

#[test]
fn a_new_password_ends_all_sessions() {
    let shop = Shop::open();
    let first = shop.account(PHONE, PASSWORD);
    let second = shop.sign_in(PHONE, PASSWORD);
    shop.advance_seconds(1);
    let change = |current: &str, new: &str| {
        let request = json!({ "current_password": current, "new_password": new });
        shop.client().with_token(&first).json("PUT", "/api/v1/me/password", &request)
    };
    change("wrong horse", "another horse").problem(401, "bad_credentials");
    change(PASSWORD, "short").names_field("new_password");
    assert_eq!(change(PASSWORD, "another horse").status, 204);
    for token in [&first, &second] {
        shop.client().with_token(token).get("/api/v1/me").problem(401, "unauthorized");
    }
    let old = shop.client().post("/api/v1/sessions", &json!({ "phone": PHONE, "password": PASSWORD }));
    old.problem(401, "bad_credentials");
    shop.advance_seconds(1);
    let third = shop.sign_in(PHONE, "another horse");
    let shop = shop.reopen();
    shop.client().with_token(&second).get("/api/v1/me").problem(401, "unauthorized");
    assert_eq!(shop.client().with_token(&third).get("/api/v1/me").status, 200);
}

#[test]
fn a_session_expires() {
    let shop = Shop::open_with(|options| options.shop.identity.session_seconds = 60);
    let token = shop.account(PHONE, PASSWORD);
    shop.advance_seconds(59);
    assert_eq!(shop.client().with_token(&token).get("/api/v1/me").status, 200);
    shop.advance_seconds(1);
    shop.client().with_token(&token).get("/api/v1/me").problem(401, "unauthorized");
}

#[test]
fn a_code_is_void_after_five_wrong_tries() {
    let shop = Shop::open();
    let mut client = shop.client();
    client.post("/api/v1/otp", &json!({ "phone": PHONE }));
    let right = shop.outbox.last_code(PHONE);
    let wrong = if right == "000000" { "000001" } else { "000000" };
    let mut register = |otp: &str| {
        let request = json!({ "phone": PHONE, "otp": otp, "name": "Ann", "password": PASSWORD });
        client.post("/api/v1/accounts", &request)
    };
    let first = register(wrong);
    first.problem(422, "otp_invalid");
    for _ in 0..4 {
        register(wrong).problem(422, "otp_invalid");
    }
    let void = register(&right);
    void.problem(422, "otp_invalid");
    assert_eq!(void.body, first.body, "void and wrong codes look alike");
}

#[test]
fn a_code_works_once_and_only_for_its_own_phone_and_for_a_short_time() {
    let shop = Shop::open();
    let mut client = shop.client();
    client.post("/api/v1/otp", &json!({ "phone": PHONE }));
    let code = shop.outbox.last_code(PHONE);
    let register = |phone: &str, otp: &str| {
        let request = json!({ "phone": phone, "otp": otp, "name": "Ann", "password": PASSWORD });
        shop.client().post("/api/v1/accounts", &request)
    };
    register("+4915112345678", &code).problem(422, "otp_invalid");
    assert_eq!(register(PHONE, &code).status, 201);
    register(PHONE, &code).problem(422, "otp_invalid");
    client.post("/api/v1/otp", &json!({ "phone": "+4915112345678" }));
    shop.advance_seconds(301);
    register("+4915112345678", &shop.outbox.last_code("+4915112345678")).problem(422, "otp_invalid");
}

#[test]
fn only_a_rehearsal_returns_the_code_in_the_answer() {
    let shop = Shop::open();
    let asked = shop.client().post("/api/v1/otp", &json!({ "phone": PHONE }));
    assert_eq!((asked.status, asked.json()), (202, json!({})), "a real shop sends it to the phone only");

    let rehearsal = Shop::open_with(|options| options.codes_in_answers = true);
    let mut client = rehearsal.client();
    let asked = client.post("/api/v1/otp", &json!({ "phone": PHONE }));
    assert_eq!(asked.status, 202);
    assert_eq!(asked.json(), json!({ "code": rehearsal.outbox.last_code(PHONE) }));
    let code = asked.json()["code"].clone();
    let request = json!({ "phone": PHONE, "otp": code, "name": "Ann", "password": PASSWORD });
    assert_eq!(client.post("/api/v1/accounts", &request).status, 201);
}

#[test]
fn only_the_owner_of_a_phone_learns_that_it_is_taken() {
    let shop = Shop::open();
    shop.account(PHONE, PASSWORD);
    let mut client = shop.client();
    let known = client.post("/api/v1/otp", &json!({ "phone": PHONE }));
    let unknown = client.post("/api/v1/otp", &json!({ "phone": "+4915112345678" }));
    assert_eq!((known.status, &known.body), (202, &unknown.body));
    assert_eq!(known.headers.len(), unknown.headers.len());
    let mut register = |otp: &str| {
        let request = json!({ "phone": PHONE, "otp": otp, "name": "Ann", "password": PASSWORD });
        client.post("/api/v1/accounts", &request)
    };
    let right = shop.outbox.last_code(PHONE);
    register(if right == "000000" { "000001" } else { "000000" }).problem(422, "otp_invalid");
    register(&right).problem(409, "phone_taken");
}

#[test]
fn signing_in_does_not_reveal_who_has_an_account() {
    let shop = Shop::open_with(|options| {
        for limit in [
            &mut options.shop.identity.sign_in_by_phone,
            &mut options.shop.identity.sign_in_by_phone_and_address,
        ] {
            limit.burst = 100.try_into().unwrap();
        }
        options.shop.identity.password_core_percent = 100;
    });
    shop.account(PHONE, PASSWORD);
    let mut client = shop.client();
    let mut attempt = |phone: &str| {
        let began = Instant::now();
        let answer = client.post("/api/v1/sessions", &json!({ "phone": phone, "password": "wrong horse" }));
        (answer, began.elapsed())
    };
    let (known, _) = attempt(PHONE);
    let (unknown, _) = attempt("+4915112345678");
    known.problem(401, "bad_credentials");
    assert_eq!(known.body, unknown.body);
    // This does not depend on speed: without the same work, the shortest times would differ by a factor of a
    // hundred. They take turns, so that both meet the same moments of a busy machine.
    let (mut known, mut unknown) = (Duration::MAX, Duration::MAX);
    for _ in 0..20 {
        known = known.min(attempt(PHONE).1);
        unknown = unknown.min(attempt("+4915112345678").1);
    }
    assert!(unknown * 4 > known && known * 4 > unknown, "{known:?} {unknown:?}");
}

#[test]
fn guessing_a_password_is_limited() {
    let shop = Shop::open();
    shop.account(PHONE, PASSWORD);
    let mut client = shop.client();
    let mut attempt =
        || client.post("/api/v1/sessions", &json!({ "phone": PHONE, "password": "wrong horse" }));
    let refused = (0..12).map(|_| attempt()).find(|answer| answer.status != 401).expect("a limit");
    refused.problem(429, "rate_limited");
    assert!(refused.header("retry-after").unwrap().parse::<u32>().unwrap() >= 1);
}

#[test]
fn a_phone_has_one_account_however_it_is_written() {
    let shop = Shop::open();
    let mut client = shop.client();
    let written = [
        "+86 138 0013 8000",
        "(+86) 138-0013-8000",
        "0086 138.0013.8000",
        "＋８６\u{a0}１３８００１３８０００",
        "138 0013 8000",
        "86 138 0013 8000",
    ];
    let register = |client: &mut Client, phone: &str| {
        let otp = shop.outbox.last_code(PHONE);
        client.post(
            "/api/v1/accounts",
            &json!({ "phone": phone, "otp": otp, "name": "Ann", "password": PASSWORD }),
        )
    };
    // Code and registration belong to the same phone, whatever stands between its digits.
    assert_eq!(client.post("/api/v1/otp", &json!({ "phone": written[0] })).status, 202);
    let account = register(&mut client, written[1]);
    assert_eq!((account.status, &account.json()["phone"]), (201, &json!(PHONE)));
    for phone in written {
        let id = client.post("/api/v1/sessions", &json!({ "phone": phone, "password": PASSWORD })).json();
        assert_eq!(id["account"]["id"], account.json()["id"], "{phone}");
    }
    for phone in &written[3..] {
        assert_eq!(client.post("/api/v1/otp", &json!({ "phone": phone })).status, 202);
        register(&mut client, phone).problem(409, "phone_taken");
    }
    // In another country it is a different number.
    let elsewhere = json!({ "phone": "138 0013 8000", "country": "US", "password": PASSWORD });
    client.post("/api/v1/sessions", &elsewhere).problem(401, "bad_credentials");
    let nowhere = json!({ "phone": "138 0013 8000", "country": "XX" });
    client.post("/api/v1/otp", &nowhere).names_field("country");
    client
        .post("/api/v1/sessions", &json!({ "phone": PHONE, "country": "cn", "password": PASSWORD }))
        .names_field("country");
}

#[test]
fn a_phone_has_one_account_with_and_without_the_digit_of_mobile_numbers() {
    let shop = Shop::open();
    let mut client = shop.client();
    for (with, without) in [("+5215512345678", "+525512345678"), ("+5491123456789", "+541123456789")] {
        assert_eq!(client.post("/api/v1/otp", &json!({ "phone": with })).status, 202);
        let otp = shop.outbox.last_code(with);
        let request = json!({ "phone": without, "otp": otp, "name": "Ann", "password": PASSWORD });
        let account = client.post("/api/v1/accounts", &request);
        assert_eq!((account.status, &account.json()["phone"]), (201, &json!(without)));
        assert_eq!(client.post("/api/v1/otp", &json!({ "phone": with })).status, 202);
        let otp = shop.outbox.last_code(with);
        let again = json!({ "phone": with, "otp": otp, "name": "Ann", "password": PASSWORD });
        client.post("/api/v1/accounts", &again).problem(409, "phone_taken");
        // An older account has the digit.
        let home = Country::default();
        let mut new =
            new_account(with, home, "Ann", "an older horse", false, Timestamp::from_millis(START)).unwrap();
        new.phone = with.to_owned();
        let older = shop.block_on(shop.records.create_account(new)).unwrap();
        for phone in [with, without] {
            let mut sign_in = |password: &str| {
                let request = json!({ "phone": phone, "password": password });
                client.post("/api/v1/sessions", &request).json()["account"]["id"].clone()
            };
            assert_eq!(sign_in(PASSWORD), account.json()["id"], "{phone}");
            assert_eq!(sign_in("an older horse"), json!(older.id.to_string()), "{phone}");
        }
    }
}

#[test]
fn a_number_without_a_country_belongs_to_the_shops_country_unless_another_is_chosen() {
    let shop = Shop::open_with(|options| options.shop.identity.default_country = "DE".parse().unwrap());
    let mut client = shop.client();
    let countries = client.get("/api/v1/countries");
    assert_eq!(countries.header("cache-control"), Some("public, max-age=3600"));
    let countries = countries.json();
    assert_eq!(countries["default"], "DE");
    let listed = countries["data"].as_array().unwrap();
    for country in
        [json!({ "country": "DE", "calling_code": "49" }), json!({ "country": "CN", "calling_code": "86" })]
    {
        assert!(listed.contains(&country), "{country}");
    }
    for (request, number) in [
        (json!({ "phone": "0151 12345678" }), "+4915112345678"),
        (json!({ "phone": "138 0013 8000", "country": "CN" }), PHONE),
        (json!({ "phone": "+86 138 0013 8000", "country": "US" }), PHONE),
    ] {
        assert_eq!(client.post("/api/v1/otp", &request).status, 202, "{request}");
        shop.outbox.last_code(number);
    }
    client.post("/api/v1/otp", &json!({ "phone": "123456", "country": "CN" })).names_field("phone");
}

#[test]
fn accounts_stored_under_other_forms_of_a_number_can_still_sign_in() {
    let shop = Shop::open();
    let stored = ["13800138000", "8613800138000", PHONE, "555000"];
    let passwords = ["the first horse", "the second horse", "the third horse", "the fourth horse"];
    let mut ids = Vec::new();
    for (phone, password) in stored.iter().zip(passwords) {
        let mut new =
            new_account(PHONE, Country::default(), "Ann", password, false, Timestamp::from_millis(START))
                .unwrap();
        new.phone = (*phone).to_owned();
        let account = shop.block_on(shop.records.create_account(new)).unwrap();
        ids.push(account.id.to_string());
    }
    let mut client = shop.client();
    let mut sign_in = |phone: &str, password: &str| {
        let answer = client.post("/api/v1/sessions", &json!({ "phone": phone, "password": password }));
        answer.json()["account"]["id"].as_str().map(str::to_owned)
    };
    for written in ["13800138000", "86 138 0013 8000", "+8613800138000", "0086 13800138000"] {
        for (id, password) in ids.iter().zip(&passwords[..3]) {
            assert_eq!(sign_in(written, password).as_ref(), Some(id), "{written} {password}");
        }
    }
    assert_eq!(sign_in("555000", passwords[3]).as_ref(), Some(&ids[3]), "not a number of the country");
    let mut client = shop.client();
    assert_eq!(client.post("/api/v1/otp", &json!({ "phone": "138 0013 8000" })).status, 202);
    let otp = shop.outbox.last_code(PHONE);
    let again = json!({ "phone": PHONE, "otp": otp, "name": "Ann", "password": PASSWORD });
    client.post("/api/v1/accounts", &again).problem(409, "phone_taken");
}

#[test]
fn codes_are_limited_per_phone() {
    let shop = Shop::open();
    let mut client = shop.client();
    for _ in 0..5 {
        assert_eq!(client.post("/api/v1/otp", &json!({ "phone": PHONE })).status, 202);
    }
    let refused = client.post("/api/v1/otp", &json!({ "phone": PHONE }));
    refused.problem(429, "rate_limited");
    assert!(refused.header("retry-after").unwrap().parse::<u32>().unwrap() > 3000);
    assert_eq!(shop.outbox.count(), 5);
    shop.advance_seconds(3601);
    assert_eq!(client.post("/api/v1/otp", &json!({ "phone": PHONE })).status, 202);
}

#[test]
fn an_invalid_account_is_refused_field_by_field() {
    let shop = Shop::open();
    let mut client = shop.client();
    for phone in ["", "123", "not a phone", "+861380013800013800"] {
        client.post("/api/v1/otp", &json!({ "phone": phone })).names_field("phone");
    }
    client.post("/api/v1/otp", &json!({ "phone": 5 })).names_field("phone");
    client.post("/api/v1/otp", &json!({})).names_field("phone");
    client.post("/api/v1/otp", &json!({ "phone": PHONE, "admin": true })).names_field("admin");
    let request = json!({ "phone": "x", "otp": "12", "name": " ", "password": "short" });
    let refused = client.post("/api/v1/accounts", &request);
    for field in ["phone", "otp", "name", "password"] {
        refused.names_field(field);
    }
    let request =
        json!({ "phone": PHONE, "otp": "123456", "name": "Ann", "password": PASSWORD, "admin": true });
    client.post("/api/v1/accounts", &request).names_field("admin");
}
