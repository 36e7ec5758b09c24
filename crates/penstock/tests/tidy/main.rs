//! The repository checks itself: which crates and modules may use which, how files open and what they must not
//! contain, which words and names people read. Each rule has a test that shows a bad sample being found.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod crates;
mod files;
mod modules;
mod names;
mod pages;
mod source;
mod words;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Folders that hold what tools have made.
const MADE_BY_TOOLS: &[&str] = &[".git", ".svelte-kit", "dist", "node_modules", "target"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// A file's path from the root, as people write it.
fn shown(file: &Path) -> String {
    file.strip_prefix(root()).unwrap().display().to_string()
}

/// All files in `folder` that people wrote and whose name or extension is one of `kinds`.
fn files(folder: &Path, kinds: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !MADE_BY_TOOLS.contains(&name.as_str()) {
            found.extend(files(&path, kinds));
        } else if path.is_file() && kinds.contains(&name.rsplit('.').next().unwrap_or_default()) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Fails with one line for each finding.
fn require_none<T: ToString>(findings: impl IntoIterator<Item = T>) {
    let lines: Vec<String> = findings.into_iter().map(|finding| finding.to_string()).collect();
    assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
}
