//! `serve --demo` sells through the commands that it prints.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    collections::BTreeMap,
    fs, thread,
    time::{Duration, Instant},
};

use penstock_testkit::{ClientAnswer, Penstock};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_penstock");

/// The `export` lines as variables and the `curl` lines as printed.
fn printed_lines(penstock: &Penstock) -> (BTreeMap<String, String>, Vec<String>) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !penstock.printed().contains("/api/v1/orders -H") {
        assert!(Instant::now() < deadline, "nothing was printed: {}", penstock.printed());
        thread::sleep(Duration::from_millis(20));
    }
    let printed = penstock.printed().replace("\\\n", "");
    let lines = printed.lines().map(str::trim);
    let exports = lines.clone().filter_map(|line| line.strip_prefix("export ")?.split_once('='));
    let variables = exports.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    (variables, lines.filter(|line| line.starts_with("curl ")).map(str::to_owned).collect())
}

/// Splits a line as a shell does, as far as these lines need it.
fn words(line: &str, variables: &BTreeMap<String, String>) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (None, ' ') if words.last().is_some_and(String::is_empty) => {}
            (None, ' ') => words.push(String::new()),
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), close) if open == close => quote = None,
            (None | Some('"'), '$') => {
                let mut name = String::new();
                while let Some(letter) = characters.next_if(|next| next.is_ascii_uppercase() || *next == '_')
                {
                    name.push(letter);
                }
                words.last_mut().unwrap().push_str(&variables[&name]);
            }
            (_, other) => words.last_mut().unwrap().push(other),
        }
    }
    words
}

/// Does what curl would do.
fn curl(penstock: &Penstock, line: &str, variables: &BTreeMap<String, String>) -> ClientAnswer {
    let words = words(line, variables);
    let (mut method, mut headers, mut body, mut url) = ("GET", Vec::new(), None, "");
    let mut rest = words.iter().skip(1).map(String::as_str);
    assert_eq!((rest.next(), rest.next()), (Some("-sw"), Some("\\n")), "answers run together: {line}");
    while let Some(word) = rest.next() {
        match word {
            "-H" => headers.push(rest.next().unwrap().split_once(": ").unwrap()),
            "-d" => {
                method = "POST";
                body = rest.next().map(str::as_bytes);
            }
            address => url = address,
        }
    }
    headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
    let path = url.strip_prefix(&format!("http://{}", penstock.address())).unwrap();
    penstock.client().send(method, path, &headers, body).unwrap()
}

#[test]
fn the_printed_commands_buy_the_demo_item() {
    let mut penstock = Penstock::new(BINARY).with("PENSTOCK_ADMIN_TOKEN", "").with_argument("--demo");
    penstock.start().unwrap();
    assert!(penstock.data().join("demo.json").exists(), "a rehearsal could not find its way in");
    let (variables, lines) = printed_lines(&penstock);
    let here = format!("URL=http://{} DATA={}", penstock.address(), penstock.data().display());
    assert_eq!(printed_after(&penstock, "make rush"), here, "neither is the default of `make`");
    let docs = penstock.client().get("/docs").unwrap();
    assert!(matches!(docs.status, 200 | 301 | 302 | 303 | 307 | 308), "{}", docs.status);
    let [look, buy, list] = lines.as_slice() else { panic!("other lines than expected: {lines:?}") };
    let sale = curl(&penstock, look, &variables);
    assert_eq!(sale.status, 200, "{}", sale.text());
    assert_eq!(sale.json()["state"], "scheduled");
    let early = curl(&penstock, buy, &variables);
    assert_eq!((early.status, early.code().as_str()), (409, "not_open"), "{}", early.text());

    let deadline = Instant::now() + Duration::from_secs(60);
    while curl(&penstock, look, &variables).json()["state"] != "open" {
        assert!(Instant::now() < deadline, "the sale never opens");
        thread::sleep(Duration::from_millis(200));
    }
    let bought = curl(&penstock, buy, &variables);
    assert_eq!(bought.status, 201, "{}", bought.text());
    let again = curl(&penstock, buy, &variables);
    assert_eq!(again.json()["id"], bought.json()["id"], "a retry gets the first answer");
    let mine = curl(&penstock, list, &variables);
    assert_eq!(mine.json()["data"][0]["id"], bought.json()["id"], "{}", mine.text());

    // A later start continues with the sale that is still open; a new sale is published when it is over.
    penstock.stop().unwrap();
    penstock.start().unwrap();
    let (after_restart, _) = printed_lines(&penstock);
    assert_eq!(after_restart["SALE"], variables["SALE"]);
    let close = format!("/api/v1/admin/sales/{}/close", variables["SALE"]);
    let admin_token = &after_restart["ADMIN_TOKEN"];
    assert_eq!(penstock.client().with_token(admin_token).post_nothing(&close).unwrap().status, 200);
    penstock.stop().unwrap();
    penstock.start().unwrap();
    let (anew, _) = printed_lines(&penstock);
    assert_ne!(anew["SALE"], variables["SALE"]);
    let sale = curl(&penstock, look, &anew);
    assert_eq!(sale.json()["state"], "scheduled", "{}", sale.text());
}

/// The text printed after `words`, up to the end of the line.
fn printed_after(penstock: &Penstock, words: &str) -> String {
    let printed = penstock.printed();
    let after = printed.split(words).nth(1).unwrap_or_else(|| panic!("no {words:?} in {printed}"));
    after.lines().next().unwrap().trim().to_owned()
}

/// The merchant's password, as printed.
fn merchant_password(penstock: &Penstock) -> String {
    printed_lines(penstock);
    printed_after(penstock, "phone +8613800000001, password ")
}

fn sign_in(penstock: &Penstock, password: &str) -> ClientAnswer {
    let credentials = json!({ "phone": "+8613800000001", "password": password });
    penstock.client().post("/api/v1/sessions", &credentials).unwrap()
}

#[test]
fn the_merchant_gets_into_the_console_with_a_new_password_at_each_start() {
    let mut penstock = Penstock::new(BINARY).with("PENSTOCK_ADMIN_TOKEN", "").with_argument("--demo");
    penstock.start().unwrap();
    let password = merchant_password(&penstock);
    let url = format!("http://{}", penstock.address());
    assert_eq!(printed_after(&penstock, "the shop "), format!("{url}/"));
    assert_eq!(printed_after(&penstock, "the console "), format!("{url}/console"));
    let session = sign_in(&penstock, &password);
    assert_eq!(
        (session.status, &session.json()["account"]["admin"]),
        (201, &json!(true)),
        "{}",
        session.text()
    );
    let token = session.json()["token"].as_str().unwrap().to_owned();
    let mut merchant = penstock.client().with_token(&token);
    assert_eq!(merchant.get("/api/v1/admin/orders").unwrap().status, 200);

    penstock.stop().unwrap();
    penstock.start().unwrap();
    let renewed = merchant_password(&penstock);
    assert_ne!(renewed, password);
    assert_eq!(sign_in(&penstock, &password).status, 401);
    assert_eq!(sign_in(&penstock, &renewed).status, 201);
    let mut merchant = penstock.client().with_token(&token);
    assert_eq!(
        merchant.get("/api/v1/admin/orders").unwrap().status,
        401,
        "sessions of the previous start have ended"
    );
}

/// The credentials that the demo has left for rehearsals.
fn way_in(penstock: &Penstock) -> (Value, Value) {
    let file: Value = serde_json::from_slice(&fs::read(penstock.data().join("demo.json")).unwrap()).unwrap();
    (file["admin_token"].clone(), file["jwt_secret"].clone())
}

#[test]
fn a_restarted_demo_accepts_the_tokens_of_a_running_rehearsal() {
    let mut penstock = Penstock::new(BINARY)
        .with("PENSTOCK_ADMIN_TOKEN", "")
        .with("PENSTOCK_IDENTITY__JWT__SECRET", "")
        .with_argument("--demo");
    penstock.start().unwrap();
    let (admin_token, jwt_secret) = way_in(&penstock);
    assert!(admin_token.is_string() && jwt_secret.is_string());
    let secret = ["tokens", "--buyers", "1", "--jwt-secret", jwt_secret.as_str().unwrap()];
    let buyer = penstock.run(&secret).unwrap().stdout;
    penstock.kill().unwrap();
    penstock.start().unwrap();
    assert_eq!(way_in(&penstock), (admin_token.clone(), jwt_secret.clone()));
    assert_eq!(penstock.client().with_token(buyer.trim()).get("/api/v1/me").unwrap().status, 200);
    let mut admin = penstock.client().with_token(admin_token.as_str().unwrap());
    assert_eq!(admin.get("/api/v1/admin/orders").unwrap().status, 200);

    // Contents that can't be read, or secrets that could be guessed, are not kept.
    for unusable in ["torn", r#"{"url":"http://127.0.0.1:1","admin_token":"","jwt_secret":"a"}"#] {
        penstock.stop().unwrap();
        fs::write(penstock.data().join("demo.json"), unusable).unwrap();
        penstock.start().unwrap();
        let (token, secret) = way_in(&penstock);
        assert!(token.as_str().unwrap().len() >= 32 && secret.as_str().unwrap().len() >= 32);
        assert_ne!((token, secret), (admin_token.clone(), jwt_secret.clone()));
    }
}

#[test]
fn a_shop_with_its_own_admin_token_gets_no_account_for_the_console() {
    let mut penstock = Penstock::new(BINARY).with_argument("--demo");
    penstock.start().unwrap();
    printed_lines(&penstock);
    assert!(
        printed_after(&penstock, "the merchant ").contains("penstock admin create"),
        "{}",
        penstock.printed()
    );
    assert!(!penstock.printed().contains("ADMIN_TOKEN"), "{}", penstock.printed());
    assert_eq!(sign_in(&penstock, "demo-password").status, 401);
}

#[test]
fn three_items_with_pictures_are_on_sale_each_in_its_own_way() {
    let mut penstock = Penstock::new(BINARY).with_argument("--demo");
    penstock.start().unwrap();
    for _ in 0..2 {
        printed_lines(&penstock);
        let mut client = penstock.client();
        let sales = client.get("/api/v1/sales").unwrap().json()["data"].clone();
        let titles: Vec<&str> =
            sales.as_array().unwrap().iter().map(|sale| sale["item"]["title"].as_str().unwrap()).collect();
        assert_eq!(titles, ["Phone X", "Headphones Q", "Kettle K"], "the newest comes first, and each once");
        let nothing = json!({ "challenge": "none", "waiting_room": false, "pass_required": false });
        let everything = json!({ "challenge": "pow", "waiting_room": true, "pass_required": true });
        let [phone, headphones, kettle] = [&sales[0], &sales[1], &sales[2]];
        assert!(phone["opens_at"].is_string() && phone["gate"] == nothing, "{phone}");
        assert_eq!((&headphones["state"], &headphones["gate"]), (&json!("open"), &everything));
        assert_eq!((&kettle["state"], &kettle["gate"]), (&json!("open"), &nothing));
        assert_eq!((&kettle["opens_at"], &kettle["closes_at"]), (&Value::Null, &Value::Null));
        for sale in [phone, headphones, kettle] {
            let picture = client.get(sale["item"]["picture"].as_str().unwrap()).unwrap();
            assert_eq!(picture.status, 200, "{sale}");
            assert!(picture.body.len() <= 25 * 1024, "{} bytes", picture.body.len());
        }
        // The same after a restart.
        penstock.stop().unwrap();
        penstock.start().unwrap();
    }
}

#[test]
fn a_newcomer_signs_up_at_the_demo_without_a_phone() {
    let mut penstock = Penstock::new(BINARY).with_argument("--demo");
    penstock.start().unwrap();
    assert!(penstock.log().contains("identity.codes_in_answers"), "nobody is warned:\n{}", penstock.log());
    let mut client = penstock.client();
    let asked = client.post("/api/v1/otp", &json!({ "phone": "+8613900000001" })).unwrap();
    assert_eq!(asked.status, 202, "{}", asked.text());
    let newcomer = json!({
        "phone": "+8613900000001", "otp": asked.json()["code"], "name": "Newcomer", "password": "a good password",
    });
    let account = client.post("/api/v1/accounts", &newcomer).unwrap();
    assert_eq!(account.status, 201, "{}", account.text());
    let credentials = json!({ "phone": "+8613900000001", "password": "a good password" });
    let session = client.post("/api/v1/sessions", &credentials).unwrap();
    assert_eq!(session.status, 201, "{}", session.text());
}
