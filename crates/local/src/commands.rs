//! Commands of programs: where they run, what they inherit, and what they print.

use std::{
    env,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, bail};

/// Keeps the `PENSTOCK_…` variables of the caller's shell, which are meant for another server, from
/// `command`. Variables that are set later reach it.
pub fn without_callers_settings(command: &mut Command) -> &mut Command {
    let inherited = env::vars_os().map(|(name, _)| name);
    for name in inherited.filter(|name| name.as_encoded_bytes().starts_with(b"PENSTOCK_")) {
        command.env_remove(name);
    }
    command
}

/// A command that keeps to one core, with all its threads and children.
pub fn command(program: &Path, core: Option<usize>) -> Command {
    match core {
        None => Command::new(program),
        Some(core) => {
            let mut command = Command::new("taskset");
            command.arg("--cpu-list").arg(core.to_string()).arg(program);
            command
        }
    }
}

/// Runs a program to its end and returns what it printed. If it fails, its stderr is in the error.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{command:?}: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(text)
}
