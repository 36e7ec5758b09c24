//! Results go to stdout, and nothing else does.

use std::io::{self, Write as _, stdout};

use anyhow::Context as _;

/// Writes `text` and makes sure that it ends with a line's end and has left.
pub(crate) fn write(text: &str) -> anyhow::Result<()> {
    let mut stdout = stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.write_all(end.as_bytes()));
    match written.and_then(|()| stdout.flush()) {
        // Whoever read us has seen enough, as in `penstock config | head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("stdout can't be written"),
    }
}

pub(crate) fn json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    write(&serde_json::to_string_pretty(value)?)
}
