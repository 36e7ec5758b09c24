//! Bytes as hexadecimal text.

use anyhow::Context as _;

pub(crate) fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Random bytes, which nobody can guess.
pub(crate) fn random<const BYTES: usize>() -> anyhow::Result<String> {
    let mut random = [0; BYTES];
    getrandom::fill(&mut random).context("the system provides no random bytes")?;
    Ok(text(&random))
}
