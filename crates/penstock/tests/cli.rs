//! The command line: help, configuration, accounts, and refusals that give the reason.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    fs,
    io::{ErrorKind, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use penstock_testkit::{CommandRun, Merchant, OfferTerms, Penstock, buyer_token};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_penstock");

fn penstock() -> Penstock {
    Penstock::new(BINARY)
}

fn code(run: &CommandRun) -> i32 {
    run.status.code().unwrap_or(-1)
}

fn data(penstock: &Penstock) -> String {
    penstock.data().display().to_string()
}

#[test]
fn without_an_argument_it_prints_help() {
    let run = penstock().run(&[]).unwrap();
    assert_eq!(code(&run), 0, "{}", run.stderr);
    for command in ["serve", "audit", "admin", "draw", "config", "migrate", "tokens", "openapi", "Example"] {
        assert!(run.stdout.contains(command), "{command} is missing in:\n{}", run.stdout);
    }
}

#[test]
fn every_command_has_help_with_an_example() {
    let commands: [&[&str]; 12] = [
        &["serve"],
        &["audit"],
        &["admin"],
        &["admin", "create"],
        &["admin", "promote"],
        &["admin", "rotate-secret"],
        &["draw"],
        &["draw", "verify"],
        &["config"],
        &["migrate"],
        &["tokens"],
        &["openapi"],
    ];
    for command in commands {
        let run = penstock().run(&[command, &["--help"]].concat()).unwrap();
        assert_eq!(code(&run), 0, "{command:?}");
        assert!(run.stdout.contains("Example"), "{command:?}:\n{}", run.stdout);
    }
}

#[test]
fn an_unknown_argument_is_a_usage_error() {
    for arguments in [&["sell"][..], &["serve", "--port", "1"], &["admin", "create", "--phone", "1"]] {
        let run = penstock().run(arguments).unwrap();
        assert_eq!(code(&run), 2, "{arguments:?}: {}", run.stderr);
    }
}

#[test]
fn the_printed_configuration_can_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("penstock.toml");
    let installed = penstock().with("PENSTOCK_LEDGER__MAX_BATCH", 77);
    let first = installed.run(&["config"]).unwrap();
    assert_eq!(code(&first), 0, "{}", first.stderr);
    assert!(first.stdout.contains("max_batch = 77  # from the variable PENSTOCK_LEDGER__MAX_BATCH"));
    assert!(!first.stdout.contains(penstock_testkit::ADMIN_TOKEN), "a secret is shown");
    assert!(!first.stdout.contains(penstock_testkit::JWT_SECRET), "a secret is shown");
    fs::write(&file, &first.stdout).unwrap();
    let again = penstock().run(&["config", "--config", file.to_str().unwrap()]).unwrap();
    let settings = |text: &str| -> Vec<String> {
        let values = text.lines().filter(|line| !line.starts_with('#'));
        values.map(|line| line.split("  #").next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(settings(&first.stdout), settings(&again.stdout));
    let json: Value = serde_json::from_str(&installed.run(&["config", "--json"]).unwrap().stdout).unwrap();
    assert_eq!(json["ledger.max_batch"]["value"], 77);
    assert_eq!(json["identity.admin_token"]["value"], "set");
}

#[test]
fn a_wrong_configuration_is_named_and_refused() {
    let run = penstock().with("PENSTOCK_HTTP__LISTN", "x").run(&["serve"]).unwrap();
    assert_eq!(code(&run), 2);
    assert!(run.stderr.contains("http.listn (from the variable PENSTOCK_HTTP__LISTN)"), "{}", run.stderr);
    let run = penstock().run(&["serve", "--listen", "everywhere"]).unwrap();
    assert_eq!(code(&run), 2);
    assert!(run.stderr.contains("http.listen (from the flag --listen)"), "{}", run.stderr);
    let run = penstock().run(&["serve", "--config", "/nowhere.toml"]).unwrap();
    assert_eq!(code(&run), 2);
    assert!(run.stderr.contains("/nowhere.toml"), "{}", run.stderr);
}

#[test]
fn a_folder_in_use_is_refused_with_the_process_that_uses_it() {
    let mut first = penstock();
    first.start().unwrap();
    let run = first.run(&["serve", "--listen", "127.0.0.1:0", "--data", &data(&first)]).unwrap();
    assert_eq!(code(&run), 1);
    let holder = format!("in use by process {}", first.process_id().unwrap());
    assert!(run.stderr.contains(&holder), "{}", run.stderr);
    let secret = fs::metadata(first.data().join("secret")).unwrap().permissions().mode();
    assert_eq!(secret & 0o777, 0o600);
}

#[test]
fn an_address_in_use_is_refused() {
    let mut first = penstock();
    first.start().unwrap();
    let second = penstock();
    let address = first.address().to_string();
    let run = second.run(&["serve", "--listen", &address, "--data", &data(&second)]).unwrap();
    assert_eq!(code(&run), 1);
    assert!(run.stderr.contains(&address) && run.stderr.contains("in use"), "{}", run.stderr);
    assert!(run.stderr.contains("choose another --listen"), "{}", run.stderr);
    assert!(!second.data().exists(), "a server that never ran has left a data folder");
}

#[test]
fn a_folder_of_a_newer_version_is_refused() {
    let newer = penstock();
    fs::create_dir_all(newer.data()).unwrap();
    fs::write(newer.data().join("VERSION"), "99\n").unwrap();
    for command in ["serve", "audit", "migrate"] {
        let run = newer.run(&[command, "--data", &data(&newer)]).unwrap();
        assert_eq!(code(&run), 1, "{command}");
        assert!(run.stderr.contains("version 99, made by a newer penstock"), "{}", run.stderr);
    }
}

#[test]
fn a_file_that_is_not_a_database_is_a_clear_error() {
    let broken = penstock();
    fs::create_dir_all(broken.data()).unwrap();
    fs::write(broken.data().join("records.db"), "this is not a database, but it is long enough").unwrap();
    let run = broken.run(&["serve", "--listen", "127.0.0.1:0", "--data", &data(&broken)]).unwrap();
    assert_eq!(code(&run), 1);
    assert!(run.stderr.contains("records.db") && run.stderr.contains("can't be opened"), "{}", run.stderr);
}

#[test]
fn the_openapi_document_describes_the_api() {
    let run = penstock().run(&["openapi"]).unwrap();
    assert_eq!(code(&run), 0, "{}", run.stderr);
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    for path in ["/api/v1/sales/{id}/orders", "/api/v1/admin/sales/{id}/publish", "/api/v1/sessions"] {
        assert!(document["paths"][path].is_object(), "{path} is missing");
    }
}

/// Runs `admin create` with a password on stdin.
fn create_admin(penstock: &Penstock, phone: &str, password: &str) -> CommandRun {
    let mut command = penstock.bare_command();
    command.args(["admin", "create", "--phone", phone, "--name", "Ada", "--password-stdin", "--json"]);
    command.args(["--data", &data(penstock)]).stdin(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{password}").unwrap();
    let output = child.wait_with_output().unwrap();
    CommandRun {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn an_admin_that_was_created_can_sign_in_and_sell() {
    let mut shop = penstock();
    let run = create_admin(&shop, "+8613900000001", "correct horse battery");
    assert_eq!(code(&run), 0, "{}", run.stderr);
    assert!(!run.stdout.contains("battery"));
    // It also works while a server is running.
    shop.start().unwrap();
    let run = create_admin(&shop, "+8613900000002", "correct horse battery");
    assert_eq!(code(&run), 0, "{}", run.stderr);
    for phone in ["+8613900000001", "+8613900000002"] {
        let credentials = json!({ "phone": phone, "password": "correct horse battery" });
        let session = shop.client().post("/api/v1/sessions", &credentials).unwrap();
        assert_eq!(session.status, 201, "{}", session.text());
        let token = session.json()["token"].as_str().unwrap().to_owned();
        let answer = shop.client().with_token(&token).get("/api/v1/admin/orders").unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    for same in ["+8613900000001", "139 0000 0001", "8613900000001"] {
        let run = create_admin(&shop, same, "correct horse battery");
        assert_eq!(code(&run), 1, "{same}");
        assert!(run.stderr.contains("has an account already"), "{}", run.stderr);
    }
    let run = create_admin(&shop, "not a phone", "correct horse battery");
    assert_eq!(code(&run), 2, "{}", run.stderr);
    let run = create_admin(&shop, "+8613900000003", "short");
    assert_eq!(code(&run), 2, "{}", run.stderr);
}

#[test]
fn a_promoted_account_becomes_an_admin() {
    let mut shop = penstock();
    shop.start().unwrap();
    let phone = "+8613900000004";
    assert_eq!(shop.client().post("/api/v1/otp", &json!({ "phone": phone })).unwrap().status, 202);
    let code_in_log = one_time_code(&shop, phone);
    let account = json!({
        "phone": phone, "otp": code_in_log, "name": "Bo", "password": "correct horse battery",
    });
    let created = shop.client().post("/api/v1/accounts", &account).unwrap();
    assert_eq!(created.status, 201, "{}", created.text());
    let sign_in = || {
        let credentials = json!({ "phone": phone, "password": "correct horse battery" });
        let session = shop.client().post("/api/v1/sessions", &credentials).unwrap();
        session.json()["token"].as_str().unwrap().to_owned()
    };
    let before = shop.client().with_token(&sign_in()).get("/api/v1/admin/orders").unwrap();
    assert_eq!(before.status, 403, "{}", before.text());
    let run = shop.run(&["admin", "promote", "--phone", "139 0000 0004", "--data", &data(&shop)]).unwrap();
    assert_eq!(code(&run), 0, "{}", run.stderr);
    assert!(run.stdout.contains(phone), "{}", run.stdout);
    let after = shop.client().with_token(&sign_in()).get("/api/v1/admin/orders").unwrap();
    assert_eq!(after.status, 200, "{}", after.text());
    let run = shop.run(&["admin", "promote", "--phone", "+8613999999999", "--data", &data(&shop)]).unwrap();
    assert_eq!(code(&run), 1);
    assert!(run.stderr.contains("no account"), "{}", run.stderr);
}

/// The code that the default sender writes to the log.
fn one_time_code(shop: &Penstock, phone: &str) -> String {
    for _ in 0..500 {
        let log = shop.log();
        if let Some(line) = log.lines().find(|line| line.contains("one-time code") && line.contains(phone)) {
            let after = line.split("code=").nth(1).unwrap_or_else(|| panic!("no code in {line}"));
            return after
                .chars()
                .filter(|character| *character != '"')
                .take_while(char::is_ascii_digit)
                .collect();
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("no one-time code in the log:\n{}", shop.log());
}

#[test]
fn migrate_makes_the_schema_and_says_so() {
    let fresh = penstock();
    let run = fresh.run(&["migrate", "--data", &data(&fresh)]).unwrap();
    assert_eq!(code(&run), 0, "{}", run.stderr);
    assert!(run.stdout.contains("up to date"), "{}", run.stdout);
    assert!(fresh.data().join("records.db").exists());
}

#[test]
fn audit_names_every_difference() {
    let mut shop = penstock();
    let missing = shop.run(&["audit", "--data", &data(&shop)]).unwrap();
    assert_eq!(code(&missing), 1);
    assert!(missing.stderr.contains("not a data folder"), "{}", missing.stderr);
    assert!(!shop.data().exists(), "an audit changes nothing");

    shop.start().unwrap();
    let sale = Merchant::of(&shop).publish(OfferTerms::default());
    for number in 0..5 {
        let mut client = shop.client().with_token(&buyer_token(&format!("buyer-{number}")));
        let answer = client.claim(&sale, 1, "the-key").unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    wait_for_orders(&shop, &sale, 5);
    shop.stop().unwrap();
    let run = shop.run(&["audit", "--data", &data(&shop)]).unwrap();
    assert_eq!(code(&run), 0, "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("Everything adds up"), "{}", run.stdout);

    let database = rusqlite::Connection::open(shop.data().join("records.db")).unwrap();
    assert_eq!(database.execute("DELETE FROM orders WHERE order_number = 1", []).unwrap(), 1);
    let run = shop.run(&["audit", "--data", &data(&shop)]).unwrap();
    assert_eq!(code(&run), 1, "{}", run.stdout);
    assert!(run.stdout.contains(&format!("{sale}-1")), "{}", run.stdout);
    let run = shop.run(&["audit", "--json", "--data", &data(&shop)]).unwrap();
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((code(&run), &report["ok"], &report["lost"]), (1, &json!(false), &json!(1)), "{report:#}");
    let lost = &report["differences"][0];
    assert_eq!(
        (&lost["kind"], &lost["order"]),
        (&json!("order_lost"), &json!(format!("{sale}-1"))),
        "{lost:#}"
    );
    assert_eq!(
        lost["what"],
        format!("Order {sale}-1 is lost: the ledger accepted it, but it is not in the records.")
    );
}

fn wait_for_orders(shop: &Penstock, sale: &str, count: usize) {
    let mut merchant = Merchant::of(shop);
    for _ in 0..500 {
        if merchant.orders(sale).len() == count {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("settlement did not bring {count} orders");
}

#[test]
fn logs_are_json_lines_when_asked_for() {
    let mut shop = penstock().with("PENSTOCK_LOG__FORMAT", "json");
    shop.start().unwrap();
    assert_eq!(shop.printed(), format!("penstock ready on http://{}\n", shop.address()));
    let stopped = shop.stop().unwrap();
    assert!(stopped.log.lines().count() > 2, "{}", stopped.log);
    for line in stopped.log.lines() {
        let entry: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(entry["message"].is_string() && entry["level"].is_string(), "{line}");
    }
}

#[test]
fn tokens_belong_to_the_buyers_with_the_requested_numbers() {
    let mut shop = penstock();
    shop.start().unwrap();
    let tokens = |first: &str| {
        let run = shop.run(&["tokens", "--buyers", "3", "--first", first]).unwrap();
        assert_eq!(code(&run), 0, "{}", run.stderr);
        run.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (first, later) = (tokens("1"), tokens("3"));
    assert_eq!((first.len(), later.len()), (3, 3));
    assert_eq!(me(&shop, &first[2]), me(&shop, &later[0]), "both are buyer 3");
    assert_ne!(me(&shop, &first[0]), me(&shop, &first[1]));
    // Tokens signed with another secret are not accepted.
    let other = ["tokens", "--buyers", "1", "--jwt-secret", "another-secret-of-at-least-32-bytes"];
    let stranger = shop.run(&other).unwrap().stdout;
    assert_eq!(shop.client().with_token(stranger.trim()).get("/api/v1/me").unwrap().status, 401);
}

fn me(shop: &Penstock, token: &str) -> Value {
    let answer = shop.client().with_token(token).get("/api/v1/me").unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[test]
fn tokens_without_a_secret_are_a_clear_error() {
    let unset = penstock().with("PENSTOCK_IDENTITY__JWT__SECRET", "");
    let run = unset.run(&["tokens", "--buyers", "1"]).unwrap();
    assert_eq!((code(&run), run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("no secret") && run.stderr.contains("--jwt-secret"), "{}", run.stderr);
    let public = unset.with("PENSTOCK_IDENTITY__JWT__PUBLIC_KEY", "key.pem");
    let run = public.run(&["tokens", "--buyers", "1"]).unwrap();
    assert_eq!((code(&run), run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("not sign them"), "{}", run.stderr);
}

/// The files in the data folder, and the modes of those that others must not read.
fn modes(data: &Path) -> Vec<(PathBuf, u32)> {
    let folders = [data.to_owned(), data.join("journal"), data.join("rooms")];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap().flatten());
    let files =
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file())).map(|entry| entry.path());
    let modes = files.filter_map(|file| match fs::metadata(&file) {
        Ok(known) => Some((file, known.permissions().mode() & 0o777)),
        // A running server removes files.
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => panic!("{}: {error}", file.display()),
    });
    modes.collect()
}

#[test]
fn nobody_else_can_read_the_data_whatever_the_folders_mode() {
    let mode = |file: &Path, mode| fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    let place = tempfile::tempdir().unwrap();
    mode(place.path(), 0o755);
    let mut shop = Penstock::in_folder(BINARY, place.path());
    shop.start().unwrap();
    let sale = Merchant::of(&shop).publish(OfferTerms::default());
    let bought = shop.client().with_token(&buyer_token("somebody")).claim(&sale, 1, "key").unwrap();
    assert_eq!(bought.status, 201);
    let made = modes(place.path());
    for name in ["records.db", "records.db-wal", "records.db-shm", "secret"] {
        assert!(made.iter().any(|(file, _)| file.ends_with(name)), "there is no {name}: {made:?}");
    }
    assert!(made.len() > 6, "{made:?}");
    for (file, mode) in &made {
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", file.display());
    }
    // Modes that an older version left, and a file that is not Penstock's.
    shop.kill().unwrap();
    for (file, _) in &made {
        mode(file, 0o644);
    }
    let notes = place.path().join("notes.txt");
    fs::write(&notes, "not Penstock's").unwrap();
    mode(&notes, 0o644);
    shop.start().unwrap();
    for (file, mode) in modes(place.path()) {
        let is_public = ["VERSION", "LOCK", "notes.txt"].iter().any(|name| file == place.path().join(name));
        assert_eq!(mode, if is_public { 0o644 } else { 0o600 }, "{}", file.display());
    }
}
