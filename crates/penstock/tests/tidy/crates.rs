//! Which crates may depend on which.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use serde_json::Value;

use crate::{require_none, root};

/// The crates of the workspace that each crate may use. A crate that is not listed may use none.
const ALLOWED: &[(&str, &[&str])] = &[
    ("penstock-domain", &[]),
    ("penstock-gate", &["penstock-domain"]),
    ("penstock-redis-client", &[]),
    ("penstock-ledger", &["penstock-domain", "penstock-redis-client"]),
    ("penstock-records", &["penstock-domain"]),
    ("penstock-settle", &["penstock-domain", "penstock-ledger", "penstock-records"]),
    ("penstock-shop", &["penstock-domain", "penstock-gate", "penstock-ledger", "penstock-records"]),
    (
        "penstock-shared-state",
        &["penstock-domain", "penstock-gate", "penstock-ledger", "penstock-redis-client", "penstock-shop"],
    ),
    (
        "penstock-http",
        &["penstock-domain", "penstock-gate", "penstock-ledger", "penstock-records", "penstock-shop"],
    ),
    ("penstock-local", &[]),
    ("penstock-pages", &["penstock-http"]),
    ("penstock-rush", &[]),
    (
        "penstock-bench",
        &[
            "penstock-domain",
            "penstock-ledger",
            "penstock-local",
            "penstock-records",
            "penstock-redis-client",
            "penstock-rush",
        ],
    ),
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
            "penstock-shop",
            "penstock-shared-state",
            "penstock-http",
            "penstock-pages",
            "penstock-rush",
        ],
    ),
];

/// The crates of the workspace that the tests of every crate may use.
const FOR_TESTS: &[&str] = &["penstock-local", "penstock-testkit"];

/// Crates that only the named crates of the workspace may depend on.
const RESERVED: &[(&str, &[&str])] = &[
    ("sqlx", &["penstock-records", "penstock-bench"]),
    ("rusqlite", &["penstock-ledger"]),
    ("axum", &["penstock-http"]),
    ("hyper", &["penstock-http"]),
    ("redis", &["penstock-redis-client", "penstock-ledger", "penstock-shared-state"]),
];

/// What some crates must do without, and why.
const APART: &[(&[&str], &[&str], &str)] = &[
    (
        &["penstock-domain", "penstock-gate"],
        &["tokio", "sqlx", "rusqlite", "hyper", "axum", "libc"],
        "it does no I/O",
    ),
    (
        &["penstock-shop"],
        &["hyper", "axum", "http", "tower", "utoipa-axum", "httparse"],
        "it does not know how its callers reach it",
    ),
];

/// What people run.
const SHIPPED: &str = "penstock";
/// Tools of the workspace that must not be part of it.
const NOT_SHIPPED: &[&str] = &["penstock-local", "penstock-bench", "penstock-testkit"];

/// The name and kind (`dev`, `build` or empty) of a dependency.
type Dependency = (String, String);

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The dependencies of each crate of the workspace.
fn dependencies(metadata: &Value) -> BTreeMap<String, Vec<Dependency>> {
    let members: BTreeSet<String> = list(&metadata["workspace_members"]).map(text).collect();
    let dependency = |of: &Value| (text(&of["name"]), text(&of["kind"]));
    list(&metadata["packages"])
        .filter(|package| members.contains(&text(&package["id"])))
        .map(|package| (text(&package["name"]), list(&package["dependencies"]).map(dependency).collect()))
        .collect()
}

fn breaches(packages: &BTreeMap<String, Vec<Dependency>>) -> BTreeSet<String> {
    let mut breaches = BTreeSet::new();
    for (package, dependencies) in packages {
        let Some((_, may_see)) = ALLOWED.iter().find(|(known, _)| known == package) else {
            breaches.insert(format!("{package} is missing in ALLOWED"));
            continue;
        };
        for (name, kind) in dependencies {
            let (package, name, for_tests) = (package.as_str(), name.as_str(), kind == "dev");
            let is_visible = may_see.contains(&name) || (for_tests && FOR_TESTS.contains(&name));
            if packages.contains_key(name) && !is_visible {
                breaches.insert(format!("{package} may not see {name}"));
            }
            if for_tests {
                continue;
            }
            if RESERVED.iter().any(|(reserved, owners)| *reserved == name && !owners.contains(&package)) {
                breaches.insert(format!("{package} may not use {name}"));
            }
            let kept_apart =
                APART.iter().filter(|(of, from, _)| of.contains(&package) && from.contains(&name));
            breaches.extend(kept_apart.map(|(_, _, why)| format!("{package} may not use {name}: {why}")));
        }
    }
    breaches
}

/// The names of the crates that end up in the program `package`.
fn shipped_with(package: &str, metadata: &Value) -> BTreeSet<String> {
    let by_id = |entries: &'_ Value| -> BTreeMap<String, Value> {
        list(entries).map(|entry| (text(&entry["id"]), entry.clone())).collect()
    };
    let (packages, nodes) = (by_id(&metadata["packages"]), by_id(&metadata["resolve"]["nodes"]));
    let is_normal = |dependency: &&Value| list(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null());
    let mut seen = BTreeSet::new();
    let mut left: Vec<String> =
        packages.keys().filter(|id| packages[*id]["name"] == package).cloned().collect();
    assert!(!left.is_empty(), "there is no package {package}");
    while let Some(id) = left.pop() {
        left.extend(list(&nodes[&id]["deps"]).filter(is_normal).map(|dependency| text(&dependency["pkg"])));
        if !seen.insert(id.clone()) {
            left.retain(|other| !seen.contains(other));
        }
    }
    seen.iter().map(|id| text(&packages[id]["name"])).collect()
}

#[test]
fn crates_see_only_what_they_may() {
    require_none(breaches(&dependencies(&metadata())));
}

#[test]
fn the_shipped_program_has_no_tools_in_it() {
    let shipped = shipped_with(SHIPPED, &metadata());
    assert!(shipped.contains("penstock-domain"), "the dependencies were not found");
    require_none(shipped.iter().filter(|name| NOT_SHIPPED.contains(&name.as_str())));
}

#[test]
fn a_forbidden_dependency_is_found() {
    let with = |package: &str, name: &str, kind: &str| {
        let others = ["penstock-domain", "penstock-ledger", "penstock-testkit"].map(str::to_owned);
        let mut packages: BTreeMap<_, _> = others.into_iter().map(|other| (other, Vec::new())).collect();
        packages.insert(package.to_owned(), vec![(name.to_owned(), kind.to_owned())]);
        breaches(&packages).into_iter().collect::<Vec<_>>().join("; ")
    };
    assert_eq!(with("penstock-gate", "penstock-ledger", ""), "penstock-gate may not see penstock-ledger");
    assert_eq!(with("penstock-gate", "penstock-ledger", "dev"), "penstock-gate may not see penstock-ledger");
    assert_eq!(with("penstock-gate", "penstock-testkit", "dev"), "");
    assert_eq!(with("penstock-gate", "penstock-testkit", ""), "penstock-gate may not see penstock-testkit");
    assert_eq!(with("penstock-settle", "sqlx", ""), "penstock-settle may not use sqlx");
    assert_eq!(with("penstock-settle", "sqlx", "dev"), "");
    assert_eq!(with("penstock-gate", "libc", ""), "penstock-gate may not use libc: it does no I/O");
    assert_eq!(with("penstock-nobody", "libc", ""), "penstock-nobody is missing in ALLOWED");
}

#[test]
fn a_tool_in_the_shipped_program_is_found() {
    let of = |id: &str, kind: Value| serde_json::json!({ "pkg": id, "dep_kinds": [{ "kind": kind }] });
    let packages = ["penstock", "penstock-rush", "penstock-local", "penstock-testkit"];
    let metadata = serde_json::json!({
        "packages": packages.map(|name| serde_json::json!({ "id": name, "name": name })),
        "resolve": { "nodes": [
            { "id": "penstock", "deps": [of("penstock-rush", Value::Null), of("penstock-testkit", "dev".into())] },
            { "id": "penstock-rush", "deps": [of("penstock-local", Value::Null)] },
            { "id": "penstock-local", "deps": [] },
        ] },
    });
    let shipped: Vec<String> = shipped_with(SHIPPED, &metadata).into_iter().collect();
    assert_eq!(shipped, ["penstock", "penstock-local", "penstock-rush"]);
}
