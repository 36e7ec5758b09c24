//! `penstock draw verify` and a second program, written only from the documentation, agree on every place;
//! forged draws are refused.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use penstock_domain::{BuyerId, SaleId};
use penstock_gate::{KeyRing, issue_ticket};
use penstock_local::without_callers_settings;
use penstock_testkit::{CommandRun, Penstock, Random, seed_of_the_day};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_penstock");
const SECOND_OPINION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/draw/second_opinion.py");
const SALE: &str = "0123456789abc";
const OTHER_HASH: &str = "00000000000000000000000000000000000000000000000000000000000000ff";

fn verify(arguments: &[&str]) -> CommandRun {
    Penstock::new(BINARY).run(&[&["draw", "verify"], arguments].concat()).unwrap()
}

fn code(run: &CommandRun) -> i32 {
    run.status.code().unwrap_or(-1)
}

fn ticket(number: u64) -> String {
    let sale: SaleId = SALE.parse().unwrap();
    issue_ticket(&KeyRing::new(&[1; 32], None), sale, &BuyerId::of_subject("ada").unwrap(), number)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The second program's answer to each question.
fn second_opinions(questions: &[Value]) -> Vec<Value> {
    let mut python = Command::new("python3")
        .args(["-B", SECOND_OPINION])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("this test needs python3 in PATH for a second opinion: {error}"));
    let mut stdin = python.stdin.take().unwrap();
    for question in questions {
        writeln!(stdin, "{question}").unwrap();
    }
    drop(stdin);
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "the second opinion failed");
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn question(seed: &[u8], sale: &str, count: u64, numbers: &[u64]) -> Value {
    json!({ "seed": hexadecimal(seed), "sale": sale, "count": count, "numbers": numbers })
}

fn the_seed() -> Vec<u8> {
    (0..32).collect()
}

/// The sale of `docs/draw.md` as the API shows it.
fn published_sale(count: u64) -> Value {
    let opinion = second_opinions(&[question(&the_seed(), SALE, count, &[])]).remove(0);
    let seed = hexadecimal(&the_seed());
    let hash = &opinion["seed_sha256"];
    let draw = json!({ "algorithm": "penstock draw 1", "seed_sha256": hash, "seed": seed, "count": count });
    json!({ "id": SALE, "state": "open", "draw": draw })
}

/// Writes the sale to a file and verifies with it.
fn verify_in(sale: &Value, arguments: &[&str]) -> CommandRun {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sale.json");
    fs::write(&file, sale.to_string()).unwrap();
    verify(&[&["--sale", file.to_str().unwrap()], arguments].concat())
}

#[test]
fn a_published_draw_verifies_in_words() {
    let run = verify_in(&published_sale(50_000), &["--ticket", &ticket(1_234)]);
    assert_eq!(code(&run), 0, "{}", run.stderr);
    assert_eq!(
        run.stdout,
        "ticket 1234 of 50000 has place 43983 (1 is first); the seed matches the hash published before the opening\n"
    );
    let late = verify_in(&published_sale(50_000), &["--ticket", &ticket(50_000)]);
    assert_eq!(code(&late), 0, "{}", late.stderr);
    assert!(
        late.stdout.contains("came after the opening: queued in order of arrival at place 50001"),
        "{}",
        late.stdout
    );
}

/// Hundreds of tickets in rooms of every size: the library that the server uses agrees with the second
/// program.
#[test]
fn a_second_program_finds_the_same_places_for_every_ticket() {
    let mut random = Random::new(seed_of_the_day("draw"));
    let mut questions = Vec::new();
    let counts = (0..=70).chain([100, 1_023, 1_024, 1_025, 50_000, 1_000_000, 1 << 33, u64::MAX]);
    for count in counts {
        let seed: Vec<u8> = (0..32).map(|_| random.below(256) as u8).collect();
        let sale = SaleId::from_random(random.next()).to_string();
        let mut numbers: Vec<u64> = (0..count.min(20)).collect();
        numbers.extend((0..5).map(|_| random.below(count.max(1))));
        numbers.extend([count.saturating_sub(1), count, count.saturating_add(7)]);
        questions.push(question(&seed, &sale, count, &numbers));
    }
    for (question, opinion) in questions.iter().zip(second_opinions(&questions)) {
        let seed: Vec<u8> = bytes(question["seed"].as_str().unwrap());
        let sale: SaleId = question["sale"].as_str().unwrap().parse().unwrap();
        let count = question["count"].as_u64().unwrap();
        let draw = penstock_gate::Draw::new(&seed.try_into().unwrap(), sale, count);
        let places = numbers(&question["numbers"]).into_iter().map(|number| draw.place(number));
        assert_eq!(places.collect::<Vec<u64>>(), numbers(&opinion["places"]), "{question}");
    }
}

fn bytes(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
}

#[test]
fn the_command_agrees_with_the_second_program_on_hundreds_of_tickets() {
    let sale = published_sale(1_000);
    let all: Vec<u64> = (0..1_010).step_by(3).collect();
    let opinion = second_opinions(&[question(&the_seed(), SALE, 1_000, &all)]).remove(0);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sale.json");
    fs::write(&file, sale.to_string()).unwrap();
    let penstock = Penstock::new(BINARY);
    for (number, place) in all.iter().zip(numbers(&opinion["places"])) {
        let ticket = ticket(*number);
        let arguments = ["draw", "verify", "--json", "--sale", file.to_str().unwrap(), "--ticket", &ticket];
        let run = penstock.run(&arguments).unwrap();
        assert_eq!(code(&run), 0, "{}", run.stderr);
        let verified: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(verified["place"], place + 1, "people count from 1");
        assert_eq!(verified["ticket"], *number);
        assert_eq!(verified["drawn"], *number < 1_000);
        assert_eq!(verified["seed_sha256"], sale["draw"]["seed_sha256"]);
    }
}

#[test]
fn a_seed_that_was_not_promised_is_refused() {
    let mut forged = published_sale(100);
    forged["draw"]["seed"] = hexadecimal(&[9; 32]).into();
    let run = verify_in(&forged, &["--ticket", &ticket(5)]);
    assert_eq!((code(&run), run.stdout.as_str()), (1, ""));
    assert!(run.stderr.contains("does NOT match the hash"), "{}", run.stderr);
    // The shop has changed seed and hash together, but somebody wrote the hash down.
    let run = verify_in(&published_sale(100), &["--ticket", &ticket(5), "--commitment", OTHER_HASH]);
    assert_eq!(code(&run), 1);
    assert!(run.stderr.contains(OTHER_HASH), "{}", run.stderr);
}

#[test]
fn a_draw_that_is_not_published_yet_cannot_be_verified() {
    let mut sale = published_sale(100);
    sale["draw"]["seed"] = Value::Null;
    sale["draw"]["count"] = Value::Null;
    let run = verify_in(&sale, &["--ticket", &ticket(5)]);
    assert_eq!(code(&run), 1);
    assert!(run.stderr.contains("not published yet"), "{}", run.stderr);
}

#[test]
fn seed_count_and_sale_can_be_given_as_flags() {
    let sale = published_sale(50_000);
    let (seed, ticket) = (hexadecimal(&the_seed()), ticket(1_234));
    let by_hand = ["--seed", &seed, "--count", "50000", "--sale-id", SALE, "--ticket", &ticket];
    let run = verify(&by_hand);
    assert_eq!(code(&run), 0, "{}", run.stderr);
    let hash = sale["draw"]["seed_sha256"].as_str().unwrap();
    assert!(run.stdout.contains("place 43983") && run.stdout.contains(hash), "{}", run.stdout);
    assert!(!run.stdout.contains("the seed matches"), "there was nothing to match: {}", run.stdout);
    let run = verify(&[&by_hand[..], &["--commitment", hash]].concat());
    assert_eq!(code(&run), 0, "{}", run.stderr);
    assert!(run.stdout.contains("the seed matches"), "{}", run.stdout);
    assert_eq!(code(&verify(&[&by_hand[..], &["--commitment", OTHER_HASH]].concat())), 1);
}

#[test]
fn the_sale_can_be_read_from_stdin() {
    let mut process = without_callers_settings(&mut Command::new(BINARY))
        .args(["draw", "verify", "--sale", "-", "--ticket", &ticket(3)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    process.stdin.take().unwrap().write_all(published_sale(10).to_string().as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success());
    // The first example of `docs/draw.md`, where places count from 0.
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("ticket 3 of 10 has place 4 (1 is first)"));
}

#[test]
fn invalid_input_is_a_usage_error() {
    let (ticket, seed) = (ticket(1), hexadecimal(&the_seed()));
    let unusable: [&[&str]; 9] = [
        &[],
        &["--ticket", &ticket],
        &["--ticket", &ticket, "--sale", "/no/such/file"],
        &["--ticket", &ticket, "--sale", BINARY],
        &["--ticket", "1234", "--seed", &seed, "--count", "5", "--sale-id", SALE],
        &["--ticket", &ticket, "--seed", &seed, "--count", "5"],
        &["--ticket", &ticket, "--seed", "00", "--count", "5", "--sale-id", SALE],
        &["--ticket", &ticket, "--seed", &seed, "--count", "-5", "--sale-id", SALE],
        &["--ticket", &ticket, "--seed", &seed, "--count", "5", "--sale-id", "no sale"],
    ];
    for arguments in unusable {
        let run = verify(arguments);
        assert_eq!(code(&run), 2, "{arguments:?}: {}", run.stderr);
        assert!(!run.stderr.is_empty());
    }
    let mut other = published_sale(10);
    other["draw"]["algorithm"] = "penstock draw 2".into();
    assert_eq!(code(&verify_in(&other, &["--ticket", &ticket])), 2);
    assert_eq!(code(&verify_in(&json!({ "id": SALE }), &["--ticket", &ticket])), 2);
}

#[test]
fn help_has_an_example() {
    for arguments in [&["draw", "--help"][..], &["draw", "verify", "--help"]] {
        let run = Penstock::new(BINARY).run(arguments).unwrap();
        assert_eq!(code(&run), 0);
        assert!(run.stdout.contains("Example"), "{}", run.stdout);
    }
}
