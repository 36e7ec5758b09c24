//! Results go to stdout, and nothing else does.

use std::io::{self, BufWriter, Write as _, stdout};

use anyhow::Context as _;

const CANNOT_WRITE: &str = "stdout can't be written";

/// Writes `text`, makes sure that it ends with a newline, and flushes.
pub(crate) fn write(text: &str) -> anyhow::Result<()> {
    let mut stdout = stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.write_all(end.as_bytes()));
    match written.and_then(|()| stdout.flush()) {
        // The reader has seen enough, as in `penstock config | head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context(CANNOT_WRITE),
    }
}

/// Writes lines as they come, for results that are too large for memory. Stops early if the reader is gone.
pub(crate) fn lines(lines: impl Iterator<Item = String>) -> anyhow::Result<()> {
    let mut stdout = BufWriter::new(stdout().lock());
    for line in lines {
        match writeln!(stdout, "{line}") {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            other => other.context(CANNOT_WRITE)?,
        }
    }
    match stdout.flush() {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context(CANNOT_WRITE),
    }
}

/// Writes a result as JSON, or in words.
pub(crate) fn result(
    as_json: bool,
    result: &impl serde::Serialize,
    in_words: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    write(&if as_json { serde_json::to_string_pretty(result)? } else { in_words() })
}
