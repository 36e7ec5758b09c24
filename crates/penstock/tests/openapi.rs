//! The API's document is useful: linters find no error in it, third-party generators make clients from it in
//! many languages, and those clients buy, pay and list on a real server. A fuzzer checks the document's
//! promises. The tools come from PyPI and npm and are installed once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use penstock_local::{self as local, require_packages};
use penstock_testkit::{ADMIN_TOKEN, Merchant, OfferTerms, Penstock, buyer_token, done, from_npm, from_pypi};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_penstock");
/// The generators, and what their clients import.
const GENERATORS: &str = include_str!("clients/requirements.txt");
const FUZZER: &str = include_str!("fuzzer/requirements.txt");

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

fn tools() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn npm() -> &'static Path {
    static NPM: OnceLock<PathBuf> = OnceLock::new();
    NPM.get_or_init(|| from_npm(tools(), "clients-npm", &clients()).unwrap())
}

fn program_of_npm(name: &str) -> Command {
    let mut program = Command::new(npm().join("node_modules/.bin").join(name));
    // They would like to collect usage data.
    program.envs([("REDOCLY_TELEMETRY", "off"), ("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true")]);
    program
}

/// A Python program, with the other installed programs in its PATH.
fn program_of_pypi(name: &str) -> Command {
    static BIN: OnceLock<PathBuf> = OnceLock::new();
    let bin = BIN.get_or_init(|| from_pypi(tools(), "clients-pypi", GENERATORS).unwrap());
    let mut program = Command::new(bin.join(name));
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([bin.clone()].into_iter().chain(env::split_paths(&path))).unwrap();
    program.env("PATH", path);
    program
}

fn openapi_generator() -> Command {
    require_packages(|| local::find("java").is_some(), &["default-jre-headless"]).unwrap();
    program_of_pypi("openapi-generator-cli")
}

/// A folder with the document as the program prints it.
fn document() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("openapi.json");
    let printed = done(Penstock::new(BINARY).bare_command().arg("openapi")).unwrap();
    fs::write(&file, printed.stdout).unwrap();
    (folder, file)
}

/// The names of all calls.
fn calls(document: &Path) -> Vec<String> {
    let document: serde_json::Value = serde_json::from_slice(&fs::read(document).unwrap()).unwrap();
    let calls = document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap());
    calls.map(|(_, call)| call["operationId"].as_str().unwrap().to_owned()).collect()
}

/// A shop in which one buyer can have one unit.
struct Shop {
    penstock: Penstock,
    sale: String,
}

impl Shop {
    fn open() -> Self {
        Self::at(Penstock::new(BINARY))
    }

    /// A shop that lets one buyer make as many requests as they like.
    fn without_limits() -> Self {
        let limits = ["BY_BUYER", "BY_ADDRESS", "READS_BY_BUYER", "READS_BY_ADDRESS", "TICKETS_BY_BUYER"];
        let limits = limits.map(|limit| format!("PENSTOCK_GATE__LIMITS__{limit}_BURST"));
        Self::at(limits.iter().fold(Penstock::new(BINARY), |penstock, limit| penstock.with(limit, 1_000_000)))
    }

    fn at(mut penstock: Penstock) -> Self {
        penstock.start().unwrap();
        let sale = Merchant::of(&penstock).publish(OfferTerms { units: 5, ..OfferTerms::default() });
        Self { penstock, sale }
    }

    /// Runs a program that takes the address, the sale, a buyer's token and the merchant's, buys, and prints
    /// the order.
    fn lets_buy(&self, program: &mut Command) {
        let url = format!("http://{}", self.penstock.address());
        let bought = done(program.args([&url, &self.sale, &buyer_token("ann"), ADMIN_TOKEN])).unwrap();
        let order = String::from_utf8(bought.stdout).unwrap();
        let mut ann = self.penstock.client().with_token(&buyer_token("ann"));
        let found = ann.get(&format!("/api/v1/orders/{}", order.trim())).unwrap();
        assert_eq!((found.status, &found.json()["state"]), (200, &"paid".into()), "{order}");
    }
}

/// A TypeScript client in `folder`, compiled.
fn compile(folder: &Path, program: &str) -> PathBuf {
    fs::copy(clients().join(program), folder.join("buy.ts")).unwrap();
    for file in ["tsconfig.json", "package.json"] {
        fs::copy(clients().join(file), folder.join(file)).unwrap();
    }
    std::os::unix::fs::symlink(npm().join("node_modules"), folder.join("node_modules")).unwrap();
    done(program_of_npm("tsc").arg("-p").arg(folder)).unwrap();
    folder.join("out/buy.js")
}

#[test]
fn linters_find_no_error_in_the_document() {
    let (folder, file) = document();
    let rules = folder.path().join("spectral.json");
    fs::write(&rules, r#"{ "extends": ["spectral:oas"] }"#).unwrap();
    done(program_of_npm("spectral").args(["lint", "--ruleset"]).arg(rules).arg(&file)).unwrap();
    done(program_of_npm("redocly").arg("lint").arg(&file)).unwrap();
}

#[test]
fn openapi_generator_makes_clients_in_nine_languages_and_two_of_them_buy() {
    let (folder, file) = document();
    let others = ["java", "go", "kotlin", "rust", "csharp", "php", "ruby"];
    let mine = ["python", "typescript-fetch"];
    let configurations = others.into_iter().chain(mine).map(|language| {
        let output = folder.path().join(language);
        let configuration = serde_json::json!({
            "inputSpec": file,
            "generatorName": language,
            "outputDir": if language == "typescript-fetch" { output.join("shop") } else { output },
            "additionalProperties": { "packageName": "shop", "importFileExtension": ".js" },
        });
        let path = folder.path().join(format!("{language}.json"));
        fs::write(&path, configuration.to_string()).unwrap();
        path
    });
    let configurations: Vec<PathBuf> = configurations.collect();
    // All in one process: starting Java takes longer than generating.
    done(openapi_generator().args(["batch", "--fail-fast", "--threads", "2"]).args(configurations)).unwrap();
    for language in others.into_iter().chain(mine) {
        assert!(fs::read_dir(folder.path().join(language)).unwrap().count() > 0, "{language}");
    }

    let mut python = program_of_pypi("python");
    python.env("PYTHONPATH", folder.path().join("python"));
    Shop::open().lets_buy(python.arg(clients().join("buy_openapi_generator.py")));

    let compiled = compile(&folder.path().join("typescript-fetch"), "buy_openapi_generator.ts");
    Shop::open().lets_buy(Command::new("node").arg(compiled));
}

#[test]
fn a_client_by_openapi_python_client_buys() {
    let (folder, file) = document();
    let package = folder.path().join("shop");
    let mut generate = program_of_pypi("openapi-python-client");
    generate.args(["generate", "--meta", "none", "--path"]).arg(&file);
    done(generate.arg("--output-path").arg(&package)).unwrap();
    done(program_of_pypi("python").args(["-m", "compileall", "-q"]).arg(&package)).unwrap();
    for call in calls(&file) {
        let tags = fs::read_dir(package.join("api")).unwrap();
        let is_there = tags.into_iter().any(|tag| tag.unwrap().path().join(format!("{call}.py")).exists());
        // It does not know bodies that are pictures.
        assert_eq!(is_there, call != "create_picture", "{call}");
    }
    let mut python = program_of_pypi("python");
    python.env("PYTHONPATH", folder.path());
    Shop::open().lets_buy(python.arg(clients().join("buy_openapi_python_client.py")));
}

#[test]
fn a_client_with_the_types_of_openapi_typescript_buys() {
    let (folder, file) = document();
    let mut types = program_of_npm("openapi-typescript");
    types.arg(file).arg("-o").arg(folder.path().join("schema.ts"));
    done(types.args(["--root-types", "--root-types-no-schema-prefix"])).unwrap();
    let compiled = compile(folder.path(), "buy_openapi_typescript.ts");
    Shop::open().lets_buy(Command::new("node").arg(compiled));
}

/// The ids and tokens that the fuzzer uses for each call, so that it gets past the checks. It steers another
/// sale than the one it buys from.
fn fuzzer_settings(shop: &Shop) -> String {
    let mut merchant = Merchant::of(&shop.penstock);
    let many = OfferTerms { units: 500, limit_per_buyer: 100, ..OfferTerms::default() };
    let (bought, steered) = (merchant.publish(many), merchant.publish(many));
    let gated = merchant.publish_with(many, |sale| {
        sale["gate"] = serde_json::json!({ "challenge": "captcha", "waiting_room": true });
    });
    let item = merchant.item("Kettle");
    let mut ann = shop.penstock.client().with_token(&buyer_token("ann"));
    let order = ann.claim(&bought, 1, "of-the-fuzzer").unwrap().json()["id"].as_str().unwrap().to_owned();
    let bearer = |token: &str| format!("headers = {{ Authorization = \"Bearer {token}\" }}\n");
    let rules = [
        ("^/api/v1/admin/sales/", Some(&steered), true),
        ("^/api/v1/admin/items/", Some(&item), true),
        ("^/api/v1/admin/(?!(sales|items)/)", None, true),
        ("^/api/v1/items/", Some(&item), false),
        ("^/api/v1/sales/[^/]+(/orders|/waitlist)?$", Some(&bought), false),
        ("^/api/v1/sales/[^/]+/(challenge|tickets|pass)", Some(&gated), false),
        ("^/api/v1/orders/", Some(&order), false),
    ];
    let rules = rules.map(|(paths, id, is_admin)| {
        let id = id.map(|id| format!("parameters = {{ \"path.id\" = \"{id}\" }}\n")).unwrap_or_default();
        let headers = if is_admin { bearer(ADMIN_TOKEN) } else { String::new() };
        format!("[[operations]]\ninclude-path-regex = '{paths}'\n{id}{headers}")
    });
    // Bad data in too large a body is refused because of the size.
    let refusals = "[checks.negative_data_rejection]\nexpected-statuses = [\"4xx\"]\n";
    // A valid phone may have no code, and a valid sale may name an unknown item.
    let acceptances = "[checks.positive_data_acceptance]\nenabled = false\n";
    [&bearer(&buyer_token("ann")), acceptances, refusals, &rules.concat()].concat()
}

/// The requests are made up from the document, valid and invalid ones. No answer is a server error, invalid
/// requests are refused, and each answer is one that the document names, in its shape.
#[test]
fn a_fuzzer_finds_no_answer_that_the_document_does_not_name() {
    let bin = from_pypi(tools(), "fuzzer-pypi", FUZZER).unwrap();
    let (folder, file) = document();
    // Requests that are refused by a limit would not be checked.
    let shop = Shop::without_limits();
    fs::write(folder.path().join("schemathesis.toml"), fuzzer_settings(&shop)).unwrap();
    let mut fuzz = Command::new(bin.join("schemathesis"));
    fuzz.current_dir(folder.path()).arg("run").arg(file);
    fuzz.args(["--url", &format!("http://{}", shop.penstock.address())]);
    fuzz.args(["--phases", "examples,coverage,fuzzing", "--max-examples", "20", "--seed", "1"]);
    fuzz.args(["--workers", "1", "--request-timeout", "30", "--suppress-health-check", "all"]);
    // Streams of events don't end by themselves.
    fuzz.args(["--exclude-path-regex", "/(events|live)$"]);
    let said = done(&mut fuzz).unwrap();
    let said = String::from_utf8_lossy(&said.stdout);
    assert!(said.contains("✅ Fuzzing"), "{said}");
    assert_eq!(shop.penstock.client().get("/readyz").unwrap().status, 200);
}
