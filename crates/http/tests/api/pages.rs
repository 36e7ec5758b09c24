//! The pages of the shop and the console: their paths, the headers for caches and browsers, and the built
//! files.

use std::{fs, path::PathBuf};

use penstock_domain::Timestamp;
use penstock_http::PageFile;

use crate::support::{Answer, Client, START, Shop};

const PERSON: (&str, &str) = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
const BROWSER: (&str, &str) = ("accept-encoding", "gzip, deflate, br, zstd");
/// The most that a phone on a slow network has to load before it shows the shop.
const MAX_FIRST_LOAD_BYTES: u64 = 50_000;

const fn file(path: &'static str, content_type: &'static str, bytes: &'static [u8]) -> PageFile {
    PageFile { path, content_type, fingerprint: "f1", bytes, brotli: None, gzip: None }
}

/// The content of the compressed variants does not matter here, so it is different text.
fn files() -> Vec<PageFile> {
    let html = "text/html; charset=utf-8";
    vec![
        PageFile {
            brotli: Some(b"shop.br"),
            gzip: Some(b"shop.gz"),
            ..file("/index.html", html, b"the shop")
        },
        file("/console.html", html, b"the console"),
        PageFile { gzip: Some(b"js.gz"), ..file("/assets/shop-1a2b.js", "text/javascript", b"the code") },
        file("/favicon.svg", "image/svg+xml", b"<svg/>"),
        file("/robots.txt", "text/plain; charset=utf-8", b"User-agent: *"),
    ]
}

fn shop() -> Shop {
    Shop::open_with(|options| options.pages = files().leak())
}

fn get(client: &mut Client, path: &str, headers: &[(&str, &str)]) -> Answer {
    client.request("GET", path, headers, b"")
}

#[test]
fn every_page_of_the_shop_is_the_same_and_the_console_is_another() {
    let shop = shop();
    let mut client = shop.client();
    let sale = format!("/sales/{}", shop.sale(1));
    let pages = ["/", "/?from=a-friend", &sale, "/orders", "/orders/0123456789abc"];
    for path in pages.into_iter().chain(["/sign-in", "/sign-up", "/account", "/orders/"]) {
        let answer = client.get(path);
        assert_eq!((answer.status, answer.text().as_str()), (200, "the shop"), "{path}");
        assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(answer.header("set-cookie"), None, "a page for everybody sets no cookie");
    }
    for path in ["/console", "/console/", "/console/sales", "/console/sales/0123456789abc/live"] {
        let answer = client.get(path);
        assert_eq!((answer.status, answer.text().as_str()), (200, "the console"), "{path}");
    }
    assert_eq!(client.get("/robots.txt").text(), "User-agent: *");
    client.request("POST", "/orders", &[], b"").problem(405, "method_not_allowed");
}

#[test]
fn an_asset_with_a_hash_is_kept_for_ever_and_a_page_is_revalidated() {
    let shop = shop();
    let mut client = shop.client();
    let cached = |answer: &Answer| answer.header("cache-control").unwrap().to_owned();
    assert_eq!(cached(&client.get("/assets/shop-1a2b.js")), "public, max-age=31536000, immutable");
    for path in ["/", "/console", "/favicon.svg"] {
        let cached = cached(&client.get(path));
        assert!(cached.starts_with("public, max-age=") && !cached.contains("immutable"), "{path}: {cached}");
    }
    let gone = get(&mut client, "/assets/shop-old.js", &[PERSON]);
    gone.problem(404, "not_found");
}

#[test]
fn a_page_is_sent_in_an_encoding_that_the_browser_accepts() {
    let shop = shop();
    let mut client = shop.client();
    let mut form = |path: &str, accepted: &str| {
        let answer = get(&mut client, path, &[("accept-encoding", accepted)]);
        assert_eq!(answer.header("vary"), Some("accept-encoding"), "{path} {accepted}");
        let encoding = answer.header("content-encoding").map(str::to_owned);
        (encoding, answer.text())
    };
    let compressed = |encoding: &str, text: &str| (Some(encoding.to_owned()), text.to_owned());
    assert_eq!(form("/", BROWSER.1), compressed("br", "shop.br"));
    assert_eq!(form("/", "br;q=0, gzip"), compressed("gzip", "shop.gz"));
    assert_eq!(
        form("/assets/shop-1a2b.js", BROWSER.1),
        compressed("gzip", "js.gz"),
        "there is no smaller variant"
    );
    assert_eq!(form("/", "gzip;q=0"), (None, "the shop".to_owned()));
    assert_eq!(form("/favicon.svg", BROWSER.1), (None, "<svg/>".to_owned()));
}

#[test]
fn a_page_that_a_browser_already_has_is_not_sent_again() {
    let shop = shop();
    let mut client = shop.client();
    let first = get(&mut client, "/", &[BROWSER]);
    let etag = first.header("etag").unwrap();
    let listed = format!("\"other\", W/{etag}");
    for known in [etag, &listed] {
        let again = get(&mut client, "/orders", &[BROWSER, ("if-none-match", known)]);
        assert_eq!(again.status, 304);
        for same in ["etag", "cache-control", "vary", "content-security-policy"] {
            assert_eq!(again.header(same), first.header(same), "{same}");
        }
    }
    let plain = get(&mut client, "/", &[("if-none-match", etag)]);
    assert_eq!((plain.status, plain.text().as_str()), (200, "the shop"), "another variant has another tag");
    assert_eq!(get(&mut client, "/console", &[BROWSER, ("if-none-match", "\"f1-br\"")]).status, 200);
}

#[test]
fn head_has_the_headers_of_get() {
    let shop = shop();
    let mut client = shop.client();
    for path in ["/", "/console/sales", "/assets/shop-1a2b.js", "/robots.txt", "/nowhere"] {
        let headers = [BROWSER, PERSON];
        let whole = get(&mut client, path, &headers);
        let head = client.request("HEAD", path, &headers, b"");
        assert_eq!((head.status, head.body.len()), (whole.status, 0), "{path}");
        for same in ["content-length", "content-type", "etag", "content-encoding", "cache-control"] {
            assert_eq!(head.header(same), whole.header(same), "{path}: {same}");
        }
    }
}

#[test]
fn the_page_of_a_sale_that_does_not_exist_is_not_found() {
    let shop = shop();
    let mut client = shop.client();
    let sale = shop.sale(1);
    for path in [format!("/sales/{sale}"), format!("/sales/{sale}/"), format!("/sales/{sale}?from=a-friend")]
    {
        assert_eq!(get(&mut client, &path, &[PERSON]).status, 200, "{path}");
    }
    let draft = format!("/sales/{}", shop.draft(|_| {}));
    let (found, lookups) = (shop.counted("sale_not_found"), lookups(&mut client));
    let unknown = ["/sales/abc", "/sales/0123456789abc", "/sales/0123456789abc/", &draft];
    for path in unknown {
        let lost = get(&mut client, path, &[PERSON, ("if-none-match", "\"f1\"")]);
        assert_eq!((lost.status, lost.text().as_str()), (404, "the shop"), "{path}");
        assert_eq!((lost.header("cache-control"), lost.header("etag")), (Some("no-store"), None), "{path}");
        get(&mut client, path, &[]).problem(404, "sale_not_found");
    }
    assert_eq!(shop.counted("sale_not_found") - found, 2 * unknown.len() as u64);
    for number in 0..500 {
        assert_eq!(get(&mut client, &format!("/sales/{number:013}"), &[PERSON]).status, 404);
    }
    assert_eq!(self::lookups(&mut client), lookups, "only this node's memory was asked");
}

/// The status of a sale's page for a person, what caches may do with it, and the status of the sale in the
/// API.
fn page_and_api(shop: &Shop, sale: &str) -> (u16, String, u16) {
    let mut client = shop.client();
    let page = get(&mut client, &format!("/sales/{sale}"), &[PERSON]);
    let cached = page.header("cache-control").unwrap().to_owned();
    (page.status, cached, client.get(&format!("/api/v1/sales/{sale}")).status)
}

#[test]
fn the_page_of_a_sale_has_the_status_of_the_sale_and_is_not_cached_while_that_is_unknown() {
    let shop = shop();
    let (there, forgotten) = (shop.sale(1), shop.draft(|_| {}));
    let now = Timestamp::from_millis(START);
    // Only the records know the sale, as after the ledger has forgotten it, or for a moment before there is
    // news of it.
    shop.block_on(shop.records.mark_published(forgotten.parse().unwrap(), now)).unwrap();
    let shop = shop.reopen_with(|options| options.pages = files().leak());
    let (kept, not_kept) = (page_and_api(&shop, &there).1, "no-store".to_owned());
    assert!(kept.starts_with("public, max-age="), "{kept}");
    assert_eq!(page_and_api(&shop, &there), (200, kept.clone(), 200));
    assert_eq!(page_and_api(&shop, &forgotten), (200, not_kept.clone(), 503));
    assert_eq!(page_and_api(&shop, "0123456789abc"), (404, not_kept.clone(), 404));
    shop.advance_seconds(10);
    assert_eq!(page_and_api(&shop, &forgotten), (404, not_kept.clone(), 404));
    // A ledger that does not answer can't say that a sale does not exist.
    shop.block_on(shop.ledger.stop());
    for unknown in [&forgotten, "0123456789abc"] {
        assert_eq!(page_and_api(&shop, unknown), (200, not_kept.clone(), 503), "{unknown}");
    }
    assert_eq!(page_and_api(&shop, &there), (200, kept, 200));
    assert_eq!(page_and_api(&shop, "abc"), (404, not_kept, 404), "no sale has such an id");
}

/// All look-ups in the catalogue, at any level.
fn lookups(client: &mut Client) -> u64 {
    let metrics = client.get("/metrics").text();
    let counts = metrics.lines().filter(|line| line.starts_with("penstock_catalogue_lookups_total{"));
    counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

#[test]
fn a_person_gets_an_error_page_and_a_program_gets_markdown() {
    let shop = shop();
    let mut client = shop.client();
    for (path, heading) in [
        ("/errors/sold_out", "<h1><code>sold_out</code>: the sale is sold out</h1>"),
        ("/errors/sold_out.md", "<h1><code>sold_out</code>: the sale is sold out</h1>"),
        ("/errors/", "<a href=\"sold_out.md\"><code>sold_out</code></a>"),
    ] {
        let page = get(&mut client, path, &[PERSON]);
        assert_eq!(
            (page.status, page.header("content-type")),
            (200, Some("text/html; charset=utf-8")),
            "{path}"
        );
        assert_eq!(page.header("vary"), Some("accept"), "{path}");
        assert!(page.header("content-security-policy").unwrap().contains("style-src 'self'"), "{path}");
        let text = page.text();
        assert!(text.contains(heading), "{text}");
        assert!(!text.contains("<style") && !text.contains("<script"), "{text}");
    }
    for accept in ["*/*", "text/plain", "text/markdown, text/html;q=0.5", "text/html;q=0"] {
        let text = get(&mut client, "/errors/sold_out", &[("accept", accept)]);
        assert_eq!(text.header("content-type"), Some("text/plain; charset=utf-8"), "{accept}");
        assert!(text.text().starts_with("# `sold_out`"), "{accept}");
    }
    let style = client.get("/errors/style.css");
    assert_eq!((style.status, style.header("content-type")), (200, Some("text/css; charset=utf-8")));
    assert!(style.text().contains("--accent:"), "the colours of the shop");
}

#[test]
fn a_person_who_is_lost_sees_a_page_and_a_program_a_problem() {
    let shop = shop();
    let mut client = shop.client();
    let counted = shop.counted("not_found");
    let lost = get(&mut client, "/nowhere", &[PERSON, ("if-none-match", "\"f1\"")]);
    assert_eq!((lost.status, lost.text().as_str()), (404, "the shop"));
    assert_eq!((lost.header("cache-control"), lost.header("etag")), (Some("no-store"), None));
    assert_eq!(shop.counted("not_found"), counted + 1);
    get(&mut client, "/nowhere", &[("accept", "*/*")]).problem(404, "not_found");
    get(&mut client, "/nowhere", &[]).problem(404, "not_found");
    for path in
        ["/api/v1/nowhere", "/api/v1/sales/nothing", "/pictures/none.png", "/errors/none", "/docs/none"]
    {
        let answer = get(&mut client, path, &[PERSON]);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (404, Some("application/problem+json")),
            "{path}"
        );
    }
    client.request("POST", "/nowhere", &[PERSON], b"").problem(404, "not_found");
}

#[test]
fn a_path_that_a_cache_could_mistake_for_another_has_no_page() {
    let shop = shop();
    let mut client = shop.client();
    for path in [
        "/console/../assets/shop-1a2b.js",
        "/console/%2e%2e/assets/shop-1a2b.js",
        "/console/..%2Fassets/shop-1a2b.js",
        "/console/./sales",
        "/console//sales",
        "/console//",
        "/console/x/..",
        "/console/a\\b",
        "/console/x%0a",
        "/sales/..",
        "/sales/%2E%2e",
        "/sales/..%2fassets%2fshop-1a2b.js",
        "/orders/.",
        "/orders/../",
        "//",
        "//console",
        "/./",
        "/../robots.txt",
        "//robots.txt",
        "/x/../robots.txt",
    ] {
        let lost = get(&mut client, path, &[PERSON]);
        assert_eq!((lost.status, lost.text().as_str()), (404, "the shop"), "{path}");
        assert_eq!(lost.header("cache-control"), Some("no-store"), "{path}");
        let missing = client.get(path);
        missing.problem(404, "not_found");
        assert_eq!(missing.header("cache-control"), Some("no-store"), "{path}");
    }
    for path in [
        "/assets/../console",
        "/assets//shop-1a2b.js",
        "/assets/%73hop-1a2b.js",
        "/pictures/../console",
        "/pictures/%2e%2e%2fconsole",
        "/docs/../console",
        "/docs//swagger-ui.css",
        "/docs/x/../swagger-ui.css",
        "/docs/..%2fconsole",
        "/errors/../console",
        "/errors//sold_out",
        "/api/v1/../../console",
        "/api/v1/sales/../sales",
        "/api/v1//sales",
    ] {
        let missing = get(&mut client, path, &[PERSON]);
        assert_eq!(missing.status, 404, "{path}: {}", missing.text());
        assert_eq!(missing.header("content-type"), Some("application/problem+json"), "{path}");
        assert_eq!(missing.header("cache-control"), Some("no-store"), "{path}");
    }
}

#[test]
fn a_page_is_allowed_only_what_it_needs() {
    let shop = shop();
    let mut client = shop.client();
    for path in ["/", "/console", "/assets/shop-1a2b.js", "/nowhere"] {
        let answer = get(&mut client, path, &[PERSON]);
        let policy = answer.header("content-security-policy").unwrap();
        let rules: Vec<&str> = policy.split("; ").collect();
        for rule in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "frame-ancestors 'none'",
        ] {
            assert!(rules.contains(&rule), "{path}: {rule} is not in {policy}");
        }
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        if path.starts_with("/assets/") {
            continue;
        }
        assert_eq!(answer.header("referrer-policy"), Some("same-origin"));
        assert_eq!(answer.header("cross-origin-opener-policy"), Some("same-origin"));
        assert!(answer.header("permissions-policy").unwrap().contains("camera=()"));
    }
    for path in ["/docs", "/docs/swagger-ui.css"] {
        let answer = client.get(path);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }
    assert_eq!(client.get("/errors/sold_out").header("x-content-type-options"), Some("nosniff"));
}

#[test]
fn a_shop_without_pages_has_none() {
    let shop = Shop::open();
    for path in ["/", "/console", "/nowhere"] {
        get(&mut shop.client(), path, &[PERSON]).problem(404, "not_found");
    }
}

#[test]
fn no_cache_keeps_private_answers_of_the_api() {
    let shop = shop();
    let token = shop.account("+8613800138000", "correct horse");
    let mut ann = shop.client().with_token(&token);
    for path in ["/api/v1/me", "/api/v1/orders", "/api/v1/orders/0123456789abc-0", "/api/v1/nowhere"] {
        assert_eq!(ann.get(path).header("cache-control"), Some("no-store"), "{path}");
    }
    let sale = shop.sale(1);
    let answer = ann.get(&format!("/api/v1/sales/{sale}"));
    assert_eq!(answer.header("cache-control"), Some("no-cache"), "public answers have their own header");
}

fn web() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../web"))
}

/// A file that `make web` built.
fn built(name: &str) -> String {
    let path = web().join("dist").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}; run `make web`", path.display()))
}

/// The values of all attributes with this name.
fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    html.split(start.as_str()).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

#[test]
fn the_first_load_of_the_shop_is_small() {
    let page = built("index.html");
    let mut files = vec!["index.html"];
    for address in [attributes(&page, "src"), attributes(&page, "href")].concat() {
        files.push(address.strip_prefix('/').unwrap_or_else(|| panic!("{address} is on another host")));
    }
    assert!(files.len() > 2, "the page loads nothing: {page}");
    let size = |name: &str| {
        let path = web().join("dist").join(name);
        let compressed = web().join("dist").join(format!("{name}.br"));
        let sent = if compressed.is_file() { compressed } else { path };
        fs::metadata(&sent).unwrap_or_else(|error| panic!("{}: {error}", sent.display())).len()
    };
    let total: u64 = files.iter().map(|name| size(name)).sum();
    let each: Vec<String> = files.iter().map(|name| format!("{name}: {}", size(name))).collect();
    assert!(total < MAX_FIRST_LOAD_BYTES, "{total} bytes\n{}", each.join("\n"));
}

#[test]
fn no_page_contains_anything_that_its_policy_blocks() {
    for name in ["index.html", "console.html"] {
        let page = built(name);
        assert!(!page.contains("<style") && attributes(&page, "style").is_empty(), "{page}");
        let scripts: Vec<&str> = page.split("<script").skip(1).collect();
        assert!(
            !scripts.is_empty() && scripts.iter().all(|script| script.contains(" src=\"/assets/")),
            "{page}"
        );
        assert!(!page.contains("://"), "{name} names another host: {page}");
    }
}

#[test]
fn the_pages_are_written_for_the_current_api() {
    let known = fs::read_to_string(web().join("openapi.json")).unwrap();
    let is_same = known.trim() == penstock_http::openapi().trim();
    assert!(is_same, "the API has changed: run `make openapi`, then see what `npm run check` in web/ says");
}
