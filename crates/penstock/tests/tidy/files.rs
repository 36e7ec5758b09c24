//! How source files open, how long they are, and what must not be left in them.

use std::fs;

use crate::{files, require_none, root, shown};

const MAX_FILE_LINES: usize = 600;
/// This file has to name what it forbids.
const THIS_FILE: &str = "tests/tidy/files.rs";

fn untidy(name: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    if !text.starts_with("//!") {
        findings.push(format!("{name}: has to open with a //! line that says what it is for"));
    }
    let lines = text.lines().count();
    if lines > MAX_FILE_LINES {
        findings.push(format!("{name}: {lines} lines; find the second subject in it"));
    }
    for (number, line) in text.lines().enumerate() {
        let found = leftover(line).map(|leftover| format!("{name}:{}: {leftover}", number + 1));
        findings.extend(found);
    }
    findings
}

fn leftover(line: &str) -> Option<&str> {
    let unfinished = ["TODO", "FIXME", "dbg!(", "todo!(", "unimplemented!(", "unbounded_channel()"];
    let code = line.trim();
    let is_allow = code.starts_with("#[allow(") || code.starts_with("#![allow(");
    if code.starts_with("#[ignore]") {
        Some("an ignored test needs a reason")
    } else if is_allow && code.ends_with(")]") && !code.contains("reason") {
        Some("an #[allow] needs a reason")
    } else {
        unfinished.into_iter().find(|word| line.contains(word))
    }
}

#[test]
fn files_are_tidy() {
    let sources = files(&root().join("crates"), &["rs"]);
    assert!(sources.len() > 20, "the sources were not found");
    require_none(
        sources
            .iter()
            .filter(|file| !file.ends_with(THIS_FILE))
            .flat_map(|file| untidy(&shown(file), &fs::read_to_string(file).unwrap())),
    );
}

#[test]
fn an_untidy_file_is_found() {
    assert_eq!(untidy("a.rs", "//! A file.\n#[allow(dead_code, reason = \"a test\")]\n"), [""; 0]);
    assert_eq!(untidy("a.rs", "use b;\n").len(), 1);
    assert_eq!(untidy("a.rs", &"//! A file.\n".repeat(601)).len(), 1);
    for bad in ["// TODO", "dbg!(1);", "#[ignore]", "#[allow(dead_code)]", "mpsc::unbounded_channel();"] {
        assert_eq!(untidy("a.rs", &format!("//! A file.\n    {bad}\n")).len(), 1, "{bad}");
    }
}
