//! `penstock rush` against a real server: its findings are honest, and its buyers behave as people do.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use penstock_testkit::{CommandRun, Merchant, OfferTerms, Penstock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_penstock");

fn shop() -> Penstock {
    let mut penstock = Penstock::new(BINARY);
    penstock.start().unwrap();
    penstock
}

fn rush(penstock: &Penstock, arguments: &str) -> CommandRun {
    rush_at(penstock, penstock.address(), arguments)
}

fn rush_at(penstock: &Penstock, address: SocketAddr, arguments: &str) -> CommandRun {
    let url = format!("http://{address}");
    let words = ["rush", "--url", &url].into_iter().chain(arguments.split_whitespace());
    penstock.run(&words.collect::<Vec<_>>()).unwrap()
}

fn report(run: &CommandRun) -> Value {
    serde_json::from_str(&run.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}\n{}", run.stdout, run.stderr))
}

/// The report of a rehearsal in which every promise was kept.
fn clean(run: &CommandRun) -> Value {
    let report = report(run);
    let verdict = &report["verdict"];
    assert_eq!(run.status.code(), Some(0), "{verdict:#}\n{}", run.stderr);
    for count in ["oversold", "lost", "duplicated", "over_limit", "unanswered"] {
        assert_eq!(verdict[count], 0, "{count}: {verdict:#}");
    }
    assert_eq!(verdict["audit"], true, "{verdict:#}");
    report
}

fn sales(penstock: &Penstock) -> Vec<Value> {
    let list = penstock.client().get("/api/v1/sales").unwrap().json();
    list["data"].as_array().unwrap().clone()
}

fn number(report: &Value, pointer: &str) -> u64 {
    report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {report:#}"))
}

#[test]
fn everybody_at_the_opening_is_answered_and_the_books_agree() {
    let penstock = shop();
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("rehearsal.html");
    let data = penstock.data().display().to_string();
    let run = rush(
        &penstock,
        &format!(
            "--buyers 600 --units 40 --opens-in 3 --mix pays=0.5,cancels=0,double_clicks=0.2 --seed 7 --json \
             --data {data} --report {}",
            page.display()
        ),
    );
    let report = clean(&run);
    assert_eq!(number(&report, "/people/came"), 600);
    assert_eq!(number(&report, "/orders/units"), 40);
    assert!(report["opening"]["stock_gone_after_seconds"].is_number(), "{report:#}");
    assert!(number(&report, "/refused/sold_out") >= 560, "{report:#}");
    let paid = number(&report, "/orders/paid");
    assert_eq!(paid + number(&report, "/orders/walked_away"), 40);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && !page.contains("src=\"http"), "the page has to be self-contained");

    let sale = report["sale"].as_str().unwrap();
    let sale = Merchant::of(&penstock).sale(sale);
    assert_eq!(sale["state"], "closed", "a rehearsal's sale must not stay open");
}

#[test]
fn unpaid_units_are_sold_again_until_they_are_paid() {
    let penstock = shop();
    // A quarter do not pay, and there is time for eight rounds. It is next to impossible that any of the 30
    // units is left, or that everybody pays at once.
    let run = rush(
        &penstock,
        "--scenario unpaid --buyers 200 --units 30 --hold-seconds 2 --connections 200 --rate 500 --opens-in 2 --json \
         --mix comes_back=24,pays=0.75,pays_late=0,cancels=0.05",
    );
    let report = clean(&run);
    assert_eq!(number(&report, "/orders/paid"), 30, "{report:#}");
    assert!(number(&report, "/orders/accepted") > 30, "somebody did not pay: {report:#}");
}

#[test]
fn bots_get_nothing_by_skipping_the_gate_and_people_get_through_it() {
    let penstock = Penstock::new(BINARY).with("PENSTOCK_GATE__POW_MIN_BITS", 4);
    let mut penstock = penstock.with("PENSTOCK_HTTP__TRUSTED_PROXIES", "127.0.0.0/8");
    penstock.start().unwrap();
    let run = rush(&penstock, "--scenario bots --buyers 60 --units 10 --opens-in 3 --json --rate 50");
    let report = clean(&run);
    assert!(number(&report, "/people/served") > 0, "{report:#}");
    assert!(number(&report, "/bots_refused/pass_required") > 0, "{report:#}");
    assert_eq!(number(&report, "/people/bots_served_without_challenge"), 0, "{report:#}");
}

#[test]
fn nobody_buys_before_a_late_opening() {
    let penstock = shop();
    let run = rush(
        &penstock,
        "--scenario late-opening --buyers 300 --units 30 --connections 300 --opens-in 3 --json",
    );
    let report = clean(&run);
    for slice in report["timeline"].as_array().unwrap() {
        let end = slice["at_ms"].as_i64().unwrap() + report["slice_ms"].as_i64().unwrap();
        assert!(end > 0 || slice["sold"] == 0, "{slice}");
    }
    assert!(number(&report, "/refused/not_open") > 0, "nobody pressed too early: {report:#}");
}

#[test]
fn as_fast_as_it_goes_is_a_closed_loop() {
    let penstock = shop();
    let run = rush(
        &penstock,
        "--scenario ten-million --buyers 5000 --units 100 --connections 32 --opens-in 1 --json",
    );
    let report = clean(&run);
    assert!(number(&report, "/order_requests") >= 5_000, "{report:#}");
    assert_eq!(number(&report, "/generator/connections"), 32);
}

#[test]
fn buyers_without_a_shop_sign_up() {
    let mut penstock = Penstock::new(BINARY).with("PENSTOCK_IDENTITY__CODES_IN_ANSWERS", "true");
    penstock.start().unwrap();
    let run = rush(&penstock, "--buyers 12 --units 3 --opens-in 2 --accounts --json --seed 1");
    let report = clean(&run);
    assert_eq!(number(&report, "/latency/sign_in/count"), 12);
    assert_eq!(number(&report, "/orders/units"), 3);
}

#[test]
fn a_sale_that_exists_is_rehearsed_as_it_is() {
    let penstock = shop();
    let offer = OfferTerms { units: 7, limit_per_buyer: 1, ..OfferTerms::default() };
    let sale = Merchant::of(&penstock).publish(offer);
    let run = rush(&penstock, &format!("--sale {sale} --buyers 50 --mix cancels=0 --json"));
    let report = clean(&run);
    assert_eq!(number(&report, "/orders/units"), 7);
    assert_ne!(Merchant::of(&penstock).sale(&sale)["state"], "closed", "it is somebody's own");
}

#[test]
fn a_sale_that_was_not_named_is_never_bought_from() {
    let penstock = shop();
    let sale = Merchant::of(&penstock).publish(OfferTerms { units: 7, ..OfferTerms::default() });
    let url = format!("http://{}", penstock.address());
    for arguments in ["--buyers 5 --units 3", "--scenario unpaid", "--buyers 5 --units 3 --accounts"] {
        let mut command = penstock.bare_command();
        // A user without a token, in a folder that no demo has written to.
        command.env_remove("PENSTOCK_ADMIN_TOKEN").env("PENSTOCK_DATA", "/no/such/folder");
        command.args(["rush", "--url", &url]).args(arguments.split_whitespace());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {said}");
        for help in ["--sale ID", "PENSTOCK_ADMIN_TOKEN", "--config FILE", "--data DIR"] {
            assert!(said.contains(help), "{arguments}: {said}");
        }
    }
    assert_eq!(Merchant::of(&penstock).sale(&sale)["stock"]["available"], 7, "somebody has bought");
}

#[test]
fn in_a_pipe_it_prints_progress_unless_it_is_told_to_be_quiet() {
    let penstock = shop();
    // Longer than the interval between lines of progress.
    let arguments = "--buyers 40 --units 4 --opens-in 1 --rate 5 --mix cancels=0";
    let told = rush(&penstock, arguments);
    assert_eq!(told.status.code(), Some(0), "{}", told.stderr);
    let lines: Vec<&str> = told.stderr.lines().filter(|line| line.contains("; sold ")).collect();
    assert!(lines.len() >= 2, "{}", told.stderr);
    assert!(lines.iter().all(|line| line.contains(" of 40; ") && line.contains("of 4 units")), "{lines:?}");
    assert!(!told.stdout.contains("; sold "), "stdout has only the report: {}", told.stdout);
    let quiet = rush(&penstock, "--buyers 4 --units 4 --opens-in 1 --quiet");
    assert_eq!((quiet.status.code(), quiet.stderr.as_str()), (Some(0), ""));
}

#[test]
fn buyers_wait_while_a_killed_server_restarts() {
    let mut penstock = shop();
    let command = penstock.bare_command();
    let mut rush = command;
    let url = format!("http://{}", penstock.address());
    rush.args([
        "rush",
        "--url",
        &url,
        "--buyers",
        "4000",
        "--units",
        "3000",
        "--rate",
        "1000",
        "--opens-in",
        "2",
    ]);
    rush.args(["--connections", "200", "--mix", "pays=1,cancels=0", "--json"]);
    let rush = rush.spawn().unwrap();
    let began = Instant::now();
    let has_sold = |sale: &Value| sale["stock"]["available"].as_u64().is_some_and(|left| left < 3_000);
    while !sales(&penstock).iter().any(has_sold) {
        assert!(began.elapsed() < Duration::from_secs(60), "nobody has bought");
        thread::sleep(Duration::from_millis(20));
    }
    penstock.kill().unwrap();
    penstock.start().unwrap();
    let output = rush.wait_with_output().unwrap();
    let run = CommandRun {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    let report = clean(&run);
    assert_eq!(number(&report, "/orders/units"), 3_000);
    assert!(number(&report, "/generator/connections_lost") > 0, "nobody noticed the kill: {report:#}");
}

#[test]
fn an_interrupted_rehearsal_leaves_no_sale_behind() {
    let penstock = shop();
    let url = format!("http://{}", penstock.address());
    let mut command = penstock.bare_command();
    command.args(["rush", "--url", &url, "--buyers", "100", "--units", "10", "--opens-in", "600"]);
    let rush = command.spawn().unwrap();
    while sales(&penstock).is_empty() {
        thread::sleep(Duration::from_millis(20));
    }
    // The rehearsal hears of its sale a moment after the shop does.
    thread::sleep(Duration::from_secs(1));
    kill_process(Pid::from_raw(rush.id() as i32).unwrap(), Signal::INT).unwrap();
    let output = rush.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("its sale is closed"), "{said}");
    assert_eq!(sales(&penstock)[0]["state"], "closed");
}

#[test]
fn a_missing_server_is_reported_before_anything_else() {
    let nobody = "http://127.0.0.1:1";
    let place = tempfile::tempdir().unwrap();
    // Without a token, as with `make rush`.
    let penstock = Penstock::in_folder(BINARY, place.path()).with("PENSTOCK_ADMIN_TOKEN", "");
    let data = place.path().display().to_string();
    let words = ["rush", "--url", nobody, "--buyers", "1", "--units", "1", "--data", &data];
    let run = penstock.run(&words).unwrap();
    assert_eq!(run.status.code(), Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("nobody answers at http://127.0.0.1:1"), "{}", run.stderr);
    assert!(run.stderr.contains("make run"), "{}", run.stderr);
    let elsewhere = r#"{"url":"http://127.0.0.1:2","admin_token":"a","jwt_secret":"b"}"#;
    fs::write(place.path().join("demo.json"), elsewhere).unwrap();
    let run = penstock.run(&words).unwrap();
    assert!(run.stderr.contains("nobody answers at http://127.0.0.1:1"), "{}", run.stderr);
    assert!(run.stderr.contains("demo.json belongs to a demo at http://127.0.0.1:2"), "{}", run.stderr);
}

/// Passes everything on, except that it turns refusals into orders.
fn lying_proxy(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(server).unwrap();
            thread::spawn(move || lie(client, server));
        }
    });
    address
}

/// A refusal is small and comes in one piece.
fn lie(mut client: TcpStream, mut server: TcpStream) {
    let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    thread::spawn(move || io::copy(&mut from_client, &mut to_server));
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let Ok(count @ 1..) = server.read(&mut bytes) else { return };
        let answer = String::from_utf8_lossy(&bytes[..count]).into_owned();
        let lie = if answer.starts_with("HTTP/1.1 409") {
            let body = r#"{"id":"0000000000000-7","state":"held","quantity":1}"#;
            format!(
                "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        } else {
            answer
        };
        if client.write_all(lie.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn a_broken_promise_is_found() {
    let penstock = shop();
    let proxy = lying_proxy(penstock.address());
    let run = rush_at(
        &penstock,
        proxy,
        "--buyers 20 --units 4 --opens-in 2 --connections 20 --mix pays=0,cancels=0 --json",
    );
    assert_eq!(run.status.code(), Some(1), "{}", run.stderr);
    let report = report(&run);
    assert_eq!(number(&report, "/verdict/lost"), 16, "{report:#}");
    assert_eq!(number(&report, "/verdict/duplicated"), 15, "one order promised to sixteen: {report:#}");
    assert!(!report["verdict"]["findings"].as_array().unwrap().is_empty());
}

#[test]
fn a_mistake_is_explained_in_a_sentence() {
    let penstock = shop();
    for (arguments, sentence) in [
        ("--units 5", "how many buyers?"),
        ("--buyers 5", "how many units?"),
        ("--scenario nonsense", "there is no scenario \"nonsense\""),
        ("--buyers 5 --units 5 --mix pays=2", "mix.pays is a share"),
        ("--buyers 5 --units 5 --mix sings=1", "no \"sings\""),
        ("--buyers 5 --units 5 --challenge riddle", "none, pow or captcha"),
        ("--buyers 5 --units 5 --ramp 3", "needs an arrivals.rate"),
        ("--buyers 5 --units 5 --mix comes_back=-3", "comes_back is a count"),
        ("--buyers 0 --units 5", "--buyers has to be from 1"),
        ("--buyers 5 --units 5 --bots 11", "--bots has to be from 0 to 10"),
        ("--buyers 5 --units 5 --threads 0", "threads have to be"),
        ("--buyers 5 --sale abc --opens-in 3", "--opens-in is for a new sale"),
        ("--buyers 5 --sale abc --units 3", "--units is for a new sale"),
    ] {
        let run = rush(&penstock, arguments);
        assert_eq!(run.status.code(), Some(2), "{arguments}: {}", run.stderr);
        assert!(run.stderr.contains(sentence), "{arguments}: {}", run.stderr);
    }
    let https =
        penstock.run(&["rush", "--url", "https://localhost", "--buyers", "1", "--units", "1"]).unwrap();
    assert_eq!(https.status.code(), Some(2));
    assert!(https.stderr.contains("https is not spoken"), "{}", https.stderr);
    let unwritable = rush(&penstock, "--buyers 5 --units 5 --report /no/such/folder/page.html");
    assert_eq!(unwritable.status.code(), Some(1));
    assert!(unwritable.stderr.contains("/no/such/folder/page.html"), "{}", unwritable.stderr);
    assert!(sales(&penstock).is_empty(), "nothing was rehearsed whose report could not be written");
    let unreachable =
        penstock.run(&["rush", "--url", "http://127.0.0.1:1", "--buyers", "1", "--units", "1"]).unwrap();
    assert_eq!(unreachable.status.code(), Some(1));
    assert!(unreachable.stderr.contains("127.0.0.1:1"), "{}", unreachable.stderr);
    let words = ["rush", "--buyers", "9000", "--units", "1", "--accounts", "--url"];
    let unreachable = penstock.run(&[&words[..], &["http://127.0.0.1:1"]].concat()).unwrap();
    assert!(unreachable.stderr.contains("nobody answers at http://127.0.0.1:1"), "{}", unreachable.stderr);
    let url = format!("http://{}", penstock.address());
    let too_many = penstock.run(&[&words[..], &[&url]].concat()).unwrap();
    assert!(
        too_many.stderr.contains("--data DIR") && too_many.stderr.contains("--config FILE"),
        "{}",
        too_many.stderr
    );
    let wrong =
        Penstock::new(BINARY).with("PENSTOCK_IDENTITY__JWT__SECRET", "another-secret-of-at-least-32-bytes");
    let refused = rush_at(&wrong, penstock.address(), "--buyers 1 --units 1");
    for words in
        ["the JWT secret from the variable PENSTOCK_IDENTITY__JWT__SECRET is not the server's", "`unset "]
    {
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
    let wrong = Penstock::new(BINARY).with("PENSTOCK_ADMIN_TOKEN", "a-token-of-another-server");
    let refused = rush_at(&wrong, penstock.address(), "--buyers 1 --units 1");
    for words in ["does not accept the admin token", "from the variable PENSTOCK_ADMIN_TOKEN", "`unset "] {
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
    assert!(sales(&penstock).is_empty(), "nothing was published");
}
