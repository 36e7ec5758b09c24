//! Follows `deploy/nginx/README.md` word for word, with Debian's nginx, in kernel namespaces: nothing outside
//! notices, and no port or file of the machine is used. It needs root, as mounting does.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{fs, path::Path, process::Command};

use penstock_local::{require, without_callers_settings};

const BINARY: &str = env!("CARGO_BIN_EXE_penstock");
const PAGE: &str = include_str!("../../../deploy/nginx/README.md");
const CONFIGURATION: &str = include_str!("../../../deploy/nginx/penstock.conf");
const SCENARIO: &str = include_str!("nginx_page/scenario.sh");

/// The contents of the page's code blocks in this language.
fn blocks(language: &str) -> String {
    let begin = format!("```{language}\n");
    let blocks = PAGE.split(&begin).skip(1).map(|rest| rest.split_once("```").unwrap().0);
    blocks.collect()
}

/// A block that adds a header of its own drops all headers that outer blocks add, including HSTS.
#[test]
fn headers_are_added_for_the_whole_server_and_nowhere_below() {
    let mut depth = 0;
    let mut added = 0;
    for line in CONFIGURATION.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if line.starts_with("add_header ") {
            assert_eq!(depth, 1, "{line}");
            added += 1;
        }
        depth += i32::from(line.ends_with('{')) - i32::from(line == "}");
    }
    assert_eq!((depth, added), (0, 3));
}

/// The page says how to add Penstock to an nginx with other sites. A setting outside our `server` would apply
/// to those, too.
#[test]
fn nothing_is_set_for_other_sites_of_the_same_nginx() {
    let (mut depth, mut goes_on) = (0, false);
    let mut ours = Vec::new();
    for line in CONFIGURATION.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if depth == 0 && !goes_on {
            ours.extend(line.split_whitespace().next());
        }
        goes_on = !line.ends_with([';', '{', '}']);
        depth += i32::from(line.ends_with('{')) - i32::from(line == "}");
    }
    ours.sort_unstable();
    ours.dedup();
    let harmless = [
        "geo",
        "limit_conn_zone",
        "limit_req_zone",
        "log_format",
        "map",
        "server",
        "split_clients",
        "upstream",
    ];
    assert_eq!(ours, harmless);
}

#[test]
fn the_page_about_nginx_can_be_followed_word_for_word_on_debian() {
    for (program, package) in [
        ("nginx", "nginx"),
        ("openssl", "openssl"),
        ("curl", "curl"),
        ("ip", "iproute2"),
        ("unshare", "util-linux"),
    ] {
        require(program, package).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        file
    };
    let (commands, settings) = (write("page.sh", &blocks("sh")), write("node.toml", &blocks("toml")));
    let scenario = write("scenario.sh", SCENARIO);
    let mut command = Command::new("unshare");
    // Everything that was started in the namespace ends with it.
    command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "bash"]);
    command.arg(scenario).arg(folder.path()).arg(BINARY).arg(commands).arg(settings);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    let run = without_callers_settings(&mut command).env("PENSTOCK_LOG__LEVEL", "warn").output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    let complained = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && said.ends_with("FOLLOWED\n"), "{said}\n{complained}");
}
