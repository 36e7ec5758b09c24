//! The repository checks itself: which crates may depend on which, how files open, and what must not be left
//! behind.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

const MAX_FILE_LINES: usize = 600;

/// The crates of the workspace that each crate may use. A crate that is not listed may use none.
const ALLOWED: &[(&str, &[&str])] = &[
    ("penstock-domain", &[]),
    ("penstock-gate", &["penstock-domain"]),
    ("penstock-redis-client", &[]),
    ("penstock-ledger", &["penstock-domain", "penstock-redis-client"]),
    ("penstock-records", &["penstock-domain"]),
    ("penstock-settle", &["penstock-domain", "penstock-ledger", "penstock-records"]),
    ("penstock-http", &["penstock-domain", "penstock-gate", "penstock-ledger", "penstock-records"]),
    (
        "penstock-shared-state",
        &["penstock-domain", "penstock-gate", "penstock-redis-client", "penstock-ledger", "penstock-http"],
    ),
    ("penstock-local", &[]),
    ("penstock-pages", &[]),
    ("penstock-rush", &["penstock-local"]),
    ("penstock-testkit", &["penstock-local"]),
    (
        "penstock",
        &[
            "penstock-domain",
            "penstock-gate",
            "penstock-redis-client",
            "penstock-ledger",
            "penstock-records",
            "penstock-settle",
            "penstock-http",
            "penstock-shared-state",
            "penstock-pages",
            "penstock-rush",
        ],
    ),
];

/// The crates that the tests of every crate may use.
const FOR_TESTS: &[&str] = &["penstock-local", "penstock-testkit"];

/// Crates that only the named crates of the workspace may depend on.
const RESERVED: &[(&str, &[&str])] = &[
    ("sqlx", &["penstock-records"]),
    ("rusqlite", &["penstock-ledger"]),
    ("axum", &["penstock-http"]),
    ("redis", &["penstock-redis-client", "penstock-ledger", "penstock-shared-state"]),
];

/// Crates that must not do any I/O.
const PURE: &[&str] = &["penstock-domain", "penstock-gate"];
const IMPURE: &[&str] = &["tokio", "sqlx", "rusqlite", "hyper", "axum", "libc"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Name and kind (`dev`, `build` or empty) of each dependency, by package.
fn dependencies() -> BTreeMap<String, Vec<(String, String)>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--locked"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of_package = |package: &Value| {
        let dependencies = package["dependencies"].as_array().unwrap();
        dependencies.iter().map(|dependency| (text(&dependency["name"]), text(&dependency["kind"]))).collect()
    };
    let packages = metadata["packages"].as_array().unwrap();
    packages.iter().map(|package| (text(&package["name"]), of_package(package))).collect()
}

#[test]
fn crates_see_only_what_they_may() {
    let packages = dependencies();
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let mut breaches = Vec::new();
    for (package, dependencies) in &packages {
        let may_see =
            allowed.get(package.as_str()).unwrap_or_else(|| panic!("{package} is missing in ALLOWED"));
        for (name, kind) in dependencies {
            let test_only = kind == "dev";
            let inside = packages.contains_key(name);
            let visible =
                may_see.contains(&name.as_str()) || (test_only && FOR_TESTS.contains(&name.as_str()));
            if inside && !visible {
                breaches.push(format!("{package} may not see {name}"));
            }
            let reserved = RESERVED.iter().find(|(reserved, _)| reserved == name);
            if !test_only && reserved.is_some_and(|(_, owners)| !owners.contains(&package.as_str())) {
                breaches.push(format!("{package} may not use {name}"));
            }
            if !test_only && PURE.contains(&package.as_str()) && IMPURE.contains(&name.as_str()) {
                breaches.push(format!("{package} does no I/O, so it may not use {name}"));
            }
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn files_are_tidy() {
    let mut files = Vec::new();
    collect(&root().join("crates"), &mut files);
    assert!(files.len() > 20, "the sources were not found");
    let mut findings = BTreeSet::new();
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        let name = file.strip_prefix(root()).unwrap().display().to_string();
        if !text.starts_with("//!") {
            findings.insert(format!("{name}: has to open with a //! line that says what it is for"));
        }
        let lines = text.lines().count();
        if lines > MAX_FILE_LINES {
            findings.insert(format!("{name}: {lines} lines; find the second subject in it"));
        }
        // This file has to name what it forbids.
        if !name.ends_with("tests/tidy.rs") {
            leftovers(&name, &text, &mut findings);
        }
    }
    assert!(findings.is_empty(), "{}", findings.into_iter().collect::<Vec<_>>().join("\n"));
}

fn leftovers(name: &str, text: &str, findings: &mut BTreeSet<String>) {
    for (number, line) in text.lines().enumerate() {
        for leftover in ["TODO", "FIXME", "dbg!(", "todo!(", "unimplemented!("] {
            if line.contains(leftover) {
                findings.insert(format!("{name}:{}: {leftover}", number + 1));
            }
        }
        let without_reason = |attribute: &str| line.trim_start().starts_with(attribute);
        if without_reason("#[ignore]") || line.contains("unbounded_channel()") {
            findings.insert(format!("{name}:{}: {}", number + 1, line.trim()));
        }
        let allow = line.trim_start().starts_with("#[allow(") || line.trim_start().starts_with("#![allow(");
        if allow && line.trim_end().ends_with(")]") && !line.contains("reason") {
            findings.insert(format!("{name}:{}: an #[allow] needs a reason", number + 1));
        }
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_dir() && !hidden && !path.ends_with("target") {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The code in a README: commands and their output, without comments.
fn shown_code(name: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(name)).unwrap();
    // Every second part is between two fences; its first line names a language, or is empty.
    let blocks = text.split("```").skip(1).step_by(2);
    let code = |line: &str| line.split("  #").next().unwrap_or_default().trim_end().to_owned();
    blocks.flat_map(|block| block.lines().map(code).collect::<Vec<_>>()).collect()
}

#[test]
fn both_readmes_show_the_same_commands_and_pictures() {
    assert_eq!(shown_code("README.md"), shown_code("README.zh.md"));
    let headings = |name: &str| {
        let text = fs::read_to_string(root().join(name)).unwrap();
        text.lines().filter(|line| line.starts_with("## ")).count()
    };
    assert_eq!(headings("README.md"), headings("README.zh.md"));
    let pictures = |name: &str| {
        let text = fs::read_to_string(root().join(name)).unwrap();
        let named = text.split("src=\"").skip(1).filter_map(|rest| rest.split('"').next());
        named.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(pictures("README.md"), pictures("README.zh.md"));
    let mut shown = pictures("README.md");
    shown.sort();
    let images = fs::read_dir(root().join("docs/images")).unwrap();
    let name = |image: io::Result<fs::DirEntry>| image.unwrap().file_name().into_string().unwrap();
    let mut taken: Vec<_> = images.map(|image| format!("docs/images/{}", name(image))).collect();
    taken.sort();
    assert_eq!(shown, taken, "the READMEs show the pictures of docs/images, which `make screenshots` takes");
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(page: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(page).unwrap();
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    let anchor = |heading: &str| -> String { heading.to_lowercase().chars().filter(kept).collect() };
    headings.map(|line| anchor(line.trim_start_matches('#').trim()).replace(' ', "-")).collect()
}

#[test]
fn links_to_a_section_find_it() {
    let mut pages = vec![root().join("README.md"), root().join("README.zh.md")];
    for folder in ["docs", "docs/adr"] {
        let files = fs::read_dir(root().join(folder)).unwrap().map(|file| file.unwrap().path());
        pages.extend(files.filter(|file| file.extension().is_some_and(|extension| extension == "md")));
    }
    let (mut found, mut broken) = (0, Vec::new());
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for (file, section) in links.filter_map(|link| link.split_once('#')) {
            if file.contains("://") {
                continue;
            }
            let target = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            found += 1;
            if !anchors(&target).contains(section) {
                broken.push(format!("{}: {file}#{section}", page.display()));
            }
        }
    }
    assert!(found > 3, "the links were not found");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
